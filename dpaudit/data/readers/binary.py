"""Read MATLAB files, and Parquet files or folders of them, as tables, in a separate process.

Their libraries are native code: a file with one changed byte can crash them, and a small file can
unpack to more than the available memory. Then only the separate process ends, and the audit reports
one error. Spark, Dask and DuckDB write one table as several Parquet files in a folder.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError, installing
from dpaudit.core.messages import place, quoted, show
from dpaudit.core.processes import library_places
from dpaudit.data import limits
from dpaudit.data.ratings import Repair
from dpaudit.data.readers.cells import Coded, Codes, RawTable, looked_up, positions
from dpaudit.data.source_parts import Column, Layout

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
_WAIT = "wait for its job, or run it again"
# The most folders of partitions between a file and the folder of its table.
_DEPTH = 6


def parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of a folder in the order of their names; else the path itself.

    Names that begin with a dot or an underscore are left out, as writers use them for other things.

    Raises:
        DataError: the folder has no such file, lacks some, has other files or folders, or is not
            written to its end; or the path is in a table with versions.
    """
    for folder in (path, *path.absolute().parents[:_DEPTH]):
        for inside, name in _VERSIONS.items():
            # What is deleted is still in the files.
            if next(folder.glob(inside), None) is not None:
                raise DataError(
                    f"{place(path)} is {'of ' * (folder != path)}{name}, which may hold "
                    "deleted rows and those of earlier versions: export its current rows as Parquet"
                )
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
    other = next((entry for entry in files if entry not in tables), None)
    if other is not None:
        raise DataError(
            f"{place(path)} holds {show(other.name)} beside its Parquet files: name the file "
            "of ratings, or keep the files of one table in a folder of their own"
        )
    return tables


def _check_finished(folder: Path, names: set[str]) -> None:
    """Refuse a folder that a job has not written to its end, or of which a file is missing.

    Raises:
        DataError: names what shows it.
    """
    _check_closed(folder, names)
    for name in sorted(names):
        file = name.removeprefix(".").removesuffix(".crc")
        if name == f".{file}.crc" and Path(file).suffix in _ENDINGS and file not in names:
            raise DataError(f"{place(folder)} lacks {show(file)}, whose checksum it holds: {_WAIT}")
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
            f"{_WAIT}"
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


_SCRIPT = Path(__file__).with_name("untrusted.py")
# Environment variables that a process needs to start and to find its libraries.
_INHERITED = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
# One table does not need more threads, nor the memory that they take.
_SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_AGAIN = {"matlab": "save it again", "parquet": "write it again"}
_UNCOMPRESSED = {
    "matlab": "save it with the option -v6, which does not compress",
    "parquet": "write it without compression",
}
_SHOWN = 10

Kind = Literal["matlab", "parquet"]
Reply = dict[str, Any]


def parquet_names(path: Path) -> list[str]:
    """Return the names of the columns of a parquet file, or of the first one of a folder.

    Raises:
        DataError: the file cannot be read, or pyarrow is not installed.
    """
    return _unpack(parquet_files(path)[0], "parquet", {})[0]["names"]


def read_parquet(path: Path, layout: Layout) -> RawTable:
    """Read a parquet file, or all parquet files of a folder as one.

    Raises:
        DataError: a file cannot be read, lacks a column, or pyarrow is not installed.
    """
    tables = [_parquet(file, layout) for file in parquet_files(path)]
    return joined_files(path, tables) if path.is_dir() else tables[0]


def _parquet(path: Path, layout: Layout) -> RawTable:
    reply, codes = _unpack(path, "parquet", layout.columns)
    if reply.get("fault") == "nested":
        raise DataError(
            f"{place(path)}, column {show(reply['names'][0])}: the column holds lists or records: "
            "give a column of plain values"
        )
    positions(path, layout, reply["names"], reply["width"])
    pairs = list(zip(codes, reply["distinct"], strict=True))
    for index, distinct in pairs:
        # Every code leads to a value or is −1.
        within = index.min(initial=-1) >= -1 and index.max(initial=-1) < len(distinct)
        if index.dtype != np.int32 or not within:
            _refuse(path, "parquet", "its reader crashed")
    return _table(path, layout, [_values(*pair) for pair in pairs], reply["names"])


def read_matlab(path: Path, layout: Layout) -> RawTable:
    """Read a two-dimensional numeric array from a MATLAB file of version 4 to 7.

    Raises:
        DataError: the file cannot be read, or lacks the variable or a column.
    """
    reply, cells = _unpack(path, "matlab", layout.columns, layout.variable)
    if reply.get("fault") == "version":
        raise DataError(f"{place(path)} is a MATLAB 7.3 file: save it with the option -v7")
    if reply.get("fault") == "variable":
        names = [show(name) for name in reply["names"]]
        variable = layout.variable
        wanted = "the only" if variable is None else f"the variable {show(variable)} as a"
        choices = ", ".join(names[:_SHOWN]) or "its arrays, of which it has none"
        raise DataError(
            f"{place(path)} does not hold {wanted} two-dimensional numeric array: set "
            f"{layout.table}.variable to one of {choices}"
        )
    positions(path, layout, reply["names"], reply["width"])
    return _table(path, layout, cells)


