"""The true ε of a recommendation list, where its distribution is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.estimate import Estimate
from dpaudit.defenses.base import EntryPair, ListDefense

Scores = NDArray[np.float32]
# The integration grid, in units of the Laplace scale: how far it extends beyond the predictions,
# its greatest length, and the number of nodes per unit.
_REACH, _LONGEST, _NODES = 40.0, 500.0, 20.0


def entry_truth(defense: ListDefense, pair: EntryPair) -> Estimate | None:
    """Return the exact ε of the list on this pair; None if it is not known."""
    epsilon = defense.pair_epsilon(pair)
    return None if epsilon is None else Estimate.exact(epsilon, "law of the list")


def place_epsilon(
    before: Scores, after: Scores, item: int, k: int, scale: float
) -> Estimate | None:
    """Compute the ε of one item's place in a list of the k best predictions with Laplace noise.

    No other prediction differs between D and D'. Given the item's noisy prediction x, the others
    exceed x independently. The distribution of their number is computed by convolution for every x
    of a grid and integrated by the trapezoidal rule (relative error 1e-3 of the ε). The rounding of
    released values to a public grid is ignored.

    Args:
        before: the exact predictions on D, `−inf` where none is shown.
        after: the exact predictions on D'.
        item: the item whose place is observed.
        k: the length of the list.
        scale: the Laplace scale b.

    Returns:
        The ε; None if there is no noise, or if the predictions spread over so many b that the grid
        would be too long.
    """
    others = np.delete(before, item)
    others = others[np.isfinite(others)].astype(np.float64)
    ends = [*others, float(before[item]), float(after[item])]
    low, high = min(ends) - _REACH * scale, max(ends) + _REACH * scale
    if scale == 0 or (high - low) / scale > _LONGEST:
        return None
    x = np.linspace(low, high, int((high - low) / scale * _NODES) + 2)
    # The distribution of the number of others above x, 0 to k − 1 and "k or more", `(k + 1, X)`.
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
    """Return the probability that Laplace noise of scale 1 exceeds each distance."""
    half = np.exp(-np.abs(distance)) / 2
    return np.where(distance > 0, half, 1 - half)
