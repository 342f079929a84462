"""The choice of targets: at random, or canaries that a model is likely to remember."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import generator
from dpaudit.core.user_profile import Profile
from dpaudit.data.interactions import interactions_of
from dpaudit.data.ratings import Ratings

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]


def ordered_rows(ratings: Ratings, able: Rows, draw: str) -> Rows:
    """Return the rows that may be targets, the first ones first.

    Args:
        ratings: the data.
        able: the rows that may be targets, in random order.
        draw: `random`; `rare-items`, those of the items with the fewest interactions first; or
            `out-of-profile`, those least like the rest of their user's history first.
    """
    if draw == "rare-items":
        counts = np.bincount(ratings.item, minlength=ratings.n_items)
        return able[np.argsort(counts[ratings.item[able]], kind="stable")]
    if draw == "out-of-profile":
        return able[np.argsort(likeness(ratings)[able], kind="stable")]
    return able


def likeness(ratings: Ratings) -> NDArray[np.float64]:
    """Return each rating's mean cosine with the other items of its user `(R,)`; 0 without others.

    Cosines of items are by who has them. Σ_j cos(i, j) = x_i · Σ_j x_j for unit columns x, so the
    sum over a history is one product of its user's sum with the item's column.
    """
    history = interactions_of(ratings)
    history.data[:] = 1
    sizes = np.bincount(history.indices, minlength=ratings.n_items)
    columns = history.multiply(1 / np.sqrt(np.maximum(sizes, 1))).tocsr()
    cosines = np.empty(len(ratings))
    start = ratings.by_user.start
    by_item = columns.T.tocsr()
    for user in range(ratings.n_users):
        rows = slice(int(start[user]), int(start[user + 1]))
        items = by_item[ratings.item[rows]]
        total = np.asarray(items.sum(0)).reshape(-1)
        others = max(1, items.shape[0] - 1)
        # An item's cosine with itself is 1.
        cosines[rows] = (items @ total - 1) / others
    return cosines


def fake_users(ratings: Ratings, count: int, seed: int) -> Ratings:
    """Append fake users, whose histories hold items that hardly anybody has together.

    Each has as many interactions as the median user, at least 5: items drawn from the rarer half,
    with the largest rating. The real data stay as they are.

    Args:
        ratings: the data.
        count: number of fake users.
        seed: of the draws.
    """
    counts = np.bincount(ratings.item, minlength=ratings.n_items)
    rare = np.argsort(counts, kind="stable")[: max(1, ratings.n_items // 2)]
    active = np.diff(ratings.by_user.start)
    size = min(len(rare), max(5, int(np.median(active[active > 0]))))
    profiles = []
    for number in range(count):
        stream = generator(seed, "membership fake users", child=number)
        items = np.sort(stream.choice(rare, size, replace=False)).astype(np.int32)
        profiles.append(Profile(items, np.full(size, ratings.scale.maximum, np.float32)))
    return ratings.with_users(profiles)
