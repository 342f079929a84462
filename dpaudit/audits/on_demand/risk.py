"""ε-Risk: how often an attack recovers a hidden rating."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Inference, ListInference
from dpaudit.auditor.measure import Measure, MetricKey, points
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.draws import TOGETHER, choose, draw_trials, run_blocks
from dpaudit.audits.on_demand.model import OnDemandModel
from dpaudit.audits.on_demand.subject import OnDemandModels
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.config.tables import Attack
from dpaudit.core.releases import SeesItems, SeesTop
from dpaudit.core.streams import Streams
from dpaudit.core.user_profile import Profile
from dpaudit.defenses.base import ListDefense, PredictionDefense
from dpaudit.defenses.item_model import ItemModel
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.record.result import Measurement


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
    place = np.searchsorted(candidates, hidden)
    inside = candidates[np.minimum(place, len(candidates) - 1)] == hidden
    chosen = (draws * (len(candidates) - inside)).astype(np.int64)
    # Skip the hidden item's place.
    return candidates[chosen + (inside & (chosen >= place))][:, None]


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
        truth = _true_index(profile, hidden, side.candidates)

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
                yield _key(model, epsilon, attack)

    def run(self, model: OnDemandModel) -> Iterator[Measurement]:
        """Run each attack on the model at every ε."""
        for asked in self.context.config.attack:
            stage = f"{model.label}: attack {asked.label}"
            yield from self.context.unit(stage, partial(self._recovered, stage, model, asked))

    def _recovered(self, stage: str, model: OnDemandModel, asked: Attack) -> Iterator[Measurement]:
        context, family = self.context, self.context.family
        correct = run_risk(
            model.attackable,
            model.prepared,
            model.users(),
            self.attacks[asked.label],
            draw=asked.draw,
            trials=context.config.audit.trials,
            seed=context.seed,
            executor=context.tasks(stage, model.model, asked),
        )
        for epsilon, row in zip(model.model.epsilon, correct, strict=True):
            share = proportion(int(row.sum()), len(row), family.alpha, family.confidence)
            yield _key(model.label, epsilon, asked).measured(share)


def _key(model: str, epsilon: float, attack: Attack) -> MetricKey:
    return MetricKey("attack.accuracy", model, epsilon, attack=attack.label)


def _true_index(
    profile: Profile, hidden: NDArray[np.int32], candidates: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Return the index of the hidden rating among the candidates; 0 for an unrated item."""
    place = np.minimum(np.searchsorted(profile.items, hidden), len(profile) - 1)
    value = np.where(profile.items[place] == hidden, profile.values[place], candidates[0])
    return np.abs(value[:, None] - candidates).argmin(1)
