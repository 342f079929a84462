"""What records are made of: numbers with limits, controls, and censuses of trainings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dpaudit.core.estimate import Estimate, Number, Probability

Count = Annotated[int, Field(ge=0)]
Size = Annotated[Number, Field(ge=0)]
Positive = Annotated[Number, Field(gt=0)]
Noise = Literal["Gaussian", "Laplace", "randomised response"]
# The law of a planted trace: of all leaks that make as many guesses right the hardest to certify.
TRACE: Noise = "randomised response"
# How often a leak is planted, and how many of these runs may miss it: of a game that finds less
# than 78 % of them, 19 of 20 are found at most one time in twenty (Clopper & Pearson 1934).
SEEDS, MISSED = 20, 1


class Record(BaseModel):
    """A part of a record: frozen, without unknown keys, and infinite numbers are words."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Control(Record):
    """A positive control: the result of a game on a mutant of the mechanism that breaks the claim.

    Attributes:
        mutant: how the mutant was made, in words.
        factor: by how much the mutant breaks the claim: its noise is scaled to `factor` times the
            claimed ε, or a violation of that size is planted. A pair on which the privacy loss
            stays below the claim shows less.
        epsilon: the true ε of the mutant at `delta`, if the privacy loss on the pair reaches it.
        certified: the lower bound on ε that the same game, pair and score certify for the mutant
            dependably: in all but one of its `runs`; of one run, at the level that such a power
            takes (`dpaudit.auditor.games.Level.dependable`).
        found: whether `certified` exceeds the claimed ε.
        noise: the law of the noise that is planted in place of the mechanism's answers; None if the
            mutant is the mechanism with less noise, or marks its outputs.
        delta: the δ of a planted leak.
        hits: in how many runs more than the claim is certified.
        runs: the number of runs, each with noise of its own; fewer if more than one has missed.
    """

    mutant: str
    factor: Size
    epsilon: Size
    certified: Number
    found: bool
    noise: Noise | None = None
    delta: Probability = 0.0
    hits: Count = 0
    runs: Count = 0

    @property
    def condition(self) -> str:
        """What a statement of its factor holds for, and in how many runs; empty for one run."""
        return f" if the noise is {self.noise} ({self.hits} of {self.runs})" if self.noise else ""


class PlantedLeak(Record):
    """What the rule of a gate says of trainings in which a leak of a known size is planted.

    Attributes:
        limit: the largest number that the gate passes.
        leak: the number that an attacker who knows every law reaches on the planted trainings.
        form: whether the leak moves the answers of all targets alike, or those of few far.
        caught: in how many of the runs the rule does not pass.
        runs: how often it was planted, each time with coins and noise of its own; fewer if more
            than one was missed.
        shown: the mean number of the attacks in these runs.
        attacks: the number of attacks of which the strongest were used.
        calibrating: the number of trainings of the attacker's own.
        decides: the least number of calibrating trainings with which the leak is caught by
            forecast; None if no number that was tried is enough.
    """

    limit: Number
    leak: Number
    form: Literal["all", "few"]
    caught: Count
    runs: Count
    shown: Number
    attacks: Count
    calibrating: Count
    decides: Count | None = None

    @property
    def holds(self) -> bool:
        """Whether at most one run in twenty passes.

        Of a rule that passes more than 22 % of such trainings, 19 of 20 are caught at most one time
        in twenty (Clopper & Pearson 1934).
        """
        return self.runs >= SEEDS and self.caught >= self.runs - MISSED

    @property
    def sureness(self) -> tuple[bool, float]:
        """What orders planted leaks by how surely they are caught."""
        return self.holds, self.caught / max(1, self.runs)


class LearningStep(Record):
    """What the attacks find of the same judged trainings with fewer trainings of their own.

    Attributes:
        calibrating: the number of trainings of the attacker's own.
        value: the mean number of the strongest attack.
        gain: how much more that is than with the number before, a mean of paired differences.
        lower: the lower end of an interval of the gain, by itself.
    """

    calibrating: Count
    value: Number
    gain: Number = 0.0
    lower: Number = 0.0


class Census(Record):
    """What each judged training of a model showed, in a random order.

    Attributes:
        values: its number in each training.
        lower: the lower end of an interval for what the attack reaches on all that the training
            had, not on targets alone, for each training.
        upper: the upper ends of these intervals.
        alpha: the error probability of each of these intervals.
        most: its number in each training if every answer that is missing told its coin; empty if
            none is missing.
    """

    values: Annotated[tuple[Number, ...], Field(min_length=1)]
    lower: tuple[Number, ...]
    upper: tuple[Number, ...]
    alpha: Probability
    most: tuple[Number, ...] = ()

    @model_validator(mode="after")
    def _of_one_length(self) -> Self:
        sizes = {len(self.values), len(self.lower), len(self.upper), len(self.most or self.values)}
        if len(sizes) > 1:
            raise ValueError(f"a census has {sorted(sizes)} trainings: give one number for each")
        return self

    @classmethod
    def known(cls, values: Sequence[float]) -> Self:
        """Return the census of numbers that sample nothing within a training."""
        numbers = tuple(values)
        return cls(values=numbers, lower=numbers, upper=numbers, alpha=0.0)

    @classmethod
    def joined(cls, censuses: Sequence[Self]) -> Self:
        """Return the census of the trainings of several, whose intervals have one level."""
        rows = {
            side: tuple(number for census in censuses for number in getattr(census, side))
            for side in ("values", "lower", "upper", "worst")
        }
        most = rows.pop("worst")
        alpha = censuses[0].alpha
        return cls(**rows, alpha=alpha, most=() if most == rows["values"] else most)

    @classmethod
    def largest(cls, censuses: Sequence[Self]) -> Self:
        """Return the largest number of each training, whose interval holds where theirs all do."""
        first = censuses[0]
        if len(censuses) == 1:
            return first
        values, lower, upper, worst = (
            tuple(map(max, *(getattr(census, side) for census in censuses)))
            for side in ("values", "lower", "upper", "worst")
        )
        alpha, most = sum(census.alpha for census in censuses), () if worst == values else worst
        return cls(values=values, lower=lower, upper=upper, alpha=alpha, most=most)

    @property
    def reverse(self) -> Self:
        """The census of the negative numbers; the intervals are the same, and pay once."""
        values, lower, upper = (
            tuple(-number for number in row) for row in (self.values, self.upper, self.lower)
        )
        return type(self)(values=values, lower=lower, upper=upper, alpha=0.0)

    @property
    def level(self) -> float:
        """The error probability of the intervals of all trainings together."""
        return self.alpha * len(self.values)

    @property
    def worst(self) -> tuple[float, ...]:
        """The numbers, with missing answers as leaks."""
        return self.most or self.values

    @property
    def estimate(self) -> Estimate:
        """Their mean with their range; the range leaves out the next one 2 times in J + 1.

        The number of one training has its own interval. Missing answers raise the upper end.
        """
        count = len(self.values)
        value, low, high = sum(self.values) / count, min(self.values), max(self.worst)
        alpha, method = 2 / (count + 1), "range over trainings"
        if count == 1:
            low, high, alpha = self.lower[0], self.upper[0], self.alpha
            method = "one training"
            method += ", of whose data targets are a uniform subset" if alpha else ""
        if self.most:
            method += ", missing answers as leaks"
        return Estimate(
            value=min(max(value, low), high),
            lower=low,
            upper=high,
            confidence=1 - alpha,
            alpha=alpha,
            n=count,
            method=method,
            kind="range",
        )
