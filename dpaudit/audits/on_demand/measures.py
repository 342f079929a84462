"""What is measured on models that serve on demand.

ε-Risk is how often an attack recovers a hidden rating, and ε-Utility how much of the recommender
survives its noise. The divergence of a published Markov chain from its stationary law (Park &
Acharya 2011, Fig. 4(b)) is not sampled: the law of the state after each number of steps is
computed.

**Draws.** The user, rating and prediction of each trial are random. Trial `t` depends only on the
seed and `t`: more trials extend the same sequence, and the order of execution does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Inference, ListInference
from dpaudit.auditor.measure import Context, Measure, MetricKey, gated, points
from dpaudit.audits.on_demand.config import Convergence, OnDemandConfig
from dpaudit.audits.on_demand.subject import OnDemandModel, OnDemandModels
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.config.tables import Attack
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import Profile, SeesItems, SeesTop
from dpaudit.core.streams import Key, Streams, generator, stream_key
from dpaudit.defenses.base import (
    ExactScores,
    ItemModel,
    ListDefense,
    OnDemandDefense,
    PredictionDefense,
)
from dpaudit.defenses.top_k.laws import ranked
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.kernels import noise
from dpaudit.record.result import Measurement

Number = TypeVar("Number", np.bool_, np.float64)

# Trials per block; fixed, so that results do not depend on the number of threads.
BLOCK = 256
# The least number of trials of a task whose trials take microseconds.
TOGETHER = 1024


@dataclass(frozen=True, eq=False)
class TrialDraws:
    """The draws of `T` trials.

    Attributes:
        user: position in the list of audited users `(T,)`.
        draws: three further independent uniform draws in [0, 1) per trial `(T, 3)`.
        key: the noise source's key for the releases of these trials.
    """

    user: NDArray[np.int64]
    draws: NDArray[np.float64]
    key: Key

    def blocks(self) -> Iterator[tuple[int, Streams]]:
        """Yield blocks of trials that share a user: the user's position, the trials' streams."""
        order = np.argsort(self.user, kind="stable")
        bounds = np.flatnonzero(np.diff(self.user[order])) + 1
        for trials in np.split(order, bounds):
            for start in range(0, len(trials), BLOCK):
                part = trials[start : start + BLOCK]
                yield int(self.user[part[0]]), Streams(self.key, part)


def draw_trials(
    seed: int, purpose: str, trials: int, users: int, weights: NDArray[np.int64] | None = None
) -> TrialDraws:
    """Draw the trials of one game: a user each, and uniform draws for further choices.

    Args:
        seed: the run's seed.
        purpose: name of the random streams; different purposes have independent draws.
        trials: number of trials.
        users: number of users.
        weights: positive weights `(users,)`, in proportion to which users are drawn; uniform if
            None.
    """
    draws = np.empty((trials, 8), np.float32)
    noise.uniform(
        draws, np.arange(trials, dtype=np.int64), 0, stream_key(seed, f"{purpose}/trials")
    )
    # Two draws of 23 bits make one of 46, so that choices among many items stay uniform.
    fine = draws[:, ::2] + (draws[:, 1::2].astype(np.float64) - 0.5) * 2.0**-23
    if weights is None:
        user = choose(fine[:, 0], users)
    else:
        user = np.searchsorted(
            np.cumsum(weights), choose(fine[:, 0], int(weights.sum())), side="right"
        )
    return TrialDraws(user, fine[:, 1:], stream_key(seed, f"{purpose}/noise"))


def choose(uniform: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Map uniform draws in [0, 1) to uniform integers in [0, count)."""
    return (uniform * count).astype(np.int64)


# A block of one user's trials: the user's position, and the trials' streams.
Block = tuple[int, Streams]


def run_blocks(
    draws: TrialDraws,
    run: Callable[[int, Streams], NDArray[Number]],
    executor: Executor,
    together: int = 1,
) -> NDArray[Number]:
    """Run every block and return the outcomes `(D, T)` in the order of the trials.

    Args:
        draws: the trials.
        run: returns the outcomes `(D, W)` of a block of one user's trials, for each of D defenses.
        executor: runs the blocks; the result does not depend on it.
        together: the least number of trials of a task, which consists of whole blocks.
    """
    blocks = list(draws.blocks())

    def work(joined: tuple[Block, ...]) -> NDArray[Number]:
        return np.concatenate([run(*block) for block in joined], axis=1)

    parts = executor.map("blocks", work, _joined(blocks, together), _trials)
    order = np.concatenate([streams.trials for _, streams in blocks])
    return np.concatenate(parts, axis=1)[:, np.argsort(order)]


