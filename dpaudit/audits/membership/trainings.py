"""Gates on what trainings showed: about the next training, or about the trainings at hand.

All gates of a run about the next training are about one vector: a training exceeds if any of its
numbers breaks a threshold. With J judged trainings let k be the largest number with (k + 1)/(J + 1)
at most the level. Gates that more than k + 1 trainings break by themselves are set aside, as they
cannot pass; the others pass if at most k trainings break any of them. Then the probability that
some gate passes and the next training breaks it is at most the level, whatever the law:

Given all J + 1 trainings without their order, each is the next one with the same probability. Of a
gate that at most k + 1 of them break, at most k + 1 of the judged ones do, so it is not set aside,
whichever is next. Of any other gate more than k + 1 break, so at least k + 1 of the judged ones do,
and where it is not set aside nothing passes. So where anything passes the gates that count are the
same, whichever is next; at most k of the judged trainings break any of these, so at most k + 1 of
all do if the next one does, and it is one of these with a probability of (k + 1)/(J + 1) at most.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from typing import Any, Self

import numpy as np

from dpaudit.auditor.gate import Needed, Ruling, Trainings, compare_interval, spelling_of
from dpaudit.auditor.trainings import joint_mean
from dpaudit.audits.membership.calibration import coins_needed
from dpaudit.audits.membership.config import MOST_CALIBRATING, default_calibrating
from dpaudit.audits.membership.controls import controlled
from dpaudit.bounds.frequentist.intervals import draws_needed, next_exceeds, share_wealth
from dpaudit.config.gate import NEXT, Gate, picked_by, rated
from dpaudit.core.frequency import Spelling
from dpaudit.core.rounding import percent
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, Family, Measurement, Outcome
from dpaudit.record.values import Census

Flags = tuple[bool, ...]
# The multiples of the judged trainings that are tried.
_TIMES = (2, 4, 8, 16, 32, 64)
# The largest multiple of the targets that is named.
_MOST_TARGETS = 100


def trainings_for(judged: int, calibrating: int | None = None) -> int:
    """Return the least number of trainings of which so many are judged.

    Args:
        judged: how many are to be judged.
        calibrating: how many calibrate; None for the default.
    """
    if calibrating is not None:
        return judged + calibrating
    return next(
        trainings
        for trainings in range(judged, judged + MOST_CALIBRATING + 1)
        if trainings - default_calibrating(trainings) >= judged
    )


def breaks(gate: Gate, numbers: Sequence[float]) -> Flags:
    """Return which numbers break a gate's threshold."""
    limit, falls = gate.threshold, gate.min is not None
    return tuple(number < limit if falls else number > limit for number in numbers)


def may_break(gate: Gate, measurement: Measurement, census: Census) -> Flags:
    """Return in which trainings the number, or that of the reversed attack, may break a gate."""
    mirror = entry(measurement.metric).mirror
    flags = breaks(gate, census.worst)
    if gate.min is not None or mirror is None:
        return flags
    reverse = breaks(gate, [mirror - value for value in census.values])
    return tuple(one or other for one, other in zip(flags, reverse, strict=True))


def certified(gate: Gate, census: Census, alpha: float, numbers: int) -> bool:
    """Return whether more than a share alpha of trainings surely break a gate's threshold.

    The wealth takes half of the level, and may be looked at after every training. The other half is
    for the own intervals by which trainings break it.

    Args:
        gate: the gate.
        census: the judged trainings, in their order.
        alpha: the level of all gates about the next training, which is the share too.
        numbers: how many numbers these gates judge, each as often as gates do.
    """
    return share_wealth(_surely(gate, census), alpha) * alpha >= 2 * numbers


def passes_alone(gate: Gate, measurement: Measurement, alpha: float) -> bool:
    """Return whether a number passes a gate by the gate's own rule, if it were the only one.

    Args:
        gate: the gate.
        measurement: the number, which has a census.
        alpha: the level of gates about the next training.
    """
    census = measurement.census
    if census is None:
        raise TypeError("a number of trainings has a census")
    if gate.of == "average":
        return compare_interval(gate, measurement, gate.threshold, "").outcome == "pass"
    trainings = JudgedTrainings.of([(gate, [measurement])], alpha, judged=len(census.values))
    return trainings.judge(gate, measurement, census).outcome == "pass"


