"""What attackers find, as natural frequencies beside a guess and a limit."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from dpaudit.core.frequency import Spelling, base_of, counted, false_alarms, out_of
from dpaudit.record.result import AuditResult, Measurement

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
        estimate = self.measurement.estimate
        return Spelling(self.base).between(estimate.lower, estimate.upper)

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the model, the attacker, what is found, its range, a guess and the limit."""
        found, guess, limit = self.counts
        return self.measurement.model, self.attacker, found, self.between, guess, limit

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
        limit = [] if self.limit is None else [f"the limit is {most}"]
        if self.below:
            return "; ".join([f"{found} {self.clause}, fewer than by a guess, {guess}", *limit])
        return f"{found} {self.clause}; {', '.join([*limit, f'a guess finds {guess}'])}"

    @property
    def several(self) -> bool:
        """Whether its ends are the range of several trainings, and no interval."""
        return self.measurement.estimate.kind == "range" and self.measurement.estimate.n > 1

    @property
    def detail(self) -> str:
        """Return the false alarms and the range, as a sentence."""
        trainings = self.measurement.estimate.n
        of = f"range of {trainings:,} judged trainings" if self.several else "interval"
        alarms = "" if self.alarms is None else f"It makes {false_alarms(self.alarms)}; "
        return f"{alarms}{'the' if alarms else 'The'} {of} is {self.between}."


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
