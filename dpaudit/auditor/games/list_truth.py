"""The ε of a list by its law, where it is known: the truth beside a certificate."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.estimate import Estimate
from dpaudit.defenses.base import EntryPair, ListDefense

Scores = NDArray[np.float32]
# The grid of an integral in Laplace scales: how far beyond the predictions, how long, how fine.
_REACH, _LONGEST, _NODES = 40.0, 500.0, 20.0


def entry_truth(defense: ListDefense, pair: EntryPair) -> Estimate | None:
    """The ε of the list by its law, as it stands beside a certificate; None if it is not known."""
    epsilon = defense.pair_epsilon(pair)
    return None if epsilon is None else Estimate.exact(epsilon, "law of the list")


def place_epsilon(
    before: Scores, after: Scores, item: int, k: int, scale: float
) -> Estimate | None:
    """The ε of one item's place in a list of the k best predictions with Laplace noise.

    No other prediction differs between the worlds. Given the item's noised prediction x, the others
    are above x independently; the law of their number is convolved for every x of a grid and
    integrated (trapezoids, 1e-3 of the ε). The released values' public grid is left out.

    Args:
        before: the exact predictions in world D, `−inf` where none is shown.
        after: the same in world D'.
        item: the item whose place is seen.
        k: the length of the list.
        scale: the Laplace scale b.

    Returns:
        None without noise, and where the predictions are spread over so many b that the grid would
        be too long.
    """
    others = np.delete(before, item)
    others = others[np.isfinite(others)].astype(np.float64)
    ends = [*others, float(before[item]), float(after[item])]
    low, high = min(ends) - _REACH * scale, max(ends) + _REACH * scale
    if scale == 0 or (high - low) / scale > _LONGEST:
        return None
    x = np.linspace(low, high, int((high - low) / scale * _NODES) + 2)
    # The law of the number of others above x, from 0 to k and more, `(k + 1, X)`.
    number = np.zeros((k + 1, len(x)))
    number[0] = 1.0
    for other in others:
        above = laplace_tail((x - other) / scale)
        up = number * above
        number -= up
        number[1:] += up[:-1]
        number[-1] += up[-1]

    def places(score: float) -> NDArray[np.float64]:
        density = np.exp(-np.abs(x - score) / scale) / (2 * scale)
        return np.trapezoid(number * density, x, axis=1)

    absent, present = places(float(before[item])), places(float(after[item]))
    ratio = np.abs(np.log(present) - np.log(absent))
    return Estimate.exact(float(ratio.max()), "law of the item's place, integrated")


def laplace_tail(distance: NDArray[np.floating]) -> NDArray[np.float64]:
    """The probability that Laplace noise of scale 1 exceeds these."""
    half = np.exp(-np.abs(distance)) / 2
    return np.where(distance > 0, half, 1 - half)
