"""The columns of a file as read, and the conversion of cells to ids, numbers and times.

Markers that programs write in place of a missing value are no ids.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.core.rounding import plain_number
from dpaudit.data.ratings import Repair
from dpaudit.data.source_parts import Column, Layout

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
# A fault in a cell of a table: (row, meaning of the column, description).
Fault = tuple[int, str, str]
# The most names of columns in a message.
_NAMES = 12
# In lower case: pandas, R, SQL, spreadsheets, C, JavaScript, MySQL dumps, and signs set by hand.
MARKERS = frozenset(
    {
        *("", "nan", "-nan", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan", "<na>", "nat", "none"),
        *("n.a.", "(none)", "<none>", "(blank)", "[deleted]", "—", "\\\\n"),
        *("na", "n/a", "#n/a", "#n/a n/a", "#na", "#null!", "#value!", "#ref!", "#name?", "#num!"),
        *("#div/0!", "null", "(null)", "<null>", "[null]", "nil", "undefined", "\\n"),
        *("inf", "+inf", "-inf", "infinity", "+infinity", "-infinity"),
        *("-", "?", "-1", "-1.0"),
    }
)
_NEGATIVE = re.compile(r"-[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Coded:
    """A column as the number of the value of each row.

    Attributes:
        codes: the index of each value in `distinct`, −1 if it is missing `(n,)`.
        distinct: the values, each of which occurs.
    """

    codes: Codes
    distinct: list[Any]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the values `(n,)`, None where one is missing."""
        return np.array([*self.distinct, None], dtype=object)[self.codes].astype(dtype or object)

    def __iter__(self) -> Iterator[Any]:
        return iter(np.asarray(self))

    def __getitem__(self, rows: NDArray[Any] | int) -> Any:
        return np.asarray(self)[rows]

    def cell(self, row: int) -> Any:
        """Return the value of a row, an empty text if it is missing."""
        return self.distinct[self.codes[row]] if self.codes[row] >= 0 else ""

    def per_row(self, results: Iterable[Any], absent: Any) -> NDArray[Any]:
        """Return for each row what there is of its value, `absent` if that is missing `(n,)`."""
        return np.array([*results, absent])[self.codes]


@dataclass(frozen=True, eq=False)
class RawTable:
    """The needed columns of a file, as read: strings from text, else the types of the file.

    Attributes:
        path: the file, as shown in messages.
        columns: the name or position of each column in the file, by its meaning.
        unit: the word for a row, `line` or `row`.
        number: maps a row of the table to its number in the file, with the name of the file if
            the table has several.
        cells: each column, by its meaning, as given by pandas or numpy, or numbered `(n,)`.
        names: the names of all columns of the file, if it has names.
        repairs: what reading left out.
    """

    path: str
    columns: Mapping[str, Column]
    unit: str
    number: Callable[[int], int | str]
    cells: Mapping[str, Any]
    names: Sequence[str] = ()
    repairs: tuple[Repair, ...] = ()

    def coded(self, what: str) -> Coded:
        """Return the column with this meaning, its values numbered."""
        cells = self.cells[what]
        if isinstance(cells, Coded):
            return cells
        import pandas as pd

        codes, distinct = pd.factorize(cells)
        return Coded(codes.astype(np.int32), np.asarray(distinct).tolist())

    def place(self, row: int) -> str:
        """Return the place of a row in the file, such as `line 7`."""
        return f"{self.unit} {self.number(row)}"

    def label(self, what: str) -> str:
        """Return the column with this meaning, such as `column 3 (counted from 0)`."""
        column = self.columns[what]
        return f"column {show(column)}" + (" (counted from 0)" if isinstance(column, int) else "")

    def name(self, value: object) -> str:
        """Convert a cell to a name; an empty cell, or one of blanks, gives an empty name.

        In columns that have a type, unlike in text, blanks around a name belong to it.
        """
        name = identifier(value)
        return str(value) if name and self.unit == "row" and isinstance(value, str) else name

    def changed(self, kept: NDArray[np.bool_], **cells: NDArray[Any]) -> RawTable:
        """Return the kept rows with some columns replaced; rows keep their numbers in the file."""
        rows = np.flatnonzero(kept)
        return replace(
            self,
            number=lambda row: self.number(int(rows[row])),
            cells={what: cell[kept] for what, cell in {**self.cells, **cells}.items()},
        )

    def refuse(self, faults: list[Fault]) -> None:
        """Report the first row with a fault, if any has one.

        Raises:
            DataError: some row has one.
        """
        for row, what, fault in sorted(faults, key=lambda entry: entry[0]):
            raise DataError(f"{self.path}, {self.place(row)}, {self.label(what)}: {fault}")


