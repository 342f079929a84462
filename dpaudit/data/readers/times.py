"""The times of interactions: numbers, or dates as in ISO 8601."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.messages import show
from dpaudit.data.readers.cells import Fault, RawTable, factorize, identifier, number
from dpaudit.data.readers.missing import is_missing


def of(table: RawTable) -> tuple[NDArray[np.float64], list[Fault]]:
    """Return the time of each row `(n,)`, and the fault of the first that cannot be read.

    Numbers stay as they are. Dates become seconds since 1970; those without a time zone are UTC.
    """
    codes, distinct = factorize(table, "time")
    read = number if _numbers(distinct) else _seconds
    times = np.array([*map(read, distinct), np.nan])[codes]
    wrong = ~np.isfinite(times)
    if not wrong.any():
        return times, []
    row = int(np.argmax(wrong))
    value = distinct[codes[row]] if codes[row] >= 0 else ""
    if is_missing(identifier(value)):
        return times, [(row, "time", "the time is missing: complete or remove the row")]
    fault = (
        f"the time {show(value)} is neither a number nor a date such as 2026-01-31 or "
        "2026-01-31T12:00:00Z: convert it, or leave out columns.time"
    )
    return times, [(row, "time", fault)]


def moment(value: Any) -> float:
    """Return a number, or a date in seconds since 1970; NaN if it is neither."""
    as_number = number(value)
    return _seconds(value) if np.isnan(as_number) else as_number


def _numbers(values: list[Any]) -> bool:
    """Return whether most values are numbers, so that the others are wrong."""
    return 2 * sum(not np.isnan(number(value)) for value in values) > len(values)


def _seconds(value: Any) -> float:
    """Return a date in seconds since 1970, NaN if it is none."""
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(_text(value))
    except ValueError:
        return np.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value).strip()
