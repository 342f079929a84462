"""What a gate says of one number by its interval: passed, failed, or open and what decides it."""

from __future__ import annotations

import math
from typing import NamedTuple

from dpaudit.auditor.games.certify import shows
from dpaudit.config.gate import Gate
from dpaudit.core.rounding import at_least
from dpaudit.record.metrics import entry
from dpaudit.record.result import Family, Measurement, Outcome, PointRecord
from dpaudit.record.values import Census, Control
from dpaudit.record.verdicts import above_by_law, remedy, suggests_more


class Ruling(NamedTuple):
    """What a gate says of one number.

    Attributes:
        outcome: its outcome on the number.
        reason: why.
        remedy: what decides it if it is inconclusive; empty otherwise.
    """

    outcome: Outcome
    reason: str
    remedy: str = ""


class Needed(NamedTuple):
    """How many times the judged trainings would decide a gate, and how.

    Attributes:
        times: the multiple.
        outcome: what it would be decided to.
    """

    times: float
    outcome: Outcome


class Trainings:
    """What a kind of audit says of numbers that each of several trainings has (a census).

    This one is for kinds without such numbers.
    """

    def judge(self, gate: Gate, measurement: Measurement, census: Census) -> Ruling | None:
        """Judge trainings one by one; None if the number is judged by its interval."""
        return None

    def breaking(self, gate: Gate, measurement: Measurement) -> float:
        """Return the share of trainings in which a gate's threshold may be broken."""
        return 0.0

    def needed(
        self, gate: Gate, measurement: Measurement, limit: float | None, family: Family
    ) -> Needed | None:
        """Return how many times the trainings decide an inconclusive gate; None if not known."""
        return None

    def total(self, times: float) -> int | None:
        """Return the number of trainings of which so many times the judged ones are judged."""
        return None


def limit_of(gate: Gate, measurement: Measurement, point: PointRecord) -> float | None:
    """Return the limit; None if it is the claim and nothing is claimed about what is measured.

    Args:
        gate: the gate.
        measurement: the number that it judges.
        point: the point of the sweep that the number is of.
    """
    limit = gate.max if gate.min is None else gate.min
    if limit == "claim":
        return point.claim.epsilon if point.claim and measurement.tests(point.claim) else None
    return limit


def compare(gate: Gate, measurement: Measurement, point: PointRecord, kind: str) -> Ruling:
    """Judge a number by its interval, or a bound on ε by what else its game finds.

    Args:
        gate: the gate.
        measurement: the number.
        point: the point of the sweep that it is of.
        kind: the kind of audit, by its name in the registry.
    """
    estimate = measurement.estimate
    if estimate.kind != "frequentist":
        decides = "gate another metric"
        if estimate.kind in ("assumes-law", "range"):
            decides = "run a config that has this gate, so that its interval is joint"
        cannot = f"an estimate of kind {estimate.kind} cannot gate"
        return Ruling("inconclusive", cannot, decides)
    limit = limit_of(gate, measurement, point)
    if limit is None:
        claim = point.claim
        what = "nothing"
        if claim:
            what = f"only {claim.adjacency}, observer {', '.join((claim.observer, *claim.also))}"
        picked = ", or pick in where what it covers" if claim and measurement.unit else ""
        number = f"give a number instead of 'claim'{picked}"
        return Ruling("inconclusive", f"this variant claims {what}", number)
    if gate.judged == "epsilon":
        return _compare_epsilon(gate, measurement, limit, kind)
    return _compare_interval(gate, measurement, limit, kind)


def _compare_interval(gate: Gate, measurement: Measurement, limit: float, kind: str) -> Ruling:
    estimate = measurement.estimate
    low, high = estimate.lower, estimate.upper
    interval = f"{estimate.value:.4g} [{low:.4g}, {high:.4g}]"
    if gate.min is None:
        broken, kept, side, held = low > limit, high <= limit, "above", "does not exceed"
    else:
        broken, kept, side, held = high < limit, low >= limit, "below", "is not below"
    if broken:
        return Ruling("fail", f"{interval} lies {side} {limit:g}")
    metric = entry(gate.metric)
    # What the reverse of the attack has at most.
    reversible = gate.min is None and metric.mirror is not None
    reverse = (metric.mirror or 0.0) - low if reversible else -math.inf
    if kept and reverse <= limit:
        return Ruling("pass", f"{interval} {held} {limit:g}{metric.assumes}")
    if kept:
        return Ruling(
            "inconclusive",
            f"{interval}: the reverse attack may have {reverse:.4g}, above {limit:g}",
            "correct the direction of the scores if the attack is wrong more often than right",
        )
    if gate.min is None and high == math.inf:
        return Ruling(
            "inconclusive",
            f"{interval} straddles {limit:g}: there is no upper end, as nothing clips what is "
            "noised, or a training diverged, so max cannot pass",
            "gate another metric",
        )
    return Ruling("inconclusive", f"{interval} straddles {limit:g}", remedy(kind, measurement))


def _compare_epsilon(gate: Gate, measurement: Measurement, limit: float, kind: str) -> Ruling:
    certified = f"certified ε >= {at_least(measurement.estimate.lower)}"
    if not measurement.estimate.lower <= limit:
        return Ruling("fail", f"{certified}, above {limit:g}")
    decides = remedy(kind, measurement)
    if doubt := _doubt(measurement, limit):
        return Ruling("inconclusive", f"{certified}, but {doubt}", decides)
    factor = gate.detectable or 1.0
    controls = sorted(measurement.controls, key=lambda control: control.factor)
    for control in controls:
        if shows(control, limit, factor):
            return Ruling("pass", f"{certified}, not above {limit:g}; {_said(control)}")
    best = next((control for control in controls if control.certified > limit), None)
    if best:
        missed = f"the game cannot find {factor * limit:.4g}; {_said(best)}"
    elif controls:
        last = controls[-1]
        missed = (
            f"the same game also misses {last.mutant} (certified ε >= {at_least(last.certified)})"
        )
    else:
        missed = (
            "it was not tried whether the game finds a copy that leaks more, or there are too few "
            "trials to find one"
        )
    return Ruling("inconclusive", f"{certified}, not above {limit:g}, but {missed}", decides)


def _doubt(measurement: Measurement, limit: float) -> str | None:
    """Return why an ε that is not certified to exceed the limit may exceed it; None without doubt.

    By the law of its noise, or because the right guesses of a membership game are as frequent.
    """
    if measurement.theory is not None and above_by_law(measurement, limit):
        value = f"ε = {measurement.theory.value:.4g}, above {limit:g}"
        return f"by the law of its noise this pair has {value}"
    if suggests_more(measurement, limit):
        return f"the right guesses suggest ε = {measurement.estimate.value:.4g}, above {limit:g}"
    return None


def _said(control: Control) -> str:
    often = f" in {control.hits} of {control.runs} runs" if control.runs else ""
    certified = f"certified ε >= {at_least(control.certified)}{often}"
    return f"the same game finds {control.mutant} ({certified})"
