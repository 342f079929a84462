"""A file's columns as they were read, and the ids and numbers that their cells mean."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.source_parts import Column

Codes = NDArray[np.int64]
Mask = NDArray[np.bool_]

# A row of a table and what is wrong with a cell of it, as (row, what the cell holds, fault).
Fault = tuple[int, str, str]

# Python refuses to convert endless digits, so longer numbers are sorted as text.
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, eq=False)
class Table:
    """The needed columns of a file, as read: strings from text, else whatever the file holds.

    Attributes:
        path: the file, as a message shows it.
        columns: where each column stands in the file, by what it holds.
        unit: what a row is called, `line` or `row`.
        number: the number of a row in the file.
        cells: each column, by what it holds, as pandas or numpy give it `(n,)`.
    """

    path: str
    columns: Mapping[str, Column]
    unit: str
    number: Callable[[int], int]
    cells: Mapping[str, Any]

    def place(self, row: int) -> str:
        """The row's line or row number, as `line 7`."""
        return f"{self.unit} {self.number(row)}"

    def label(self, what: str) -> str:
        """The column that holds it, as `column 3 (counted from 0)`."""
        column = self.columns[what]
        return f"column {show(column)}" + (" (counted from 0)" if isinstance(column, int) else "")

    def changed(self, kept: NDArray[np.bool_], **cells: NDArray[Any]) -> Table:
        """The rows that are kept, in which some columns are others; all keep their numbers."""
        rows = np.flatnonzero(kept)
        return replace(
            self,
            number=lambda row: self.number(int(rows[row])),
            cells={what: cell[kept] for what, cell in {**self.cells, **cells}.items()},
        )

    def refuse(self, faults: list[Fault]) -> NoReturn:
        """Name the first of the rows with a fault.

        Raises:
            DataError: always.
        """
        row, what, fault = min(faults, key=lambda found: found[0])
        raise DataError(f"{self.path}, {self.place(row)}, {self.label(what)}: {fault}")


def factorize(table: Table, what: str) -> tuple[Codes, list[Any]]:
    """Number the distinct values of a column; -1 is a null."""
    import pandas as pd

    codes, distinct = pd.factorize(table.cells[what])
    return codes.astype(np.int64), np.asarray(distinct).tolist()


def named(table: Table, what: str) -> tuple[Codes, list[str]]:
    """Number the names in a column: the number of each row's, -1 where it is missing, and each."""
    codes, distinct = factorize(table, what)
    names = [identifier(value) for value in distinct]
    number = {name: index for index, name in enumerate(dict.fromkeys(filter(None, names)))}
    return np.array([*(number.get(name, -1) for name in names), -1])[codes], list(number)


def ids(table: Table, what: str) -> tuple[Codes, NDArray[np.object_]]:
    """Number the ids in sorted order, by number where all are integers; -1 is a missing id."""
    codes, names = named(table, what)
    order = sorted(names)
    if all(_INTEGER.fullmatch(name) for name in names):
        order.sort(key=int)
    position = {name: index for index, name in enumerate(order)}
    lookup = np.array([*(position[name] for name in names), -1])
    return lookup[codes], np.array(order, dtype=object)


def missing(codes: Codes, what: str, name: str) -> list[Fault]:
    """The first row whose id is missing, if there is one."""
    gone = codes < 0
    fault = f"the {name} id is missing: complete or remove it"
    return [(int(np.argmax(gone)), what, fault)] if gone.any() else []


def identifier(value: object) -> str:
    """A cell as the name of something; empty where there is none."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def number(value: Any) -> float:
    """A cell as a number; not a number where it is none."""
    try:
        return np.nan if "_" in str(value) else float(value)
    except (TypeError, ValueError):
        return np.nan


def position(
    path: Path, column: Column, names: Sequence[str], width: int, table: str = "data"
) -> int:
    """Where a column stands among the `width` of a file, whose names may not be known.

    Raises:
        DataError: there is none of this name or at this position; `table` is the table of the
            config that describes the file.
    """
    if isinstance(column, int) and column < width:
        return column
    if isinstance(column, str) and column in names:
        if names.count(column) == 1:
            return names.index(column)
        raise DataError(
            f"{place(path)} has several columns {show(column)}: rename one or give its position"
        )
    # To compare long names takes time that grows with their product.
    short = [name for name in names if len(name) <= 100]
    close = difflib.get_close_matches(str(column), short, n=1)
    hint = f"; did you mean {show(close[0])}?" if close else ""
    raise DataError(
        f"{place(path)} has no column {show(column)}: give "
        f"{'one of its names or ' if names else ''}a position from 0 to {width - 1}, or set "
        f"{table}.format to how the file is laid out{hint}"
    )
