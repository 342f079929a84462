"""The outcome of a run, and why it is that, in words that need no statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpaudit.config.gate import Gate
from dpaudit.core import rounding
from dpaudit.core.frequency import counted, out_of
from dpaudit.record.fields import SHARED
from dpaudit.record.result import (
    AuditResult,
    GateRecord,
    Measurement,
    Verdict,
    VerdictRecord,
    worst,
)
from dpaudit.reports import digest, palette, words
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import meter
from dpaudit.reports.sections.base import sections_of

# The order in which verdicts are counted.
_ORDER: tuple[Verdict, ...] = ("false", "survived", "not tested")

_Judged = tuple[Gate | None, GateRecord]

# What is divided by at least.
_SMALLEST = 1e-9


@dataclass(frozen=True)
class Decision:
    """The outcome of a run with its reason.

    Attributes:
        word: the outcome.
        sentences: what decided it, then what else was found, and what it leaves out.
        sure: how sure it is.
        hero: the share that decides it, if one does; else the largest one that was found.
    """

    word: palette.Word
    sentences: Sequence[str]
    sure: Sequence[str]
    hero: Frequency | None

    @property
    def reason(self) -> str:
        """The sentences as one text."""
        return " ".join([*self.sentences, *self.sure])


def decision_of(result: AuditResult) -> Decision:
    """Return the outcome of the run, and why it is that."""
    deciding = [] if result.stopping or expired(result) else decisive(result)
    sentences, wrong = _reasons(result, deciding), list(_wrong(result, gated=bool(deciding)))
    if result.waived:
        listed = ", ".join(sorted(result.waived))
        sentences = [*sentences, f"It does not count what is waived: {listed}."]
    word = palette.run(result)
    if not deciding:
        row = next(iter(meter.rows(result)), None)
        return Decision(word, sentences, wrong, row)
    gate, record = _pictured(result, deciding)
    number = _deciding(gate, record, result)
    row = meter.of(number, result) if number else None
    return Decision(word, sentences, [*_of_hero(record, row), *wrong], row)


def expired(result: AuditResult) -> list[str]:
    """Return the ids of waivers that have expired."""
    return [waiver.id for waiver in result.waivers if waiver.state == "expired"]


def _wrong(result: AuditResult, *, gated: bool) -> Iterator[str]:
    """Yield how often such a run decides wrongly, and what claims that survive leave open."""
    if expired(result):
        return
    kept = [verdict for verdict in result.verdicts if verdict.verdict == "survived"]
    if kept:
        yield f"Where claims survived, a leak of {words.caught(kept)} is caught."
    wrong = out_of(1 - result.family.confidence, 100)
    if result.stopping:
        yield f"At most {wrong} such runs call a true claim false."
    elif gated and result.outcome in ("go", "stop"):
        yield f"At most {wrong} such runs {'pass' if result.outcome == 'go' else 'stop'} wrongly."


def _of_hero(record: GateRecord, row: Frequency | None) -> Iterator[str]:
    """Yield how sure the outcome of a gate is, and whether more is to be found."""
    number = row and row.measurement
    census = number and number.census
    several = census.lower if census and len(census.values) > 1 else ()
    if row and row.limit is not None and record.outcome == "fail":
        over = sum(lower > row.limit for lower in several)
        which = f"{over} of {len(several)} judged trainings are" if several else "its interval is"
        yield f"Surely too much: {which} over the limit for sure."
    elif row and row.limit is not None and record.outcome == "pass":
        which = f"none of {len(several)} judged trainings" if several else "no part of its interval"
        yield f"Surely below the limit: {which} is over it."
    decides = f"; {record.remedy}" if record.remedy else ""
    if record.strength:
        yield f"{record.strength.removesuffix('.')}{decides}."
    elif record.trainings:
        what = "tell on which side of the limit the model is"
        if row and number and row.limit is not None and number.estimate.upper <= row.limit:
            what = "say of the next training what it says of these, which keep the limit"
        decide = f"{record.trainings} trainings in all decide it if the others are like these"
        yield f"This run is too small to {what}; {decide}."
    elif record.outcome == "inconclusive":
        yield f"It is open on which side of the limit the model is{decides}."
    if number and number.learning and number.learning[-1].lower > 0 and row:
        before, last = number.learning[-2:]
        yield (
            f"Perhaps more: attackers find {counted(before.value, row.base)} with "
            f"{before.calibrating} trainings of their own, "
            f"{out_of(last.value, row.base)} with {last.calibrating}."
        )


def decisive(result: AuditResult) -> list[_Judged]:
    """Return the gates with the worst outcome, without waived ones.

    The number of the first is the furthest beyond its limit, or the nearest to it.
    """
    counted = [pair for pair in meter.gates(result) if pair[1].id not in result.waived]
    outcome = worst([record.outcome for _, record in counted])
    deciding = [pair for pair in counted if pair[1].outcome == outcome]
    return sorted(deciding, key=lambda pair: _excess(pair, result), reverse=True)


def _excess(pair: _Judged, result: AuditResult) -> float:
    """Return the number that decides a gate over its limit, or the inverse of a least number."""
    gate, record = pair
    number, limit = _deciding(gate, record, result), gate and (gate.max or gate.min)
    if number is None or not isinstance(limit, float) or limit <= 0:
        return 0.0
    estimate = number.estimate
    value = estimate.lower if number.metric == "epsilon" else estimate.value
    least = gate is not None and gate.min is not None
    return limit / max(value, _SMALLEST) if least else value / limit


def _reasons(result: AuditResult, deciding: Sequence[_Judged]) -> list[str]:
    """Return the reason of a run's outcome: what decided it, then what else it found."""
    if ids := expired(result):
        return [f"A waiver has expired: {', '.join(ids)}."]
    if result.stopping:
        return [_of_claims(result.stopping, len(result.models) > 1)]
    others = {
        "fail": ("gate fails", "gates fail"),
        "inconclusive": ("gate is undecided", "gates are undecided"),
    }
    if deciding and (more := others.get(deciding[0][1].outcome)):
        decided = _of_gate(*deciding[0], result, _more(len(deciding) - 1, *more))
        false = any(verdict.verdict == "false" for verdict in result.verdicts)
        return [*decided, *(_claims(result) if false else ())]
    return list(_undisturbed(result, deciding))


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


