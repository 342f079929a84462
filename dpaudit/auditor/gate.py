"""Gates: thresholds on certified bounds, never on point estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from dpaudit.auditor.games.controls import Bar, shows
from dpaudit.auditor.kind import kinds
from dpaudit.auditor.measure import MetricKey
from dpaudit.auditor.needed import times_needed
from dpaudit.auditor.trainings import JudgedTrainings
from dpaudit.config.picked import picked_by
from dpaudit.config.schema import Gate
from dpaudit.core.errors import ConfigError
from dpaudit.core.rounding import at_least
from dpaudit.record.metrics import entry
from dpaudit.record.result import (
    Control,
    Family,
    FindingRecord,
    GateRecord,
    Measurement,
    Outcome,
    PointRecord,
    worst,
)
from dpaudit.record.verdicts import above_by_law, in_id, suggests_more


def judge(
    gate: Gate,
    points: Sequence[PointRecord],
    measurements: Sequence[Measurement],
    findings: Sequence[FindingRecord] = (),
    trainings: JudgedTrainings | None = None,
    family: Family | None = None,
    kind: str = "",
) -> GateRecord:
    """Judge one gate on all the points that it picks; the worst outcome decides.

    - A number that each training has is judged by `trainings`: the next training, or those at hand,
      as the gate's `of` says; only the average is judged by its interval as below.

    - `max`: fails if a lower bound is above it; passes if no upper bound is. An attack so much
      worse than guessing that its reverse may exceed `max` is inconclusive.
    - `min`: fails if an upper bound is below it; passes if no lower bound is.
    - `epsilon`: no upper bound on the true ε exists. The gate passes only if, on some pair, the
      same game exceeded the limit on a mutant that breaks it by the factor `detectable` or less,
      and no pair has an ε above the limit by the law of its noise. Membership games, each on
      another target or observer, do not stand for each other: every one has to pass, and none
      whose guesses suggest an ε above the limit does.
    - `max = "claim"` judges what the claim of a point is about. What else is picked there is left
      out, and the reason says so; where nothing else is picked it is inconclusive.
    - An estimate that is not frequentist is inconclusive. So is that of a number whose interval is
      joint only if a gate of the run's config judges it.
    - A number that a finding leaves open does not pass, and the finding is the reason; nor does it
      fail if what no model can tell is told (`blind`). So is a picked point that has no such number
      because of a finding.

    Args:
        gate: the gate.
        points: the points of the sweep.
        measurements: all that was measured.
        findings: what was noticed.
        trainings: what the judged trainings say; None for this gate alone at 95 % confidence.
        family: the family of the run's intervals; None for this gate alone at 95 % confidence.
        kind: the kind of audit, by its name in the registry, which says what narrows an interval.

    Raises:
        ConfigError: the gate picks nothing that was measured.
    """
    at = {(point.model, point.epsilon): point for point in points}
    picked = picked_by(gate, measurements, points)
    trainings = trainings or JudgedTrainings.of([(gate, picked)], 0.05)
    family = family or Family.of(0.95, 1)
    lacking = dict(_lacking(gate, points, measurements, findings))
    if not picked and not lacking:
        forgetting = {point.model for point in points if point.forget}
        known = any(
            gate.about(measurement.metric, forgets=measurement.model in forgetting)
            for measurement in measurements
        )
        remedy = "correct its where" if known else "run a config that has this gate"
        raise ConfigError(f"the gate '{rule(gate)}' picks no measured point: {remedy}")
    beside = _beside(gate, picked, at)
    picked = [measurement for measurement in picked if measurement not in beside]
    decided: dict[tuple[str, float, str | None], list[tuple[Outcome, str]]] = {}
    needed: list[int] = []
    for (model, epsilon), reason in lacking.items():
        said = f"{model}, ε = {epsilon:g}: {reason}"
        decided[model, epsilon, None] = [("inconclusive", said)]
    for measurement in picked:
        point = at[measurement.model, measurement.epsilon]
        outcome, reason = _of_trainings(gate, measurement, trainings) or _compare(
            gate, measurement, point, kind
        )
        opening = [finding for finding in findings if finding.opens(measurement)]
        open_ = max(opening, key=lambda finding: finding.voids, default=None)
        if open_ and (outcome != "fail" or open_.voids):
            outcome, reason = "inconclusive", _said_by(open_)
        elif outcome == "inconclusive" and trainings.judged:
            limit = _limit(gate, measurement, point)
            times = times_needed(gate, measurement, trainings, limit, family)
            needed += [] if times is None else [trainings.total(times)]
        verdict = (outcome, f"{measurement.place}: {reason}")
        game = measurement.pair if measurement.unit else None
        decided.setdefault((measurement.model, measurement.epsilon, game), []).append(verdict)
    doubted = {
        (measurement.model, measurement.epsilon)
        for measurement in picked
        if _doubted(
            measurement, _limit(gate, measurement, at[measurement.model, measurement.epsilon])
        )
    }
    verdicts = [
        verdict
        for where, here in decided.items()
        for verdict in (
            here if gate.judged != "epsilon" or where[:2] in doubted else _powerful(here)
        )
    ]
    outcome = worst([verdict for verdict, _ in verdicts])
    reasons = [reason for verdict, reason in verdicts if verdict == outcome]
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    if beside:
        pairs = dict.fromkeys(measurement.pair for measurement in beside)
        more += f"; no claim is about, and this gate leaves out: {', '.join(map(str, pairs))}"
    return GateRecord(
        id=identifier(gate),
        rule=rule(gate),
        outcome=outcome,
        reason=reasons[0] + more,
        trainings=max(needed) if needed and outcome == "inconclusive" else None,
    )


def _of_trainings(
    gate: Gate, measurement: Measurement, trainings: JudgedTrainings
) -> tuple[Outcome, str] | None:
    """Judge trainings one by one; None if the gate is about the average, or about no trainings."""
    if gate.of == "average":
        return None
    if measurement.census is None:
        lacking = "no number of each training is recorded: remove the gate's of"
        return ("inconclusive", lacking) if gate.of else None
    return trainings.judge(gate, measurement, measurement.census)


def _beside(
    gate: Gate, picked: Sequence[Measurement], at: Mapping[tuple[str, float], PointRecord]
) -> list[Measurement]:
    """Return what a gate on the claim picks beside what the claim of the same point is about."""
    points = [(measurement, at[measurement.model, measurement.epsilon]) for measurement in picked]
    judged = [
        point for measurement, point in points if _limit(gate, measurement, point) is not None
    ]
    return [
        measurement
        for measurement, point in points
        if point in judged and _limit(gate, measurement, point) is None
    ]


def _lacking(
    gate: Gate,
    points: Sequence[PointRecord],
    measurements: Sequence[Measurement],
    findings: Sequence[FindingRecord],
) -> Iterator[tuple[tuple[str, float], str]]:
    """Yield the points that a gate picks and that lack its metric, with the reason."""
    there = {
        (measurement.model, measurement.epsilon)
        for measurement in measurements
        if measurement.metric == gate.judged
    }
    for point in points:
        key = model, epsilon = point.model, point.epsilon
        named = (gate.where.get("model", model), gate.where.get("epsilon", epsilon)) == key
        picked = named and gate.about(gate.judged, forgets=point.forget is not None)
        if not picked or key in there:
            continue
        open_ = next((finding for finding in findings if finding.lacks(gate.judged, *key)), None)
        if open_:
            yield key, _said_by(open_)


def _said_by(finding: FindingRecord) -> str:
    return f"{finding.text} {finding.remedy}".removesuffix(".")


def _powerful(verdicts: list[tuple[Outcome, str]]) -> list[tuple[Outcome, str]]:
    """Combine the pairs at one ε: one failure fails; else one pair with a found control passes."""
    for wanted in ("fail", "pass"):
        some = [verdict for verdict in verdicts if verdict[0] == wanted]
        if some:
            return some
    return verdicts


def identifier(gate: Gate) -> str:
    """Return the gate's name in waivers and CI reports: its metric, side and sorted `where`.

    It stays when the limit changes.
    """
    where = [
        f"{key}={in_id(value) if isinstance(value, float) else value}"
        for key, value in sorted(gate.where.items())
    ]
    side = "max" if gate.min is None else "min"
    return "/".join(["gate", gate.metric, side, *([f"of={gate.of}"] if gate.of else []), *where])


def rule(gate: Gate) -> str:
    """Describe the gate in words."""
    where = ", ".join(
        f"{'false positives' if key == 'at' else key} {value:g}"
        if isinstance(value, float)
        else f"{key} {value}"
        for key, value in gate.wanted.items()
    )
    limit = f">= {gate.min:g}" if gate.min is not None else f"<= {gate.max}"
    leak = f"{gate.detectable:g} times that" if gate.detectable else ""
    power = f", by a game that finds a leak of {leak}" if leak else ""
    of = f" of {gate.of}" if gate.of else ""
    return f"{gate.metric}{of} {limit}{f' at {where}' if where else ''}{power}"


def _limit(gate: Gate, measurement: Measurement, point: PointRecord) -> float | None:
    """Return the limit; None if it is the claim and nothing is claimed about what is measured."""
    limit = gate.max if gate.min is None else gate.min
    if limit == "claim":
        return point.claim.epsilon if point.claim and measurement.tests(point.claim) else None
    return limit


def _doubted(measurement: Measurement, limit: float | None) -> bool:
    return limit is not None and above_by_law(measurement, limit)


def _compare(
    gate: Gate, measurement: Measurement, point: PointRecord, kind: str
) -> tuple[Outcome, str]:
    estimate = measurement.estimate
    if estimate.kind != "frequentist":
        remedy = "gate another metric"
        if estimate.kind in ("assumes-law", "range"):
            remedy = "run a config that has this gate, so that its interval is joint"
        return "inconclusive", f"an estimate of kind {estimate.kind} cannot gate: {remedy}"
    limit = _limit(gate, measurement, point)
    if limit is None:
        claim = point.claim
        what = "nothing"
        if claim:
            what = f"only {claim.adjacency}, observer {', '.join((claim.observer, *claim.also))}"
        picked = ", or pick in where what it covers" if claim and measurement.unit else ""
        return (
            "inconclusive",
            f"this variant claims {what}: give a number instead of 'claim'{picked}",
        )
    if gate.judged == "epsilon":
        return _compare_epsilon(gate, measurement, point, limit)
    low, high = estimate.lower, estimate.upper
    interval = f"{estimate.value:.4g} [{low:.4g}, {high:.4g}]"
    if gate.min is None:
        broken, kept, side, held = low > limit, high <= limit, "above", "does not exceed"
    else:
        broken, kept, side, held = high < limit, low >= limit, "below", "is not below"
    if broken:
        return "fail", f"{interval} lies {side} {limit:g}"
    metric = entry(gate.metric)
    # What the reverse of the attack has at most.
    reversible = gate.min is None and metric.mirror is not None
    reverse = (metric.mirror or 0.0) - low if reversible else -math.inf
    if kept and reverse <= limit:
        return "pass", f"{interval} {held} {limit:g}{metric.assumes}"
    remedy = f"more {_sample(measurement, kind)} narrow it"
    if gate.min is None and high == math.inf:
        remedy = (
            "there is no upper end, as nothing clips what is noised, or a training diverged, so "
            "max cannot pass"
        )
    reason = f"{interval} straddles {limit:g}: {remedy}"
    if kept:
        reason = (
            f"{interval}: the reverse attack may have {reverse:.4g}, above {limit:g}: correct the "
            "direction of the scores if the attack is wrong more often than right"
        )
    return "inconclusive", reason


def _sample(measurement: Measurement, kind: str) -> str:
    """Return the key of the config that narrows an interval."""
    of_kind = next((other.samples for other in kinds() if other.name == kind), "trials")
    if measurement.unit:
        return of_kind
    if measurement.pair:
        return "game.trials"
    return entry(measurement.metric).samples or of_kind


def _compare_epsilon(
    gate: Gate, measurement: Measurement, point: PointRecord, limit: float
) -> tuple[Outcome, str]:
    certified = f"certified ε >= {at_least(measurement.estimate.lower)}"
    if not measurement.estimate.lower <= limit:
        return "fail", f"{certified}, above {limit:g}"
    doubt = _doubt(measurement, limit)
    if doubt:
        return "inconclusive", f"{certified}, but {doubt}"
    factor = gate.detectable or 1.0
    controls = sorted(measurement.controls, key=lambda control: control.factor)
    for control in controls:
        if shows(control, limit, factor):
            return "pass", f"{certified}, not above {limit:g}; {_said(control)}"
    remedy = "use more trials, or a pair that shows more"
    if measurement.unit:
        remedy = "use more membership.trainings or targets"
    if not controls:
        return "inconclusive", (
            f"{certified}, not above {limit:g}, but it was not tried whether the game finds a "
            f"copy that leaks more, or there are too few trials to find one: {remedy}"
        )
    best = next((control for control in controls if control.certified > limit), controls[-1])
    if best.certified > limit:
        return "inconclusive", (
            f"{certified}, not above {limit:g}, but the game cannot find {factor * limit:.4g}; "
            f"{_said(best)}: {remedy}"
        )
    return "inconclusive", (
        f"{certified}, not above {limit:g}, but the same game also misses {best.mutant} (certified "
        f"ε >= {at_least(best.certified)}): {remedy}"
    )


def _doubt(measurement: Measurement, limit: float) -> str | None:
    """Return why an ε that is not certified to exceed the limit may exceed it; None without doubt.

    By the law of its noise, or because the right guesses of a membership game are as frequent.
    """
    if measurement.theory is not None and above_by_law(measurement, limit):
        value = f"ε = {measurement.theory.value:.4g}, above {limit:g}"
        return f"by the law of its noise this pair has {value}: use more trials to certify it"
    if suggests_more(measurement, limit):
        guesses = f"the right guesses suggest ε = {measurement.estimate.value:.4g}, above {limit:g}"
        return f"{guesses}: use more membership.trainings or targets"
    return None


def _said(control: Control) -> str:
    often = f" in {control.hits} of {control.runs} runs" if control.runs else ""
    certified = f"certified ε >= {at_least(control.certified)}{often}"
    return f"the same game finds {control.mutant} ({certified})"


def bars(gates: Sequence[Gate], bound: MetricKey, claimed: float | None) -> tuple[Bar, ...]:
    """Return what positive controls must exceed for the gates that judge a bound on ε.

    Args:
        gates: the config's gates.
        bound: the key of the bound.
        claimed: the claimed ε, if any.
    """
    limits = []
    for gate in gates:
        limit = claimed if gate.max == "claim" else gate.max
        if limit is not None and gate.picks(asdict(bound), forgets=bound.forgets):
            limits.append(Bar(limit, gate.detectable))
    return tuple(dict.fromkeys(sorted(limits, key=lambda bar: (bar.limit, bar.factor or 0.0))))
