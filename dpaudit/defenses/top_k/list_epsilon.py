"""The ε of a list by the two laws that it is drawn from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.releases import ListLaw
from dpaudit.defenses.top_k.laws import JointLaw

Scores = NDArray[np.float32]


def sets_epsilon(before: Scores, after: Scores, rate: float, k: int) -> float:
    """The ε of drawing a set of k with probability `∝ exp(rate · Σ scores)`, one score changing."""
    items = np.arange(len(before), dtype=np.int32)
    moved = int(np.flatnonzero(before != after)[0])
    laws = [JointLaw(items, rate * row.astype(np.float64), k) for row in (before, after)]
    return largest_ratio(laws, extreme_lists(before, moved, k))


def extreme_lists(scores: Scores, item: int, k: int) -> NDArray[np.int32]:
    """The two lists on which one item's weight matters most `(2, k)`.

    Every factor of the ratio that the weight enters is the further from 1 the less the others'
    weights add up to: they are the item first, and the heaviest others first without it.
    """
    order = np.argsort(-scores, kind="stable").astype(np.int32)
    others = order[(order != item) & np.isfinite(scores[order])]
    return np.stack((np.append(np.int32(item), others[: k - 1]), others[:k]))


def largest_ratio(laws: Sequence[ListLaw], lists: NDArray[np.int32]) -> float:
    """The largest `|ln P'(list)/P(list)|` of two laws among these lists `(n, k)`."""
    before, after = (law.log_probability(lists) for law in laws)
    possible = ~(np.isneginf(before) & np.isneginf(after))
    return float(abs(after[possible] - before[possible]).max())
