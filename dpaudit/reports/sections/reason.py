"""Why a run has its outcome, in words that need no statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from dpaudit.config.schema import Gate
from dpaudit.core import rounding
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, GateRecord, Measurement, Verdict, VerdictRecord
from dpaudit.reports import palette, words
from dpaudit.reports.digest import swept
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import meter
from dpaudit.reports.sections.base import sections_of

# The order in which verdicts are counted.
_ORDER: tuple[Verdict, ...] = ("false", "survived", "not tested")
_Judged = tuple[Gate | None, GateRecord]


def sentence(result: AuditResult) -> str:
    """Return the reason of a run's outcome as one text."""
    return " ".join(sentences(result))


def sentences(result: AuditResult) -> list[str]:
    """Return the reason of a run's outcome: what decided it, then what else it found."""
    expired = [waiver.id for waiver in result.waivers if waiver.state == "expired"]
    if expired:
        return [f"A waiver has expired: {', '.join(expired)}."]
    if result.stopping:
        return [_of_claims(result.stopping, len(result.models) > 1)]
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
            decided = f"{_of_gate(gate, record, result)}{_more(len(deciding) - 1, *more)}."
            return [decided, *(_claims(result) if _false(result) else ())]
    return list(_undisturbed(result, judged))


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
    """Return what a gate that does not pass is about, with the number that decides it."""
    shown = _shown(gate, record, result)
    if gate is None or shown is None:
        return f"{record.rule}: {record.reason}"
    comparison = _comparison(gate, shown, result, alone=len(record.numbers) < 2)
    if record.outcome == "fail":
        return comparison
    if record.trainings:
        open_ = "This run is too small to tell on which side of the limit the model is"
        return f"{open_}: {comparison}; {record.trainings} trainings like these decide it"
    return f"It is open on which side of the limit the model is: {comparison}: {record.remedy}"


def _shown(gate: Gate | None, record: GateRecord, result: AuditResult) -> Measurement | None:
    """Return the measurement that decides a gate."""
    return next((one for one, _ in meter.numbers(gate, record, result)[:1]), None)


def _comparison(gate: Gate, shown: Measurement, result: AuditResult, *, alone: bool) -> str:
    """Return a measurement beside the limit of a gate that judges it, alone or with others."""
    frequency = meter.of(shown, result)
    named = f"{shown.model}: " if len(result.models) > 1 else ""
    if frequency is not None:
        attacker = "" if alone else f"{frequency.attacker}: "
        return f"{named}{attacker}{frequency.sentence}"
    if swept(result, shown.model):
        named = f"{shown.model} at ε = {words.epsilon(shown.epsilon)}: "
    if shown.observer and not alone:
        named += f"who sees {words.observer(shown.observer)}: "
    limit = gate.max if gate.min is None else gate.min
    if gate.judged == "epsilon":
        return f"{named}{_of_bound(shown, limit, result)}"
    value = rounding.measured(shown.estimate.value)
    side = "most" if gate.min is None else "least"
    name = entry(gate.metric).quantity or gate.metric
    return f"{named}{name} is {value}, and is to be at {side} {limit:g}"


def _of_bound(shown: Measurement, limit: float | str | None, result: AuditResult) -> str:
    what = "the claim" if limit == "claim" else "the limit"
    if limit == "claim":
        limit = _claimed(shown, result)
    if not isinstance(limit, float) or shown.estimate.lower <= limit:
        return f"no attack shows a leak above {what}"
    times = rounding.at_least(shown.estimate.lower / limit, 2)
    return f"an attack shows a leak of at least {times} times {what}"


def _claimed(shown: Measurement, result: AuditResult) -> float | None:
    """Return the ε that is claimed where a number was measured."""
    place = shown.model, shown.epsilon
    return next((one.claimed for one in result.verdicts if (one.model, one.epsilon) == place), None)


def _undisturbed(result: AuditResult, judged: Sequence[_Judged]) -> Iterator[str]:
    """Yield what a run shows that neither stops nor is open."""
    stated = [one for one in result.verdicts if one.claimed is not None]
    tested = any(one.verdict != "not tested" for one in stated)
    if judged:
        several = "Both gates pass." if len(judged) == 2 else f"All {len(judged)} gates pass."
        yield several if len(judged) > 1 else "The gate passes."
        yield from _nearest(result, judged)
    elif tested or result.outcome != "no decision":
        yield "Every gate is waived." if result.gates else "No gate is set."
    if tested:
        yield from _claims(result)
    elif stated and judged:
        yield "No privacy claim was tested."
    elif not judged and result.outcome == "no decision":
        tests = ", and no claim was tested" if stated else ""
        yield f"Nothing was decided: no gate is set{tests}."
        if sentence := sections_of(result).printed().result:
            yield sentence
            return
        for row in meter.rows(result)[:1]:
            yield f"The attacks find: {row.sentence}."


def _claims(result: AuditResult) -> Iterator[str]:
    """Yield what became of the claims, the models none of whose was tested, and the power."""
    stated = [one for one in result.verdicts if one.claimed is not None]
    counts: Counter[str] = Counter(
        _false_word(one, result) if one.verdict == "false" else palette.became(one)
        for one in sorted(stated, key=lambda one: _ORDER.index(one.verdict))
    )
    listed = ", ".join(f"{count} {word}" for word, count in counts.items())
    claims = "privacy claim" if len(stated) == 1 else "privacy claims"
    yield f"Of {len(stated)} {claims}: {listed}."
    verdicts: dict[str, set[Verdict]] = {}
    for one in stated:
        verdicts.setdefault(one.model, set()).add(one.verdict)
    untested = [model for model, words in verdicts.items() if words == {"not tested"}]
    if untested and len(verdicts) > 1:
        yield f"No claim of {' or '.join(untested)} was decided."
    kept = [one for one in stated if one.verdict == "survived"]
    if kept:
        yield f"Where claims survived, a leak of {words.caught(kept)} is caught."


def _false(result: AuditResult) -> bool:
    return any(one.verdict == "false" for one in result.verdicts)


def _false_word(verdict: VerdictRecord, result: AuditResult) -> str:
    """Return what became of a false claim: it is waived, or stops the run, or is not set to."""
    if verdict.id in result.waived:
        return "false and waived"
    return "false" if result.fail_on_false_claim else "false (not set to stop the run)"


def _nearest(result: AuditResult, judged: Sequence[_Judged]) -> Iterator[str]:
    """Yield the number nearest to its limit, then the kind's result or the largest unlimited."""
    shown = [one for gate, record in judged if (one := _shown(gate, record, result))]
    limited = [row for one in shown if (row := meter.of(one, result)) and row.limit]
    if limited:
        nearest = max(limited, key=lambda row: row.value / (row.limit or 1.0))
        yield f"Nearest to its limit: {_whose(nearest, result)}{nearest.detailed}."
    free = meter.unlimited(result)
    if sentence := sections_of(result).printed().result:
        yield sentence
    elif free:
        most = free[0]
        others = "One number has" if len(free) == 1 else f"{len(free)} numbers have"
        largest = "" if len(free) == 1 else "the largest is "
        found, _, _ = most.counts
        yield f"{others} no limit: {largest}{found} ({_whose(most, result)}{most.attacker})."


def _whose(row: Frequency, result: AuditResult) -> str:
    return f"{row.measurement.model}, " if len(result.models) > 1 else ""
