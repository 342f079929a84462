"""The distinguishing game between two neighbouring data sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.likelihood_ratio import LikelihoodRatio
from dpaudit.data.neighbors import RatingAdded
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import WorldPair
from dpaudit.defenses.item_item import ExactScores, ItemItem, ItemModel
from dpaudit.releases import LaplacePair, Streams


@dataclass(frozen=True, eq=False)
class GameScores:
    """The outcome of a distinguishing game.

    Attributes:
        absent: the attack's score in each world D `(T,)`.
        present: its score in each world D' `(T,)`.
        shift: by how much the exact prediction differs between D and D'.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    shift: float


def play_game(
    defense: ItemItem,
    model: ItemModel,
    pair: WorldPair,
    attack: LikelihoodRatio,
    *,
    trials: int,
    seed: int,
) -> GameScores:
    """Release one prediction in `trials` worlds D and as many D', and score each.

    Every world draws its own noise; D and D' share no stream.
    """
    item = np.array([pair.item])
    before = defense.exact(model, pair.ratings.profile(pair.target))
    after = defense.exact_after(model, pair.change, pair.target)
    knowledge = LaplacePair(
        before.scores[item].astype(np.float64),
        after.scores[item].astype(np.float64),
        defense.noise_scale(pair.ratings.scale),
    )
    shown = np.full((trials, 1), pair.item, np.int32)

    def score(exact: ExactScores, world: str) -> NDArray[np.float64]:
        streams = Streams.first(seed, f"game/{world}", trials)
        return attack.score(defense.release_items(exact, streams, shown), knowledge)

    shift = float(abs(knowledge.present - knowledge.absent)[0])
    return GameScores(score(before, "absent"), score(after, "present"), shift)


def search_pair(
    defense: ItemItem,
    model: ItemModel,
    users: NDArray[np.int64],
    *,
    candidates: int,
    seed: int,
) -> WorldPair:
    """The added rating, among random ones, that moves a prediction of one of the users most.

    Each candidate takes one of `users` as the target, an item that she has not rated, and lets
    another user, who has not rated it either, give it the scale's lowest or highest rating. Exact
    predictions are compared; no noise is drawn, so the choice spends no confidence.

    Args:
        defense: the recommender; ε and variant do not matter.
        model: its prepared statistics of the data set `D`.
        users: users of `D` with at least `min_ratings` ratings.
        candidates: how many added ratings to try.
        seed: the run's seed.
    """
    ratings = model.ratings
    rng = np.random.default_rng(np.random.SeedSequence([seed, *b"search"]))
    best, largest = None, -1.0
    for _ in range(candidates):
        target, other = rng.choice(users, 2, replace=False)
        change = _random_addition(ratings, int(target), int(other), rng)
        profile = ratings.profile(int(target))
        before, after = (
            defense.exact(model, profile),
            defense.exact_after(model, change, int(target)),
        )
        shift = float(abs(after.scores[change.item] - before.scores[change.item]))
        if shift > largest:
            best, largest = (int(target), change), shift
    if best is None:
        raise ValueError("no candidate was tried: give candidates >= 1")
    return WorldPair(
        ratings,
        best[1],
        best[0],
        best[1].item,
        f"of {candidates} random ratings added by another user, the one that moves most",
    )


def _random_addition(
    ratings: Ratings, target: int, other: int, rng: np.random.Generator
) -> RatingAdded:
    taken = np.union1d(ratings.profile(target).items, ratings.profile(other).items)
    free = np.setdiff1d(np.arange(ratings.n_items), taken)
    ends = (ratings.scale.minimum, ratings.scale.maximum)
    return RatingAdded(other, int(rng.choice(free)), float(rng.choice(ends)))
