"""The outcome of a run: why it is that, and what to do next, in words that need no statistics."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpaudit.config.gate import Gate
from dpaudit.core import rounding
from dpaudit.record.fields import SHARED
from dpaudit.record.metrics import entry, table
from dpaudit.record.result import (
    AuditResult,
    GateRecord,
    Measurement,
    Verdict,
    VerdictRecord,
    worst,
)
from dpaudit.record.storage import NAME
from dpaudit.reports import digest, frequency, palette, words
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections import meter
from dpaudit.reports.sections.base import sections_of

# The order in which verdicts are counted.
_ORDER: tuple[Verdict, ...] = ("false", "survived", "not tested")

_Judged = tuple[Gate | None, GateRecord]

# A setting that a remedy names.
_SETTING = re.compile(r"\b([a-z_]+(?:\.[a-z_]+)+) = ([\d.]*\d)")
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


@dataclass(frozen=True)
class Step:
    """A next step after a run.

    Attributes:
        name: what to do, in a word or two.
        text: what it is about, as the end of a sentence.
        command: what to run, as printed; empty if nothing is.
    """

    name: str
    text: str
    command: str = ""


def decision_of(result: AuditResult) -> Decision:
    """Return the outcome of the run, and why it is that."""
    deciding = [] if result.stopping or _expired(result) else decisive(result)
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


def _expired(result: AuditResult) -> list[str]:
    return [waiver.id for waiver in result.waivers if waiver.state == "expired"]


def _wrong(result: AuditResult, *, gated: bool) -> Iterator[str]:
    """Yield how often such a run decides wrongly, and what claims that survive leave open."""
    if _expired(result):
        return
    kept = [verdict for verdict in result.verdicts if verdict.verdict == "survived"]
    if kept:
        yield f"Where claims survived, a leak of {words.caught(kept)} is caught."
    wrong = frequency.out_of(1 - result.family.confidence, 100)
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
        small = "This run is too small to tell on which side of the limit the model is"
        yield f"{small}; {record.trainings} trainings like these decide it."
    elif record.outcome == "inconclusive":
        yield f"It is open on which side of the limit the model is{decides}."
    if number and number.learning and number.learning[-1].lower > 0 and row:
        before, last = number.learning[-2:]
        yield (
            f"Perhaps not all: attackers find {frequency.counted(before.value, row.base)} with "
            f"{before.calibrating} trainings of their own, "
            f"{frequency.out_of(last.value, row.base)} with {last.calibrating}."
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
    if expired := _expired(result):
        return [f"A waiver has expired: {', '.join(expired)}."]
    if result.stopping:
        return [_of_claims(result.stopping, len(result.models) > 1)]
    others = {
        "fail": ("gate fails", "gates fail"),
        "inconclusive": ("gate is open", "gates are open"),
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


def steps(result: AuditResult, folder: str | None = None) -> list[Step]:
    """Return the next steps after a run, at most three, the best first.

    A run that a model stops which can be trained again has a fourth: the search for settings that
    pass.

    Args:
        result: the record.
        folder: where the record is kept; the default folder of its config if it is not known.
    """
    path = digest.config_path(result)
    at = shlex.quote(folder or f"dpaudit-out/{Path(path).stem}")
    ways = {"stop": _mend, "undecided": _narrow, "go": _keep, "no decision": _decide}
    next_steps = list(ways[result.outcome](result, digest.command(result, path), at))[:3]
    if result.outcome == "stop" and digest.tunes(result):
        command = digest.command(result, path, "tune")
        next_steps.append(Step("Or search", "settings that pass, and what they cost", command))
    return next_steps


def _mend(result: AuditResult, run: str, at: str) -> Iterator[Step]:
    if expired := _expired(result):
        yield Step("Review", f"what the waiver of {expired[0]} accepts, then remove or renew it")
        return
    finding = result.stopping[0].id if result.stopping else None
    if finding:
        yield Step("Correct", "the mechanism or the claim, then run again", run)
    else:
        yield Step("Mend", "the model, then run again", run)
        yield Step(
            "Or correct the limit",
            "by a [[gate]] in limits.toml",
            f"dpaudit gate {at} --policy limits.toml",
        )
        finding = decisive(result)[0][1].id
    waiver = f"until a day, by a [[waiver]] with id = {finding!r} in waivers.toml"
    yield Step("Or accept the finding", waiver, f"dpaudit gate {at} --waivers waivers.toml")


def _narrow(result: AuditResult, run: str, at: str) -> Iterator[Step]:
    gates = [gate for _, gate in decisive(result)]
    needed = [gate.trainings for gate in gates if gate.trainings is not None]
    if needed:
        command = f"{run} -s membership.trainings={max(needed)}"
        yield Step(f"Train {max(needed)}", "models, which decides if more show the like", command)
    remedies = dict.fromkeys(gate.remedy for gate in gates if gate.remedy)
    for remedy in remedies or ([] if needed else ["do what the reason of the gate asks"]):
        settings = [f"-s {name}={value}" for name, value in _SETTING.findall(remedy)]
        command = " ".join([run, *settings]) if settings else ""
        yield Step("Decide:", f"{remedy[:1].lower()}{remedy[1:]}", command)


def _decide(result: AuditResult, run: str, at: str) -> Iterator[Step]:
    if any(verdict.claimed is not None for verdict in result.verdicts):
        yield Step("Test the claim", "as its verdict says")
    name = _limitable(result)
    metric = f" with metric = {name!r}" if name else ""
    yield Step(
        "Set a limit",
        f"by a [[gate]]{metric} in limits.toml",
        f"dpaudit gate {at} --policy limits.toml",
    )
    text = "so that a run that decides nothing exits with 4"
    yield Step("Or require one", text, f"{run} -s audit.require_decision=true")


def _keep(result: AuditResult, run: str, at: str) -> Iterator[Step]:
    if any(gate.attacker for gate in result.gates):
        text = "without attacker in the gate: who trains such models usually finds more"
        command = f"{run} -s membership.trainings=24"
        yield Step("Try stronger attackers", text, command)
    yield Step(
        "Keep",
        "the record as the baseline of the next run",
        f"cp {at}/{NAME} baseline.json && dpaudit gate {at} --baseline baseline.json",
    )
    yield Step(
        "Show", "a privacy card on one page", f"dpaudit report {at} --format card -o card.html"
    )


def _limitable(result: AuditResult) -> str | None:
    """Return the best of what was measured of an attacker that a gate may limit."""
    metrics = [entry(name) for name in dict.fromkeys(m.metric for m in result.measurements)]
    if any(point.traits.get("forget") for point in result.points):
        metrics = [metric for metric in table().values() if metric.restricts]
    able = [metric for metric in metrics if metric.gateable and metric.role != "utility"]
    return max(able, key=lambda metric: bool(metric.orders)).name if able else None
