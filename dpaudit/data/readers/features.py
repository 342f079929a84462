"""Read what is known of users and of items from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.messages import show
from dpaudit.data.ratings import Repair
from dpaudit.data.readers.cells import (
    RawTable,
    factorize,
    identifier,
    number,
)
from dpaudit.data.readers.columns import missing, unsorted_ids
from dpaudit.data.readers.missing import is_missing

if TYPE_CHECKING:
    from pandas import DataFrame


def features_of(
    table: RawTable,
    ids: NDArray[np.object_],
    what: Literal["user", "item"],
    *,
    drop: bool = False,
    markers: bool = False,
) -> tuple[DataFrame, list[Repair]]:
    """Return the features of each user or item, and count the rows and ids that are left out.

    Row `i` is of `ids[i]`; one without a row in the file has no value, which is NaN in a column of
    numbers and None in one of text.

    Args:
        table: the ids in the column `id`, and the features in all others.
        ids: the ids with interactions, in their order.
        what: what has the ids.
        drop: whether rows of other ids are dropped instead of refused.
        markers: whether markers of missing values are ids like others.

    Raises:
        DataError: an id is missing, unknown or has two rows; names the first such row.
    """
    import pandas as pd

    column = unsorted_ids(table, "id", markers=markers)
    codes, names = column.codes, column.names
    faults = missing(table, codes, "id", of=what)
    known = {str(name): index for index, name in enumerate(ids)}
    index = np.array([*(known.get(name, -1) for name in names), -1])[codes]
    first = np.unique(codes, return_index=True)[1]
    again = np.setdiff1d(np.flatnonzero(codes >= 0), first)
    if len(again):
        row = int(again[0])
        name = show(names[codes[row]])
        faults.append((row, "id", f"{what} {name} has a row already: keep one row of each {what}"))
    unknown = np.flatnonzero((index < 0) & (codes >= 0))
    if len(unknown) and not drop:
        row, more = int(unknown[0]), len(unknown) - 1
        others = f", as in {more:,} more row{'s' * (more > 1)}" if more else ""
        faults.append(
            (
                row,
                "id",
                f"{what} {show(names[codes[row]])} has no interaction{others}: correct the id, or "
                f"set data.{what}s.unknown = 'drop' to leave such rows out",
            )
        )
    if faults:
        table.refuse(faults)
    rows = np.full(len(ids), len(index))
    rows[index[index >= 0]] = np.flatnonzero(index >= 0)
    frame = pd.DataFrame(
        {name: _column(table, name)[rows] for name in table.columns if name != "id"}
    )
    return frame, [
        Repair(f"rows of {what}s without interactions in data.{what}s", len(unknown)),
        Repair(f"{what}s without a row in data.{what}s", int((rows == len(index)).sum())),
    ]


def _column(table: RawTable, name: str) -> NDArray[Any]:
    """Return the numbers or the texts of a column, and no value behind the last `(n + 1,)`."""
    codes, distinct = factorize(table, name)
    texts = [identifier(value) for value in distinct]
    absent = [is_missing(text) for text in texts]
    numbers = [number(value) for value in distinct]
    behind = np.append(codes, -1)
    if all(gone or not np.isnan(value) for value, gone in zip(numbers, absent, strict=True)):
        values = np.where([*absent, True], np.nan, [*numbers, np.nan])
        return values[behind]
    named = [None if gone else text for text, gone in zip(texts, absent, strict=True)]
    return np.array([*named, None], object)[behind]
