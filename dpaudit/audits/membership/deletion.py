"""What a record says of models that forget: whether what was deleted can still be told."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.core import rounding
from dpaudit.core.membership import FORGETS, Forgets
from dpaudit.record.result import STRONGEST, AuditResult, Measurement
from dpaudit.reports import digest, words


def method(result: AuditResult, label: str) -> Forgets | None:
    """Return how a model forgets its targets; None if it keeps them."""
    tables = result.config.get("recommender", [])
    return next((table.get("forget") for table in tables if table.get("label") == label), None)


def forgets(result: AuditResult, label: str) -> bool:
    """Whether a model forgets its targets before it is asked."""
    return method(result, label) is not None


def verdicts(result: AuditResult, label: str) -> Iterator[str]:
    """Yield for each kind of target whether it is forgotten; nothing of a model that forgets none.

    - NOT FORGOTTEN: the bound of an observer is above 0, jointly with all others of the audit.
    - FORGOTTEN, as far as its trainings tell: all are 0, and a leak that was planted was found.
    - UNDECIDED: all are 0, and some observer would not have found what was planted.
    """
    how = method(result, label)
    if how is None:
        return
    bounds = [m for m in digest.of(result, "epsilon") if m.model == label]
    for unit in dict.fromkeys(bound.unit for bound in bounds):
        of_unit = [bound for bound in bounds if bound.unit == unit]
        yield f"Deletion by {FORGETS[how]}. {_verdict(of_unit)}{_left(result, label, unit)}"


def _verdict(bounds: list[Measurement]) -> str:
    unit = bounds[0].unit
    worst = max(bounds, key=lambda bound: bound.estimate.lower)
    if worst.estimate.lower > 0:
        return (
            f"NOT FORGOTTEN: who sees {words.observer(worst.observer or '')} tells deleted {unit}s "
            f"from those that were never there, ε ≥ {rounding.at_least(worst.estimate.lower, 2)}."
        )
    planted = [bound.control for bound in bounds if bound.control and bound.control.found]
    if len(planted) == len(bounds):
        least = max(control.epsilon for control in planted)
        return (
            f"FORGOTTEN, as far as these trainings tell: no observer tells deleted {unit}s from "
            f"those that were never there, and each finds a planted leak of ε = {least:.2g}."
        )
    return (
        f"UNDECIDED: no observer tells deleted {unit}s from those that were never there, but the "
        "largest planted leak was not found by all: raise membership.trainings, or the number of "
        "targets."
    )


def _left(result: AuditResult, label: str, unit: str | None) -> str:
    """Say how much of the strongest advantage is left of the same model that forgets nothing."""
    tables = {table["label"]: table for table in result.config.get("recommender", [])}
    apart = {"label", "forget", "requests", "claim"}

    def same(table: dict[str, object]) -> dict[str, object]:
        return {key: value for key, value in table.items() if key not in apart}

    before = [
        name
        for name, table in tables.items()
        if not table.get("forget") and same(table) == same(tables[label])
    ]
    if not before:
        return ""
    after, first = (_advantage(result, name, unit) for name in (label, before[0]))
    if not (after and first):
        return ""
    return (
        f" The largest advantage of an observer is {words.interval(after.estimate)}, and "
        f"{words.interval(first.estimate)} before the deletion."
    )


def _advantage(result: AuditResult, label: str, unit: str | None) -> Measurement | None:
    numbers = [
        m
        for m in digest.of(result, "attack.advantage")
        if (m.model, m.unit, m.attack) == (label, unit, STRONGEST)
    ]
    return max(numbers, key=lambda m: m.estimate.value, default=None)
