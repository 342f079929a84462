"""What reports show of recommenders that serve on demand, besides what they show of any model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from dpaudit.audits.on_demand import charts
from dpaudit.core import rounding
from dpaudit.reports import digest, words
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.digest import Row
from dpaudit.reports.sections.base import Sections
from dpaudit.reports.table import Table


class OnDemandSections(Sections):
    """Adds which ε to choose, and how far published chains are from their limit laws."""

    shown: ClassVar[frozenset[str]] = Sections.shown | {"chains"}

    def tables(self) -> list[Table]:
        """Return the tables of models, and one for each model that is a chain."""
        chains = [
            _chain(model, sweep)
            for model, sweep in digest.rows(self.result).items()
            if any(row.of("chain.divergence") for row in sweep)
        ]
        return [*super().tables(), *chains]

    def charts(self, look: Look) -> list[Chart | None]:
        """Return the charts of models, with those of ε, of changed lists and of chains."""
        accuracy, certified, rmse = super().charts(look)
        return [
            accuracy,
            charts.tradeoff(self.result, look),
            certified,
            charts.difference(self.result, look),
            rmse,
            charts.convergence(self.result, look),
        ]

    def notes(self) -> list[str]:
        """Return the note on chains."""
        if not digest.of(self.result, "chain.divergence"):
            return super().notes()
        return [
            *super().notes(),
            "The divergence of a chain is computed from its law, without trials, so it has no "
            "interval. A small divergence says nothing about ε: it is an average over lists, and ε "
            "is about single lists. “Explored states” are those that the chain reaches by the last "
            "step: a chain that never leaves its first state has explored one, on which any two "
            "laws agree.",
        ]


def _chain(model: str, sweep: Sequence[Row]) -> Table:
    """Return a table with a row for each number of steps, and a column for each ε and states."""
    divergences = [
        (row.point.epsilon, divergence)
        for row in sweep
        for divergence in row.of("chain.divergence")
    ]
    at = {(m.states, epsilon, m.step): m.estimate.value for epsilon, m in divergences}
    order = list(dict.fromkeys(divergence.states for _, divergence in divergences))
    columns = sorted(dict.fromkeys(key[:2] for key in at), key=lambda key: order.index(key[0]))
    steps = sorted({divergence.step or 0 for _, divergence in divergences})
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
