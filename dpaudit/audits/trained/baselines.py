"""Guesses without a model, from the shared ratings alone: no attacks, but what attacks beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.ratings import Ratings

Indices = NDArray[np.int32]


def guess_means(shared: Ratings, items: Indices) -> NDArray[np.float64]:
    """Return the mean shared rating of each item `(n,)`.

    For an item without shared ratings it is the mean of all shared ratings, without any rating the
    middle of the scale.
    """
    counts = np.bincount(shared.item, minlength=shared.n_items)
    sums = np.bincount(shared.item, shared.value, shared.n_items)
    middle = (shared.scale.minimum + shared.scale.maximum) / 2
    everything = shared.value.mean(dtype=np.float64) if len(shared) else middle
    means = np.where(counts > 0, sums / np.maximum(counts, 1), everything)
    return np.asarray(means[items], np.float64)


def guess_popular(shared: Ratings, users: Indices, k: int) -> Indices:
    """Return the items shared most often that each user does not share `(n, k)`, best first.

    Ties are broken by the lower item index; −1 fills what is left of a short list.
    """
    counts = np.bincount(shared.item, minlength=shared.n_items)
    popular = np.argsort(-counts, kind="stable").astype(np.int32)
    start, items, _ = shared.by_user
    lists = np.full((len(users), k), -1, np.int32)
    for row, user in zip(lists, users, strict=True):
        others = np.ones(shared.n_items, np.bool_)
        others[items[start[user] : start[user + 1]]] = False
        best = popular[others[popular]][:k]
        row[: len(best)] = best
    return lists
