"""Exact ε of ranked lists in closed form, to compare with certified bounds."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def first_of_two(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """Return the ε of revealing which of two predictions with Laplace noise is larger.

    The difference of two Laplace draws of scale b exceeds d·b with probability

        p(d) = e^{−d} (1/2 + d/4)   for d ≥ 0,   1 − p(−d) below,

    and ε is the larger of |ln p(d')/p(d)| and |ln (1 − p(d'))/(1 − p(d))|.

    Args:
        before: the two exact predictions on data set D.
        after: the same on data set D'.
        scale: the Laplace scale b of each noise.
    """

    def second_wins(predictions: NDArray[np.float64]) -> tuple[float, float]:
        """Return the probability that the second is shown, and that the first is."""
        d = float(predictions[0] - predictions[1]) / scale
        tail = math.exp(-abs(d)) * (0.5 + abs(d) / 4)
        return (tail, 1 - tail) if d >= 0 else (1 - tail, tail)

    pairs = zip(second_wins(before), second_wins(after), strict=True)
    return max(abs(math.log(q / p)) for p, q in pairs)


def common_shift(before: NDArray[np.float64], after: NDArray[np.float64], scale: float) -> float:
    """Return 0: a shift that all predictions share changes no ranked list.

    Raises:
        ValueError: the predictions do not all shift by the same amount.
    """
    if np.ptp(after - before) > 1e-5 * scale:
        raise ValueError("the predictions have no common shift: the list has no closed form here")
    return 0.0
