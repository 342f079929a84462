"""How many accounts, changes or observed lists an attacker needs, by the attacks of a config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import PassiveAttack, SybilAttack
from dpaudit.auditor.measure import Measure, MetricKey, attack_record, points
from dpaudit.audits.on_demand.measures import draw_trials, run_blocks
from dpaudit.audits.on_demand.subject import OnDemandModel, OnDemandModels
from dpaudit.audits.sybil.averaging import increasing, run_sybil
from dpaudit.audits.sybil.config import Sybil, SybilConfig
from dpaudit.bounds.frequentist.intervals import proportion
from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.releases import ItemList, Profile
from dpaudit.core.streams import Streams, generator
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import ListDefense, OnDemandDefense, PredictionDefense
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.record import result as records


@dataclass(frozen=True)
class AttackedModels(OnDemandModels[SybilConfig]):
    """Recommenders that serve on demand, with the attackers."""

    def trials(self) -> int:
        """Return the number of trials, with those of the attackers."""
        trials = sum(sybil.trials for sybil in self.context.config.sybil)
        return super().trials() + trials * sum(len(model.defenses) for model in self.served)

    def sybil_attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the records of the Sybil attacks and passive attacks, by label."""
        return {
            sybil.label: {**attack_record(sybil.create("sybil")), **sybil.settings}
            for sybil in self.context.config.sybil
        }


class SybilAttacks(Measure[SybilConfig, OnDemandModel]):
    """`sybil.accuracy`: how often an attacker succeeds with each effort, at every ε."""

    @classmethod
    def plan(cls, config: SybilConfig) -> Iterator[MetricKey]:
        """Yield one number per Sybil attack, effort and point."""
        for model, epsilon in points(config):
            for sybil in config.sybil:
                yield from _keys(model, epsilon, sybil)

    def run(self, model: OnDemandModel) -> Iterator[records.Measurement]:
        """Run each Sybil attack on the model at every ε.

        Raises:
            ConfigError: a Sybil attack does not fit the model.
            DataError: there are too few data for it.
        """
        for sybil in self.context.config.sybil:
            stage = f"{model.label}: Sybil attack {sybil.label}"
            for defense in model.defenses:
                efforts = partial(self._efforts, stage, model, defense, sybil)
                yield from self.context.unit(stage, efforts)

    def _efforts(
        self, stage: str, model: OnDemandModel, defense: OnDemandDefense, sybil: Sybil
    ) -> Iterator[records.Measurement]:
        context, family = self.context, self.context.family
        executor = context.tasks(stage, model.model, sybil, of=[defense])
        attack = sybil.create("sybil")
        try:
            correct = _run(defense, model.train, attack, sybil, context.seed, executor)
        except (ConfigError, DataError) as error:
            case = f"Sybil attack {sybil.label!r} against model {model.label!r}"
            raise type(error)(f"{case}: {error}") from error
        for key, row in zip(_keys(model.label, defense.epsilon, sybil), correct, strict=True):
            share = proportion(int(row.sum()), len(row), family.alpha, family.confidence)
            yield key.measured(share)


def _keys(model: str, epsilon: float, sybil: Sybil) -> Iterator[MetricKey]:
    for effort in sybil.efforts:
        yield MetricKey("sybil.accuracy", model, epsilon, attack=sybil.label, effort=effort)


def _run(
    defense: OnDemandDefense,
    ratings: Ratings,
    attack: SybilAttack | PassiveAttack,
    sybil: Sybil,
    seed: int,
    executor: Executor,
) -> NDArray[np.bool_]:
    """Run the attack; whether it succeeds with each effort in each trial `(E, T)`."""
    options: dict[str, Any] = {"trials": sybil.trials, "seed": seed, "executor": executor}
    if isinstance(attack, PassiveAttack):
        options["background"] = sybil.background
        return run_passive(defense, ratings, attack, auxiliary=sybil.efforts, **options)
    if isinstance(defense, ListDefense) and not defense.is_ordered():
        attack = attack.on_sets()  # of unordered lists it reads only an item's membership
    return run_sybil(defense, ratings, attack, efforts=sybil.efforts, **options).correct


