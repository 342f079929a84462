"""Tables of the divergence of published chains from their limit laws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpaudit.core import rounding
from dpaudit.record.result import AuditResult
from dpaudit.reports import words
from dpaudit.reports.digest import Row
from dpaudit.reports.table import Table


def tables(by_model: Mapping[str, Sequence[Row]]) -> list[Table]:
    """Return one table for each model that is a chain."""
    return [
        _table(model, here)
        for model, here in by_model.items()
        if any(row.of("chain.divergence") for row in here)
    ]


def note(result: AuditResult) -> list[str]:
    """Return the notes that explain the tables."""
    if not any(found.metric == "chain.divergence" for found in result.measurements):
        return []
    return [
        "The divergence of a chain is computed from its law, without trials, so it has no "
        "interval. A small divergence says nothing about ε: it is an average over lists, and ε "
        "is about single lists. “Explored states” are those that the chain reaches by the last "
        "step: a chain that never leaves its first state has explored one, on which any two laws "
        "agree."
    ]


def _table(model: str, here: Sequence[Row]) -> Table:
    """Return a table with a row for each number of steps, and a column for each ε and states."""
    found = [(row.point.epsilon, each) for row in here for each in row.of("chain.divergence")]
    at = {(each.states, epsilon, each.step): each.estimate.value for epsilon, each in found}
    order = list(dict.fromkeys(each.states for _, each in found))
    columns = sorted(dict.fromkeys(key[:2] for key in at), key=lambda key: order.index(key[0]))
    steps = sorted({each.step or 0 for _, each in found})
    return Table(
        caption=f"{model}: divergence of the chain's law after each number of steps from its limit "
        "law, in nats (computed)",
        header=[
            "steps",
            *(f"ε = {words.epsilon(epsilon)}, {states}" for states, epsilon in columns),
        ],
        cells=[
            [f"{step}", *(rounding.measured(at[*column, step]) for column in columns)]
            for step in steps
        ],
    )