def _of_gate(
    gate: Gate | None, record: GateRecord, result: AuditResult, more: str = ""
) -> Iterator[str]:
    """Yield the number that decides a gate beside its limit, and its range."""
    number = _deciding(gate, record, result)
    if gate is None or number is None:
        yield f"{record.rule}: {record.reason}{more}."
        return
    yield f"{_comparison(gate, number, result, alone=len(record.numbers) < 2)}{more}."
    if row := meter.of(number, result):
        yield row.detail


def _deciding(gate: Gate | None, record: GateRecord, result: AuditResult) -> Measurement | None:
    """Return the measurement that decides a gate."""
    return next((number for number, _ in meter.numbers(gate, record, result)[:1]), None)


def _comparison(gate: Gate, measurement: Measurement, result: AuditResult, *, alone: bool) -> str:
    """Return a measurement beside the limit of a gate that judges it, alone or with others."""
    row = meter.of(measurement, result)
    named = f"{measurement.model}: " if len(result.models) > 1 else ""
    if row is not None:
        attacker = "" if alone else f"{row.attacker}: "
        return f"{named}{attacker}{row.sentence}"
    if digest.swept(result, measurement.model):
        named = f"{measurement.model} at ε = {words.epsilon(measurement.epsilon)}: "
    if measurement.observer and not alone:
        named += f"who sees {words.observer(measurement.observer)}: "
    # A field of a package's own is named by the place of the number alone.
    if any(field.place and field.name not in SHARED for field in measurement.described.known):
        named = f"{measurement.place}: "
    limit = gate.max if gate.min is None else gate.min
    if gate.judged == "epsilon":
        return f"{named}{_of_bound(measurement, limit, result)}"
    value = rounding.measured(measurement.estimate.value)
    side = "most" if gate.min is None else "least"
    quantity, detail = digest.quantity(measurement), str(measurement.detail or "")
    detail = f" ({detail})" if detail and not quantity.endswith(detail) else ""
    return f"{named}{quantity}{detail} is {value}, and is to be at {side} {limit:g}"