def _unpack(
    path: Path, kind: Kind, columns: Mapping[str, Column], variable: str | None = None
) -> tuple[Reply, list[NDArray[Any]]]:
    """Unpack a file in a separate process; return the reply and its arrays.

    Raises:
        DataError: the file is damaged, or exceeds the limits when unpacked, or pyarrow is not
            installed.
    """
    if kind == "parquet" and importlib.util.find_spec("pyarrow") is None:
        raise DataError(
            f"{place(path)} is a parquet file and pyarrow is not installed: {installing('parquet')}"
        )
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        request = {
            "format": kind,
            "path": library_places(),
            "columns": list(columns.values()),
            "variable": variable,
            "memory": limits.memory(size),
            "rows": limits.rows(size),
            "most_columns": limits.COLUMNS,
            "most_characters": limits.TEXT,
        }
        command = [sys.executable, "-I", str(_SCRIPT), json.dumps(request)]
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        with subprocess.Popen(  # noqa: S603 - the interpreter that runs already
            command,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=inherited | _SETTINGS,
        ) as reader:
            start, timer = time.monotonic(), threading.Timer(limits.seconds(size), reader.kill)
            timer.start()
            try:
                reply, arrays = _parsed(cast(io.BufferedReader, reader.stdout), limits.rows(size))
            except (ValueError, TypeError, KeyError, RecursionError):
                late = time.monotonic() - start >= limits.seconds(size)
                end = f"was stopped after {limits.seconds(size)} s" if late else "crashed"
                _refuse(path, kind, f"its reader {end}")
            finally:
                timer.cancel()
                reader.kill()
    fault, problem = reply.get("fault"), quoted(str(reply.get("problem")), 100).rstrip(". ")
    if fault == "broken":
        _refuse(path, kind, problem)
    problems = {
        "type": f"holds a type that its reader does not know ({problem}): write the column as text "
        "or as 64-bit integers",
        "packed": f"unpacks to more than a file of {size} bytes should ({limits.rows(size)} rows, "
        f"{limits.memory(size) // limits.MIB} MiB): {_UNCOMPRESSED[kind]}",
        "columns": f"has more than {limits.COLUMNS} columns: give one rating per row",
    }
    if fault in problems:
        raise DataError(f"{place(path)} {problems[fault]}")
    return reply, arrays


def _parsed(output: io.BufferedReader, most: int) -> tuple[Reply, list[NDArray[Any]]]:
    """Parse the reply and its arrays, of at most `most` numbers each, straight into their memory.

    Raises:
        ValueError, TypeError, KeyError, RecursionError: the output is incomplete or not a reply.
    """
    reply = json.loads(output.readline())
    arrays = []
    for name, count in reply["arrays"]:
        dtype = np.dtype(name)
        if dtype.kind not in "iuf" or count > most:
            raise ValueError("the reply holds no numbers, or too many")
        arrays.append(np.empty(count, dtype))
        if count and output.readinto(arrays[-1].data.cast("B")) < arrays[-1].nbytes:
            raise ValueError("the reply ends early")
    return reply, arrays


def _refuse(path: Path, kind: Kind, problem: str) -> NoReturn:
    name = {"matlab": "MATLAB", "parquet": "parquet"}[kind]
    raise DataError(f"{place(path)} is not a readable {name} file ({problem}): {_AGAIN[kind]}")


def _values(codes: Codes, distinct: list[Any]) -> Coded:
    """Build a column from the index of the value of each row; −1 is a missing value."""
    import pandas as pd

    from dpaudit.kernels.text_fields import mark_used

    # The distinct values may include a null or a value without a row, or repeat a value.
    used = np.zeros(len(distinct) + 1, np.bool_)
    mark_used(codes, used)
    values = [value if has else None for value, has in zip(distinct, used, strict=False)]
    numbers, known = pd.factorize(np.array(values, dtype=object))
    if len(known) < len(distinct):
        codes = looked_up(np.array([*numbers, -1], np.int32), codes)
    return Coded(codes, known.tolist())


def _table(path: Path, layout: Layout, cells: list[Any], names: Sequence[str] = ()) -> RawTable:
    of_kind = dict(zip(layout.columns, cells, strict=True))
    return RawTable(place(path), layout.columns, "row", lambda row: row + 1, of_kind, names)
