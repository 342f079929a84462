"""Shares as natural frequencies, which readers without statistics understand: `60 of 100`."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult, Measurement

_BASES = (100, 1_000, 10_000, 100_000, 1_000_000)
_ROUNDING = 1e-9
# By how much a guess may be rounded, relative to itself; a limit may not.
_GUESSED = 0.02
Guess = tuple[str, float]  # what is guessed, and how often that is right
COIN: Guess = ("guess (1 of 2)", 0.5)


@dataclass(frozen=True)
class Frequency:
    """What an attacker finds, beside a guess and a limit.

    Attributes:
        measurement: the measured share.
        attacker: who attacks, in a few words.
        clause: what is found, such as `training interactions are recognised`.
        guess: the share that a guess finds.
        alarms: the rate of false alarms; None if there are none.
        limit: the least share that a gate allows at most; None without such a gate.
    """

    measurement: Measurement
    attacker: str
    clause: str
    guess: float
    alarms: float | None = None
    limit: float | None = None

    @property
    def value(self) -> float:
        """Return the measured share; none of what is less than that, as advantages may be."""
        return max(0.0, self.measurement.estimate.value)

    @property
    def base(self) -> int:
        """Return of how many the share, the guess and the limit are counted."""
        return base_of(self.value, self.guess, self.limit)

    @property
    def over(self) -> bool:
        """Whether the share is above the limit."""
        return self.limit is not None and self.value > self.limit

    @property
    def counts(self) -> tuple[str, str, str]:
        """Return what is found, a guess and the limit, e.g. `60 of 100`, `1`, `45`."""
        base = self.base
        limit = "none" if self.limit is None else counted(self.limit, base)
        return out_of(self.value, base), counted(self.guess, base), limit

    @property
    def between(self) -> str:
        """Return the range or interval of the count, e.g. `10 to 16`, rounded outwards."""
        return _between(self.measurement.estimate, self.base)

    @property
    def what(self) -> str:
        """Return what is counted, e.g. `users are recognised with 1 false alarm in 100`."""
        alarms = "" if self.alarms is None else f" with {false_alarms(self.alarms)}"
        return f"{self.clause}{alarms}"

    @property
    def below(self) -> bool:
        """Whether surely less is found than by a guess, so that the attack is weak or reversed."""
        return self.measurement.estimate.upper < self.guess

    @property
    def sentence(self) -> str:
        """Return `60 of 100 users are recognised; the limit is 45, a guess finds 1`."""
        found, guess, most = self.counts
        limit = "" if self.limit is None else f"the limit is {most}, "
        weak = "fewer than a guess finds, " if self.below else "a guess finds "
        return f"{found} {self.clause}; {limit}{weak}{guess}"

    @property
    def detail(self) -> str:
        """Return the false alarms and the range, as a sentence."""
        estimate = self.measurement.estimate
        several = estimate.kind == "range" and estimate.n > 1
        of = f"range of {estimate.n:,} judged trainings" if several else "interval"
        alarms = "" if self.alarms is None else f"It takes {false_alarms(self.alarms)}; "
        return f"{alarms}{'the' if alarms else 'The'} {of} is {self.between}."


def _between(estimate: Estimate, base: int) -> str:
    low = math.floor(max(0.0, estimate.lower) * base + _ROUNDING)
    high = math.ceil(min(1.0, max(0.0, estimate.upper)) * base - _ROUNDING)
    return f"{low:,} to {high:,}"


def shares(estimate: Estimate) -> str:
    """Return a share with its range or interval, e.g. `52 of 100 (38 to 61 in 19 trainings)`."""
    value = max(0.0, estimate.value)
    base = next((base for base in _BASES if value * base >= 1), _BASES[0])
    several = estimate.kind == "range" and estimate.n > 1
    trainings = f" in {estimate.n:,} trainings" if several else ""
    return f"{out_of(value, base)} ({_between(estimate, base)}{trainings})"


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


def attack_guesses(result: AuditResult) -> list[Guess]:
    """Return how often a uniform guess is the hidden rating that the attacks look for."""
    return [rating_guess(result)] if result.attacks else []


def rating_guess(result: AuditResult) -> Guess:
    """Return a guess among the values of the scale; a purchase is there or not."""
    if result.data is None:
        return COIN
    low, high, step = result.data.scale
    # The scale of a record that somebody wrote may have no end.
    values = round(min((high - low) / step, sys.maxsize)) + 1 if high > low else 2
    return f"guess (1 of {values})", 1 / values
