"""The exact ε of a list from its laws under D and D'."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.releases import ListLaw

Scores = NDArray[np.float32]


def extreme_lists(scores: Scores, item: int, k: int) -> NDArray[np.int32]:
    """Return the two lists on which a change of one item's weight matters most `(2, k)`.

    Each factor of the probability ratio that contains the weight is further from 1 the smaller the
    sum of the other weights. So the lists are the item followed by the heaviest others, and the
    heaviest others without the item.
    """
    order = np.argsort(-scores, kind="stable").astype(np.int32)
    others = order[(order != item) & np.isfinite(scores[order])]
    return np.stack((np.append(np.int32(item), others[: k - 1]), others[:k]))


def largest_ratio(laws: Sequence[ListLaw], lists: NDArray[np.int32]) -> float:
    """Return the largest `|ln P'(list)/P(list)|` of two laws over these lists `(n, k)`."""
    before, after = (law.log_probability(lists) for law in laws)
    possible = ~(np.isneginf(before) & np.isneginf(after))
    return float(abs(after[possible] - before[possible]).max())