def first_of(rows: Mask) -> tuple[int, str]:
    """Return the first of some rows, and in how many others a fault of it is, for its message."""
    row, others = int(np.argmax(rows)), int(rows.sum()) - 1
    return row, f", as in {others:,} more row{'s' * (others > 1)}" if others else ""


def looked_up(table: Codes, index: Codes) -> Codes:
    """Return `table[index]`, without the copy of the index that numpy makes."""
    from dpaudit.kernels.text_fields import look_up

    codes = np.empty(len(index), np.int32)
    look_up(table, index, codes)
    return codes


def identifier(value: object) -> str:
    """Convert a cell to a name; an empty cell gives an empty name."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def is_missing(name: str) -> bool:
    """Whether an id is empty or a marker of a missing value, such as `NaN`, `null`, `?` or `-1`.

    Args:
        name: the id as text; blanks around it and capitals make no difference.
    """
    return name.strip().lower() in MARKERS


def missing_among(names: Collection[str]) -> set[str]:
    """Return the missing ones of a column's ids; −1 beside other negative numbers is an id."""
    markers = {name for name in names if is_missing(name)}
    if "-1" in markers and any(_NEGATIVE.fullmatch(name) and name != "-1" for name in names):
        markers.remove("-1")
    return markers


def number(value: Any) -> float:
    """Convert a cell to a number; NaN if it is not a number, or beyond double precision."""
    try:
        return plain_number(value) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, OverflowError):
        return np.nan


def positions(path: Path, layout: Layout, names: Sequence[str], width: int) -> list[int]:
    """Return the positions of the needed columns of a file of `width` ones.

    Raises:
        DataError: no column has one of the names or positions, or several have the name.
    """
    return [
        _position(path, column, names, width, layout.table) for column in layout.columns.values()
    ]


def _position(path: Path, column: Column, names: Sequence[str], width: int, table: str) -> int:
    if isinstance(column, int) and column < width:
        return column
    if isinstance(column, str) and column in names:
        if names.count(column) == 1:
            return names.index(column)
        raise DataError(
            f"{place(path)} has several columns {show(column)}: rename one or give its position"
        )
    # Matching takes time proportional to the product of the lengths.
    short = [name for name in names if len(name) <= 100]
    close = difflib.get_close_matches(str(column), short, n=1)
    hint = f"; did you mean {show(close[0])}?" if close else ""
    more = ", …" if len(names) > _NAMES else ""
    some = f"one of its names ({', '.join(map(show, names[:_NAMES]))}{more}) or "
    either = some if names else ""
    begin, keys = ("", "data.columns") if table == "data" else (f"{table}: ", table)
    raise DataError(
        f"{begin}{place(path)} has no column {show(column)}: give {either}a position from "
        f"0 to {width - 1} in {keys}, or set {table}.format to the layout of the file{hint}"
    )


# The times of 1990 and 2040 in seconds since 1970, and the number of each unit in a second.
_FROM, _TO = 631_152_000, 2_208_988_800
_UNITS = {"seconds": 1, "milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
# Numbers that are dates, such as 20260131, by their length.
_STAMPS = {8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
# The share of numbers in a column of times since 1970 that are likely such.
_LIKELY = 0.9


def times_of(table: RawTable) -> tuple[NDArray[np.float64], list[Fault]]:
    """Return the time of each row `(n,)`, and the fault of the first that cannot be read.

    Numbers stay as they are. Dates become seconds since 1970; those without a time zone are UTC.
    """
    column = table.coded("time")
    numbers = [*map(number, column.distinct)]
    # If most are numbers, the others are wrong.
    if 2 * np.isnan(numbers).sum() >= len(numbers):
        numbers = [*map(_seconds, column.distinct)]
    times = column.per_row(numbers, np.nan)
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


def time_unit(time: float) -> str | None:
    """Return the unit of a time of 1990 to 2040, counted from 1970; None if it is no such time."""
    return next((name for name, of in _UNITS.items() if _FROM * of <= time < _TO * of), None)


def usual_unit(times: NDArray[np.float64]) -> str | None:
    """Return the unit of the median of some times, as in `time_unit`."""
    return time_unit(float(np.median(times))) if len(times) else None


def in_unit_of(times: NDArray[np.float64], time: float) -> float:
    """Return a time in the unit of others, or as a date in digits as they are.

    It stays as it is if its unit is not known, or if it lies among others of no known unit; it is
    NaN if these cannot be compared with it.
    """
    own, theirs = time_unit(time), usual_unit(times)
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


def _seconds(value: Any) -> float:
    """Return a date in seconds since 1970, NaN if it is none."""
    # BigQuery writes 2026-01-31 12:00:00 UTC.
    text = value.isoformat() if isinstance(value, date) else str(value).strip().removesuffix(" UTC")
    try:
        moment = value if isinstance(value, datetime) else datetime.fromisoformat(text)
    except ValueError:
        return np.nan
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