def run_passive(
    defense: OnDemandDefense,
    ratings: Ratings,
    attack: PassiveAttack,
    *,
    auxiliary: Sequence[int],
    background: int,
    trials: int,
    seed: int,
    executor: Executor = INLINE,
) -> NDArray[np.bool_]:
    """Run the attack: whether it tells a new rating from a decoy, by lists and trial `(A, T)`.

    Between two points in time the target user, drawn uniformly among the users with enough ratings,
    rates one more item, and so do `background` other users. These new ratings are drawn uniformly
    from the users' ratings in `ratings`, and are missing at the first time. The attacker knows some
    other items of the target user, and sees the lists of these items at both times.

    The attacker decides which of two items the target user rated: the true one, or a decoy that a
    background user rated and the target user did not. As a user's items are more similar to each
    other than to another user's, the attacker could often tell without observing any change. In
    half of the trials the two users therefore swap these items in the data, so that every attack
    that does not see the event itself has accuracy ½.

    The list of item k is what the defense releases to a user who has rated only k, with the
    noise for `min_ratings = 1`, drawn afresh at each time. Its length is `top_k`. The rating of k
    is the scale's minimum, so that the scores that decide lists are not clipped.

    Args:
        defense: an item-item recommender.
        ratings: the data at the second time.
        attack: the attack.
        auxiliary: numbers of observed lists, increasing, at least 1 each.
        background: number of other users who make a rating in between.
        trials: number of trials; they are independent given the data.
        seed: the run's seed.
        executor: runs the trials; the result does not depend on it.

    Raises:
        ConfigError: the defense is not an item-item recommender, so it has no lists of related
            items.
        DataError: no user has enough ratings, or there are too few other users.
        InputError: `auxiliary` or `background` out of range.
    """
    if not isinstance(defense, PredictionDefense):
        raise ConfigError(
            "the attack 'passive-lists' observes lists of related items, which this defense does "
            "not have: use an item-item recommender"
        )
    observed = increasing("auxiliary is", auxiliary)
    if background < 1:
        raise InputError(f"background is {background}: give at least 1, as the decoy needs one")
    counts = np.diff(ratings.by_user.start)
    users = np.flatnonzero(counts > observed[-1])
    if not len(users) or background >= np.count_nonzero(counts):
        raise DataError(
            f"observing {observed[-1]} lists with {background} background users needs a user with "
            f"{observed[-1] + 1} ratings and {background + 1} users: use more data, or fewer lists "
            "or background users"
        )
    # The list of item k is that of a user whose only item is k.
    single = defense.serving(1)
    drawn = draw_trials(seed, "watching", trials, len(users))

    def trial(target: int, index: int) -> NDArray[np.bool_]:
        scene = stage(ratings, target, int(observed[-1]), background, (seed, index))
        if scene.decoy is None:
            return np.full(len(observed), drawn.draws[index, 0] < 0.5)
        before, after = (
            _lists(single, data, scene.observed, Streams.first(seed, f"watching/{name}/{index}", 1))
            for name, data in (("before", scene.before), ("after", scene.after))
        )
        score, decoy_score = (
            attack.scores(before, after, item)[observed] for item in (scene.item, scene.decoy)
        )
        return attack.guess(score, decoy_score, drawn.draws[index, 0])

    def run(position: int, streams: Streams) -> NDArray[np.bool_]:
        target = int(users[position])
        return np.stack([trial(target, int(index)) for index in streams.trials], axis=1)

    return run_blocks(drawn, run, executor)


@dataclass(frozen=True, eq=False)
class Scene:
    """The data and the new ratings of one trial.

    Attributes:
        before: the data at the first time.
        after: the data at the second time.
        item: the item that the target user rates in between.
        decoy: an item that another user rates in between and the target user does not; None if
            there is none.
        observed: other items of the target user, in random order `(A,)`.
    """

    before: Ratings
    after: Ratings
    item: int
    decoy: int | None
    observed: NDArray[np.int32]


def stage(
    ratings: Ratings, target: int, lists: int, background: int, source: tuple[int, int]
) -> Scene:
    """Draw one trial.

    Args:
        ratings: all ratings; in half of the scenes the target user and another one swap an item.
        target: a user with more than `lists` ratings.
        lists: number of observed items.
        background: number of other users who make a rating in between.
        source: the seed and the trial's index, which determine the draws.
    """
    rng = generator(source, "watching")
    start, item, _ = ratings.by_user
    counts = np.diff(start)
    target_rows = rng.permutation(np.arange(start[target], start[target + 1]))
    chosen = rng.choice(np.setdiff1d(np.flatnonzero(counts), [target]), background, replace=False)
    rows = start[chosen] + rng.integers(counts[chosen])
    kept = np.ones(len(ratings), bool)
    kept[rows], kept[target_rows[0]] = False, False
    observed = item[target_rows[1 : lists + 1]]
    # The two users must be able to swap: neither may have the other's item.
    owners = ratings.user[item == item[target_rows[0]]]
    partners = rows[~np.isin(chosen, owners) & ~np.isin(item[rows], item[target_rows])]
    own_item = int(item[target_rows[0]])
    if not len(partners):
        return Scene(ratings.only(kept), ratings, own_item, None, observed)
    partner = int(rng.choice(partners))
    other_item = int(item[partner])
    if rng.random() < 0.5:
        return Scene(ratings.only(kept), ratings, own_item, other_item, observed)
    swapped = item.copy()
    swapped[[target_rows[0], partner]] = other_item, own_item
    after = Ratings.build(
        ratings.user, swapped, ratings.value, ratings.n_users, ratings.n_items, ratings.scale
    )
    return Scene(ratings.only(kept), after, other_item, own_item, observed)


def _lists(
    single: PredictionDefense, ratings: Ratings, items: NDArray[np.int32], streams: Streams
) -> ItemList:
    """Release the list of each item `(A, N)`; list `i` uses the noise of trial `i`."""
    model = single.prepare(ratings)
    value = np.full(1, ratings.scale.minimum, np.float32)
    released = [
        single.release_list(
            single.exact(model, Profile(items[[i]], value)),
            Streams(streams.key, np.array([i], np.int64)),
        ).items
        for i in range(len(items))
    ]
    return ItemList(np.concatenate(released))
