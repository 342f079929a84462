"""What a record says of models that forget: whether what was deleted can still be told."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from dpaudit.core import rounding
from dpaudit.core.membership import UNLEARNING, WITNESS, Unlearning
from dpaudit.record.metrics import entry
from dpaudit.record.result import STRONGEST, AuditResult, FindingRecord, Measurement, Outcome, worst
from dpaudit.reports import digest, palette, words
from dpaudit.reports.sections import meter
from dpaudit.reports.sections.base import Printed

# Keys of a `[[recommender]]` in which a model differs from itself before the deletion.
_APART = {"label", "forget", "requests", "claim", "observers"}
# The words of a certified trace.
_TOLD = (palette.NOT_FORGOTTEN, palette.TRACE_LEFT)


def forgets(result: AuditResult, label: str) -> bool:
    """Whether a model forgets its targets before it is asked."""
    return _method(result, label) is not None


def units(result: AuditResult, label: str) -> list[str]:
    """Return the kinds of targets of a model that forgets; none of another."""
    bounds = _bounds(result, label) if forgets(result, label) else []
    return list(dict.fromkeys(bound.unit for bound in bounds if bound.unit))


def word(result: AuditResult, label: str, unit: str) -> palette.Word:
    """Return what became of one kind of target, as the gates that judge it have it.

    A trace is certified if the bound on ε of an observer is above 0, jointly with all others of the
    audit, or if a gate fails by an observer. A gate has a limit of its own, so the words follow the
    worst outcome of gates on these targets, of which the outcome of the run is made:

    | gates | a trace is certified | none, a planted leak was found | none, none was found |
    | --- | --- | --- | --- |
    | fail | NOT FORGOTTEN | | |
    | none | NOT FORGOTTEN | FORGOTTEN | DELETION UNDECIDED |
    | inconclusive | TRACE LEFT | DELETION UNDECIDED | DELETION UNDECIDED |
    | pass | TRACE LEFT | FORGOTTEN | NO TRACE FOUND |

    Where a finding leaves open what is seen, nothing is forgotten; where the audit has a fault,
    nothing is certified either.
    """
    bounds, judged = _bounds(result, label, unit), _judged(result, label, unit)
    open_ = _open(result, bounds)
    gates = worst([outcome for _, outcome in judged]) if judged else None
    trace = gates == "fail" or any(bound.estimate.lower > 0 for bound in bounds)
    if trace and not (open_ and open_.voids):
        return palette.NOT_FORGOTTEN if gates in (None, "fail") else palette.TRACE_LEFT
    if open_ or gates == "inconclusive":
        return palette.DELETION_UNDECIDED
    if _trace(bounds) is None:
        return palette.NO_TRACE if judged else palette.DELETION_UNDECIDED
    return palette.FORGOTTEN


def witnessed(result: AuditResult, label: str) -> Iterator[str]:
    """Yield what who saw a model before and after tells, which is no failure to forget."""
    for bound in digest.of(result, "epsilon"):
        if (bound.model, bound.observer) != (label, WITNESS):
            continue
        tells = (
            f"tells which {bound.unit}s were deleted, ε at least "
            f"{rounding.at_least(bound.estimate.lower, 2)}, however well they are forgotten"
            if bound.estimate.lower > 0
            else f"was not shown to tell which {bound.unit}s were deleted"
        )
        yield f"Who sees {words.observer(WITNESS)} {tells}; no verdict counts this."


def sentence(result: AuditResult, label: str, unit: str) -> str:
    """Return what became of one kind of target, with its numbers and those before the deletion."""
    how = UNLEARNING[_method(result, label) or "retrain"]
    certified = _teller(result, label, unit).estimate.lower
    bound = f" (ε at least {rounding.at_least(certified, 2)})" if certified > 0 else ""
    parts = [f"Deletion by {how}.", _plainly(result, label, unit, bound)]
    parts += _left(result, label, unit)
    if label in result.timing.deletions:
        training, deletion = map(words.seconds, result.timing.deletions[label])
        parts.append(f"It forgets in {deletion}; a training takes {training}.")
    return " ".join(parts)


def _plainly(result: AuditResult, label: str, unit: str, bound: str = "") -> str:
    """Return what became of one kind of target in words that need no statistics.

    Args:
        result: the record.
        label: the model.
        unit: the kind of target.
        bound: what is certified, behind who tells it.
    """
    verdict, bounds = word(result, label, unit), _bounds(result, label, unit)
    outcomes = {outcome for _, outcome in _judged(result, label, unit)}
    deleted = f"deleted {unit}s from those that were never there"
    if verdict in _TOLD:
        sight = words.observer(_teller(result, label, unit).observer or "")
        allowed = "it is open whether the limit" if "inconclusive" in outcomes else "the limit"
        beside = f", and {allowed} allows it" if verdict is palette.TRACE_LEFT else ""
        return f"{verdict.shown}: who sees {sight} tells {deleted}{bound}{beside}."
    if open_ := _open(result, bounds):
        return f"UNDECIDED: {open_.text}"
    said, trace = f"no observer tells {deleted}", _trace(bounds)
    if verdict is palette.FORGOTTEN and trace is not None:
        return (
            f"FORGOTTEN, as far as these trainings tell: {said}, and each would find a trace by "
            f"which {_right(trace)} of 100 guesses are right, where chance has 50."
        )
    missed = "the largest planted leak was not found by all"
    if verdict is palette.NO_TRACE:
        return f"{verdict.shown}: {said}, and the limit is kept, but {missed}."
    if "inconclusive" in outcomes:
        return f"UNDECIDED: {said}, but it is open whether the limit is kept."
    return f"UNDECIDED: {said}, but {missed}: raise membership.trainings, or the number of targets."


def printed(result: AuditResult) -> Printed:
    """Return what a privacy card says of deletions: the request, the tries and the results."""
    audited = [
        (model.label, unit) for model in result.models for unit in units(result, model.label)
    ]
    if not audited:
        return Printed()
    ordered = sorted(audited, key=lambda one: palette.order(word(result, *one)))
    by_word: dict[str, list[str]] = {}
    for label, unit in ordered:
        by_word.setdefault(word(result, label, unit).shown, []).append(f"{label} ({unit}s)")
    listed = " ".join(f"{what}: {'; '.join(names)}." for what, names in by_word.items())
    sizes: Mapping[str, Any] = result.config["membership"]
    kinds = dict.fromkeys(f"{unit}s" for _, unit in audited)
    counted = " and ".join(f"{sizes[kind]:,} {kind}" for kind in kinds)
    games = [bound for one in audited for bound in _bounds(result, *one)]
    seen = dict.fromkeys(words.observer(game.observer or "") for game in games)
    return Printed(
        "Deletion",
        listed if len(ordered) > 1 else _plainly(result, *ordered[0]),
        {
            "Deleted": f"{counted}: a coin decided for each whether it was trained on and then "
            "deleted, or never there.",
            "Tried": f"{len(result.attacks)} attacks on {sizes['trainings']} trainings of each "
            f"model, by who sees {'; or '.join(seen)}, after the deletion alone.",
        },
        [_row(result, *one) for one in ordered],
    )


def _row(result: AuditResult, label: str, unit: str) -> dict[str, str]:
    bounds = _bounds(result, label, unit)
    verdict, trace = word(result, label, unit), _trace(bounds)
    teller = "nobody; too few trainings or targets to find a trace"
    if verdict in _TOLD:
        teller = f"who sees {words.observer(_teller(result, label, unit).observer or '')}"
    elif trace is not None:
        teller = f"nobody; a trace that makes {_right(trace)} of 100 guesses right would be found"
    requests = _table(result, label).get("requests", 1)
    return {
        "model": label,
        "deleted": f"{unit}s{f', in {requests:,} requests' if requests > 1 else ''}",
        "by": UNLEARNING[_method(result, label) or "retrain"],
        "result": verdict.shown,
        "told by": teller,
    }


def _right(epsilon: float) -> int:
    """Return how many of 100 guesses a planted leak makes right, rounded up."""
    # Randomised response is right with probability e^ε / (1 + e^ε).
    return math.ceil(round(100 / (1 + math.exp(-epsilon)), 9))


def _teller(result: AuditResult, label: str, unit: str) -> Measurement:
    """Return the bound of the observer who tells most: by whom a gate is decided, if one is."""
    judged = [one.observer for one, _ in _judged(result, label, unit)]
    first = judged[0] if judged else None
    bounds = _bounds(result, label, unit)
    certified = any(bound.estimate.lower > 0 for bound in bounds)

    def order(bound: Measurement) -> tuple[bool, bool, float]:
        lower = bound.estimate.lower
        return lower > 0 or not certified, bound.observer == first, lower

    return max(bounds, key=order)


def _judged(result: AuditResult, label: str, unit: str) -> list[tuple[Measurement, Outcome]]:
    """Return what gates with a largest value judged of one kind of target, the worst first."""
    judged = [
        (one, outcome)
        for gate, record in meter.gates(result)
        if gate and gate.max is not None
        for one, outcome in meter.numbers(gate, record, result)
        if one and (one.model, one.unit) == (label, unit) and one.observer != WITNESS
        # A limit below chance is broken by what is forgotten too.
        if gate.max == "claim" or gate.max >= _chance(one)
    ]
    return sorted(judged, key=lambda one: one[1] != worst([outcome for _, outcome in judged]))


def _chance(one: Measurement) -> float:
    """Return what a number is if nothing is told."""
    mirror = entry(one.metric).mirror
    return (one.at or 0.0) if mirror is None else mirror / 2


def _open(result: AuditResult, bounds: Sequence[Measurement]) -> FindingRecord | None:
    """Return a finding that leaves open what an observer tells, one of a fault first."""
    findings = [one for one in result.findings if any(map(one.opens, bounds))]
    return max(findings, key=lambda one: one.voids, default=None)


def _trace(bounds: Sequence[Measurement]) -> float | None:
    """Return the ε of the least planted leak that every observer finds; None if one finds none."""
    traces = [[trace.epsilon for trace in bound.traces if trace.found] for bound in bounds]
    return max(map(min, traces)) if all(traces) else None


def _bounds(result: AuditResult, label: str, unit: str | None = None) -> list[Measurement]:
    return [
        bound
        for bound in digest.of(result, "epsilon")
        if bound.model == label and unit in (None, bound.unit) and bound.observer != WITNESS
    ]


def _method(result: AuditResult, label: str) -> Unlearning | None:
    methods = (point.traits.get("forget") for point in result.points if point.model == label)
    return cast("Unlearning | None", next(methods, None))


def _table(result: AuditResult, label: str) -> Mapping[str, Any]:
    """Return the table of a recommender; an empty one of another model."""
    tables = result.config.get("recommender", [])
    return next((table for table in tables if table.get("label") == label), {})


def _left(result: AuditResult, label: str, unit: str) -> Iterator[str]:
    """Say how much of the strongest advantage is left of the same model that forgets nothing."""

    def same(table: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in table.items() if key not in _APART}

    kept = same(_table(result, label))
    before = [
        model.label
        for model in result.models
        if not forgets(result, model.label) and same(_table(result, model.label)) == kept
    ]
    if not before:
        return
    after, first = (_advantage(result, name, unit) for name in (label, before[0]))
    if after and first:
        yield (
            f"The largest advantage of an observer is {words.interval(after.estimate)}, and "
            f"{words.interval(first.estimate)} before the deletion."
        )


def _advantage(result: AuditResult, label: str, unit: str) -> Measurement | None:
    numbers = [
        m
        for m in digest.of(result, "attack.advantage")
        if (m.model, m.unit, m.attack) == (label, unit, STRONGEST) and m.observer != WITNESS
    ]
    return max(numbers, key=lambda m: m.estimate.value, default=None)
