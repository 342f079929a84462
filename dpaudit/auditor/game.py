"""The distinguishing game between two neighbouring data sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.item_place import ItemPlace
from dpaudit.attacks.likelihood_ratio import LikelihoodRatio
from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import EntryPair, ListDefense, WorldPair
from dpaudit.defenses.item_item import ItemItem
from dpaudit.defenses.item_model import ExactScores, ItemModel
from dpaudit.errors import DataError
from dpaudit.releases import LaplacePair, ListPair, Streams

# The score of an output that only one world can have.
_CERTAIN = 1e300
# Worlds released at a time, so that memory does not grow with the trials.
_BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class GameScores:
    """The outcome of a distinguishing game.

    Attributes:
        absent: the attack's score in each world D `(T,)`.
        present: its score in each world D' `(T,)`.
        shifts: by how much each shown prediction differs between D and D', without noise `(k,)`.
        noise_scale: the scale of the Laplace noise on each.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    shifts: NDArray[np.float64]
    noise_scale: float

    @property
    def shift(self) -> float:
        """The L1 distance of the exact predictions."""
        return float(self.shifts.sum())


@dataclass(frozen=True, eq=False)
class ListScores:
    """The attack's scores in a game of lists.

    Attributes:
        absent: in each world D `(T,)`.
        present: in each world D' `(T,)`.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]


def play_game(
    defense: ItemItem,
    model: ItemModel,
    pair: WorldPair,
    attack: LikelihoodRatio,
    *,
    trials: int,
    seed: int,
) -> GameScores:
    """Release the pair's predictions in `trials` worlds D and as many D', and score each.

    Every world draws its own noise; D and D' share no stream.
    """
    items = np.array(pair.items, np.int32)
    before = defense.exact(model, pair.ratings.profile(pair.target))
    after = defense.exact_after(model, pair.change, pair.target)
    knowledge = LaplacePair(
        before.scores[items].astype(np.float64),
        after.scores[items].astype(np.float64),
        defense.noise_scale(pair.ratings.scale),
    )

    def score(exact: ExactScores, world: str) -> NDArray[np.float64]:
        found = np.empty(trials)
        for streams in Streams.first(seed, f"game/{world}", trials).blocks(_BLOCK):
            shown = np.repeat(items[None], len(streams), axis=0)
            release = defense.release_items(exact, streams, shown)
            found[streams.worlds] = attack.score(release, knowledge)
        # Without noise an output is impossible in the other world; bounds take finite scores.
        return np.clip(found, -_CERTAIN, _CERTAIN)

    return GameScores(
        absent=score(before, "absent"),
        present=score(after, "present"),
        shifts=abs(knowledge.present - knowledge.absent),
        noise_scale=knowledge.noise_scale,
    )


def play_list_game(
    defense: ItemItem,
    model: ItemModel,
    pair: WorldPair,
    attack: ItemPlace,
    *,
    trials: int,
    seed: int,
) -> ListScores:
    """Show the target's list without values in `trials` worlds D and as many D', and score each."""

    def score(exact: ExactScores, world: str) -> NDArray[np.float64]:
        return np.concatenate(
            [
                attack.score(defense.release_list(exact, streams), pair.items[0])
                for streams in Streams.first(seed, f"list/{world}", trials).blocks(_BLOCK)
            ]
        )

    return ListScores(
        score(defense.exact(model, pair.ratings.profile(pair.target)), "absent"),
        score(defense.exact_after(model, pair.change, pair.target), "present"),
    )


def play_entry_game(
    defense: ListDefense,
    pair: EntryPair,
    attack: LikelihoodRatio,
    *,
    trials: int,
    seed: int,
) -> ListScores:
    """Release a list in `trials` worlds D and as many D' that differ in an entry; score each."""
    knowledge = ListPair(defense.law(pair.before), defense.law(pair.after))

    def score(exact: ExactScores, world: str) -> NDArray[np.float64]:
        found = [
            attack.score(defense.release_list(exact, streams), knowledge)
            for streams in Streams.first(seed, f"entry/{world}", trials).blocks(_BLOCK)
        ]
        return np.clip(np.concatenate(found), -_CERTAIN, _CERTAIN)

    return ListScores(score(pair.before, "absent"), score(pair.after, "present"))


def search_pair(
    defense: ItemItem,
    model: ItemModel,
    users: NDArray[np.int64],
    *,
    candidates: int,
    seed: int,
) -> WorldPair:
    """The changed rating, among random ones, that moves a prediction of one of the users most.

    Each candidate takes one of `users` as the target and an item that she has not rated, and lets
    another user give it the scale's lowest or highest rating: a new rating, or under
    `rating-replace` in place of her own. Exact predictions are compared; no noise is drawn, so the
    choice spends no confidence.

    Args:
        defense: the recommender; its ε does not matter.
        model: its prepared statistics of the data set `D`.
        users: users of `D` with at least `min_ratings` ratings, at least two.
        candidates: how many changes to try.
        seed: the run's seed.

    Raises:
        DataError: no candidate was possible.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, *b"search"]))
    tried = [_random_change(model.ratings, defense, users, rng) for _ in range(candidates)]
    possible = [candidate for candidate in tried if candidate is not None]
    if not possible:
        raise DataError(
            f"none of {candidates} random changes of a rating moves a shown prediction: use "
            "more data, or more game.candidates"
        )

    def shift(candidate: tuple[int, RatingChange]) -> float:
        target, change = candidate
        before = defense.exact(model, model.ratings.profile(target))
        after = defense.exact_after(model, change, target)
        return float(abs(after.scores[change.item] - before.scores[change.item]))

    target, change = max(possible, key=shift)
    verb = "replaced" if defense.adjacency == "rating-replace" else "added"
    return WorldPair(
        model.ratings,
        change,
        target,
        (change.item,),
        f"of {candidates} random ratings {verb} by another user, the one that moves most",
    )


def _random_change(
    ratings: Ratings, defense: ItemItem, users: NDArray[np.int64], rng: np.random.Generator
) -> tuple[int, RatingChange] | None:
    target, other = (int(user) for user in rng.choice(users, 2, replace=False))
    value = float(rng.choice((ratings.scale.minimum, ratings.scale.maximum)))
    hers, theirs = ratings.profile(target), ratings.profile(other)
    if defense.adjacency == "rating-replace":
        free = theirs.items[(theirs.values != value) & ~np.isin(theirs.items, hers.items)]
    else:
        free = np.setdiff1d(np.arange(ratings.n_items), np.union1d(hers.items, theirs.items))
    if not len(free):
        return None
    item = int(rng.choice(free))
    if defense.adjacency == "rating-replace":
        return target, RatingReplaced(other, item, value)
    return target, RatingAdded(other, item, value)
