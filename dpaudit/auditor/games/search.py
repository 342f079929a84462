"""The changed rating of a data set that moves a prediction most: what a game on real data plays.

Exact predictions are compared and no noise is drawn, so the choice spends no confidence.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.data.neighbors import RatingAdded, RatingChange, RatingReplaced
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import PredictionDefense, WorldPair
from dpaudit.defenses.item_model import ItemModel
from dpaudit.kernels.item_item.pairs import co_rating_row

# The targets that the directed search looks at, those with the fewest ratings; the entries of the
# matrix of other users that it keeps; how many of its proposals are compared.
_TARGETS, _ENTRIES, _COMPARED = 100, 50_000_000, 200

Users = NDArray[np.int64]
Rated = NDArray[np.float32]
Candidate = tuple[int, RatingChange]


def search_pair(
    defense: PredictionDefense,
    model: ItemModel,
    users: Users,
    *,
    candidates: int,
    seed: int,
) -> WorldPair:
    """The changed rating, among random and promising ones, that moves a prediction most.

    Each candidate takes one of `users` as the target and an item that she has not rated, and lets
    another of them give it the scale's lowest or highest rating: a new rating, or under
    `rating-replace` in place of her own. Besides random ones, added ratings are proposed that carry
    most of the target's items across the threshold of co-raters, or purchases that share rare items
    with the target's; of users with the fewest ratings, whose predictions move most.

    Args:
        defense: the recommender; its ε does not matter.
        model: its prepared statistics of the data set `D`.
        users: users of `D` with at least `min_ratings` ratings, at least two.
        candidates: how many random changes to try; no more proposals are compared.
        seed: the run's seed.

    Raises:
        DataError: no candidate was possible.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed, *b"search"]))
    tried = [_random_change(model.ratings, defense, users, rng) for _ in range(candidates)]
    possible = [candidate for candidate in tried if candidate is not None]
    if defense.adjacency == "rating-add-remove":
        possible += _proposed(defense, model, users, rng)[:candidates]
    if not possible:
        raise DataError(
            f"none of {candidates} random changes of a rating moves a shown prediction: use "
            "more data, or more game.candidates"
        )

    def shift(candidate: Candidate) -> float:
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
        f"of {len(possible)} ratings {verb} by another user, random and promising ones, the one "
        "that moves most",
    )


def _random_change(
    ratings: Ratings, defense: PredictionDefense, users: NDArray[np.int64], rng: np.random.Generator
) -> Candidate | None:
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


def _proposed(
    defense: PredictionDefense, model: ItemModel, users: Users, rng: np.random.Generator
) -> list[Candidate]:
    """Promising changes, the best first."""
    ratings = model.ratings
    counts = np.diff(ratings.by_user.start)[users]
    targets = users[np.argsort(counts, kind="stable")][:_TARGETS]
    others = rng.permutation(users)[: max(1, _ENTRIES // ratings.n_items)]
    hers, theirs = _matrix(ratings, targets), _matrix(ratings, others)
    propose = _crossings if ratings.scale.width else _rare_purchases
    found = propose(model, defense.pair_floor(), hers, theirs, targets[:, None] == others)
    return [
        (int(targets[row]), RatingAdded(int(others[column]), item, value))
        for row, column, item, value in found
    ]


Place = tuple[int, int, int, float]


def _crossings(
    model: ItemModel, floor: int, hers: Rated, theirs: Rated, same: NDArray[np.bool_]
) -> list[Place]:
    """Ratings by which most of a target's items get one co-rater more than the threshold."""
    best: list[tuple[float, int, int, int]] = []
    size = hers.sum(1, keepdims=True)
    for item in range(hers.shape[1]):
        count, _ = co_rating_row(item, *model.ticks)
        at_floor = np.flatnonzero(count == floor)
        share = hers[:, at_floor] @ theirs[:, at_floor].T / size
        share[same | (hers[:, [item]] > 0) | (theirs[:, item] > 0)] = 0
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
    model: ItemModel, _: int, hers: Rated, theirs: Rated, same: NDArray[np.bool_]
) -> list[Place]:
    """Purchases of the rarest item by a user who shares rare items with a target."""
    from scipy.sparse import csr_array

    rarity = hers / np.maximum(model.degree, 1) ** 0.5
    # Few are bought, and a sparse product sums in one order on any machine.
    share = (csr_array(theirs) @ rarity.T).T / hers.sum(1, keepdims=True)
    share[same] = 0
    found = []
    for place in np.argsort(-share, axis=None, kind="stable")[:_COMPARED].tolist():
        row, column = divmod(place, share.shape[1])
        free = np.flatnonzero((hers[row] == 0) & (theirs[column] == 0))
        if len(free) and share[row, column] > 0:
            item = int(free[model.degree[free].argmin()])
            found.append((row, column, item, model.ratings.scale.maximum))
    return found


def _matrix(ratings: Ratings, users: Users) -> Rated:
    """Who of these users rated what, 0 or 1 `(U, M)`."""
    rated = np.zeros((len(users), ratings.n_items), np.float32)
    for row, user in zip(rated, users.tolist(), strict=True):
        row[ratings.profile(user).items] = 1
    return rated
