"""How many public lists a passive attacker must watch to see a hidden purchase."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import PassiveAttack
from dpaudit.auditor.trials import plan, play_blocks
from dpaudit.core.errors import ConfigError, DataError, InputError
from dpaudit.core.profile import Profile
from dpaudit.core.releases import ItemList
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import OnDemandDefense, PredictionDefense


@dataclass(frozen=True, eq=False)
class WatchingScores:
    """The outcome of watching.

    Attributes:
        auxiliary: numbers of watched lists, increasing `(A,)`.
        correct: whether the purchase was told from the decoy with so many `(A, T)`.
    """

    auxiliary: NDArray[np.int64]
    correct: NDArray[np.bool_]


def play_watching(
    defense: OnDemandDefense,
    ratings: Ratings,
    attack: PassiveAttack,
    *,
    auxiliary: Sequence[int],
    background: int,
    trials: int,
    seed: int,
    threads: int = 1,
    advance: Callable[[int], None] = lambda done: None,
) -> WatchingScores:
    """Whether the attacker tells a hidden new rating from a decoy, for each number of lists.

    Between two times the target, uniform among the users with enough ratings, rates one item more,
    and so do `background` other users. These are uniform ratings of theirs in `ratings`, which are
    missing at the first time. The attacker sees at both times the lists of some other items of the
    target, which he knows.

    He is asked which of two items the target rated: hers, or one that a background user rated and
    she has not. Her own items are more similar to each other than to his, so he could often tell
    without looking at any change. In half of the trials the two users therefore swap these items in
    the data: accuracy is ½ for every attack that does not see the event itself.

    The list of item k is what the defense releases to a user who has rated k alone, with the
    noise for `min_ratings = 1`, drawn anew at either time. Its length is `top_k`. Ratings are taken
    to be the least of the scale, so that terms are not clipped where lists are decided.

    Args:
        defense: an item-item recommender.
        ratings: the data at the second time.
        attack: the attacker.
        auxiliary: numbers of watched lists, increasing, at least 1 each.
        background: how many other users make a rating in between.
        trials: number of trials; they are independent given the data.
        seed: the run's seed.
        threads: number of threads; it does not change the result.
        advance: told the number of trials done.

    Raises:
        ConfigError: the defense is no item-item recommender, and has no lists of related items.
        DataError: no user has enough ratings, or there are too few other users.
        InputError: `auxiliary` or `background` out of range.
    """
    if not isinstance(defense, PredictionDefense):
        raise ConfigError(
            "the attack 'list-watcher' watches lists of related items, which this defense does "
            "not have: use an item-item recommender"
        )
    watched = np.array(auxiliary, np.int64)
    if watched.ndim != 1 or not len(watched) or watched[0] < 1 or (np.diff(watched) <= 0).any():
        raise InputError(f"auxiliary is {list(auxiliary)}: give increasing whole numbers from 1 on")
    if background < 1:
        raise InputError(f"background is {background}: give at least 1, the decoy is theirs")
    counts = np.diff(ratings.by_user.start)
    users = np.flatnonzero(counts > watched[-1])
    if not len(users) or background >= np.count_nonzero(counts):
        raise DataError(
            f"watching {watched[-1]} lists with {background} background users takes a user with "
            f"{watched[-1] + 1} ratings and {background + 1} users: use more data, or fewer lists "
            "or background users"
        )
    # The list of item k: a user whose only item is k.
    single = defense.serving(1)
    games = plan(seed, "watching", trials, len(users))

    def trial(target: int, world: int) -> NDArray[np.bool_]:
        scene = stage(ratings, target, int(watched[-1]), background, (seed, world))
        if scene.decoy is None:
            return np.full(len(watched), games.draws[world, 0] < 0.5)
        before, after = (
            _lists(single, data, scene.watched, Streams.first(seed, f"watching/{name}/{world}", 1))
            for name, data in (("before", scene.before), ("after", scene.after))
        )
        mine, other = (
            attack.scores(before, after, item)[watched] for item in (scene.item, scene.decoy)
        )
        return attack.guess(mine, other, games.draws[world, 0])

    def play(position: int, streams: Streams) -> NDArray[np.bool_]:
        target = int(users[position])
        return np.stack([trial(target, int(world)) for world in streams.worlds], axis=1)

    return WatchingScores(watched, play_blocks(games, play, threads, advance))


@dataclass(frozen=True, eq=False)
class Scene:
    """What happens between the two times of one trial.

    Attributes:
        before: the data at the first time.
        after: the data at the second time.
        item: what the target rates in between.
        decoy: what another user rates in between and the target does not; None if there is none.
        watched: other items of the target, in random order `(A,)`.
    """

    before: Ratings
    after: Ratings
    item: int
    decoy: int | None
    watched: NDArray[np.int32]


def stage(
    ratings: Ratings, target: int, lists: int, background: int, source: tuple[int, int]
) -> Scene:
    """Draw one trial.

    Args:
        ratings: all the ratings; in half of the scenes the target and another swap an item.
        target: a user with more than `lists` ratings.
        lists: how many items are watched.
        background: how many other users make a rating in between.
        source: the seed and the trial's index, which decide the draws.
    """
    rng = np.random.default_rng(np.random.SeedSequence([*source, *b"watching"]))
    start, item, _ = ratings.by_user
    counts = np.diff(start)
    mine = rng.permutation(np.arange(start[target], start[target + 1]))
    others = np.setdiff1d(np.flatnonzero(counts), [target])
    chosen = rng.choice(others, background, replace=False)
    rows = start[chosen] + rng.integers(counts[chosen])
    kept = np.ones(len(ratings), bool)
    kept[rows], kept[mine[0]] = False, False
    watched = item[mine[1 : lists + 1]]
    # The two must be able to swap: neither has the other's item.
    owners = ratings.user[item == item[mine[0]]]
    partners = rows[~np.isin(chosen, owners) & ~np.isin(item[rows], item[mine])]
    hers = int(item[mine[0]])
    if not len(partners):
        return Scene(_kept(ratings, kept), ratings, hers, None, watched)
    partner = int(rng.choice(partners))
    his = int(item[partner])
    if rng.random() < 0.5:
        return Scene(_kept(ratings, kept), ratings, hers, his, watched)
    swapped = item.copy()
    swapped[[mine[0], partner]] = his, hers
    after = Ratings.build(
        ratings.user, swapped, ratings.value, ratings.n_users, ratings.n_items, ratings.scale
    )
    return Scene(_kept(ratings, kept), after, his, hers, watched)


def _kept(ratings: Ratings, rows: NDArray[np.bool_]) -> Ratings:
    return replace(
        ratings, user=ratings.user[rows], item=ratings.item[rows], value=ratings.value[rows]
    )


def _lists(
    single: PredictionDefense, ratings: Ratings, items: NDArray[np.int32], streams: Streams
) -> ItemList:
    """The released list of each item `(A, N)`; list `i` draws from world `i`."""
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