def least_certified(alpha: float, numbers: int) -> int:
    """Return the least number of judged trainings with which a leak in each fails by `certified`.

    Args:
        alpha: as there.
        numbers: as there.
    """
    sizes = itertools.count(1)
    return next(n for n in sizes if share_wealth([True] * n, alpha) * alpha >= 2 * numbers)


def _surely(gate: Gate, census: Census) -> Flags:
    """Return which trainings break a gate's threshold by their own intervals."""
    return breaks(gate, census.lower if gate.min is None else census.upper)


@dataclass(frozen=True)
class JudgedTrainings(Trainings):
    """The judged trainings of a run: what they say about the next one, and about themselves.

    Attributes:
        trainings: the number of judged trainings.
        exceeding: in how many of them the threshold of a gate that is not set aside may be broken.
        of_gates: in how many of them each gate's threshold may be.
        of_numbers: the same for each number that these gates judge, each as often as gates do.
        alpha: the error probability of all gates about the next training together.
        spent: that of the own intervals of these numbers in all trainings together.
        beforehand: whether the thresholds were set before the trainings were seen.
        hold: whether the intervals of gates about the trainings at hand hold together with all
            other intervals that decide something.
        judged: how many trainings of each model are judged at most.
        calibrating: how many calibrate, if the config says it.
    """

    trainings: int
    exceeding: int
    of_gates: Sequence[tuple[Gate, int]]
    of_numbers: Sequence[int]
    alpha: float
    spent: float = 0.0
    beforehand: bool = True
    hold: bool = True
    judged: int = 0
    calibrating: int | None = None

    def total(self, times: float) -> int:
        """Return the number of trainings of which so many times the judged ones are judged."""
        return trainings_for(math.ceil(times * self.judged), self.calibrating)

    @classmethod
    def of(
        cls, picked: Sequence[tuple[Gate, Sequence[Measurement]]], alpha: float, **others: Any
    ) -> Self:
        """Return it for the gates of a run.

        Args:
            picked: the gates, each with what it picks.
            alpha: as above.
            others: `beforehand`, `hold`, `judged` and `calibrating`, as above.
        """
        flags = [
            (gate, [may_break(gate, one, one.census) for one in numbers if one.census])
            for gate, numbers in picked
            if gate.of in NEXT
        ]
        flags = [(gate, rows) for gate, rows in flags if rows]
        every = [row for _, rows in flags for row in rows]
        # Trainings of models with fewer of them are the first ones of the others.
        length = min(map(len, every), default=0)

        def exceeding(rows: Sequence[Flags]) -> int:
            return sum(map(any, zip(*(row[:length] for row in rows), strict=True)))

        of_gates = [(gate, exceeding(rows)) for gate, rows in flags]
        counting = [
            row
            for (_, rows), (_, count) in zip(flags, of_gates, strict=True)
            for row in rows
            if count <= _allowed(length, alpha) + 1
        ]
        numbers = [sum(row) for row in every]
        distinct = {one.key: one.census for gate, some in picked if gate.of in NEXT for one in some}
        spent = sum(census.level for census in distinct.values() if census)
        return cls(length, exceeding(counting), of_gates, numbers, alpha, spent, **others)

    def controlled(self, gate: Gate, measurement: Measurement, ruling: Ruling) -> Ruling:
        """Return what is left of a pass, given what the same rule says of planted leaks."""
        return controlled(gate, measurement, ruling)

    def breaking(self, gate: Gate, measurement: Measurement) -> float:
        """Return the share of trainings in which a gate's threshold may be broken."""
        census = measurement.census
        flags = may_break(gate, measurement, census) if census and gate.of != "average" else ()
        return sum(flags) / len(flags) if flags else 0.0

    def needed(
        self, gate: Gate, measurement: Measurement, limit: float | None, family: Family
    ) -> Needed | None:
        """Return how many times the judged trainings would decide a gate; None if not known.

        It is a forecast: what the judged trainings show is repeated, until it decides. Where
        trainings show values around the threshold, or few targets are the reason, no number of
        them decides.
        """
        census = measurement.census
        if not self.judged:
            return None
        if measurement.metric == "epsilon":
            return None if limit is None else _bound(gate, measurement, limit)
        if census is None or gate.of == "this-model":
            return None
        if gate.of in NEXT:
            return self._times(gate, census)
        return _mean(gate, measurement, census, family)

    def _times(self, gate: Gate, census: Census) -> Needed | None:
        """Return how many times the trainings decide a gate about the next one."""
        count, numbers = len(census.values), len(self.of_numbers)
        # Gates pass together: trainings of a model that has fewer of them are the reason.
        if self.alpha <= 0 or self.trainings < count:
            return None
        _, divisor, most = self.risk(gate)
        if most <= self.few(count):
            return Needed(draws_needed(most, self.alpha / divisor) / count, "pass")

        def decides(times: int) -> Outcome | None:
            sure = certified(gate, _repeated(census, times), self.alpha, numbers)
            return "fail" if sure else None

        return _least(decides)

    def judge(self, gate: Gate, measurement: Measurement, census: Census) -> Ruling:
        """Judge whether the next training keeps a gate's threshold in a number, or those at hand.

        - About the next training it passes if so few of the judged ones exceed that the next one
          does with a small probability. It fails if the share of trainings that exceed is certified
          to be above the level, or if every judged training exceeds. For that a training exceeds if
          its own interval lies beyond the threshold, so that few targets alone let none fail.
        - With so few judged trainings that a leak in each does not certify it yet, a failure is
          about these trainings.
        """
        if gate.of == "this-model":
            return self._at_hand(gate, measurement, census)
        spelling = spelling_of(measurement, gate.threshold)
        shown, limit = _shown(census, spelling), spelling.limit(gate.threshold)
        if self.alpha <= 0:
            return Ruling(
                "inconclusive",
                f"{shown} other gates and claims take the whole error probability",
                "remove some of them, or lower audit.confidence",
            )
        beyond = "above" if gate.min is None else "below"
        count, numbers = len(census.values), len(self.of_numbers)
        surely = _surely(gate, census)
        by = ", by its own interval," if census.alpha else ""
        paid = 2 * self.spent <= self.alpha * (1 + 1e-9)
        if paid and certified(gate, census, self.alpha, numbers):
            return Ruling(
                "fail",
                f"{shown} {sum(surely)} of {count} judged trainings {_are(sum(surely))}"
                f"{', by their own intervals,' if by else ''} {beyond} {limit}, so more than "
                f"{percent(self.alpha, 2, ROUND_FLOOR)} of trainings are",
            )
        if paid and all(surely):
            which = "the judged training is" if count == 1 else f"all {count} judged trainings are"
            return Ruling("fail", f"{shown} {which}{by} {beyond} {limit}")
        return self._next(gate, measurement, census, spelling)

    def _next(
        self, gate: Gate, measurement: Measurement, census: Census, spelling: Spelling
    ) -> Ruling:
        """Judge whether the next training keeps a threshold that no certificate breaks."""
        count, shown = len(census.values), _shown(census, spelling)
        may, seen = sum(may_break(gate, measurement, census)), sum(breaks(gate, census.values))
        perhaps = ", or may be by the reverse attack or missing answers" if may > seen else ""
        side = "above" if gate.min is None else "below"
        beyond = f"{side} {spelling.limit(gate.threshold)}{perhaps}"
        tally = f"{may or 'none'} of {count} judged trainings {_are(may)} {beyond}"
        if count == 1:
            tally = f"the judged training is {'' if may else 'not '}{beyond}"
        if self.trainings < count:
            return Ruling(
                "inconclusive",
                f"{shown} {tally}, but gates pass together, and another model has {self.trainings}",
                "audit them apart",
            )
        risk, divisor, most = self.risk(gate)
        if risk <= self.alpha * (1 + 1e-9):
            return Ruling(
                "pass",
                f"{shown} {tally}; the next one is with a probability of at most "
                f"{percent(risk, 2, ROUND_CEILING)}",
            )
        if most > self.few(count):
            other = "" if may == most else f", and {most} exceed the limit of some gate"
            return Ruling(
                "inconclusive",
                f"{shown} {tally}{other}, too many for the next one and too few to certify it",
                "use more targets, whose intervals are narrower, or a larger limit",
            )
        return Ruling(
            "inconclusive",
            f"{shown} {tally}, too few to say it of the next one: it takes "
            f"{draws_needed(most, self.alpha / divisor)} judged trainings"
            f"{f', {most} of which may exceed a limit' if most else ''}",
            "raise membership.trainings",
        )

    def few(self, count: int) -> float:
        """Return how many of so many trainings may exceed where more of them may let gates pass."""
        return max(1.0, 2 * self.alpha * count)

    def risk(self, gate: Gate) -> tuple[float, int, int]:
        """Bound the probability that gates pass and the next training exceeds.

        Thresholds that were chosen with the trainings in view are no event that was fixed
        beforehand; then every number has a share of the level.

        Returns:
            The bound; what divides the level for one count of trainings that exceed; the count.
        """
        if not self.beforehand and len(self.of_numbers) > 1:
            most, numbers = max(self.of_numbers), len(self.of_numbers)
            return numbers * next_exceeds(self.trainings, most), numbers, most
        exceeding = next(count for other, count in self.of_gates if other == gate)
        aside = exceeding > _allowed(self.trainings, self.alpha) + 1
        most = exceeding if aside else self.exceeding
        return next_exceeds(self.trainings, most), 1, most

    def _at_hand(self, gate: Gate, measurement: Measurement, census: Census) -> Ruling:
        """Judge whether every judged training keeps a threshold, with the sampling of targets."""
        limit, mirror = gate.threshold, entry(measurement.metric).mirror
        low, high = min(census.lower), max(census.upper)
        spelling = spelling_of(measurement, limit)
        most, sampled = spelling.limit(limit), spelling.between(low, high)
        shown = f"{_shown(census, spelling)} with the sampling of targets {sampled},"
        if not self.hold:
            return Ruling(
                "inconclusive",
                f"{shown} but these intervals do not hold together with all that is judged",
                "run a config that has these gates",
            )
        falls = gate.min is not None
        surely, beyond = _surely(gate, census), "below" if falls else "above"
        if any(surely):
            return Ruling("fail", f"{shown} {beyond} {most} in {sum(surely)} of {len(surely)}")
        if any(breaks(gate, census.lower if falls else census.upper)):
            times = _targets(census, limit)
            remedy = f"use {f'about {times} times the' if times else 'more'} targets"
            return Ruling("inconclusive", f"{shown} which straddles {most}", remedy)
        if not falls and mirror is not None and any(breaks(gate, [mirror - low])):
            return Ruling(
                "inconclusive",
                f"{shown} but the reverse attack may have {spelling.value(mirror - low)}, above "
                f"{most}",
                "correct the direction of the scores",
            )
        return Ruling("pass", f"{shown} not {beyond} {most}")


