"""Compare a run with an earlier one, its baseline, by intervals and verdicts, never by points.

All intervals of a run hold together with its confidence, so those of both runs hold together with
1 − (α₁ + α₂), where α = 1 − confidence (union bound; the runs may share seeds and data). Then each
true change lies between the new lower end minus the old upper end, and the new upper end minus the
old lower end. A number is worse or better only if all of this interval is on one side of 0.

The same model has other numbers on other targets, other data or other held-out interactions, to
another attacker, and in other trainings. So two numbers are compared only if all that they are
about is equal (`changes.apart`); others are not comparable, and shown beside each other.

A certified ε is a lower bound and its interval has no upper end: it never shows that the true ε
changed. Whether a claim is false is a verdict of each run, and a claim that is newly found to be
false counts as a regression.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Probability
from dpaudit.record.changes import (
    DRIFTING,
    Difference,
    NumberChange,
    Part,
    apart,
    differences,
    listed,
    number_change,
)
from dpaudit.record.metrics import MetricName, entry
from dpaudit.record.result import AuditResult, Measurement, Outcome, VerdictRecord

# The parts of a record that say what was found.
_FOUND = ("measurements", "verdicts", "gates", "findings")
# How many missing parts a sentence names.
_NAMED = 3
Move = Literal["newly false", "no longer tested", "changed", "same", "not comparable"]


class ClaimChange(Part):
    """The verdicts on a claim that both runs have.

    Attributes:
        id: the id of the verdict.
        before: the verdict in the baseline.
        after: the verdict in the run.
        move: `newly false`, `no longer tested`, `changed` if the verdict or the least mutant that
            was found is another, `not comparable` if another claim was tested or by other games,
            else `same`.
        waived: whether an active waiver of the run accepts that the claim is false.
        reason: what keeps the verdicts apart; empty if they are comparable.
    """

    id: str
    before: VerdictRecord
    after: VerdictRecord
    move: Move
    waived: bool
    reason: str = ""


class GateChange(Part):
    """A gate whose outcome changed; it is judged by the run itself, not by the comparison.

    Attributes:
        id: the gate's id.
        before: its outcome in the baseline.
        after: its outcome in the run.
    """

    id: str
    before: Outcome
    after: Outcome


class Comparison(Part):
    """A run compared with its baseline.

    Attributes:
        confidence: with which all comparisons hold together.
        claims: the claims of both runs.
        gates: the gates of both runs whose outcome changed.
        numbers: the numbers of both runs that may gate.
        missing: models, values of ε and numbers that only the baseline has.
        added: those that only the run has.
        uncompared: how many numbers of the baseline were not compared, as they may not gate, by
            metric.
        differences: what differs between the runs besides their results: data, config, claims,
            version and environment.
        same: whether the runs found the same: all numbers, verdicts, gates and findings.
        outcome: `fail` if a number is worse, or a claim is newly false and not waived; else
            `inconclusive` if something is missing, not comparable or no longer tested, or nothing
            could show a change; else `pass`.
        reason: what decided the outcome, as a sentence.
    """

    confidence: Probability
    claims: list[ClaimChange]
    gates: list[GateChange]
    numbers: list[NumberChange]
    missing: list[str]
    added: list[str]
    uncompared: dict[MetricName, int]
    differences: list[Difference]
    same: bool
    outcome: Outcome
    reason: str


def compare(before: AuditResult, after: AuditResult) -> Comparison:
    """Compare a run with its baseline.

    Args:
        before: the record of the baseline.
        after: the record of the run, with its waivers as judged.

    Raises:
        ConfigError: the confidences of the runs leave none for the comparison.
    """
    confidence = round(before.family.confidence + after.family.confidence - 1, 12)
    if not confidence > 0:
        raise ConfigError(
            f"the runs have confidence {before.family.confidence:g} and "
            f"{after.family.confidence:g}, which leaves none for both together: raise "
            "audit.confidence"
        )
    old, new = _by_key(before), _by_key(after)
    shared = [key for key in old if key in new and (_may_gate(old[key]) or _may_gate(new[key]))]
    numbers = [
        number_change(before, after, old[key], new[key], compared=len(shared)) for key in shared
    ]
    claims = list(_claims(before, after))
    missing = list(_lacking(before, after))
    outcome, reason = _decided(claims, numbers, missing)
    return Comparison(
        confidence=confidence,
        claims=claims,
        gates=list(_gates(before, after)),
        numbers=numbers,
        missing=missing,
        added=list(_lacking(after, before)),
        uncompared=Counter(
            measurement.metric
            for key, measurement in old.items()
            if not _may_gate(measurement) and not (key in new and _may_gate(new[key]))
        ),
        differences=list(differences(before, after)),
        same=all(getattr(before, name) == getattr(after, name) for name in _FOUND),
        outcome=outcome,
        reason=reason,
    )


def _claims(before: AuditResult, after: AuditResult) -> Iterator[ClaimChange]:
    old = {verdict.id: verdict for verdict in before.verdicts}
    for verdict in after.verdicts:
        if verdict.id in old:
            both = old[verdict.id], verdict
            stated = all(one.claimed is not None for one in both)
            reason = listed(apart(before, after, *both)) if stated else ""
            yield ClaimChange(
                id=verdict.id,
                before=old[verdict.id],
                after=verdict,
                move="not comparable" if reason else _move(*both),
                waived=verdict.verdict == "false" and verdict.id in after.waived,
                reason=reason,
            )


def _move(before: VerdictRecord, after: VerdictRecord) -> Move:
    if after.verdict not in (before.verdict, "survived"):
        return "newly false" if after.verdict == "false" else "no longer tested"
    alike = all(
        getattr(before, name) == getattr(after, name) for name in ("verdict", "claimed", "factor")
    )
    return "same" if alike else "changed"


def _gates(before: AuditResult, after: AuditResult) -> Iterator[GateChange]:
    old = {gate.id: gate.outcome for gate in before.gates}
    for gate in after.gates:
        if gate.id in old and gate.outcome != old[gate.id]:
            yield GateChange(id=gate.id, before=old[gate.id], after=gate.outcome)


def _decided(
    claims: list[ClaimChange], numbers: list[NumberChange], missing: list[str]
) -> tuple[Outcome, str]:
    false = sum(claim.move == "newly false" and not claim.waived for claim in claims)
    worse = sum(number.judgement == "worse" for number in numbers)
    if false or worse:
        said = [
            *([f"newly false claims: {false}"] if false else []),
            *([f"numbers certified to be worse: {worse}"] if worse else []),
        ]
        return "fail", f"The run is worse than its baseline ({'; '.join(said)})."
    lost = [
        f"a test of {claim.id} ({claim.after.reason})"
        for claim in claims
        if claim.move == "no longer tested"
    ]
    unlike = dict.fromkeys(
        [
            *(claim.reason for claim in claims if claim.move == "not comparable"),
            *(number.reason for number in numbers if number.judgement == "not comparable"),
        ]
    )
    gone = [*lost, *missing]
    said = [f"Not comparable: {'; '.join([*unlike][:_NAMED])}."] if unlike else []
    if gone:
        more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
        said.append(f"The run lacks what its baseline has: {', '.join(gone[:_NAMED])}{more}.")
    if said:
        return "inconclusive", " ".join([*said, "If that is meant, make this run the baseline."])
    drifting = [one for one in numbers if one.reason == DRIFTING and one.lower > 0]
    if drifting:
        first = drifting[0]
        values = f"{first.before.value:.2g} → {first.after.value:.2g}"
        more = f", and {len(drifting) - 1} more numbers alike" if len(drifting) > 1 else ""
        return "inconclusive", (
            f"{first.metric} of {first.place} is above the baseline's whole interval, {values}"
            f"{more}, but {DRIFTING}, so this is not certified: let data and seed decide the "
            "model, and make both runs again."
        )
    able = sum(not number.reason for number in numbers)
    tested = sum(claim.after.verdict != "not tested" for claim in claims)
    if not able and not tested:
        reasons = Counter(number.reason for number in numbers)
        named = "; ".join(f"{count}: {reason}" for reason, count in reasons.items())
        why = (
            f"none of {len(numbers)} numbers could show a change ({named})"
            if numbers
            else "no number that may gate: compare runs of the same models and measures"
        )
        return "inconclusive", f"The runs share no tested claim, and {why}."
    return "pass", (
        f"Nothing is certified to be worse than in the baseline (tested claims: {tested}; numbers "
        f"that could show a change: {able}). This does not prove that nothing is."
    )


def _by_key(result: AuditResult) -> dict[tuple[Any, ...], Measurement]:
    """Return the measurements by what identifies them in any run of the config."""
    return {measurement.key: measurement for measurement in result.measurements}


def _may_gate(measurement: Measurement) -> bool:
    """Whether the number may gate: it is of trainings, or its interval holds with the others."""
    able = measurement.census is not None or measurement.estimate.kind == "frequentist"
    return entry(measurement.metric).gateable and able


def _lacking(one: AuditResult, other: AuditResult) -> Iterator[str]:
    """Yield the models, the values of ε, and the numbers that only the first run has."""
    models = {model.label for model in other.models}
    yield from (f"model {model.label!r}" for model in one.models if model.label not in models)
    points = {(point.model, point.epsilon) for point in other.points}
    for point in one.points:
        if point.model in models and (point.model, point.epsilon) not in points:
            yield f"ε = {point.epsilon:g} of {point.model!r}"
    keys = _by_key(other)
    for key, measurement in _by_key(one).items():
        if (
            (measurement.model, measurement.epsilon) in points
            and key not in keys
            and _may_gate(measurement)
        ):
            yield f"{measurement.metric} of {measurement.place}"
