"""What a pass takes: leaks of a known size, planted, that the gate's own rule does not pass.

A gate that passes because attacks find little is no evidence unless the same rule catches a leak of
a stated size, planted in trainings of the same model (`planting`).
"""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Protocol

from dpaudit.auditor.gate import Ruling, spelling_of
from dpaudit.config.gate import Gate
from dpaudit.record.result import Measurement

# The fewest trainings that show how much a target's answer varies between them.
FEWEST = 3
# The numbers of calibrating trainings that are tried to find one that decides.
MORE = (3, 5, 9, 16, 23, 40)
# The limit on a true-positive rate from which on odds are counted.
_SMALL = 0.25
# The factor of planted leaks if a gate names none.
_FACTOR = 2.0
# The largest number of calibrating trainings that a learning curve is continued to.
_MOST = 64


def chance(metric: str, at: float | None) -> float:
    """Return what guessing reaches of a number."""
    if at is not None:
        return at
    return 0.5 if metric == "attack.auc" else 0.0


def planted_size(metric: str, at: float | None, limit: float, factor: float) -> float:
    """Return the size of the leak that a pass must not hide.

    It has `factor` times the odds above chance, and of a limit below 1/4 on a true-positive rate it
    is `factor` times the limit, up to 1/2, where that is more.

    Args:
        metric: the metric.
        at: the false-positive rate, if it has one.
        limit: the largest number that passes.
        factor: the factor.
    """
    least = chance(metric, at)
    times = min(0.5, factor * limit) if at is not None and limit < _SMALL else least
    odds = factor * (limit - least) / (1 - limit) if limit < 1 else math.inf
    share = 1.0 if math.isinf(odds) else max(0.0, odds / (1 + odds))
    return max(times, least + (1 - least) * share)


class Measured(Protocol):
    """What names a number."""

    @property
    def metric(self) -> str:
        """The metric."""

    @property
    def at(self) -> float | None:
        """Its false-positive rate, if it has one."""


def leak_of(gate: Gate, number: Measured) -> float:
    """Return the size of the leak of a number that a gate must not pass."""
    return planted_size(number.metric, number.at, gate.threshold, gate.detectable or _FACTOR)


def controlled(gate: Gate, measurement: Measurement, ruling: Ruling) -> Ruling:
    """Return what is left of a pass, given what the same rule says of planted leaks.

    Args:
        gate: the gate.
        measurement: the number that passes it.
        ruling: the pass by the gate's own rule.
    """
    size = leak_of(gate, measurement)
    planted = [
        one for one in measurement.planted if one.limit == gate.max and math.isclose(one.leak, size)
    ]
    most = _most(gate, measurement)
    found, leak = (
        _amount(gate, measurement, measurement.estimate.value),
        _amount(gate, measurement, size),
    )
    if size <= chance(measurement.metric, measurement.at):
        return Ruling(
            "inconclusive",
            f"{found} found, and the limit is no more than a guess finds, so that no leak can be "
            "planted",
            "raise max above what a guess finds",
        )
    if not planted:
        return Ruling(
            "inconclusive",
            f"{found} found, but it was not tried whether a leak of {leak}, planted, is caught",
            "run a config that has this gate, which trains nothing anew",
        )
    least = min(planted, key=attrgetter("sureness"))
    if least.holds and not (more := _learning(gate, measurement, most)):
        trainings = "no training" if gate.attacker else f"{least.calibrating} trainings"
        attacks = "attack" if least.attacks == 1 else "attacks"
        strength = (
            f"Attackers tried ({least.attacks} {attacks}, {trainings} of their own) find at most "
            f"{_amount(gate, measurement, most)}; a leak of {leak}, planted, was caught in "
            f"{least.caught} of {least.runs}. A stronger attacker may find more."
        )
        return ruling._replace(reason=f"{ruling.reason}. {strength}", strength=strength)
    calibrating = least.decides
    if least.holds:
        strength, calibrating = f"{found} found, but {more}", 2 * least.calibrating
    elif least.runs:
        strength = (
            f"{found} found, but a planted leak of {leak} would have passed too (they find "
            f"{_amount(gate, measurement, least.shown)}): too weak to tell"
        )
    else:
        strength = (
            f"{found} found, but so few trainings do not show how much answers vary, so that no "
            "leak can be planted: too weak to tell"
        )
    remedy = _deciding(gate, measurement, calibrating)
    return Ruling("inconclusive", strength, remedy, strength)


def _most(gate: Gate, measurement: Measurement) -> float:
    """Return the largest number that the rule of a gate has passed."""
    census = measurement.census
    if census is None or gate.of == "average":
        return measurement.estimate.upper
    return max(census.upper if gate.of == "this-model" else census.worst)


def _amount(gate: Gate, measurement: Measurement, value: float) -> str:
    amount = spelling_of(measurement, gate.threshold).value(value) if value < 1 else "all"
    if measurement.metric == "attack.auc":
        return f"{amount} comparisons"
    return amount if measurement.metric == "attack.tpr" else f"{amount} beyond false alarms"


def _deciding(gate: Gate, measurement: Measurement, calibrating: int | None) -> str:
    """Return the numbers of trainings of which so many calibrate."""
    if calibrating is None:
        return (
            f"use more targets or a larger limit, as no number of calibrating trainings that was "
            f"tried, up to {MORE[-1]}, catches it by forecast"
        )
    if gate.of == "this-model":
        return f"set membership.trainings = {calibrating + 1}, which decides it by forecast"
    judged = len(measurement.census.values) if measurement.census else 1
    return (
        f"set membership.trainings = {judged + calibrating} with membership.calibrating = "
        f"{calibrating}, which decides it by forecast"
    )


def _learning(gate: Gate, measurement: Measurement, most: float) -> str:
    """Return that more calibrating trainings may exceed a limit; empty if they do not.

    The gain of the last step is certain, and as much for each further doubling exceeds the limit.
    A curve flattens in general, so that such a continuation is too high rather than too low; that
    it stays below the limit proves nothing by itself.
    """
    if len(measurement.learning) < 2:
        return ""
    before, last = measurement.learning[-2:]
    pace = last.gain / math.log2(last.calibrating / before.calibrating)
    reach = most + pace * math.log2(max(1.0, _MOST / last.calibrating))
    if last.lower <= 0 or not isinstance(gate.max, float | int) or reach <= gate.max:
        return ""
    return (
        f"attackers with {last.calibrating} trainings of their own find "
        f"{_amount(gate, measurement, last.gain)} more than with {before.calibrating}, and at this "
        "pace with more of them exceed the limit"
    )