def _targets(census: Census, limit: float) -> int | None:
    """Return how many times the targets let no interval straddle a limit; None for too many.

    Widths fall with the root of the number of targets.
    """
    rows = zip(census.values, census.lower, census.upper, strict=True)
    shares = [
        max(value - low, high - value) / max(abs(value - limit), 1e-9)
        for value, low, high in rows
        if low <= limit <= high
    ]
    times = math.ceil(max(shares) ** 2)
    return max(2, times) if times <= _MOST_TARGETS else None


def _allowed(draws: int, alpha: float) -> int:
    """Return k: how many of the judged trainings may exceed where gates pass; −1 for none."""
    return math.floor(alpha * (draws + 1) * (1 + 1e-9)) - 1


def _shown(census: Census, spelling: Spelling) -> str:
    """Return the mean over the judged trainings with its range, or the interval of a single one."""
    # Missing answers have a sentence of their own.
    answered = census.model_copy(update={"most": ()})
    return f"{spelling.interval(answered.estimate)}:"


def _are(count: int) -> str:
    return "is" if count < 2 else "are"


def judged_trainings(result: AuditResult, gates: Sequence[Gate]) -> JudgedTrainings:
    """Return the judged trainings of a run, with the level that is left to the next one.

    The joint intervals that decide a claim or another gate take theirs, as `left_for_next` of
    membership audits plans it. What decides nothing takes none.

    Args:
        result: the record.
        gates: the gates to judge.
    """
    stated = [gate.model_dump(mode="json") for gate in gates] == result.config.get("gate")
    judged = [(gate, picked_by(gate, result.measurements, result.points)) for gate in gates]
    claims = {(point.model, point.epsilon): point.claim for point in result.points}
    deciding: dict[tuple[Any, ...], float] = {}
    for measurement in result.measurements:
        claim = claims[measurement.model, measurement.epsilon]
        if measurement.metric == "epsilon" and claim is not None and measurement.tests(claim):
            deciding[measurement.key] = result.family.alpha
    for gate, measurements in judged:
        for measurement in measurements:
            if gate.of == "this-model" and measurement.census:
                # Trainings that end early have used up the share of all that were planned.
                whole = result.family.alpha * _intervals(measurement, result)
                level = whole if stated else measurement.census.level
                deciding[measurement.key] = level
            elif gate.of == "average" or not measurement.census:
                # Trainings that end early keep what is planned for means, and have none.
                joint = not entry(measurement.metric).derived and (
                    measurement.estimate.kind == "frequentist"
                    or (stated and measurement.census is not None)
                )
                deciding[measurement.key] = result.family.alpha if joint else 0.0
    left = 1 - result.family.confidence - sum(deciding.values())
    # Rounding of shares that add up to the whole.
    table = result.config.get("membership", {})
    counts = (
        len(one.census.values)
        for one in result.measurements
        if one.census and one.statement is None
    )
    return JudgedTrainings.of(
        judged,
        max(left, 0.0),
        beforehand=stated,
        hold=left > -1e-9,
        judged=max(counts, default=0),
        calibrating=table.get("calibrating") if isinstance(table, dict) else None,
    )


