"""The interactive charts, as Vega-Lite specifications with their data."""

from __future__ import annotations

from collections.abc import Callable

from dpaudit.core.messages import plain
from dpaudit.record.metrics import ordered
from dpaudit.record.result import AuditResult
from dpaudit.reports import series
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.digest import rows
from dpaudit.reports.sections import (
    certified_chart,
    curves,
    guesses,
    membership,
    membership_chart,
    recovery_chart,
    sybil_chart,
    tradeoff_chart,
    transcripts_chart,
)


def render(result: AuditResult) -> list[Chart]:
    """Return every chart for which the record has numbers."""
    by_model = rows(result)
    look = looks(result)
    bounds = certified_chart.chart(series.certified(by_model), look)
    if membership.audited(result):
        found = [*membership_chart.charts(result, look), bounds]
        return [chart for chart in found if chart]
    claims = series.claims(result.verdicts)
    found = [
        curves.accuracy(series.accuracy(by_model), look, guesses.of_attacks(result)),
        tradeoff_chart.chart(by_model, claims, look, guesses.of_attacks(result)),
        bounds,
        curves.difference(series.difference(by_model), look),
        curves.rmse(series.rmse(by_model), look),
        recovery_chart.chart(result, look),
        curves.convergence(series.convergence(by_model)),
        sybil_chart.chart(result),
        *transcripts_chart.charts(result, look),
    ]
    return [chart for chart in found if chart]


def looks(result: AuditResult) -> Look:
    """Return the colours of models, those that leak most first."""
    return Look(sorted((plain(model.label) for model in result.models), key=_order(result)))


def _order(result: AuditResult) -> Callable[[str], list[float]]:
    leaks = [each.name for each in ordered(m.metric for m in result.measurements) if each.orders]
    most: dict[str, list[float]] = {}
    for found in result.measurements:
        here = most.setdefault(plain(found.model), [0.0] * (len(leaks) + 1))
        if found.metric in leaks:
            place = leaks.index(found.metric)
            here[place] = min(here[place], -found.estimate.value)
        elif found.metric == "epsilon":
            here[-1] = min(here[-1], -found.estimate.lower)
    return lambda model: most.get(model, [0.0])
