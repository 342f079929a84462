"""How far a published Markov chain is from its stationary law (Park & Acharya 2011, Fig. 4(b)).

Nothing is sampled: the law of the state after each number of steps is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.measure import Measure, MetricKey
from dpaudit.audits.on_demand import config as configs
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.model import OnDemandModel
from dpaudit.audits.on_demand.subject import OnDemandModels
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator
from dpaudit.core.user_profile import Profile
from dpaudit.defenses.base import ListDefense
from dpaudit.defenses.item_model import ItemModel
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.record.result import Measurement

# The largest number of states that the paper's figure compares.
MOST = 10
EXPLORED, ALL = f"explored states, at most {MOST}", "all states"


def chosen_users(users: Sequence[Profile], count: int, seed: int) -> list[Profile]:
    """Draw `count` users without replacement; all if there are no more."""
    rng = generator(seed, "convergence")
    picked = np.sort(rng.permutation(len(users))[:count])
    return [users[int(place)] for place in picked]


def mean_divergence(
    defense: ListDefense,
    model: ItemModel,
    profiles: Sequence[Profile],
    steps: Sequence[int],
    *,
    executor: Executor = INLINE,
) -> dict[str, NDArray[np.float64]]:
    """Compute `KL(law after t steps ‖ stationary law)` in nats, averaged over users.

    The paper's Figure 4(b) compares the first k̂ states, "the minimum between the value 10 and the
    number of sets explored": so both laws are taken given that the state is one of these, and the
    mean is over k̂ after the last of the steps, too. If one state is explored, any two laws agree.

    Args:
        defense: the published mechanism; its own number of steps does not matter.
        model: its prepared statistics.
        profiles: the users whose chains are averaged.
        steps: the numbers of steps, increasing.
        executor: computes the users' chains; the result does not depend on it.

    Returns:
        The mean after each number of steps `(S,)`, over the explored states and over all.
    """

    def of(user: int) -> NDArray[np.float64]:
        chain = defense.chain(defense.exact(model, profiles[user]))
        laws = chain.laws(steps)
        explored = sum(
            share * chain.divergence_of(laws, top)
            for top, share in enumerate(chain.explored(steps[-1], MOST), 1)
            if share > 0
        )
        return np.stack([explored, chain.divergence_of(laws)])

    chains = executor.map("chains", of, range(len(profiles)), lambda _: 0)
    return dict(zip((EXPLORED, ALL), np.mean(chains, axis=0), strict=True))


class Convergence(Measure[OnDemandConfig, OnDemandModel]):
    """`chain.divergence`: how far a published chain is from its stationary law, at every ε."""

    def __init__(self, subject: OnDemandModels[Any]) -> None:
        """Keep the context."""
        self.context = subject.context

    @classmethod
    def plan(cls, config: OnDemandConfig) -> Iterator[MetricKey]:
        """Yield one key per point of models that walk a chain, if `[convergence]` is given."""
        for model in config.model:
            for epsilon in model.epsilon if config.convergence and model.walks_chain else ():
                yield _key(model.label, epsilon)

    def run(self, model: OnDemandModel) -> Iterator[Measurement]:
        """Compute the divergence after each number of steps, at every ε."""
        wanted = self.context.config.convergence
        if wanted is None or not model.chains:
            return
        stage = f"{model.label}: convergence"
        yield from self.context.unit(stage, partial(self._divergences, stage, model, wanted))

    def _divergences(
        self, stage: str, model: OnDemandModel, wanted: configs.Convergence
    ) -> Iterator[Measurement]:
        context = self.context
        users = chosen_users(model.users(), wanted.users, context.seed)
        method = f"law of the chain, mean of {len(users)} users"
        for defense in model.chains:
            key = _key(model.label, defense.epsilon)
            divergences = mean_divergence(
                defense,
                model.prepared,
                users,
                wanted.steps,
                executor=context.tasks(stage, model.model, of=[defense]),
            )
            for states, row in divergences.items():
                for step, value in zip(wanted.steps, row, strict=True):
                    exact = Estimate.exact(float(value), method)
                    yield key.measured(exact, step=step, states=states)


def _key(model: str, epsilon: float) -> MetricKey:
    return MetricKey("chain.divergence", model, epsilon)
