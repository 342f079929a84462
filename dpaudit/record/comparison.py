"""Compare a run with an earlier one, its baseline, by intervals and verdicts, never by points.

All intervals of a run hold together with its confidence, so those of both runs hold together with
1 − (α₁ + α₂), where α = 1 − confidence (union bound; the runs may share seeds and data). Then each
true change lies between the new lower end minus the old upper end, and the new upper end minus the
old lower end. A number is worse or better only if all of this interval is on one side of 0.

The seed of a run draws what its numbers are about: targets, held-out interactions, folds. On other
draws the same model has other numbers, so runs of different seeds show no change of any number.

A certified ε is a lower bound and its interval has no upper end: it never shows that the true ε
changed. Whether a claim is false is a verdict of each run, and a claim that is newly found to be
false counts as a regression.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate, Number, Probability
from dpaudit.record.differences import Difference, differences
from dpaudit.record.metrics import MetricName, entry
from dpaudit.record.result import AuditResult, Measurement, Outcome, VerdictRecord

# The parts of a record that say what was found.
_FOUND = ("measurements", "verdicts", "gates", "findings")
# How many missing parts a sentence names.
_NAMED = 3
# With how many orders of the trainings of two runs, for each number compared, ranges that lie apart
# by chance add 1/1000 at most to the error probability of all.
_ORDERS = 2000
Judgement = Literal["worse", "better", "cannot tell"]
Move = Literal["newly false", "no longer tested", "changed", "same"]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class NumberChange(_Part):
    """A number that both runs measured.

    Attributes:
        metric: its metric.
        place: the model, the ε, and what else distinguishes it.
        before: its estimate in the baseline.
        after: its estimate in the run.
        lower: lower end of the interval of its change.
        upper: upper end of it.
        judgement: `worse` or `better` if the interval excludes 0, else `cannot tell`.
        reason: why no estimates could show that it got worse; empty if some could.
    """

    metric: MetricName
    place: str
    before: Estimate
    after: Estimate
    lower: Number
    upper: Number
    judgement: Judgement
    reason: str


class ClaimChange(_Part):
    """The verdicts on a claim that both runs have.

    Attributes:
        id: the id of the verdict.
        before: the verdict in the baseline.
        after: the verdict in the run.
        move: `newly false`, `no longer tested`, `changed` if the verdict, the claimed ε or the
            least mutant that was found is another, else `same`.
        waived: whether an active waiver of the run accepts that the claim is false.
    """

    id: str
    before: VerdictRecord
    after: VerdictRecord
    move: Move
    waived: bool


class GateChange(_Part):
    """A gate whose outcome changed; it is judged by the run itself, not by the comparison.

    Attributes:
        id: the gate's id.
        before: its outcome in the baseline.
        after: its outcome in the run.
    """

    id: str
    before: Outcome
    after: Outcome


class Comparison(_Part):
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
            `inconclusive` if something is missing or no longer tested, or nothing could show a
            change; else `pass`.
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
    seeds = before.config.get("seed"), after.config.get("seed")
    # A seed that is not stored is of its run alone.
    drawn_alike = seeds[0] == seeds[1] and "entropy" not in seeds
    numbers = [
        _number(old[key], new[key], drawn_alike=drawn_alike, compared=len(shared)) for key in shared
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


def change(before: Estimate, after: Estimate) -> tuple[float, float]:
    """Return the interval of a change from both intervals; an end that is unknown is infinite."""
    lower = after.lower - before.upper
    if math.inf in (before.upper, -after.lower):
        lower = -math.inf
    upper = after.upper - before.lower
    if math.inf in (-before.lower, after.upper):
        upper = math.inf
    return lower, upper


def _number(
    before: Measurement, after: Measurement, *, drawn_alike: bool, compared: int
) -> NumberChange:
    lower, upper = change(before.estimate, after.estimate)
    judgement: Judgement = "cannot tell"
    reason = _unfit(before, after, drawn_alike=drawn_alike, compared=compared)
    grows_worse = after.larger == "worse"
    if not reason and (lower > 0 or upper < 0):
        judgement = "worse" if (lower > 0) == grows_worse else "better"
    elif not reason and grows_worse and before.estimate.upper == math.inf:
        reason = "the baseline has only a lower bound"
    return NumberChange(
        metric=after.metric,
        place=after.place,
        before=before.estimate,
        after=after.estimate,
        lower=lower,
        upper=upper,
        judgement=judgement,
        reason=reason,
    )


def _unfit(before: Measurement, after: Measurement, *, drawn_alike: bool, compared: int) -> str:
    """Return why no comparison may rest on the estimates; empty if one may.

    Ranges of exchangeable trainings lie apart with a probability of 2 J₁! J₂!/(J₁ + J₂)!, which has
    to be so small that the comparisons of all numbers add nothing to the error probability.
    """
    if before.census and after.census and before.estimate.kind == after.estimate.kind == "range":
        sizes = len(before.census.values), len(after.census.values)
        if math.comb(sum(sizes), sizes[0]) < _ORDERS * compared:
            return "the runs have too few judged trainings to tell their ranges apart"
    else:
        for measurement, run in ((before, "baseline"), (after, "run")):
            if measurement.estimate.kind != "frequentist":
                return f"the estimate of the {run} is of kind {measurement.estimate.kind}"
    if not drawn_alike:
        return "the runs have different seeds, and so different targets and test data"
    return ""


def _claims(before: AuditResult, after: AuditResult) -> Iterator[ClaimChange]:
    old = {verdict.id: verdict for verdict in before.verdicts}
    for verdict in after.verdicts:
        if verdict.id in old:
            yield ClaimChange(
                id=verdict.id,
                before=old[verdict.id],
                after=verdict,
                move=_move(old[verdict.id], verdict),
                waived=verdict.verdict == "false" and verdict.id in after.waived,
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
    if missing or lost:
        gone = [*lost, *missing]
        more = f" and {len(gone) - _NAMED} more" if len(gone) > _NAMED else ""
        return "inconclusive", (
            f"The run lacks what its baseline has: {', '.join(gone[:_NAMED])}{more}. If that is "
            "meant, make this run the baseline."
        )
    able = sum(not number.reason for number in numbers)
    tested = sum(claim.after.verdict != "not tested" for claim in claims)
    if not able and not tested:
        return "inconclusive", (
            "The runs share no tested claim, and no number that could show a change: compare runs "
            "of the same models and measures, with one seed."
        )
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