def _intervals(measurement: Measurement, result: AuditResult) -> int:
    """Return how many joint intervals a number rests on: a leak on those of all its advantages."""
    if measurement.metric != "leak":
        return 1
    about = measurement.model, measurement.epsilon, measurement.statement, measurement.attacker
    return sum(
        (m.metric, m.attack) == ("attack.advantage", STRONGEST)
        and (m.model, m.epsilon, m.statement, m.attacker) == about
        for m in result.measurements
    )


def _mean(gate: Gate, measurement: Measurement, census: Census, family: Family) -> Needed | None:
    metric, limit = entry(measurement.metric), gate.threshold
    if rated(measurement.metric):
        return None  # their interval has the width of the rating scale, which is not known here
    least = -1.0 if measurement.metric in ("attack.advantage", "leak") else 0.0

    def decides(times: int) -> Outcome | None:
        low = joint_mean(np.array(census.values * times), family, least).lower
        high = joint_mean(np.array(census.worst * times), family, least).upper
        reverse = -math.inf if metric.mirror is None else metric.mirror - low
        broken, kept = low > limit, max(high, reverse) <= limit
        if gate.min is not None:
            broken, kept = high < limit, low >= limit
        return "fail" if broken else "pass" if kept else None

    return _least(decides)


def _bound(gate: Gate, measurement: Measurement, limit: float) -> Needed | None:
    """Return it for the control of a bound on ε, by the law of the leaks that were planted."""
    control = next(iter(measurement.controls), None)
    if control is None or control.noise is None or not gate.detectable:
        return None
    alpha = measurement.estimate.alpha
    coins = coins_needed(limit, gate.detectable, control.noise, control.delta, alpha)
    return None if coins is None else Needed(max(1.0, coins / measurement.estimate.n), "pass")


def _repeated(census: Census, times: int) -> Census:
    names = ("values", "lower", "upper", "most")
    return census.model_copy(update={name: getattr(census, name) * times for name in names})


def _least(decides: Callable[[int], Outcome | None]) -> Needed | None:
    """Return the least of the multiples that decides; None without any."""
    tried = ((times, decides(times)) for times in _TIMES)
    return next((Needed(times, outcome) for times, outcome in tried if outcome), None)
