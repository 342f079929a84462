"""How far a published chain is from the law that it tends to, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpaudit.record.result import AuditResult
from dpaudit.reports import words
from dpaudit.reports.digest import Row
from dpaudit.reports.table import Table


def tables(by_model: Mapping[str, Sequence[Row]]) -> list[Table]:
    """One table for each model that is a chain."""
    return [
        _table(model, here)
        for model, here in by_model.items()
        if any(row.divergence for row in here)
    ]


def note(result: AuditResult) -> list[str]:
    """How to read the tables."""
    if not any(found.metric == "chain.divergence" for found in result.measurements):
        return []
    return [
        "The divergence of a chain is computed from its law: no trial is run, and no "
        "interval is needed. A small one says nothing about ε, which is about single lists "
        "and not about their average."
    ]


def _table(model: str, here: Sequence[Row]) -> Table:
    """The divergence of a chain after each number of steps, a column for every ε and states."""
    columns = [
        (f"ε = {words.epsilon(row.point.epsilon)}, {states}", found)
        for states in dict.fromkeys(states for row in here for states in row.divergence)
        for row in here
        if (found := row.divergence.get(states))
    ]
    steps = sorted({step for _, found in columns for step in found})
    return Table(
        caption=f"{model}: divergence of the law after so many steps from the law that the chain "
        "tends to, in nats (computed)",
        header=["steps", *(name for name, _ in columns)],
        cells=[
            [f"{step}", *(words.measured(found[step].value) for _, found in columns)]
            for step in steps
        ],
    )
