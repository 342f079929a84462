"""Constructed pairs of neighbours for top-k mechanisms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.neighbors import RatingReplaced
from dpaudit.data.ratings import Ratings, Scale, from_profiles

Scores = NDArray[np.float32]

ENTRY = {
    "last-ranked": "the prediction that ranks last becomes the highest possible one",
    "among-best": "one prediction goes from the lowest to the highest, where all others are",
    "among-worst": "one prediction goes from the lowest, where all others are, to the highest",
}
RATING = {
    "own-rating": (
        "one of the user's own ratings rises from the lowest to the highest; it moves the k lowest "
        "predictions and hardly the others"
    )
}


def entry_rows(name: str, k: int, scale: Scale) -> tuple[Scores, Scores]:
    """Return the rows in D and D': entry 0 of `max(40, 4k)` rises from the lowest to the highest.

    In `last-ranked` the other entries are spread evenly inside the scale. In the other two pairs
    they are all highest or all lowest, so that the bounds of `dpaudit.defenses.top_k.bounds` are
    attained.
    """
    low, high = scale.minimum, scale.maximum
    items = max(40, 4 * k)
    others = {
        "last-ranked": np.linspace(high, low, items + 1)[1:-1],
        "among-best": np.full(items - 1, high),
        "among-worst": np.full(items - 1, low),
    }[name]
    before, after = (np.append(end, others).astype(np.float32) for end in (low, high))
    return before, after


def own_rating(least: int, k: int, phi: int, scale: Scale) -> tuple[Ratings, RatingReplaced]:
    """Return data and a change of user 0's rating of item 0 that moves `k` of `10k` predictions.

    User 0 rates items 0 … T − 1, T = `least`. Nobody has rated the next k items, so their terms
    follow the rating of item 0. The other items are rated highest by `20 phi` users (at most 200)
    who rate item 0 lowest, so their terms of item 0 stay near the top of the scale.
    """
    low, high, first = scale.minimum, scale.maximum, least + k
    middle = float(scale.values[len(scale.values) // 2])
    target = [(0, low), *((j, middle) for j in range(1, least))]
    other = [(0, low), *((j, high) for j in range(first, first + 9 * k))]
    users = [target, *[other] * min(20 * phi, 200)]
    return from_profiles(users, first + 9 * k, scale), RatingReplaced(0, 0, high)
