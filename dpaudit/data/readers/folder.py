"""A data set of several Parquet files in one folder, as Spark, Dask and DuckDB write it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.readers.cells import Coded, RawTable, looked_up

# Folders of table formats whose files are not all of the current version.
_VERSIONS = {"_delta_log": "Delta", ".hoodie": "Hudi"}
_ENDINGS = {".parquet", ".parq", ".pq"}


def parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of a folder in the order of their names; else the path itself.

    Names that begin with a dot or an underscore are left out, as writers use them for other things.

    Raises:
        DataError: the folder has no such file, other files or folders, or is a table with versions.
    """
    if not path.is_dir():
        return [path]
    every = sorted(path.iterdir())
    for entry in every:
        if entry.name in _VERSIONS:
            raise DataError(
                f"{place(path)} is a {_VERSIONS[entry.name]} table, which may hold files of "
                "earlier versions: export its current rows as Parquet"
            )
    files = [entry for entry in every if not entry.name.startswith((".", "_"))]
    for entry in files:
        if entry.is_dir():
            raise DataError(
                f"{place(path)} holds the folder {show(entry.name)}, and partitions by folders are "
                "not read: write all rows, with the columns of the partitions, as one file or as "
                "files of one folder"
            )
    tables = [entry for entry in files if entry.suffix in _ENDINGS]
    if not tables:
        raise DataError(
            f"{place(path)} is a folder without Parquet files: name the file of ratings inside it"
        )
    for entry in files:
        if entry not in tables:
            raise DataError(
                f"{place(path)} holds {show(entry.name)} beside its Parquet files: name the file "
                "of ratings, or keep the files of one table in a folder of their own"
            )
    return tables


def joined_files(folder: Path, tables: Sequence[RawTable]) -> RawTable:
    """Return the rows of several files as one table, whose places name the file.

    Args:
        folder: their folder.
        tables: the tables of the files, with numbered columns, in their order.
    """
    cells = {what: _appended([table.cells[what] for table in tables]) for what in tables[0].columns}
    sizes = [len(next(iter(table.cells.values())).codes) for table in tables]
    starts = [0, *accumulate(sizes)]

    def number(row: int) -> str:
        part = int(np.searchsorted(starts, row, side="right")) - 1
        name = Path(tables[part].path).name
        return f"{tables[part].number(row - starts[part])} of {name}"

    return RawTable(place(folder), tables[0].columns, "row", number, cells)


def _appended(columns: Sequence[Coded]) -> Coded:
    numbers: dict[Any, int] = {}
    codes = []
    for column in columns:
        index = [numbers.setdefault(value, len(numbers)) for value in column.distinct]
        codes.append(looked_up(np.array([*index, -1], np.int32), column.codes))
    return Coded(np.concatenate(codes), list(numbers))
