"""Gates on what trainings showed: about the next training, or about the trainings at hand.

All such gates of a run are about one vector: a training exceeds if any of its numbers breaks a
threshold. So the probability that the next training exceeds bounds all gates together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpaudit.bounds.frequentist.next_draw import draws_needed, next_exceeds, share_wealth
from dpaudit.config.schema import Gate, Statement
from dpaudit.core.rounding import percent
from dpaudit.record.metrics import entry
from dpaudit.record.result import Census, Measurement, Outcome

Flags = tuple[bool, ...]
# The most calibrating trainings by default, and how many of 24: the 19 others are the fewest with
# which the next training is bounded by 5 %.
_MOST, _CALIBRATING, _OF = 16, 5, 24
# What gates about the next training say that they are of; it is the default.
NEXT: tuple[Statement | None, ...] = (None, "next-training")


def default_calibrating(trainings: int) -> int:
    """Return how many trainings calibrate the attacks if the config does not say it.

    5 of 24, at least 2 if one is left to judge, and at most 16.
    """
    return min(_MOST, max(trainings * _CALIBRATING // _OF, min(2, trainings - 1)))


def trainings_for(judged: int) -> int:
    """Return the least number of trainings of which so many are judged by default."""
    return next(
        trainings
        for trainings in range(judged, judged + _MOST + 1)
        if trainings - default_calibrating(trainings) >= judged
    )


def threshold(gate: Gate) -> float:
    """Return the threshold of a gate on numbers of trainings, which is never a claim."""
    limit = gate.max if gate.min is None else gate.min
    if limit is None or limit == "claim":
        raise TypeError("a gate on numbers of trainings has a number as its threshold")
    return limit


def breaks(gate: Gate, numbers: Sequence[float]) -> Flags:
    """Return which numbers break a gate's threshold."""
    limit, falls = threshold(gate), gate.min is not None
    return tuple(number < limit if falls else number > limit for number in numbers)


def may_break(gate: Gate, measurement: Measurement, census: Census) -> Flags:
    """Return in which trainings the number, or that of the reversed attack, may break a gate."""
    mirror = entry(measurement.metric).mirror
    flags = breaks(gate, census.worst)
    if gate.min is not None or mirror is None:
        return flags
    reverse = breaks(gate, [mirror - value for value in census.values])
    return tuple(one or other for one, other in zip(flags, reverse, strict=True))


@dataclass(frozen=True)
class NextTraining:
    """What the judged trainings of a run say about the next one.

    Attributes:
        trainings: the number of judged trainings.
        exceeding: in how many of them some gate's threshold may be broken.
        gates: the number of gates about the next training.
        numbers: how many numbers these judge.
        alpha: the error probability of all of them together.
    """

    trainings: int
    exceeding: int
    gates: int
    numbers: int
    alpha: float

    @classmethod
    def of(
        cls, picked: Sequence[tuple[Gate, Sequence[Measurement]]], alpha: float
    ) -> NextTraining | None:
        """Return it for the gates of a run; None without such gates.

        Args:
            picked: the gates, each with what it picks.
            alpha: the error probability of all gates about the next training together.
        """
        flags = [
            may_break(gate, measurement, measurement.census)
            for gate, measurements in picked
            for measurement in measurements
            if measurement.census and gate.of in NEXT
        ]
        if not flags:
            return None
        # Trainings of models with fewer of them are the first ones of the others.
        length = min(map(len, flags))
        exceeding = sum(
            any(training) for training in zip(*(f[:length] for f in flags), strict=True)
        )
        gates = sum(
            gate.of in NEXT and any(measurement.census for measurement in measurements)
            for gate, measurements in picked
        )
        return cls(length, exceeding, gates, len(flags), alpha)

    def judge(self, gate: Gate, measurement: Measurement, census: Census) -> tuple[Outcome, str]:
        """Judge whether the next training keeps a gate's threshold.

        - It passes if so few of the judged trainings exceed that the next one does with a small
          probability: counted together for all gates, or for this one at its share of the level.
        - It fails if the share of trainings that exceed is certified to be above the level, or if
          every judged training exceeds by its own interval.
        """
        limit = threshold(gate)
        beyond = "above" if gate.min is None else "below"
        broken = breaks(gate, census.values)
        count = len(broken)
        shown = _shown(census)
        ends = census.lower if gate.min is None else census.upper
        if self.alpha <= 0:
            return "inconclusive", (
                f"{shown} other gates and claims take the whole error probability: remove some of "
                "them, or lower audit.confidence"
            )
        if share_wealth(broken, self.alpha) * self.alpha >= self.numbers:
            return "fail", (
                f"{shown} {sum(broken)} of {count} judged trainings {_are(sum(broken))} {beyond} "
                f"{limit:g}, so more than {percent(self.alpha)} of trainings are"
            )
        known = census.alpha * count * self.numbers <= self.alpha * (1 + 1e-9)
        if known and all(breaks(gate, ends)):
            which = (
                "the judged training is" if count == 1 else f"each of {count} judged trainings is"
            )
            return "fail", f"{shown} by its own interval {which} {beyond} {limit:g}"
        own = sum(may_break(gate, measurement, census))
        together = next_exceeds(self.trainings, self.exceeding)
        alone = next_exceeds(count, own)
        risk = min(together, alone * self.gates)
        said = f"{own or 'none'} of {count} judged trainings {_are(own)} {beyond} {limit:g}"
        if count == 1:
            said = f"the judged training is {'' if own else 'not '}{beyond} {limit:g}"
        if risk <= self.alpha * (1 + 1e-9):
            return "pass", (
                f"{shown} {said}; the next one is with a probability of at most {percent(risk, 2)}"
            )
        most = max(own, self.exceeding)
        needed = draws_needed(most, self.alpha)
        of_which = f", of which {most} or fewer exceed a gate's limit" if most else ""
        return "inconclusive", (
            f"{shown} {said}, too few to say it of the next one: it takes {needed} judged "
            f"trainings{of_which}: set membership.trainings = {trainings_for(needed)}"
        )


def judge_at_hand(gate: Gate, census: Census, level: float) -> tuple[Outcome, str]:
    """Judge whether every judged training keeps a gate's threshold on all its data.

    Args:
        gate: the gate.
        census: what the trainings showed.
        level: the error probability that the run leaves to all intervals of the census together.
    """
    limit = threshold(gate)
    low, high = min(census.lower), max(census.upper)
    shown = f"{_shown(census)} on all data of each training within {low:.4g} to {high:.4g}"
    if census.alpha * len(census.values) > level * (1 + 1e-9):
        return "inconclusive", (
            f"{shown}: its intervals hold by themselves: run a config that has this gate, so that "
            "they hold together"
        )
    ends = (census.lower, census.upper) if gate.min is None else (census.upper, census.lower)
    if any(breaks(gate, ends[0])):
        return "fail", f"{shown}: not within {limit:g} in {sum(breaks(gate, ends[0]))}"
    if not any(breaks(gate, ends[1])):
        return "pass", f"{shown}: within {limit:g}"
    return "inconclusive", f"{shown}: straddles {limit:g}: use more targets, or fewer trainings"


def _shown(census: Census) -> str:
    """Return the mean over the judged trainings with its range, in words."""
    values = census.values
    mean = sum(values) / len(values)
    if len(values) == 1:
        return f"{mean:.4g} [{census.lower[0]:.4g}, {census.upper[0]:.4g}] in one training:"
    return f"{mean:.4g} ({min(values):.4g} to {max(values):.4g} in {len(values)} trainings):"


def _are(count: int) -> str:
    return "is" if count < 2 else "are"
