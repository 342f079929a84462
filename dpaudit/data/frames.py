"""Ratings from the data frames of a Python program, of whatever library."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError, foreign
from dpaudit.core.messages import show
from dpaudit.data.readers.cells import Coded, Table, factorize, ids, missing, number
from dpaudit.data.sniff import columns_of

_NAME = "the data frame"


def frame_table(given: object) -> Table | None:
    """Return the columns of users, items and ratings of a data frame; None if it is none.

    Frames are those that narwhals reads, such as of pandas, polars (lazy ones are collected) and
    Arrow, and objects with the Arrow C stream interface.

    Raises:
        DataError: a column is missing, occurs twice, or does not hold plain values.
    """
    import narwhals as nw

    with foreign(_unreadable):
        frame: Any = nw.from_native(given, pass_through=True)
        if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
            if not hasattr(given, "__arrow_c_stream__"):
                return None
            frame = nw.from_arrow(frame, backend="pyarrow")
        names = frame.collect_schema().names()
        if not names:
            raise DataError(f"{_NAME} holds no columns: give those of users and items")
        columns = columns_of(_NAME, [str(name) for name in names])
        chosen = frame.select(*columns.values()).lazy().collect()
        cells = {what: _coded(chosen[name]) for what, name in columns.items()}
    return Table(_NAME, columns, "row", lambda row: row + 1, cells)


def numbered(table: Table) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], tuple[int, int]]:
    """Return the user, the item and the rating of each row `(n,)`, and how many of both there are.

    Raises:
        DataError: a row lacks its user, item or rating; names the first one.
    """
    users, user_ids = ids(table, "user")
    items, item_ids = ids(table, "item")
    faults = missing(table, users, "user") + missing(table, items, "item")
    values = np.ones(len(users))
    if "rating" in table.cells:
        codes, distinct = factorize(table, "rating")
        values = np.array([*map(number, distinct), np.nan])[codes]
        wrong = np.flatnonzero(~np.isfinite(values))
        if len(wrong):
            row = int(wrong[0])
            shown = f" {show(distinct[codes[row]])}" if codes[row] >= 0 else ""
            said = f"the rating{shown} is not a finite number: correct it or leave its row out"
            faults.append((row, "rating", said))
    if faults:
        table.refuse(faults)
    return users, items, values, (len(user_ids), len(item_ids))


def _coded(series: Any) -> Coded:
    import narwhals as nw
    import pandas as pd

    wide = series.dtype in {nw.Int128, nw.UInt128}  # numpy has no such type
    try:
        codes, distinct = pd.factorize((series.cast(nw.String) if wide else series).to_numpy())
    except TypeError as error:  # unhashable
        raise DataError(
            f"{_NAME}, column {show(series.name)}: the column holds lists or records: give a "
            "column of plain values"
        ) from error
    return Coded(codes.astype(np.int32), np.asarray(distinct).tolist())


def _unreadable(said: str) -> DataError:
    return DataError(
        f"{_NAME} cannot be read ({said}): give one with distinct names of columns and plain values"
    )
