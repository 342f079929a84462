"""Shares as natural frequencies, which readers without statistics understand: `60 of 100`."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpaudit.core.estimate import Estimate

_BASES = (100, 1_000, 10_000, 100_000, 1_000_000)
_ROUNDING = 1e-9
# By how much a guess may be rounded, relative to itself; a limit may not.
_GUESSED = 0.02


@dataclass(frozen=True)
class Spelling:
    """How a number is written beside its interval and its limit.

    Attributes:
        base: of how many shares are counted; None for what is no share.
    """

    base: int | None

    def value(self, number: float) -> str:
        """Return a number, such as `60 of 100` or `0.603`."""
        return f"{number:.4g}" if self.base is None else out_of(max(0.0, number), self.base)

    def limit(self, number: float) -> str:
        """Return a limit beside such a number: `45` or `0.45`."""
        return f"{number:g}" if self.base is None else counted(number, self.base)

    def between(self, low: float, high: float) -> str:
        """Return the ends of a range or interval, such as `52 to 64`, rounded outwards."""
        if self.base is None:
            return f"{low:.4g} to {high:.4g}"
        least = math.floor(max(0.0, low) * self.base + _ROUNDING)
        most = math.ceil(min(1.0, max(0.0, high)) * self.base - _ROUNDING)
        return f"{least:,} to {most:,}"

    def interval(self, estimate: Estimate) -> str:
        """Return a number with its range or interval: `52 of 100 (38 to 61 in 19 trainings)`."""
        several = estimate.kind == "range" and estimate.n > 1
        trainings = f" in {estimate.n:,} trainings" if several else ""
        ends = self.between(estimate.lower, estimate.upper)
        return f"{self.value(estimate.value)} ({ends}{trainings})"


def shares(estimate: Estimate) -> str:
    """Return a share with its range or interval, counted of as few as tell it from none."""
    base = next((base for base in _BASES if estimate.value * base >= 1), _BASES[0])
    return Spelling(base).interval(estimate)


def base_of(value: float, guess: float, limit: float | None = None) -> int:
    """Return the least of 100, 1,000, … in which these shares can be told as whole numbers.

    The limit is a whole number, and the guess about one. A value that differs from the limit has
    another number.

    Args:
        value: a share.
        guess: the share of a guess.
        limit: the largest share allowed.
    """
    for base in _BASES:
        exact = limit is None or abs(limit * base - round(limit * base)) <= _ROUNDING * base
        near = abs(guess * base - round(guess * base)) <= _GUESSED * guess * base
        apart = limit in (None, value) or round(value * base) != round((limit or 0) * base)
        if exact and near and apart:
            return base
    return _BASES[-1]


def counted(share: float, base: int) -> str:
    """Return how many of the base a share is; none only if it is 0, all only if it is 1."""
    count = round(share * base)
    if not count and share > 0:
        return "under 1"
    return f"{min(count, base - 1) if share < 1 else count:,}"


def out_of(share: float, base: int) -> str:
    """Return a share as a frequency, e.g. `60 of 100`."""
    return f"{counted(share, base)} of {base:,}"


def false_alarms(rate: float) -> str:
    """Return a rate of false alarms, e.g. `1 false alarm in 100`; `no false alarm` for 0."""
    if rate <= 0:
        return "no false alarm"
    base = base_of(rate, rate, rate)
    count = round(rate * base)
    return f"{count:,} false alarm{'' if count == 1 else 's'} in {base:,}"
