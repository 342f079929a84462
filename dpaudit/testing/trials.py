"""The number of trials of a test, chosen by its power."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

# The numbers to choose from.
_SIZES = range(1_000, 1_000_001, 1_000)
# The part of the stated excess over the claim that a forecast has to find: measured power is less.
_MARGIN = 0.7


def sufficient(least: Callable[[int], float], epsilon: float, factor: float) -> int:
    """Return the number of trials that finds a violation of the claim by a factor.

    Args:
        least: maps a number of trials to the smallest ε that a test is forecast to find.
        epsilon: the claimed ε.
        factor: the violation, as a multiple of the claim.

    Returns:
        A number from 1 000 to 1 000 000; the latter even if it does not suffice.
    """
    wanted = epsilon * (1 + _MARGIN * (factor - 1))
    place = bisect_left(_SIZES, True, key=lambda size: least(size) <= wanted)
    return _SIZES[min(place, len(_SIZES) - 1)]
