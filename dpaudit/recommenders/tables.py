"""Tables of numbers that dpaudit and a command exchange, as csv or parquet files.

A csv file is UTF-8 text with a header, commas between cells, and points in numbers. Errors name
the file, and the line of a csv file or the row of a parquet file, counted from 1.
"""

from __future__ import annotations

import stat
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import RunError, said
from dpaudit.core.messages import plain, quoted
from dpaudit.core.rounding import plain_number
from dpaudit.data.readers.text_pieces import QuoteError, records
from dpaudit.recommenders.base import required

# What a column holds: indices of users or items, or numbers.
Kind = Literal["index", "number"]
# Maps the names of a file's columns to the columns to read.
_Choice = Callable[[Sequence[str]], Mapping[str, Kind]]

# Bytes of a number that is written as text, more than any takes, and of what surrounds a table.
_CELL, _REST = 64, 2**20
# The most columns that are read.
_WIDEST = 2**14


@dataclass(frozen=True, eq=False)
class NumberTable:
    """A table that was read.

    Attributes:
        path: its file.
        places: the line or row of each row in the file `(n,)`.
        columns: the columns by their names `(n,)`: int64 indices, or float64 numbers, where an
            empty cell is NaN.
    """

    path: Path
    places: NDArray[np.int64]
    columns: Mapping[str, NDArray[Any]]

    def check(self, wrong: NDArray[np.bool_], problem: Callable[[int], str]) -> None:
        """Refuse the table if a row is wrong.

        Args:
            wrong: which rows are wrong `(n,)`.
            problem: says what is wrong with a row.

        Raises:
            RunError: names the first wrong row.
        """
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise _wrong(self.path, int(self.places[row]), problem(row))


def write_table(path: Path, columns: Mapping[str, NDArray[Any]]) -> None:
    """Write columns to a csv or parquet file, as the suffix of its name says.

    Raises:
        ConfigError: the file is parquet, and pyarrow is not installed.
    """
    if _packed(path):
        parquet = required("command", "pyarrow.parquet", "parquet")
        parquet.write_table(required("command", "pyarrow", "parquet").table(dict(columns)), path)
        return
    import pandas as pd

    pd.DataFrame(columns).to_csv(path, index=False)


def read_table(path: Path, kinds: Mapping[str, Kind], most: int) -> NumberTable:
    """Read the columns that `kinds` names; others are skipped.

    Args:
        path: a csv or parquet file, as the suffix of its name says.
        kinds: what each column holds.
        most: the number of rows that may be expected; a file that is far larger is not read.

    Raises:
        ConfigError: the file is parquet, and pyarrow is not installed.
        RunError: the file is missing, cannot be read or is too large, or a column is missing or
            holds something else.
    """

    def choose(names: Sequence[str]) -> Mapping[str, Kind]:
        lost = [name for name in kinds if name not in names]
        if lost:
            raise RunError(
                f"{path.name} has no column {lost[0]}, only '{quoted(', '.join(names), 100)}': "
                f"write the columns {', '.join(kinds)}"
            )
        return kinds

    return _read(path, choose, most, len(kinds))


def read_rows(path: Path, count: int) -> NDArray[np.float32]:
    """Read a table of `count` rows, whose columns are all numbers `(count, d)`.

    What a float32 cannot hold becomes infinite.

    Raises:
        ConfigError: as in `read_table`.
        RunError: as in `read_table`; or the number of rows is wrong, or a column has no name.
    """

    def choose(names: Sequence[str]) -> Mapping[str, Kind]:
        unnamed = [n for n, name in enumerate(names, 1) if not name or name.startswith("__index")]
        if unnamed or not 0 < len(set(names)) == len(names) <= _WIDEST:
            raise RunError(
                f"{path.name} has {len(names)} columns, of which some have no name, or the same: "
                "write a header with one name a factor, and no index of rows"
            )
        return dict.fromkeys(names, "number")

    table = _read(path, choose, count, _WIDEST)
    if len(table.places) != count:
        raise RunError(
            f"{path.name} has {len(table.places)} rows below its header: write one for each of the "
            f"indices 0 to {count - 1}, in order"
        )
    with np.errstate(over="ignore"):
        return np.column_stack(list(table.columns.values())).astype(np.float32)


