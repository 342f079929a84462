"""Search real data for the changed rating that moves a prediction most.

The search compares exact predictions and draws no noise, so it costs no confidence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.streams import generator
from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import ItemModel, PredictionDefense, PredictionPair
from dpaudit.kernels.item_item import co_rating_row

# Limits of the directed search: the number of target users (those with the fewest ratings), of
# entries in the matrix of other users, and of proposals that are compared.
_TARGETS, _ENTRIES, _COMPARED = 100, 50_000_000, 200

Users = NDArray[np.int64]
Rated = NDArray[np.float32]
_Candidate = tuple[int, RatingChange]


def search_pair(
    defense: PredictionDefense, model: ItemModel, users: Users, *, candidates: int, seed: int
) -> PredictionPair:
    """Search random and directed candidates for the changed rating that moves a prediction most.

    A candidate is a target user from `users`, an item that they have not rated, and another user,
    whose rating of that item becomes the scale's minimum or maximum: a new rating, or under
    `rating-replace` a replaced one. Directed candidates are added ratings that lift most of the
    target's items over the threshold of co-raters, or for purchases those of users who share rare
    items with the target. Their targets are the users with the fewest ratings, whose predictions
    move most.

    Args:
        defense: the recommender; its ε does not matter.
        model: its prepared statistics of the data set `D`.
        users: users of `D` with at least `min_ratings` ratings, at least two.
        candidates: number of random candidates, and limit on the number of directed ones.
        seed: the run's seed.

    Raises:
        DataError: no candidate was possible.
    """
    rng = generator(seed, "search")
    tried = [_random_change(model.ratings, defense, users, rng) for _ in range(candidates)]
    possible = [candidate for candidate in tried if candidate is not None]
    if defense.adjacency == "rating-add-remove":
        possible += _proposed(defense, model, users, rng)[:candidates]
    if not possible:
        raise DataError(
            f"none of {candidates} random changes of a rating moves a shown prediction: use "
            "more data, or more game.candidates"
        )

    def shift(candidate: _Candidate) -> float:
        target, change = candidate
        before = defense.exact(model, model.ratings.profile(target))
        after = defense.exact_after(model, change, target)
        return float(abs(after.scores[change.item] - before.scores[change.item]))

    target, change = max(possible, key=shift)
    verb = "replaced" if defense.adjacency == "rating-replace" else "added"
    return PredictionPair(
        model.ratings,
        change,
        target,
        (change.item,),
        f"of {len(possible)} ratings {verb} by another user, random and promising ones, the one "
        "that moves most",
    )


def _random_change(
    ratings: Ratings, defense: PredictionDefense, users: NDArray[np.int64], rng: np.random.Generator
) -> _Candidate | None:
    target, other = (int(user) for user in rng.choice(users, 2, replace=False))
    value = float(rng.choice((ratings.scale.minimum, ratings.scale.maximum)))
    target_profile, other_profile = ratings.profile(target), ratings.profile(other)
    replaces = defense.adjacency == "rating-replace"
    if replaces:
        free = other_profile.items[
            (other_profile.values != value) & ~np.isin(other_profile.items, target_profile.items)
        ]
    else:
        free = np.setdiff1d(
            np.arange(ratings.n_items), np.union1d(target_profile.items, other_profile.items)
        )
    if not len(free):
        return None
    change = RatingReplaced if replaces else RatingAdded
    return target, change(other, int(rng.choice(free)), value)


def _proposed(
    defense: PredictionDefense, model: ItemModel, users: Users, rng: np.random.Generator
) -> list[_Candidate]:
    """Return the directed candidates, the best first."""
    ratings = model.ratings
    targets = users[np.argsort(np.diff(ratings.by_user.start)[users], kind="stable")][:_TARGETS]
    other_users = rng.permutation(users)[: max(1, _ENTRIES // ratings.n_items)]
    target_rated, other_rated = _matrix(ratings, targets), _matrix(ratings, other_users)
    propose = _crossings if ratings.scale.width else _rare_purchases
    places = propose(
        model, defense.pair_floor(), target_rated, other_rated, targets[:, None] == other_users
    )
    return [
        (int(targets[row]), RatingAdded(int(other_users[column]), item, value))
        for row, column, item, value in places
    ]


_Place = tuple[int, int, int, float]


def _crossings(
    model: ItemModel, floor: int, target_rated: Rated, other_rated: Rated, same: NDArray[np.bool_]
) -> list[_Place]:
    """Find ratings that lift the largest share of a target's items over the co-rater threshold."""
    best: list[tuple[float, int, int, int]] = []
    size = target_rated.sum(1, keepdims=True)
    # Only items that a target rated can count, and they are few.
    held = np.flatnonzero(target_rated.any(0))
    for item in range(target_rated.shape[1]):
        count, _ = co_rating_row(item, *model.ticks)
        at_floor = held[count[held] == floor]
        share = target_rated[:, at_floor] @ other_rated[:, at_floor].T / size
        share[same | (target_rated[:, [item]] > 0) | (other_rated[:, item] > 0)] = 0
        row, column = divmod(int(share.argmax()), share.shape[1])
        best.append((float(share[row, column]), row, column, item))
    scale = model.ratings.scale
    return [
        (row, column, item, end)
        for share, row, column, item in sorted(best, reverse=True)[:_COMPARED]
        if share > 0
        for end in (scale.minimum, scale.maximum)
    ]


def _rare_purchases(
    model: ItemModel, _: int, target_rated: Rated, other_rated: Rated, same: NDArray[np.bool_]
) -> list[_Place]:
    """Find purchases of the rarest free item by a user who shares rare items with a target."""
    from scipy.sparse import csr_array

    rarity = target_rated / np.maximum(model.degree, 1) ** 0.5
    # A sparse product is fast, as few items are bought, and sums in one order on any machine.
    share = (csr_array(other_rated) @ rarity.T).T / target_rated.sum(1, keepdims=True)
    share[same] = 0
    places = []
    for index in np.argsort(-share, axis=None, kind="stable")[:_COMPARED].tolist():
        row, column = divmod(index, share.shape[1])
        free = np.flatnonzero((target_rated[row] == 0) & (other_rated[column] == 0))
        if len(free) and share[row, column] > 0:
            item = int(free[model.degree[free].argmin()])
            places.append((row, column, item, model.ratings.scale.maximum))
    return places


def _matrix(ratings: Ratings, users: Users) -> Rated:
    """Return the 0/1 matrix of which of the users rated which items `(U, M)`."""
    rated = np.zeros((len(users), ratings.n_items), np.float32)
    for row, user in zip(rated, users.tolist(), strict=True):
        row[ratings.profile(user).items] = 1
    return rated
