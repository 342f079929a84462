"""The number of trials of a test, chosen by the cost of a call and the power that is wanted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dpaudit.audits.mechanism.calls import Calls

# The numbers to choose from. More than 20 000 are chosen for a stated power only: learning a score
# would take longer than cheap calls.
_SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)
_LARGER = (50_000, 100_000, 200_000, 500_000, 1_000_000)
# Seconds that the calls of the certificate should take at most.
_SECONDS = 10.0
# Calls are timed until they take this many seconds, or there are this many.
_TIMED, _MOST = 0.1, 64
# The part of the stated excess over the claim that a forecast has to find: measured power is less.
_MARGIN = 0.8


def affordable(calls: Calls, pair: tuple[Any, Any]) -> int:
    """Time some calls, and return the number of trials whose calls take about ten seconds.

    Args:
        calls: makes the calls, which use streams of their own.
        pair: the data sets D and D'.

    Returns:
        A number from 1 000 to 20 000.
    """
    calls.run(pair, "cost", 1)  # compiles and imports
    count = 1
    while (seconds := _timed(calls, pair, count)) < _TIMED and count < _MOST:
        count *= 2
    cost = seconds / count
    return max((size for size in _SIZES if size * cost <= _SECONDS), default=_SIZES[0])


def _timed(calls: Calls, pair: tuple[Any, Any], count: int) -> float:
    clock = time.perf_counter()
    calls.run(pair, "cost", count)
    return time.perf_counter() - clock


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
    for size in (*_SIZES, *_LARGER):
        if least(size) <= wanted:
            return size
    return _LARGER[-1]
