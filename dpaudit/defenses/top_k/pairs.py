"""Constructed pairs of neighbours for top-k mechanisms."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.instances import from_profiles
from dpaudit.data.neighbors import RatingReplaced
from dpaudit.data.ratings import Ratings, Scale

Scores = NDArray[np.float32]

ENTRY = {
    "last-ranked": "the prediction that ranks last becomes the highest possible one",
    "among-best": "one prediction goes from the lowest to the highest, where all others are",
    "among-worst": "one prediction goes from the lowest, where all others are, to the highest",
}
RATING = {
    "own-rating": (
        "a rating of the user herself changes ends; it moves the k lowest predictions and hardly "
        "the others"
    )
}


def entry_rows(name: str, k: int, scale: Scale) -> tuple[Scores, Scores]:
    """The rows before and after: entry 0 of `max(40, 4k)` goes from one end to the other.

    In `last-ranked` the others are spread evenly inside the scale. The other two are the pairs on
    which the bounds of `dpaudit.defenses.top_k.bounds` are attained.
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
    """Data and a change of user 0's rating of item 0 that moves only `k` of `10k` predictions.

    User 0 rates items 0 … T − 1, T = `least`. Nobody has rated the k items that follow: their terms
    go with her rating. The others are rated the highest by `20 phi` users (200 at most) who rate
    item 0 the lowest: their terms of item 0 are near the top of the scale all the time.
    """
    low, high, first = scale.minimum, scale.maximum, least + k
    middle = float(scale.values[len(scale.values) // 2])
    target = [(0, low), *((j, middle) for j in range(1, least))]
    other = [(0, low), *((j, high) for j in range(first, first + 9 * k))]
    users = [target, *[other] * min(20 * phi, 200)]
    return from_profiles(users, first + 9 * k, scale), RatingReplaced(0, 0, high)
