"""The round at which an e-process falsifies a claim."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.frequentist.sequential import EProcess

Floats = NDArray[np.float64]


def rounds_to_falsify(
    absent: Floats, present: Floats, *, epsilon: float, delta: float = 0.0, alpha: float = 0.05
) -> int | None:
    """Return the first round at which the wealth of `EProcess` reaches 1/α, or None."""
    process = EProcess(epsilon, delta)
    while process.rounds < len(absent):
        start = process.rounds
        end = 2 * start + 16
        path = process.update(absent[start:end], present[start:end])
        if (path >= -math.log(alpha)).any():
            return start + int((path >= -math.log(alpha)).argmax()) + 1
    return None