def _joined(blocks: Sequence[Block], least: int) -> Iterator[tuple[Block, ...]]:
    """Yield runs of blocks of at least `least` trials together; the last may have fewer."""
    joined: tuple[Block, ...] = ()
    for block in blocks:
        joined = (*joined, block)
        if _trials(joined) >= least:
            yield joined
            joined = ()
    if joined:
        yield joined


def _trials(blocks: tuple[Block, ...]) -> int:
    return sum(len(streams) for _, streams in blocks)


# The largest number of states that the paper's figure compares.
MOST = 10
EXPLORED, ALL = f"explored states, at most {MOST}", "all states"


class Risk(Measure[OnDemandConfig, OnDemandModel]):
    """`attack.accuracy`: how often each attack recovers a hidden rating, at every ε."""

    def __init__(self, subject: OnDemandModels[Any]) -> None:
        """Keep the context and the attacks."""
        self.context, self.attacks = subject.context, subject.inferring

    @classmethod
    def plan(cls, config: OnDemandConfig) -> Iterator[MetricKey]:
        """Yield one number per attack and point."""
        for model, epsilon in points(config):
            for attack in config.attack:
                yield _accuracy_key(model, epsilon, attack)

    def run(self, model: OnDemandModel) -> Iterator[Measurement]:
        """Run each attack on the model at every ε."""
        for asked in self.context.config.attack:
            stage = f"{model.label}: attack {asked.label}"
            yield from self.context.unit(stage, partial(self._recovered, stage, model, asked))

    def _recovered(self, stage: str, model: OnDemandModel, asked: Attack) -> Iterator[Measurement]:
        context, family = self.context, self.context.family
        attack, options = self.attacks[asked.label], _options(context, stage, model, asked)
        correct = run_risk(
            model.attackable, model.prepared, model.users(), attack, draw=asked.draw, **options
        )
        for epsilon, row in zip(model.model.epsilon, correct, strict=True):
            share = proportion(int(row.sum()), len(row), family.alpha, family.confidence)
            yield _accuracy_key(model.label, epsilon, asked).measured(share)


def _options(context: Context[Any], stage: str, model: OnDemandModel, *of: Any) -> dict[str, Any]:
    """Return how a stage of the run draws trials."""
    executor = context.tasks(stage, model.model, *of)
    return {"trials": context.config.audit.trials, "seed": context.seed, "executor": executor}


def _accuracy_key(model: str, epsilon: float, attack: Attack) -> MetricKey:
    return MetricKey("attack.accuracy", model, epsilon, attack=attack.label)


def run_risk(
    defenses: Sequence[PredictionDefense | ListDefense],
    model: ItemModel,
    profiles: Sequence[Profile],
    attack: Inference | ListInference,
    *,
    trials: int,
    seed: int,
    draw: Literal["users", "ratings"] = "users",
    executor: Executor = INLINE,
) -> NDArray[np.bool_]:
    """Run the attack; whether it recovered the hidden rating, by defense and trial `(D, T)`.

    ε-Risk is the mean over trials (Park & Acharya 2011, Definition 5). Each trial draws a user
    among `profiles`, one of their ratings, and fresh noise. Trials are therefore independent given
    the data, and the number of successes is binomial. The mean is about these users' ratings only,
    not about a population of users.

    Args:
        defenses: the same recommender at several ε, which shows what the attack reads.
        model: its prepared statistics.
        profiles: the audited users, each with at least `min_ratings` ratings.
        attack: the adversary.
        trials: number of trials for each defense.
        seed: the run's seed.
        draw: `users`: draw users uniformly, as in §3.4, where every test user is attacked on one
            rating; `ratings`: draw users in proportion to their number of ratings, so that each
            rating is hidden equally often. The noise `n Δf/ε` on a rating grows with its user's n
            ratings, so that users with many ratings lower the accuracy.
        executor: runs the trials; the result does not depend on it.
    """
    scale = model.ratings.scale
    sizes = np.array([len(profile) for profile in profiles]) if draw == "ratings" else None
    shown = attack.shown if isinstance(attack, Inference) else "items"
    drawn = draw_trials(seed, f"risk/{shown}", trials, len(profiles), sizes)

    def run(user: int, streams: Streams) -> NDArray[np.bool_]:
        profile, draws = profiles[user], drawn.draws[streams.trials]
        exact = defenses[0].exact(model, profile)
        hidden = hidden_items(profile, model.ratings.n_items, scale.width == 0, draws)
        side = defenses[0].side_information(model, profile, hidden)
        # The index of the hidden rating among the candidates; 0 for an unrated item.
        position = np.minimum(np.searchsorted(profile.items, hidden), len(profile) - 1)
        rated = profile.items[position] == hidden
        value = np.where(rated, profile.values[position], side.candidates[0])
        truth = np.abs(value[:, None] - side.candidates).argmin(1)

        def guessed(defense: PredictionDefense | ListDefense) -> NDArray[np.int64]:
            if isinstance(attack, ListInference) and isinstance(defense, ListDefense):
                lists = defense.release_list(exact, streams)
                return attack.infer(defense.log_likelihood(side, lists, scale), side.frequency)
            if not isinstance(attack, Inference) or not isinstance(defense, PredictionDefense):
                raise TypeError(f"{attack.name} does not read what {defense.name} shows")
            request: SeesItems | SeesTop = SeesTop(defenses[0].top_k)
            if attack.shown == "one":
                request = SeesItems(_shown_items(exact.candidates, hidden, draws[:, 2]))
            noise = defense.noise_of_predictions(scale).scale
            return attack.infer(defense.release(exact, streams, request), side, noise)

        return np.stack([guessed(defense) == truth for defense in defenses])

    return run_blocks(drawn, run, executor, TOGETHER)