def _read(path: Path, choose: _Choice, most: int, width: int) -> NumberTable:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise RunError(f"{path.name} is no file: write a table")
        # Twice as many rows are read, so that the one that is too much can be named.
        if status.st_size > _REST + 2 * most * width * _CELL:
            raise _large(path, f"{status.st_size} bytes", most)
        return _read_parquet(path, choose, most) if _packed(path) else _read_csv(path, choose)
    except FileNotFoundError as error:
        raise RunError(f"there is no {path.name}: write it where task.json says") from error
    except OSError as error:
        raise _unreadable(path, error) from error


def _read_csv(path: Path, choose: _Choice) -> NumberTable:
    rows = _csv_rows(path)
    names = [name.strip() for name in next(rows, (0, [""]))[1]]
    kinds = choose(names)
    places = array("q")
    columns: dict[str, Any] = {}
    fields = []
    for name, kind in kinds.items():
        columns[name] = array("q" if kind == "index" else "d")
        converter = _index if kind == "index" else _number
        fields.append((name, names.index(name), converter, columns[name]))
    for line, cells in rows:
        if len(cells) != len(names):
            raise _wrong(path, line, f"{len(cells)} cells, and the header has {len(names)}")
        places.append(line)
        for name, place, converter, column in fields:
            try:
                column.append(converter(cells[place]))
            except (ValueError, OverflowError) as error:
                wanted = "index (0, 1, 2, …)" if kinds[name] == "index" else "number"
                problem = f"{name} = '{quoted(cells[place])}' is no {wanted}: write one"
                raise _wrong(path, line, problem) from error
    return NumberTable(
        path, np.array(places), {name: np.array(values) for name, values in columns.items()}
    )


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line and the cells of each row that is not empty."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        try:
            yield from ((line, cells) for line, cells in records(file, ",") if cells)
        except QuoteError as error:
            raise _wrong(path, error.line, f"{error}: write numbers and commas") from error


def _number(text: str) -> float:
    return plain_number(text) if text.strip() else np.nan


def _index(text: str) -> int:
    plain_number(text)
    return int(text)


def _read_parquet(path: Path, choose: _Choice, most: int) -> NumberTable:
    arrow = required("command", "pyarrow", "parquet")
    parquet = required("command", "pyarrow.parquet", "parquet")
    try:
        with parquet.ParquetFile(path) as file:
            if file.metadata.num_rows > _REST + 2 * most:
                raise _large(path, f"{file.metadata.num_rows} rows", most)
            kinds = choose(file.schema_arrow.names)
            read = file.read(columns=list(kinds))
    except arrow.ArrowException as error:
        raise _unreadable(path, error) from error
    columns = {name: _column(path, name, kind, read.column(name)) for name, kind in kinds.items()}
    return NumberTable(path, np.arange(1, read.num_rows + 1), columns)


def _column(path: Path, name: str, kind: Kind, column: Any) -> NDArray[Any]:
    """Convert a column of a parquet file."""
    types = required("command", "pyarrow", "parquet").types
    if types.is_integer(column.type):
        missing = np.flatnonzero(column.is_null().to_numpy())
        if kind == "index" and len(missing):
            raise _wrong(path, int(missing[0]) + 1, f"{name} is missing: write an index")
    elif kind == "index" or not types.is_floating(column.type):
        wanted = "indices (0, 1, 2, …)" if kind == "index" else "numbers"
        raise RunError(f"{path.name}, column {name} has type {column.type}: write {wanted}")
    values: NDArray[Any] = column.to_numpy().astype(np.int64 if kind == "index" else np.float64)
    return values


def _packed(path: Path) -> bool:
    return path.suffix == ".parquet"


def _wrong(path: Path, place: int, problem: str) -> RunError:
    return RunError(f"{path.name}, {'row' if _packed(path) else 'line'} {place}: {problem}")


def _large(path: Path, size: str, most: int) -> RunError:
    return RunError(
        f"{path.name} has {size}, more than {most} rows take: write only the rows that are asked"
    )


def _unreadable(path: Path, error: Exception) -> RunError:
    return RunError(f"{path.name} cannot be read ({plain(said(error))}): write a table")
