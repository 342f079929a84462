"""What differs between two runs besides their results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from dpaudit.core.messages import show
from dpaudit.record.result import AuditResult


class Difference(BaseModel):
    """A setting that two runs do not share.

    Attributes:
        key: its dotted key, which begins with `data`, `config`, `claim`, `dpaudit` or
            `environment`.
        before: its value in the first run, or its beginning.
        after: its value in the second run.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    before: str
    after: str


def differences(before: AuditResult, after: AuditResult) -> Iterator[Difference]:
    """Yield what differs in the data, config, claims, version and environment of two runs."""
    old, new = (dict(_flat(_facts(result))) for result in (before, after))
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
