"""All numbers of a record as a table for programs."""

from __future__ import annotations

import csv
import io

from dpaudit.core.estimate import Estimate
from dpaudit.core.messages import plain
from dpaudit.record.metrics import table
from dpaudit.record.result import AuditResult

# What a spreadsheet computes if a cell begins with it.
_FORMULA = ("=", "+", "-", "@")
_INTERVAL = Estimate.model_fields


def render(result: AuditResult) -> str:
    """Render all numbers as CSV: a row for each, with what identifies it and its interval.

    The columns are those of every metric, so that tables of several runs have the same ones. A
    field that has the name of a column of the interval is `field.NAME`.
    """
    metrics = [*table().values(), *(number.described for number in result.measurements)]
    keys = (field.name for metric in metrics for field in metric.known if field.key)
    names = ["model", "metric", "epsilon", *dict.fromkeys(keys)]
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*(f"field.{name}" if name in _INTERVAL else name for name in names), *_INTERVAL])
    for number in result.measurements:
        fields = number.fields
        cells = [*(fields.get(name) for name in names), *dict(number.estimate).values()]
        rows.writerow([_cell(cell) if isinstance(cell, str) else cell for cell in cells])
    return text.getvalue()


def _cell(text: str) -> str:
    """Return text on one line that no spreadsheet computes."""
    shown = plain(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown
