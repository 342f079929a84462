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
