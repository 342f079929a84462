"""The columns of measurements in tables of results, as the table of metrics describes them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from dpaudit.core.estimate import Estimate
from dpaudit.record.metric import Column, Metric
from dpaudit.record.metrics import entry, ordered
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports import words
from dpaudit.reports.table import NONE, Table


class Filled(NamedTuple):
    """A column of a table: its metric, its header and a cell for each row."""

    metric: Metric
    name: str
    cells: list[str]


def within(result: AuditResult, section: str) -> list[Measurement]:
    """Return the measurements of a section of the results."""
    return [number for number in result.measurements if entry(number.metric).section == section]


def columns(
    rows: Sequence[Sequence[Measurement]],
    top_k: int = 0,
    *,
    digits: int = 3,
    brief: bool = False,
    but: Sequence[str] = (),
) -> Iterator[Filled]:
    """Yield the columns of some rows, in the order of the table of metrics.

    Measurements of one row that share a label have columns that name what tells them apart; plain
    numbers share a cell.

    Args:
        rows: the measurements of each row.
        top_k: the length of lists.
        digits: digits of a number.
        brief: whether only the columns of the console are wanted.
        but: the fields that are columns of their own.
    """
    at: dict[str, list[list[Measurement]]] = {}
    for index, row in enumerate(rows):
        for measurement in row:
            at.setdefault(measurement.metric, [[] for _ in rows])[index].append(measurement)
    for metric in ordered(at):
        for column in metric.columns or (Column(metric.name),):
            if column.brief or not brief:
                yield from _filled(metric, column, at[metric.name], top_k, digits, but)


def _filled(
    metric: Metric,
    column: Column,
    rows: Sequence[Sequence[Measurement]],
    top_k: int,
    digits: int,
    but: Sequence[str],
) -> Iterator[Filled]:
    """Yield what a column of a metric becomes, with a header for each label."""
    hidden = {*column.fields, *but}
    labels: dict[str, dict[str, None]] = {}
    at: dict[tuple[int, str, str], str] = {}
    for index, row in enumerate(rows):
        for measurement in row:
            if column.of in (None, measurement.detail):
                label = column.label.format_map({"top_k": top_k, **_said(measurement)})
                detail = details(measurement, hidden)
                labels.setdefault(label, {})[detail] = None
                at[index, label, detail] = _SHOWN[column.show](measurement.estimate, digits)
    for label, extras in labels.items():
        if len(extras) > 1 and column.show != "number":
            for detail in extras:
                cells = [at.get((index, label, detail), NONE) for index in range(len(rows))]
                yield Filled(metric, f"{label}: {detail}" if detail else label, cells)
            continue
        some = [[at.get((index, label, detail)) for detail in extras] for index in range(len(rows))]
        cells = [" / ".join(c or NONE for c in cell) if any(cell) else NONE for cell in some]
        yield Filled(metric, f"{label}: {', '.join(extras)}" if len(extras) > 1 else label, cells)


def of_section(
    result: AuditResult, section: str, caption: str = "", but: Sequence[str] = ()
) -> Table | None:
    """Return the table of a section, with a row for each model and ε.

    Args:
        result: the record.
        section: the section.
        caption: what the table shows; the section's name if empty.
        but: fields of what stands elsewhere.
    """
    at: dict[tuple[str, float], list[Measurement]] = {}
    for measurement in within(result, section):
        if not any(_given(measurement, name) for name in but):
            at.setdefault((measurement.model, measurement.epsilon), []).append(measurement)
    filled_columns = list(columns(list(at.values()), longest(result)))
    cells = [
        [model, words.epsilon(epsilon), *(column.cells[index] for column in filled_columns)]
        for index, (model, epsilon) in enumerate(at)
    ]
    header = ["model", "ε", *(column.name for column in filled_columns)]
    return Table(caption or section, header, cells) if cells else None


def details(measurement: Measurement, hidden: Collection[str] = ()) -> str:
    """Return what tells a measurement from others of its metric, in words.

    Args:
        measurement: the measurement.
        hidden: the fields that stand elsewhere.
    """
    metric = measurement.described
    apart = [name for name in metric.apart if name not in hidden and _given(measurement, name)]
    return ", ".join(_worded(measurement, name) for name in apart)


def longest(result: AuditResult) -> int:
    """Return the length of the longest lists of any model."""
    return max((model.top_k for model in result.models), default=0)


def _given(measurement: Measurement, name: str) -> bool:
    return measurement.fields.get(name) is not None


def _said(measurement: Measurement) -> dict[str, Any]:
    """Return the fields of a measurement in words."""
    fields = {name: NONE if value is None else value for name, value in measurement.fields.items()}
    return fields if measurement.at is None else {**fields, "at": words.percent(measurement.at)}


def _worded(measurement: Measurement, name: str) -> str:
    """Return the value of a field, with the name of one that is a bare number."""
    value, field = _said(measurement)[name], measurement.described.field(name)
    return f"{name} {value}" if field and field.labelled else str(value)


def left(kept: Estimate) -> Estimate:
    """Return what a share leaves of 1."""
    return kept.changed(value=1 - kept.value, lower=1 - kept.upper, upper=1 - kept.lower)


_SHOWN: dict[str, Callable[[Estimate, int], str]] = {
    "interval": words.interval,
    "rest": lambda kept, digits: words.interval(left(kept), digits),
    "number": lambda estimate, _: words.number(estimate.value),
    "percent": lambda estimate, digits: words.percent(estimate.value, digits),
}