def hidden_items(
    profile: Profile, n_items: int, purchases: bool, draws: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Choose the item whose rating each trial hides `(W,)`.

    A rating is hidden uniformly among the user's. For purchases, an item that was or was not bought
    is hidden, each with probability ½ and uniformly within its kind.
    """
    rated = profile.items[choose(draws[:, 0], len(profile))]
    if not purchases:
        return rated
    missing = np.setdiff1d(np.arange(n_items, dtype=np.int32), profile.items)
    return np.where(draws[:, 1] < 0.5, rated, missing[choose(draws[:, 0], len(missing))])


def _shown_items(
    candidates: NDArray[np.int32], hidden: NDArray[np.int32], draws: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Draw one item to show, uniformly among the candidates other than the hidden one `(W, 1)`."""
    position = np.searchsorted(candidates, hidden)
    inside = candidates[np.minimum(position, len(candidates) - 1)] == hidden
    chosen = (draws * (len(candidates) - inside)).astype(np.int64)
    # Skip the hidden item's place.
    return candidates[chosen + (inside & (chosen >= position))][:, None]


class OnDemandUtility(Measure[OnDemandConfig, OnDemandModel]):
    """`utility.overlap`, `….rmse` and `….mae`: accuracy of noised lists and predictions."""

    @classmethod
    def plan(cls, config: OnDemandConfig) -> Iterator[MetricKey]:
        """Yield the overlap, and errors unless the config shows that there are no ratings."""
        data = config.data
        rated = data.binarize is None and (data.columns is None or data.columns.rating is not None)
        lists = {model.label for model in config.model if model.shows_lists}
        for model, epsilon in points(config):
            yield MetricKey("utility.overlap", model, epsilon)
            if rated and model not in lists:
                yield from _errors(config, model, epsilon)

    def run(self, model: OnDemandModel) -> Iterator[Measurement]:
        """Measure the share of the list that is kept, and the error on held-out ratings."""
        yield from self._unit(f"{model.label}: lists", self._overlap, model)
        if model.has_rmse:
            yield from self._unit(f"{model.label}: held-out ratings", self._error, model)

    def _unit(
        self, stage: str, measured: Callable[..., Iterator[Measurement]], model: OnDemandModel
    ) -> list[Measurement]:
        options = _options(self.context, stage, model)
        return self.context.unit(stage, partial(measured, model, options))

    def _overlap(self, model: OnDemandModel, options: dict[str, Any]) -> Iterator[Measurement]:
        kept = run_overlap(model.defenses, model.prepared, model.users(), **options)
        for epsilon, row in zip(model.model.epsilon, kept, strict=True):
            yield self._mean(MetricKey("utility.overlap", model.label, epsilon), row)

    def _error(self, model: OnDemandModel, options: dict[str, Any]) -> Iterator[Measurement]:
        width = model.train.scale.width
        errors = run_held_out(model.predicting, model.prepared, model.users(extra=1), **options)
        for epsilon, row in zip(model.model.epsilon, errors, strict=True):
            for key in _errors(self.context.config, model.label, epsilon):
                if key.metric == "utility.rmse":
                    yield self._mean(key, row**2, lambda mean: width * math.sqrt(mean))
                else:
                    yield self._mean(key, row, lambda mean: width * mean)

    def _mean(
        self, key: MetricKey, row: Any, increasing: Callable[[float], float] = float
    ) -> Measurement:
        """Estimate an increasing function of the mean of numbers."""
        family = self.context.family
        return key.measured(betting_mean(row, family.alpha, family.confidence).mapped(increasing))


def _errors(config: OnDemandConfig, model: str, epsilon: float) -> Iterator[MetricKey]:
    yield MetricKey("utility.rmse", model, epsilon)
    if gated(config, "utility.mae"):
        yield MetricKey("utility.mae", model, epsilon)


def run_overlap(
    defenses: Sequence[OnDemandDefense],
    model: ItemModel,
    profiles: Sequence[Profile],
    *,
    trials: int,
    seed: int,
    executor: Executor = INLINE,
) -> NDArray[np.float64]:
    """Compute the share of the noiseless top-k list that the noised list keeps `(D, T)`.

    The axes are defense and trial. ε-Utility is the mean: `1 − dist/max dist` with the number of
    different items as distance (Park & Acharya 2011, Definition 6 and §3.4). Arguments as in
    `run_risk`.
    """
    drawn = draw_trials(seed, "utility/overlap", trials, len(profiles))

    def run(user: int, streams: Streams) -> NDArray[np.float64]:
        exact = defenses[0].exact(model, profiles[user])
        # Ties are broken by the lower item number, as in every noiseless list.
        best = ranked(exact)[: defenses[0].top_k]
        lists = [defense.release_list(exact, streams).items for defense in defenses]
        return np.stack([np.isin(items, best).mean(1) for items in lists])

    return run_blocks(drawn, run, executor, TOGETHER)


def run_held_out(
    defenses: Sequence[PredictionDefense],
    model: ItemModel,
    profiles: Sequence[Profile],
    *,
    trials: int,
    seed: int,
    executor: Executor = INLINE,
) -> NDArray[np.float64]:
    """Compute the absolute error of noised predictions of held-out ratings, over Δr `(D, T)`.

    The axes are defense and trial; the values are in [0, 1]. A rating is taken out of the user's
    profile and predicted from the others; the noised prediction is clipped to the scale. Arguments
    as in `run_risk`; profiles need one more rating.
    """
    scale = model.ratings.scale
    drawn = draw_trials(seed, "utility/held-out", trials, len(profiles))

    def run(user: int, streams: Streams) -> NDArray[np.float64]:
        profile, draws = profiles[user], drawn.draws[streams.trials]
        rows = choose(draws[:, 0], len(profile))
        items, inverse = np.unique(profile.items[rows], return_inverse=True)
        scores = np.zeros(model.ratings.n_items, np.float32)
        scores[items] = [defenses[0].exact_held_out(model, profile, int(i)) for i in items]
        exact = ExactScores(scores, defenses[0].noise_of_predictions(scale).sensitivity)
        observer = SeesItems(items[inverse][:, None])
        predictions = np.stack([d.release(exact, streams, observer).values[:, 0] for d in defenses])
        error = np.clip(predictions, scale.minimum, scale.maximum) - profile.values[rows]
        return np.abs(error.astype(np.float64) / scale.width)

    return run_blocks(drawn, run, executor, TOGETHER)


class ChainDivergence(Measure[OnDemandConfig, OnDemandModel]):
    """`chain.divergence`: how far a published chain is from its stationary law, at every ε."""

    @classmethod
    def plan(cls, config: OnDemandConfig) -> Iterator[MetricKey]:
        """Yield one key per point of models that walk a chain, if `[convergence]` is given."""
        for model in config.model:
            for epsilon in model.epsilon if config.convergence and model.walks_chain else ():
                yield MetricKey("chain.divergence", model.label, epsilon)

    def run(self, model: OnDemandModel) -> Iterator[Measurement]:
        """Compute the divergence after each number of steps, at every ε."""
        wanted = self.context.config.convergence
        if wanted is None or not model.chains:
            return
        stage = f"{model.label}: convergence"
        yield from self.context.unit(stage, partial(self._divergences, stage, model, wanted))

    def _divergences(
        self, stage: str, model: OnDemandModel, wanted: Convergence
    ) -> Iterator[Measurement]:
        context = self.context
        users = chosen_users(model.users(), wanted.users, context.seed)
        method = f"law of the chain, mean of {len(users)} users"
        for defense in model.chains:
            key = MetricKey("chain.divergence", model.label, defense.epsilon)
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


def chosen_users(users: Sequence[Profile], count: int, seed: int) -> list[Profile]:
    """Draw `count` users without replacement; all if there are no more."""
    picked = np.sort(generator(seed, "convergence").permutation(len(users))[:count])
    return [users[int(index)] for index in picked]


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
