"""Gates: thresholds on certified bounds, never on point estimates.

They are judged with the waivers of a run at its end, and anew whenever a gate is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from dpaudit.auditor.games import Bar, shows
from dpaudit.auditor.measure import MetricKey
from dpaudit.config.gate import Gate, check_rated, picked_by
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.frequency import Spelling, base_of
from dpaudit.core.rounding import at_least
from dpaudit.data.ratings import Scale
from dpaudit.record import result as records
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, FindingRecord, Measurement, PointRecord
from dpaudit.record.values import Census, Control
from dpaudit.record.verdicts import above_by_law, decided, in_id, remedy, suggests_more, waivable


class Ruling(NamedTuple):
    """What a gate says of one number.

    Attributes:
        outcome: its outcome on the number.
        reason: why.
        remedy: what decides it if it is inconclusive; empty otherwise.
        strength: what the attacks find of a planted leak; empty if none was planted.
    """

    outcome: records.Outcome
    reason: str
    remedy: str = ""
    strength: str = ""


class Needed(NamedTuple):
    """How many times the judged trainings would decide a gate, and how.

    Attributes:
        times: the multiple.
        outcome: what it would be decided to.
    """

    times: float
    outcome: records.Outcome


class Trainings:
    """What a kind of audit says of numbers that each of several trainings has (a census).

    This one is for kinds without such numbers.
    """

    def judge(self, gate: Gate, measurement: Measurement, census: Census) -> Ruling | None:
        """Judge trainings one by one; None if the number is judged by its interval."""
        return None

    def controlled(self, gate: Gate, measurement: Measurement, ruling: Ruling) -> Ruling:
        """Return what is left of the pass of a number of attacks, which may be weak ones."""
        weak = "No leak was planted to try the attacks, and a stronger attacker may find more."
        return ruling._replace(reason=f"{ruling.reason}. {weak}", strength=weak)

    def breaking(self, gate: Gate, measurement: Measurement) -> float:
        """Return the share of trainings in which a gate's threshold may be broken."""
        return 0.0

    def needed(
        self, gate: Gate, measurement: Measurement, limit: float | None, family: records.Family
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
    return compare_interval(gate, measurement, limit, kind)


def spelling_of(measurement: Measurement, limit: float) -> Spelling:
    """Return how a number and its limit are written: what attackers find is counted."""
    metric = entry(measurement.metric)
    if metric.unit not in ("share", "gain") or metric.role not in ("attack", "recovery"):
        return Spelling(None)
    return Spelling(base_of(measurement.estimate.value, measurement.at or 0.0, limit))


def compare_interval(gate: Gate, measurement: Measurement, limit: float, kind: str) -> Ruling:
    """Judge a number by its interval; arguments as in `compare`, and the gate's limit."""
    estimate = measurement.estimate
    low, high, spelling = estimate.lower, estimate.upper, spelling_of(measurement, limit)
    interval, most = spelling.interval(estimate), spelling.limit(limit)
    if gate.min is None:
        broken, kept, side, held = low > limit, high <= limit, "above", "does not exceed"
    else:
        broken, kept, side, held = high < limit, low >= limit, "below", "is not below"
    if broken:
        return Ruling("fail", f"{interval} lies {side} {most}")
    metric = entry(gate.metric)
    # What the reverse of the attack has at most.
    reversible = gate.min is None and metric.mirror is not None
    reverse = (metric.mirror or 0.0) - low if reversible else -math.inf
    if kept and reverse <= limit:
        return Ruling("pass", f"{interval} {held} {most}{metric.assumes}")
    if kept:
        return Ruling(
            "inconclusive",
            f"{interval}: the reverse attack may have {spelling.value(reverse)}, above {most}",
            "correct the direction of the scores if the attack is wrong more often than right",
        )
    if gate.min is None and high == math.inf:
        return Ruling(
            "inconclusive",
            f"{interval} straddles {most}: there is no upper end, as nothing clips what is "
            "noised, the observer sees no noised steps, or a training diverged, so max cannot pass",
            "gate another metric",
        )
    return Ruling("inconclusive", f"{interval} straddles {most}", remedy(kind, measurement))


def _compare_epsilon(gate: Gate, measurement: Measurement, limit: float, kind: str) -> Ruling:
    certified = _certified(measurement.estimate.lower)
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
        missed = f"the same game also misses {last.mutant} ({_certified(last.certified)})"
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
    return f"the same game finds {control.mutant} ({_certified(control.certified)}{often})"


def _certified(bound: float) -> str:
    return f"certified ε at least {at_least(bound)}"


@dataclass(frozen=True)
class _Judged:
    """What a gate says of a number, or of a point that lacks it.

    Attributes:
        number: the number, with the outcome on it.
        ruling: the same outcome with its reason.
        beyond: what orders numbers by how far they are beyond the threshold.
        needed: which multiple of the trainings decides it, if that is known.
    """

    number: records.JudgedNumber
    ruling: Ruling
    beyond: tuple[float, ...] = (math.inf,)
    needed: Needed | None = None

    @property
    def said(self) -> str:
        """Return the reason, with the number that it is of."""
        return ": ".join(filter(None, (self.number.place, self.ruling.reason)))


def judge(gate: Gate, result: AuditResult, trainings: Trainings) -> records.GateRecord:
    """Judge one gate on all the points that it picks; the worst outcome decides.

    Of the numbers with that outcome the one furthest beyond the threshold decides: its reason is
    the gate's, and it is the first of the record's `numbers`, from which reports show it.

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
        result: the record: its sweep, what was measured, and what was noticed.
        trainings: what the kind of audit says of numbers of several trainings.

    Raises:
        ConfigError: the gate picks nothing that was measured.
    """
    at = {(point.model, point.epsilon): point for point in result.points}
    picked = picked_by(gate, result.measurements, result.points)
    lacking = dict(_lacking(gate, result))
    if not picked and not lacking:
        about = [
            measurement
            for measurement in result.measurements
            if gate.about(measurement.fields, at[measurement.model, measurement.epsilon].traits)
        ]
        where = [one for one in about if gate.wanted.items() <= one.fields.items()]
        correct = "correct its where" if about and not where else "run a config that has this gate"
        raise ConfigError(f"the gate '{rule(gate)}' picks no measured point: {correct}")
    beside = _beside(gate, picked, at)
    picked = [measurement for measurement in picked if measurement not in beside]
    decided: dict[tuple[str, float, str | None], list[_Judged]] = {}
    doubted = set()
    for (model, epsilon), finding in lacking.items():
        ruling = _said_by(finding, f"{model}, ε = {epsilon:g}: ")
        number = records.JudgedNumber(
            model=model, epsilon=epsilon, place="", outcome=ruling.outcome
        )
        decided[model, epsilon, None] = [_Judged(number, ruling)]
    for measurement in picked:
        model, epsilon = measurement.model, measurement.epsilon
        limit, needed = limit_of(gate, measurement, at[model, epsilon]), None
        ruling = _of_trainings(gate, measurement, trainings) or compare(
            gate, measurement, at[model, epsilon], result.kind
        )
        opening = [finding for finding in result.findings if finding.opens(measurement)]
        open_ = max(opening, key=lambda finding: finding.voids, default=None)
        if open_ and (ruling.outcome != "fail" or open_.voids):
            ruling = _said_by(open_)
        elif ruling.outcome == "pass" and gate.bounds_leak:
            ruling = trainings.controlled(gate, measurement, ruling)
        elif ruling.outcome == "inconclusive":
            needed = trainings.needed(gate, measurement, limit, result.family)
        place, outcome = measurement.place, ruling.outcome
        number = records.JudgedNumber(model=model, epsilon=epsilon, place=place, outcome=outcome)
        one = _Judged(number, ruling, _beyond(gate, measurement, limit, trainings), needed)
        game = measurement.pair if measurement.unit else None
        decided.setdefault((model, epsilon, game), []).append(one)
        if limit is not None and above_by_law(measurement, limit):
            doubted.add((model, epsilon))
    counted = [
        one
        for where, here in decided.items()
        for one in (here if gate.judged != "epsilon" or where[:2] in doubted else _powerful(here))
    ]
    outcome = records.worst([one.ruling.outcome for one in counted])
    alike = [one for one in counted if one.ruling.outcome == outcome]
    first = max(alike, key=lambda one: one.beyond)
    total = _trainings_needed(alike, trainings) if outcome == "inconclusive" else None
    decides = first.ruling.remedy if total is None else ""
    joint = " " if first.said.endswith(".") else "; " if first.ruling.strength else ": "
    more = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
    if beside:
        pairs = dict.fromkeys(measurement.pair for measurement in beside)
        more += f"; no claim is about, and this gate leaves out: {', '.join(map(str, pairs))}"
    return records.GateRecord(
        id=identifier(gate),
        rule=rule(gate),
        outcome=outcome,
        reason=joint.join(filter(None, (first.said, decides))) + more,
        trainings=total,
        remedy=decides,
        strength=first.ruling.strength,
        attacker=gate.attacker,
        numbers=(
            first.number,
            *(one.number for here in decided.values() for one in here if one is not first),
        ),
    )


def _beyond(
    gate: Gate, measurement: Measurement, limit: float | None, trainings: Trainings
) -> tuple[float, ...]:
    """Return what orders numbers by how far they are beyond a threshold: more is further.

    In how many trainings it may be broken comes first, as that decides gates on trainings. Bounds
    on ε, whose claims may differ, are counted in multiples of the limit.
    """
    estimate = measurement.estimate
    if gate.judged == "epsilon":
        unit = math.inf if limit is None else limit or 1.0
        return estimate.lower / unit, estimate.value / unit
    share = trainings.breaking(gate, measurement)
    if gate.min is not None:
        return share, -estimate.value
    mirror = entry(measurement.metric).mirror
    reverse = -math.inf if mirror is None else mirror - estimate.value
    return share, max(estimate.value, reverse)


def _trainings_needed(open_: Sequence[_Judged], trainings: Trainings) -> int | None:
    """Return how many trainings decide a gate by its open numbers; None where that is not known.

    It fails by one of them, and passes by all.
    """
    needed = [one.needed for one in open_ if one.needed]
    fails = [one.times for one in needed if one.outcome == "fail"]
    if not fails and len(needed) < len(open_):
        return None
    return trainings.total(min(fails) if fails else max(one.times for one in needed))


def _of_trainings(gate: Gate, measurement: Measurement, trainings: Trainings) -> Ruling | None:
    """Judge trainings one by one; None if the gate is about the average, or about no trainings."""
    if gate.of == "average":
        return None
    if measurement.census is None:
        lacking = "no number of each training is recorded"
        return Ruling("inconclusive", lacking, "remove the gate's of") if gate.of else None
    # Never by the interval of their mean, which is another statement.
    return trainings.judge(gate, measurement, measurement.census) or Ruling(
        "inconclusive",
        "nothing here judges single trainings",
        "gate the average (of = 'average'), or install the package of this kind of audit",
    )


def _beside(
    gate: Gate, picked: Sequence[Measurement], at: Mapping[tuple[str, float], PointRecord]
) -> list[Measurement]:
    """Return what a gate on the claim picks beside what the claim of the same point is about."""
    points = [(measurement, at[measurement.model, measurement.epsilon]) for measurement in picked]
    judged = [
        point for measurement, point in points if limit_of(gate, measurement, point) is not None
    ]
    return [
        measurement
        for measurement, point in points
        if point in judged and limit_of(gate, measurement, point) is None
    ]


def _lacking(gate: Gate, result: AuditResult) -> Iterator[tuple[tuple[str, float], FindingRecord]]:
    """Yield the points that a gate picks and that lack its metric, with the reason."""
    there = {
        (measurement.model, measurement.epsilon)
        for measurement in result.measurements
        if measurement.metric == gate.judged
    }
    for point in result.points:
        key = model, epsilon = point.model, point.epsilon
        named = (gate.where.get("model", model), gate.where.get("epsilon", epsilon)) == key
        picked = named and gate.about({"metric": gate.judged}, point.traits)
        if picked and key not in there:
            opening = [finding for finding in result.findings if finding.lacks(gate.judged, *key)]
            if opening:
                yield key, opening[0]


def _said_by(finding: FindingRecord, place: str = "") -> Ruling:
    return Ruling("inconclusive", place + finding.text, finding.remedy.removesuffix("."))


def _powerful(judged: list[_Judged]) -> list[_Judged]:
    """Combine the pairs at one ε: one failure fails; else one pair with a found control passes."""
    for wanted in ("fail", "pass"):
        some = [one for one in judged if one.ruling.outcome == wanted]
        if some:
            return some
    return judged


def identifier(gate: Gate) -> str:
    """Return the gate's name in waivers and CI reports: its metric, side and sorted `where`.

    It stays when the limit changes.
    """
    where = [
        f"{key}={in_id(value) if isinstance(value, float) else value}"
        for key, value in sorted(gate.where.items())
    ]
    side = "max" if gate.min is None else "min"
    about = [
        f"{key}={value}" for key, value in (("of", gate.of), ("attacker", gate.attacker)) if value
    ]
    return "/".join(["gate", gate.metric, side, *about, *where])


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
    finds = "if a leak of" if gate.bounds_leak else "by a game that finds a leak of"
    caught = " in odds is caught" if gate.bounds_leak else ""
    power = f", {finds} {leak}{caught}" if leak else ""
    power += ", against an attacker who trains no model" if gate.attacker else ""
    of = f" of {gate.of}" if gate.of else ""
    return f"{gate.metric}{of} {limit}{f' at {where}' if where else ''}{power}"


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
        if limit is not None and gate.picks(bound.picked_by, bound.traits):
            limits.append(Bar(limit, gate.detectable))
    return tuple(dict.fromkeys(sorted(limits, key=lambda bar: (bar.limit, bar.factor or 0.0))))


def judge_run(
    result: AuditResult,
    day: date,
    *,
    gates: Sequence[Gate] | None = None,
    waivers: Sequence[records.Waiver] | None = None,
) -> AuditResult:
    """Return the record of a run as judged on this day.

    Args:
        result: the record.
        day: the day in UTC; waivers whose last day is before it are expired.
        gates: gates to judge; None keeps those of the record with their outcomes.
        waivers: waivers to apply; None applies those of the record.

    Raises:
        ConfigError: a gate picks nothing, or does not fit the data.
    """
    config = dict(result.config)
    if gates is not None:
        if result.data:
            check_rated(gates, Scale(*result.data.scale))
        kind = registry.installed("audits", result.kind)
        trainings = kind.trainings(result, gates) if kind else Trainings()
        config["gate"] = [gate.model_dump(mode="json") for gate in gates]
        gate_records = [judge(gate, result, trainings) for gate in gates]
        result = result.model_copy(update={"gates": gate_records})
    if waivers is not None:
        config["waiver"] = [waiver.model_dump(mode="json") for waiver in waivers]
    applied = records.judged(result.waivers if waivers is None else waivers, waivable(result), day)
    result = result.model_copy(update={"config": config, "waivers": applied})
    return result.model_copy(update={"outcome": decided(result)})


def check_ids(waivers: Iterable[records.Waiver], known: Iterable[str], prefix: str = "") -> None:
    """Refuse waivers of unknown ids.

    Args:
        waivers: the waivers.
        known: the ids of claims and gates.
        prefix: prefix of the message, such as the file of the waivers.

    Raises:
        ConfigError: an id is unknown; names those that it may mean.
    """
    ids = set(known)
    for index, waiver in enumerate(waivers):
        if waiver.id not in ids:
            raise ConfigError(
                f"{prefix}waiver.{index}.id = {waiver.id!r} is no claim or gate of the run"
                f"{registry.suggestion(waiver.id, ids)}"
            )