def _of_bound(measurement: Measurement, limit: float | str | None, result: AuditResult) -> str:
    what = "the claim" if limit == "claim" else "the limit"
    if limit == "claim":
        claimed = {(record.model, record.epsilon): record.claimed for record in result.verdicts}
        limit = claimed.get((measurement.model, measurement.epsilon))
    if not isinstance(limit, float) or measurement.estimate.lower <= limit:
        return f"no attack shows a leak above {what}"
    times = rounding.at_least(measurement.estimate.lower / limit, 2)
    return f"an attack shows a leak of at least {times} times {what}"


def _undisturbed(result: AuditResult, judged: Sequence[_Judged]) -> Iterator[str]:
    """Yield what a run shows that neither stops nor is open."""
    stated = [verdict for verdict in result.verdicts if verdict.claimed is not None]
    tested = any(verdict.verdict != "not tested" for verdict in stated)
    false = any(verdict.verdict == "false" for verdict in stated)
    if false:
        yield from _claims(result)
    waived = [pair for pair in meter.gates(result) if pair[1].id in result.waived]
    for gate, record in waived[:1]:
        first, *rest = _of_gate(gate, record, result, _more(len(waived) - 1, "gate", "gates"))
        yield from [f"Waived: {first}", *rest]
    if judged:
        gate, record = _pictured(result, judged)
        yield from _of_gate(gate, record, result)
        yield from _unlimited(result)
    elif tested and not result.gates:
        yield "No gate is set."
    if tested and not false:
        yield from _claims(result)
    elif stated and judged and not tested:
        yield "No privacy claim was tested."
    elif not judged and result.outcome == "no decision":
        tests = ", and no claim was tested" if stated else ""
        yield f"Nothing was decided: no gate is set{tests}."
        if sentence := sections_of(result).printed().result:
            yield sentence
            return
        for row in meter.rows(result)[:1]:
            yield f"{row.sentence}."
            yield row.detail


def _claims(result: AuditResult) -> Iterator[str]:
    """Yield what became of the claims, the models none of whose was tested, and the power."""
    stated = [verdict for verdict in result.verdicts if verdict.claimed is not None]
    counts: Counter[str] = Counter(
        _false_word(verdict, result) if verdict.verdict == "false" else palette.became(verdict)
        for verdict in sorted(stated, key=lambda verdict: _ORDER.index(verdict.verdict))
    )
    listed = ", ".join(f"{count} {word}" for word, count in counts.items())
    claims = "privacy claim" if len(stated) == 1 else "privacy claims"
    yield f"Of {len(stated)} {claims}: {listed}."
    verdicts: dict[str, set[Verdict]] = {}
    for verdict in stated:
        verdicts.setdefault(verdict.model, set()).add(verdict.verdict)
    untested = [model for model, words in verdicts.items() if words == {"not tested"}]
    if untested and len(verdicts) > 1:
        yield f"No claim of {' or '.join(untested)} was decided."


def _false_word(verdict: VerdictRecord, result: AuditResult) -> str:
    """Return what became of a false claim: it is waived, or stops the run, or is not set to."""
    if verdict.id in result.waived:
        return "false and waived"
    return "false" if result.fail_on_false_claim else "false (not set to stop the run)"


def _pictured(result: AuditResult, judged: Sequence[_Judged]) -> _Judged:
    """Return the first of gates that pass whose number counts what is found; else the first one."""
    numbers = ((pair, _deciding(*pair, result)) for pair in judged if pair[1].outcome == "pass")
    counted = (pair for pair, number in numbers if number and meter.of(number, result))
    return next(counted, judged[0])


def _unlimited(result: AuditResult) -> Iterator[str]:
    """Yield the kind's result, or the largest number that has no limit."""
    free = meter.unlimited(result)
    if sentence := sections_of(result).printed().result:
        yield sentence
    elif free:
        found, whose = free[0].counts[0], free[0].attacker
        whose = f"{free[0].measurement.model}, {whose}" if len(result.models) > 1 else whose
        others = "1 number has" if len(free) == 1 else f"{len(free)} numbers have"
        yield f"{others} no limit: the most is {found} ({whose})."
