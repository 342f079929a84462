"""The charts of a record, as Vega-Lite specifications with their data."""

from __future__ import annotations

from collections.abc import Callable

from dpaudit.core.messages import plain
from dpaudit.record.metrics import ordered
from dpaudit.record.result import AuditResult
from dpaudit.reports.chart_parts import Chart, Look
from dpaudit.reports.sections.base import sections_of


def render(result: AuditResult) -> list[Chart]:
    """Return every chart for which the record has numbers to compare."""
    drawn = sections_of(result).charts(looks(result))
    return [chart for chart in drawn if chart and chart.panels]


def looks(result: AuditResult) -> Look:
    """Return the colours of models, those that leak most first."""
    return Look(sorted((plain(model.label) for model in result.models), key=_order(result)))


def _order(result: AuditResult) -> Callable[[str], list[float]]:
    metrics = ordered(measurement.metric for measurement in result.measurements)
    leaks = [metric.name for metric in metrics if metric.orders]
    most: dict[str, list[float]] = {}
    for measurement in result.measurements:
        row = most.setdefault(plain(measurement.model), [0.0] * (len(leaks) + 1))
        if measurement.metric in leaks:
            column = leaks.index(measurement.metric)
            row[column] = min(row[column], -measurement.estimate.value)
        elif measurement.metric == "epsilon":
            row[-1] = min(row[-1], -measurement.estimate.lower)
    return lambda model: most.get(model, [0.0])
