"""The times of interactions: numbers, or dates as in ISO 8601."""

from __future__ import annotations

import math
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.messages import show
from dpaudit.data.readers.cells import Coded, Fault, RawTable, identifier, is_missing, number

# The times of 1990 and 2040 in seconds since 1970, and the number of each unit in a second.
_FROM, _TO = 631_152_000, 2_208_988_800
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
# Numbers that are dates, such as 20260131, by their length.
_STAMPS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
# The share of numbers in a column of times since 1970 that are likely such.
_LIKELY = 0.9


def of(table: RawTable) -> tuple[NDArray[np.float64], list[Fault]]:
    """Return the time of each row `(n,)`, and the fault of the first that cannot be read.

    Numbers stay as they are. Dates become seconds since 1970; those without a time zone are UTC.
    """
    column = table.coded("time")
    read = number if _numbers(column.distinct) else _seconds
    times = column.per_row(map(read, column.distinct), np.nan)
    wrong = ~np.isfinite(times)
    if not wrong.any():
        return times, _mixed(times, column)
    row = int(np.argmax(wrong))
    value = column.cell(row)
    if is_missing(identifier(value)):
        return times, [(row, "time", "the time is missing: complete or remove the row")]
    fault = (
        f"the time {show(value)} is neither a number nor a date such as 2026-01-31 or "
        "2026-01-31T12:00:00Z: convert it, or leave out columns.time"
    )
    return times, [(row, "time", fault)]


def _mixed(times: NDArray[np.float64], column: Coded) -> list[Fault]:
    """Return the fault of the first time in another unit than most, if most have a known one."""
    units = {name: (times >= _FROM * of) & (times < _TO * of) for name, of in _UNITS.items()}
    counts = {name: int(mask.sum()) for name, mask in units.items() if mask.any()}
    if len(counts) < 2 or sum(counts.values()) < _LIKELY * len(times):
        return []
    usual = max(counts, key=lambda name: counts[name])
    row, other = min((int(np.argmax(units[name])), name) for name in counts if name != usual)
    fault = (
        f"the time {show(column.cell(row))} looks like {other}, and most others like {usual}: "
        "write all times in one unit"
    )
    return [(row, "time", fault)]


def unit(time: float) -> str | None:
    """Return the unit of a time of 1990 to 2040, counted from 1970; None if it is no such time."""
    return next((name for name, of in _UNITS.items() if _FROM * of <= time < _TO * of), None)


def unit_of(times: NDArray[np.float64]) -> str | None:
    """Return the unit of the median of some times, as in `unit`."""
    return unit(float(np.median(times))) if len(times) else None


def in_unit_of(times: NDArray[np.float64], time: float) -> float:
    """Return a time in the unit of others, or as a date in digits as they are.

    It stays as it is if its unit is not known, or if it lies among others of no known unit; it is
    NaN if these cannot be compared with it.
    """
    own, theirs = unit(time), unit_of(times)
    if own is None or not len(times):
        return time
    if theirs is not None:
        return time * _UNITS[theirs] / _UNITS[own]
    text = f"{np.quantile(times, 0.5, method='lower'):.0f}"
    with suppress(KeyError, ValueError):
        if 1990 <= datetime.strptime(text, stamp := _STAMPS[len(text)]).year < 2040:
            return float(datetime.fromtimestamp(time / _UNITS[own], UTC).strftime(stamp))
    return time if times.min() <= time <= times.max() else math.nan


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
    # BigQuery writes 2026-01-31 12:00:00 UTC.
    return value.isoformat() if isinstance(value, date) else str(value).strip().removesuffix(" UTC")
