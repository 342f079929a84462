"""Ratings from the data frames of a Python program, of whatever library."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.foreign import foreign
from dpaudit.core.messages import show
from dpaudit.data.ratings import Repair
from dpaudit.data.readers import doubts, times
from dpaudit.data.readers.cells import Coded, Codes, Fault, RawTable
from dpaudit.data.readers.columns import missing, ratings, users_and_items
from dpaudit.data.readers.headers import without_headers
from dpaudit.data.readers.rows import LARGEST, Values
from dpaudit.data.readers.scales import occurring
from dpaudit.data.sniff import columns_of
from dpaudit.data.sniff_names import UnknownColumnsError
from dpaudit.data.sniff_ratings import UnknownScaleError, check_marks
from dpaudit.data.source_parts import Column

# The remedy in messages to a program if the range of the ratings is not clear.
UNMARKED = (
    "leave these rows out, or if they are ratings, give dpaudit.data.Ratings.build(…) with their "
    "scale"
)
_NAME = "the data frame"


def frame_table(given: object) -> tuple[RawTable, str] | None:
    """Return the columns of users, items and ratings of a data frame; None if it is none.

    The second value is what the ratings are by their name: `rating`, `value` or `count`.

    Frames are those that narwhals reads, such as of pandas, polars (lazy ones are collected) and
    Arrow, and objects with the Arrow C stream interface.

    Raises:
        DataError: a column is missing, occurs twice, or does not hold plain values.
    """
    import narwhals as nw

    with foreign(_unreadable):
        frame: Any = nw.from_native(given, pass_through=True, allow_series=True)
        if isinstance(frame, nw.Series):
            said = f"interactions are one column ({type(given).__name__})"
            raise DataError(f"{said}: {UnknownColumnsError.remedy}")
        if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
            if not hasattr(given, "__arrow_c_stream__"):
                return None
            frame = nw.from_arrow(frame, backend="pyarrow")
        names = frame.collect_schema().names()
        if not names:
            raise DataError(f"{_NAME} holds no columns: give those of users and items")

        def read(column: Column) -> RawTable:
            series = frame.select(column).lazy().collect()[column]
            cells = {"rating": _coded(series)}
            return RawTable(_NAME, {"rating": column}, "row", lambda row: row + 1, cells)

        try:
            columns, kind = columns_of(_NAME, [str(name) for name in names], read)
        except UnknownColumnsError as error:
            raise DataError(f"{error.fault}: {error.remedy}") from error
        chosen = frame.select(*columns.values()).lazy().collect()
        cells = {what: _coded(chosen[name]) for what, name in columns.items()}
    table = RawTable(_NAME, columns, "row", lambda row: row + 1, cells)
    return table, kind


class Rows(NamedTuple):
    """The rows of a data frame.

    Attributes:
        user: the index of the user `(n,)`.
        item: the index of the item `(n,)`.
        rating: the rating, 1 without ratings `(n,)`.
        user_ids: the sorted ids of the users.
        item_ids: the sorted ids of the items.
        time: when it happened `(n,)`; None if no column says so.
        repairs: what was left out or merged, perhaps nothing.
    """

    user: Codes
    item: Codes
    rating: Values
    user_ids: NDArray[np.object_]
    item_ids: NDArray[np.object_]
    time: Values | None
    repairs: tuple[Repair, ...]


def numbered(table: RawTable, kind: str) -> Rows:
    """Return the rows of a data frame, with users and items by the index of their id.

    Args:
        table: the columns.
        kind: what the ratings are by their name; a count makes its row an interaction.

    Raises:
        DataError: a row lacks its user, item or rating, or is no interaction; names the first one.
            Or some ratings may mark "not rated".
    """
    table = without_headers(table)
    user, item = users_and_items(table)
    users, items = user.codes, item.codes
    faults = missing(table, users, "user") + missing(table, items, "item")
    values = np.ones(len(users))
    if "rating" in table.cells:
        codes, distinct, read = ratings(table)
        numbers = np.array([*read, np.nan])
        faults += _faults(numbers[codes], codes, distinct, kind)
        values = np.ones(len(users)) if kind == "count" else numbers[codes]
    if faults:
        table.refuse(faults)
    if "rating" in table.cells:
        try:
            check_marks(f"{_NAME}, {table.label('rating')}", *occurring(numbers[:-1], codes), kind)
        except UnknownScaleError as error:
            raise DataError(f"{error.fault}: {UNMARKED}") from error
    time, unreadable = times.of(table) if "time" in table.cells else (None, [])
    ids = np.array(user.names, object), np.array(item.names, object)
    unused = [
        Repair(f"times, not used as in {table.place(row)} {said}", len(users))
        for row, _, said in unreadable
    ]
    repairs = *table.repairs, *unused, *user.repairs("user"), *item.repairs("item")
    return Rows(users, items, values, *ids, None if unreadable else time, repairs)


def _faults(values: Values, codes: Codes, distinct: list[Any], kind: str) -> list[Fault]:
    """Return the fault of the first rating that is no number, too large, or no interaction."""
    usable = np.abs(values) <= LARGEST
    wrong = ~usable
    # As in a file: likes are 1 and dislikes 0 or −1, and nothing up to 0 is a count.
    likes = len(np.unique(values[usable])) == 2 and values[usable].max() > 0
    if kind == "count" or likes:
        wrong |= values <= 0
    if not wrong.any():
        return []
    row, more = int(np.argmax(wrong)), int(wrong.sum()) - 1
    shown = f" {show(distinct[codes[row]])}" if codes[row] >= 0 else ""
    large = "is beyond single precision" if np.isfinite(values[row]) else "is not a finite number"
    fault = "is no interaction" if usable[row] else large
    others = f", as in {more:,} more row{'s' * (more > 1)}" if more else ""
    remedy = "leave such rows out" if usable[row] else "correct it or leave its row out"
    name = "count" if kind == "count" else "rating"
    marks = shown and doubts.punctuated(f"the {name}{shown}", distinct[codes[row]], distinct)
    if marks:
        return [(row, "rating", marks)]
    return [(row, "rating", f"the {name}{shown} {fault}{others}: {remedy}")]


def _coded(series: Any) -> Coded:
    import narwhals as nw
    import pandas as pd

    if isinstance(series.dtype, nw.List | nw.Array | nw.Struct):
        raise _nested(series.name, "lists or records")

    wide = series.dtype in {nw.Int128, nw.UInt128}  # numpy has no such type
    try:
        codes, distinct = pd.factorize((series.cast(nw.String) if wide else series).to_numpy())
    except TypeError as error:  # unhashable
        raise _nested(series.name, "lists or records") from error
    values = np.asarray(distinct).tolist()
    if any(isinstance(value, tuple | frozenset) for value in values):
        raise _nested(series.name, "lists or records")
    if any(map(_nameless, values)):
        raise _nested(series.name, "objects without a name")
    return Coded(codes.astype(np.int32), values)


def _nameless(value: object) -> bool:
    """Whether the text of a Python object is only its memory address."""
    kind = type(value)
    return kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__


def _nested(name: str, values: str) -> DataError:
    return DataError(
        f"{_NAME}, column {show(name)}: the column holds {values}: give a column of plain values"
    )


def _unreadable(said: str) -> DataError:
    return DataError(
        f"{_NAME} cannot be read ({said}): give one with distinct names of columns and plain values"
    )
