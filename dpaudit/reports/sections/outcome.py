"""The outcome of a run: why it is that, and what to do next, in words that need no statistics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpaudit.config.gate import Gate
from dpaudit.core import rounding
from dpaudit.record.fields import SHARED
from dpaudit.record.metrics import entry, table
from dpaudit.record.result import AuditResult, GateRecord, Measurement, Verdict, VerdictRecord
from dpaudit.reports import digest, palette, words
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import meter
from dpaudit.reports.sections.base import sections_of

# The order in which verdicts are counted.
_ORDER: tuple[Verdict, ...] = ("false", "survived", "not tested")

_Judged = tuple[Gate | None, GateRecord]

_GATE_COMMAND = "dpaudit gate FOLDER --policy FILE"


@dataclass(frozen=True)
class Decision:
    """The outcome of a run with its reason.

    Attributes:
        word: the outcome.
        sentences: what decided it, then what else was found, and what it leaves out.
    """

    word: palette.Word
    sentences: Sequence[str]

    @property
    def reason(self) -> str:
        """The sentences as one text."""
        return " ".join(self.sentences)


def decision_of(result: AuditResult) -> Decision:
    """Return the outcome of the run, and why it is that."""
    sentences = reasons(result)
    if result.waived:
        listed = ", ".join(sorted(result.waived))
        sentences = [*sentences, f"It does not count what is waived: {listed}."]
    return Decision(palette.run(result), sentences)


def reason_of(result: AuditResult) -> str:
    """Return the reason of a run's outcome as one text."""
    return " ".join(reasons(result))


def reasons(result: AuditResult) -> list[str]:
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
            false = any(verdict.verdict == "false" for verdict in result.verdicts)
            return [decided, *(_claims(result) if false else ())]
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
    measurement = _deciding(gate, record, result)
    if gate is None or measurement is None:
        return f"{record.rule}: {record.reason}"
    comparison = _comparison(gate, measurement, result, alone=len(record.numbers) < 2)
    if record.outcome == "fail":
        return comparison
    if record.strength:
        return f"{record.strength[:1].upper()}{record.strength[1:]}; {record.remedy}"
    if record.trainings:
        open_ = "This run is too small to tell on which side of the limit the model is"
        return f"{open_}: {comparison}; {record.trainings} trainings like these decide it"
    return f"It is open on which side of the limit the model is: {comparison}: {record.remedy}"


def _deciding(gate: Gate | None, record: GateRecord, result: AuditResult) -> Measurement | None:
    """Return the measurement that decides a gate."""
    return next((number for number, _ in meter.numbers(gate, record, result)[:1]), None)


def _comparison(gate: Gate, measurement: Measurement, result: AuditResult, *, alone: bool) -> str:
    """Return a measurement beside the limit of a gate that judges it, alone or with others."""
    frequency = meter.of(measurement, result)
    named = f"{measurement.model}: " if len(result.models) > 1 else ""
    if frequency is not None:
        attacker = "" if alone else f"{frequency.attacker}: "
        return f"{named}{attacker}{frequency.sentence}"
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
    name = entry(gate.metric).quantity or gate.metric
    return f"{named}{name} is {value}, and is to be at {side} {limit:g}"


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
    if judged:
        several = "Both gates pass." if len(judged) == 2 else f"All {len(judged)} gates pass."
        yield several if len(judged) > 1 else "The gate passes."
        yield from _nearest(result, judged)
        yield from dict.fromkeys(record.strength for _, record in judged[:1] if record.strength)
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
    kept = [verdict for verdict in stated if verdict.verdict == "survived"]
    if kept:
        yield f"Where claims survived, a leak of {words.caught(kept)} is caught."


def _false_word(verdict: VerdictRecord, result: AuditResult) -> str:
    """Return what became of a false claim: it is waived, or stops the run, or is not set to."""
    if verdict.id in result.waived:
        return "false and waived"
    return "false" if result.fail_on_false_claim else "false (not set to stop the run)"


def _nearest(result: AuditResult, judged: Sequence[_Judged]) -> Iterator[str]:
    """Yield the number nearest to its limit, then the kind's result or the largest unlimited."""
    deciding = [_deciding(gate, record, result) for gate, record in judged]
    rows = [meter.of(measurement, result) for measurement in deciding if measurement]
    limited = [row for row in rows if row and row.limit]
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


def next_step(result: AuditResult) -> str:
    """Return the next step after a run."""
    steps = {"stop": _mend, "undecided": _narrow, "go": _keep, "no decision": _decide}
    return f"Next: {steps[result.outcome](result)}."


def _mend(result: AuditResult) -> str:
    if any(waiver.state == "expired" for waiver in result.waivers):
        return "review what the expired waiver accepts, then remove or renew it"
    if result.stopping:
        return (
            "correct the mechanism or the claim, or accept the finding until a day by a "
            f"[[waiver]] with id = {result.stopping[0].id!r}"
        )
    return (
        "change the model and run again, or correct the limit and judge this run by it: "
        f"{_GATE_COMMAND!r}; report.html shows what leaks"
    )


def _narrow(result: AuditResult) -> str:
    counted = (gate for gate in result.gates if gate.id not in result.waived)
    undecided = [gate for gate in counted if gate.outcome == "inconclusive"]
    needed = [gate.trainings for gate in undecided if gate.trainings is not None]
    steps = dict.fromkeys(gate.remedy[:1].lower() + gate.remedy[1:] for gate in undecided)
    if needed:
        trainings = f"membership.trainings = {max(needed)}"
        steps = {f"set {trainings}, which decides if further trainings show the like": None} | steps
    return "; and ".join(filter(None, steps)) or "do what the reason of the gate asks"


def _decide(result: AuditResult) -> str:
    name = _limitable(result)
    metric = f" with metric = {name!r}" if name else ""
    gate = (
        f"set a limit by a [[gate]]{metric}, and judge this run by it: {_GATE_COMMAND!r}; with "
        "audit.require_decision = true a run that decides nothing exits with 4"
    )
    if any(verdict.claimed is not None for verdict in result.verdicts):
        return f"test the claim, as the verdict above says; or {gate}"
    return gate


def _limitable(result: AuditResult) -> str | None:
    """Return the best of what was measured of an attacker that a gate may limit."""
    metrics = [entry(name) for name in dict.fromkeys(m.metric for m in result.measurements)]
    if any(point.traits.get("forget") for point in result.points):
        metrics = [metric for metric in table().values() if metric.restricts]
    able = [metric for metric in metrics if metric.gateable and metric.role != "utility"]
    return max(able, key=lambda metric: bool(metric.orders)).name if able else None


def _keep(_: AuditResult) -> str:
    return (
        "open report.html for what was not tried, and keep the record as the baseline of the next "
        "run: 'dpaudit gate FOLDER --baseline RECORD'"
    )
