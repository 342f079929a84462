"""What differs between two runs besides their results, and what keeps two numbers apart.

A number is about what was drawn (data, seed, targets), who attacks (attacks, what calibrates them)
and what is asked (rates, lengths of lists). Two runs compare models by a number only if all of that
is equal. Each kind of audit says what its numbers are about (`AuditKind.about`); what it does not
name counts too, so that a key that an older record lacks keeps numbers apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from dpaudit.core import registry
from dpaudit.core.membership import WITNESS
from dpaudit.core.messages import show
from dpaudit.record.metrics import entry
from dpaudit.record.result import AuditResult, Measurement, VerdictRecord

# The parts of a claim that decide what its verdict is about.
_CLAIMED = {"epsilon", "delta", "adjacency", "observer", "also"}


class Part(BaseModel):
    """A part of a comparison."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Difference(Part):
    """A setting that two runs do not share.

    Attributes:
        key: its dotted key, which begins with `data`, `config`, `claim`, `dpaudit` or
            `environment`; of what a number is about, without `config`.
        before: its value in the first run, or its beginning.
        after: its value in the second run.
    """

    key: str
    before: str
    after: str


def differences(before: AuditResult, after: AuditResult) -> Iterator[Difference]:
    """Yield what differs in the data, config, claims, version and environment of two runs."""
    yield from _unequal(_facts(before), _facts(after))


def apart(
    before: AuditResult,
    after: AuditResult,
    old: Measurement | VerdictRecord,
    new: Measurement | VerdictRecord,
) -> list[Difference]:
    """Return what two numbers, or two verdicts on a claim, are about and do not share.

    A seed that is not stored is of its run alone.

    Args:
        before: the record of one run.
        after: the record of another.
        old: a number, or a verdict, of the first.
        new: that of the second.
    """
    unlike = list(_unequal(_about(before, old), _about(after, new)))
    if before.config.get("seed", "entropy") == after.config.get("seed", "entropy") == "entropy":
        unlike.append(Difference(key="seed", before="not stored", after="not stored"))
    return unlike


def _about(result: AuditResult, one: Measurement | VerdictRecord) -> dict[str, Any]:
    """Return what a number or a verdict is about, by dotted keys."""
    facts: dict[str, Any] = {
        "kind": result.kind,
        "dpaudit": result.tool,
        "data.digest": result.data and result.data.digest,
        "seed": result.config.get("seed"),
    }
    installed = result.kind in registry.names("audits")
    kind = registry.load("audits", result.kind) if installed else None
    parts = list(_parts(result, one))
    for part in parts:
        facts |= _flat(kind.about(result, part) if kind else result.config)
    if parts != [one]:
        games = (part.pair or f"{part.unit} ({part.observer})" for part in parts)
        facts["games"] = ", ".join(sorted(games))
    if isinstance(one, VerdictRecord):
        for point in result.points:
            if point.claim and (point.model, point.epsilon) == (one.model, one.epsilon):
                facts |= _flat(point.claim.model_dump(include=_CLAIMED), "claim")
        facts["audit.confidence"] = result.family.confidence
    return facts


def _parts(result: AuditResult, one: Measurement | VerdictRecord) -> Iterator[Measurement]:
    """Yield the numbers that decide: those of all games for a verdict, or for what is derived."""
    if isinstance(one, Measurement) and not entry(one.metric).derived:
        yield one
        return
    metric = "epsilon" if isinstance(one, VerdictRecord) else "attack.advantage"
    for part in result.measurements:
        here = (part.metric, part.model, part.epsilon) == (metric, one.model, one.epsilon)
        joint = metric == "epsilon" or part.census or part.estimate.kind == "frequentist"
        if here and joint and part.observer != WITNESS:
            yield part


def _unequal(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Difference]:
    """Yield the values of nested tables that differ, by their dotted keys."""
    old, new = dict(_flat(before)), dict(_flat(after))
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield Difference(key=name, before=_said(old.get(name)), after=_said(new.get(name)))


def _facts(result: AuditResult) -> dict[str, Any]:
    return {
        "data": result.data and result.data.model_dump(),
        "config": result.config,
        "claim": {
            f"{point.model}, ε = {point.epsilon:g}": point.claim.model_dump()
            for point in result.points
            if point.claim
        },
        "dpaudit": result.tool,
        "environment": result.environment,
    }


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested tables and lists by their dotted keys."""
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list | tuple):
        parts = enumerate(value)
    else:
        yield name, value
    for key, part in parts:
        yield from _flat(part, f"{name}.{key}" if name else str(key))


def _said(value: Any) -> str:
    return "unset" if value is None else show(value)
