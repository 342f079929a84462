"""A data set of several Parquet files in one folder, as Spark, Dask and DuckDB write it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.ratings import Repair
from dpaudit.data.readers.cells import Coded, RawTable, looked_up

# What a folder of a table format holds, whose files are not all of the current version.
_VERSIONS = {
    "_delta_log": "a Delta table",
    ".hoodie": "a Hudi table",
    ".hoodie_partition_metadata": "a Hudi table",
    "metadata/*.metadata.json": "an Iceberg table",
}
_ENDINGS = {".parquet", ".parq", ".pq"}
# Parts that are numbered: as Spark and Dask do, as BigQuery does, and with the number of all.
_PART = re.compile(r"(part[-_.]?|.*(?=[0-9]{12}))([0-9]+)(?![0-9]).*?(\.\w+)?")
# Files of `split`, and others that differ in a number alone.
_NUMBERED = re.compile(r"(.*[-_. ]|x)([0-9]{1,3}|(?<=\Ax)[a-z]{2})((?:\.\w+)*)")
# What a job or a download leaves while it runs; Spark removes it at the end.
_OPEN = re.compile(r"_temporary|\.spark-staging-.*|\..+\.(?:inprogress|parquet)\.(?!crc$).*")
_OF_ALL = re.compile(r"([^._].*)-([0-9]+)-of-([0-9]+)\..*")
_AGAIN = "wait for its job, or run it again"
# The most folders of partitions between a file and the folder of its table.
_DEPTH = 6


def parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of a folder in the order of their names; else the path itself.

    Names that begin with a dot or an underscore are left out, as writers use them for other things.

    Raises:
        DataError: the folder has no such file, lacks some, has other files or folders, or is not
            written to its end; or the path is in a table with versions.
    """
    _check_versions(path)
    if not path.is_dir():
        return [path]
    every = sorted(path.iterdir())
    _check_finished(path, {entry.name for entry in every})
    files = [entry for entry in every if not entry.name.startswith((".", "_"))]
    for entry in files:
        if entry.is_dir():
            raise DataError(
                f"{place(path)} holds the folder {show(entry.name)}, and partitions by folders are "
                "not read: write all rows, with the columns of the partitions, as one file or as "
                "files of one folder"
            )
    tables = [entry for entry in files if entry.suffix in _ENDINGS]
    if not tables and sum(_PART.fullmatch(entry.name) is not None for entry in files) > 1:
        raise DataError(
            f"{place(path)} is a folder of parts, and those of text are not read together: join "
            "them to one file, or write them as Parquet"
        )
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


def _check_versions(path: Path) -> None:
    """Refuse a folder or a file of a table format; what is deleted is still in its files.

    Raises:
        DataError: names the format.
    """
    for folder in (path, *path.absolute().parents[:_DEPTH]):
        for inside, name in _VERSIONS.items():
            if next(folder.glob(inside), None) is not None:
                raise DataError(
                    f"{place(path)} is {'of ' * (folder != path)}{name}, which may hold "
                    "deleted rows and those of earlier versions: export its current rows as Parquet"
                )


def _check_finished(folder: Path, names: set[str]) -> None:
    """Refuse a folder that a job has not written to its end, or of which a file is missing.

    Raises:
        DataError: names what shows it.
    """
    _check_closed(folder, names)
    for name in sorted(names):
        file = name.removeprefix(".").removesuffix(".crc")
        if name == f".{file}.crc" and Path(file).suffix in _ENDINGS and file not in names:
            raise DataError(
                f"{place(folder)} lacks {show(file)}, whose checksum it holds: {_AGAIN}"
            )
        part = _OF_ALL.fullmatch(name)
        if part is not None and sum(_alike(part, _OF_ALL, other) for other in names) < int(part[3]):
            raise DataError(
                f"{place(folder)} lacks some of the {int(part[3])} parts of {show(part[1])}: add "
                "them to the folder"
            )


def _check_closed(folder: Path, names: set[str]) -> None:
    """Refuse a folder to which a job still writes.

    Raises:
        DataError: names what shows it.
    """
    # Databricks writes another file at the end.
    begun = {name for name in names if name.startswith("_started_")}
    begun = {name for name in begun if name.replace("started", "committed", 1) not in names}
    if open_ := sorted(begun.union(filter(_OPEN.fullmatch, names))):
        raise DataError(
            f"{place(folder)} holds {show(open_[0])}, so the job that writes it has not finished: "
            f"{_AGAIN}"
        )


def _alike(part: re.Match[str], pattern: re.Pattern[str], name: str) -> bool:
    """Whether a name is that of a part of the same table."""
    other = pattern.fullmatch(name)
    return other is not None and part.group(1, 3) == other.group(1, 3)


def unread_parts(path: Path) -> Repair:
    """Count the parts of a table beside the file that is read, or that a folder may lack.

    Spark writes no file for a part without rows, so a missing number is a doubt alone.

    Raises:
        DataError: the file is a part that a job has not finished.
    """
    if path.is_dir():
        parts = filter(None, (_PART.fullmatch(file.name) for file in parquet_files(path)))
        numbers = {int(part[2]) for part in parts} or {0}
        missing = max(numbers) - min(1, *numbers) + 1 - len(numbers)
        return Repair("numbers of parts for which there is no file", missing)
    count = 0
    if part := _OF_ALL.fullmatch(path.name):
        count = int(part[3]) - 1
    for pattern in (_PART, _NUMBERED):
        if not count and (part := pattern.fullmatch(path.name)):
            names = {file.name for file in path.parent.iterdir()}
            count = sum(_alike(part, pattern, name) for name in names) - 1
            if pattern is _PART:
                inside = path.parent.parts[-_DEPTH:]
                _check_closed(path.parent, names.union({"_temporary"}.intersection(inside)))
    return Repair("files of its folder with other numbers or parts, which are not read", count)


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

    return RawTable(place(folder), tables[0].columns, "row", number, cells, tables[0].names)


def _appended(columns: Sequence[Coded]) -> Coded:
    numbers: dict[Any, int] = {}
    codes = []
    for column in columns:
        index = [numbers.setdefault(value, len(numbers)) for value in column.distinct]
        codes.append(looked_up(np.array([*index, -1], np.int32), column.codes))
    return Coded(np.concatenate(codes), list(numbers))
