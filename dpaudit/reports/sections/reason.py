"""Why a run has its outcome, in words that need no statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from dpaudit.config.picked import picked_by
from dpaudit.config.schema import Gate
from dpaudit.core import rounding
from dpaudit.record.result import AuditResult, GateRecord, Measurement, Verdict, VerdictRecord
from dpaudit.reports.sections import meter

# What became of claims in a run that goes: a false one was waived, or its config accepts it.
_CLAIMS: Mapping[Verdict, str] = {
    "survived": "survived",
    "false": "false and accepted",
    "not tested": "not tested",
}
_Judged = tuple[Gate | None, GateRecord]


def sentence(result: AuditResult) -> str:
    """Return the reason of a run's outcome, as one sentence with what decided it."""
    expired = [waiver.id for waiver in result.waivers if waiver.state == "expired"]
    if expired:
        return f"A waiver has expired: {', '.join(expired)}."
    if result.stopping:
        return _of_claims(result.stopping, len(result.models) > 1)
    judged = [
        (gate, record) for gate, record in meter.gates(result) if record.id not in result.waived
    ]
    others = {
        "fail": ("gate fails", "gates fail"),
        "inconclusive": ("gate is open", "gates are open"),
    }
    for outcome, more in others.items():
        deciding = [(gate, record) for gate, record in judged if record.outcome == outcome]
        if deciding:
            gate, record = deciding[0]
            return f"{_of_gate(gate, record, result)}{_more(len(deciding) - 1, *more)}."
    return " ".join(_undisturbed(result, judged))


def _of_claims(false: Sequence[VerdictRecord], named: bool) -> str:
    worst = max(false, key=_times)
    of = f" of {worst.model}" if named else ""
    more = _more(len(false) - 1, "claim is false", "claims are false")
    times = rounding.at_least(_times(worst), 2)
    return (
        f"The privacy claim{of} is false: an attack shows a leak of at least {times} times what is "
        f"claimed{more}."
    )


def _times(verdict: VerdictRecord) -> float:
    return (verdict.certified or 0.0) / (verdict.claimed or 1.0)


def _more(count: int, one: str, several: str) -> str:
    """Return how many others have the same outcome, as the end of a sentence."""
    return f"; {count} more {one if count == 1 else several}" if count else ""


def _of_gate(gate: Gate | None, record: GateRecord, result: AuditResult) -> str:
    """Return what a gate that does not pass is about, with the number furthest from its limit."""
    shown = _shown(gate, result) if gate else None
    if gate is None or shown is None:
        return f"{record.rule}: {record.reason}"
    comparison = _comparison(gate, shown, result)
    if record.outcome == "fail":
        return comparison
    decides = f"; {record.trainings} trainings like these decide it" if record.trainings else ""
    open_ = "This run is too small to tell on which side of the limit the model is"
    return f"{open_}: {comparison}{decides}"


def _shown(gate: Gate, result: AuditResult) -> Measurement | None:
    """Return the measurement that a gate judges and that is furthest from passing."""
    picked = picked_by(gate, result.measurements)
    sign = 1 if gate.min is None else -1
    return max(picked, key=lambda one: sign * one.estimate.value, default=None)


def _comparison(gate: Gate, shown: Measurement, result: AuditResult) -> str:
    """Return a measurement beside the limit of a gate that judges it."""
    frequency = meter.of(shown, result)
    named = f"{shown.model}: " if len(result.models) > 1 else ""
    if frequency is not None:
        return f"{named}{frequency.sentence}"
    limit = gate.max if gate.min is None else gate.min
    if gate.metric == "epsilon":
        return f"{named}{_of_bound(shown, limit)}"
    value = rounding.measured(shown.estimate.value)
    side = "is at most" if gate.min is None else "is at least"
    return f"{named}{gate.metric} is {value}, and the limit {side} {limit:g}"


def _of_bound(shown: Measurement, limit: float | str | None) -> str:
    what = "the claim" if limit == "claim" else "the limit"
    if not isinstance(limit, float) or shown.estimate.lower <= limit:
        return f"no attack shows a leak above {what}"
    times = rounding.at_least(shown.estimate.lower / limit, 2)
    return f"an attack shows a leak of at least {times} times {what}"


def _undisturbed(result: AuditResult, judged: Sequence[_Judged]) -> Iterator[str]:
    """Yield what a run shows that neither stops nor is open."""
    claims = Counter(one.verdict for one in result.verdicts if one.claimed is not None)
    if judged:
        yield f"All {len(judged)} gates pass." if len(judged) > 1 else "The gate passes."
        yield from _nearest(result, judged)
    if claims["survived"] or claims["false"]:
        counts = [f"{claims[word]} {text}" for word, text in _CLAIMS.items() if claims[word]]
        yield f"Of {claims.total()} privacy claims: {', '.join(counts)}."
    elif claims and judged:
        yield "No privacy claim was tested."
    elif result.outcome != "no decision" and not judged:
        yield "Nothing that counts stops it."
    elif not judged:
        tested = ", and no claim was tested" if claims else ""
        yield f"Nothing was decided: no gate is set{tested}."
        for row in meter.rows(result)[:1]:
            yield f"The attacks find: {row.sentence}."


def _nearest(result: AuditResult, judged: Sequence[_Judged]) -> Iterator[str]:
    """Yield the frequency that is nearest to its limit, if a gate limits any."""
    shown = [one for gate, _ in judged if gate and (one := _shown(gate, result))]
    limited = [row for one in shown if (row := meter.of(one, result)) and row.limit]
    if limited:
        nearest = max(limited, key=lambda row: row.value / (row.limit or 1.0))
        yield f"At most {nearest.sentence}."
