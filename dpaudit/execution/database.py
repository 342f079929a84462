"""SQLite files that others may have written: opened here alone, checked, and read with limits.

What is no store's own tables runs nothing: a view or a generated column could run for ever, and a
trigger or a journal could write elsewhere (SQLite, "Defense Against The Dark Arts").
"""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from dpaudit.core.files import check_readable

SCHEMA = """
create table meta (name text primary key, value text not null);
create table results (
    key text primary key, stage text not null, size integer not null, seconds real not null,
    kind text not null, value blob not null, digest blob not null
);
"""
# Everything that a schema holds, in SQLite's words.
_OBJECTS = "select type, name, tbl_name, sql from sqlite_master order by name"
# The types of the columns of `results`; SQLite keeps any value in any column.
_TYPES = (str, str, int, float, str, bytes, bytes)
# The most steps of SQLite's machine are this many, and one for each byte; a store of the smallest
# results takes 0.2 for each. They are counted by so many.
_STEPS, _COUNTED = 1_000_000, 1_000
# The most bytes of a value.
_LONGEST = 10**9
# How a journal ends that names a further file, which a rollback deletes. No commit of ours does.
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")


def connected(path: Path, mode: str) -> sqlite3.Connection:
    """Open a file, in which no function of its schema may run.

    Args:
        path: the file.
        mode: "ro" to read it, "rw" to write it too, "rwc" to make it if it is missing.

    Raises:
        ConfigError: it, or a file that SQLite reads beside it, is a folder, a pipe or a device.
        sqlite3.Error: it is missing, or cannot be opened.
    """
    for part in (path, *beside(path)):
        with suppress(OSError):  # it is missing, or SQLite says what is wrong
            check_readable(part)
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    file = sqlite3.connect(uri, uri=True, check_same_thread=False)
    file.execute("pragma trusted_schema = off")
    return file


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store's file to read it, with limits on what that takes.

    Only a commit that a kill has cut is rolled back first.

    Raises:
        ConfigError: as in `connected`.
        sqlite3.Error: it cannot be read, or has other tables than a store.
    """
    _roll_back(path)
    with closing(connected(path, "ro")) as file:
        size = path.stat().st_size
        # No value is longer than the file, whatever a damaged one says.
        file.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, min(max(size, _STEPS), _LONGEST))
        # No Python runs in the handler, in which SQLite would drop the exception of a signal.
        rounds = repeat(0, (_STEPS + size) // _COUNTED)
        file.set_progress_handler(chain(rounds, repeat(1)).__next__, _COUNTED)
        file.execute("pragma cell_size_check = on")
        try:
            if file.execute(_OBJECTS).fetchmany(len(_objects()) + 1) != _objects():
                raise sqlite3.DatabaseError("it has other tables than a store")
            yield file
        except UnicodeDecodeError as error:  # text that is none
            raise sqlite3.DataError(str(error)) from error


@functools.cache
def _objects() -> list[Any]:
    with closing(sqlite3.connect(":memory:")) as file:
        file.executescript(SCHEMA)
        return file.execute(_OBJECTS).fetchall()


def rows(path: Path) -> Iterator[tuple[Any, ...] | None]:
    """Yield the results of a file, and None where they are damaged; errors as in `reading`."""
    with reading(path) as file:
        if not _sound(file):
            yield None
        for row in file.execute("select * from results"):
            yield row if tuple(map(type, row)) == _TYPES else None


def _sound(file: sqlite3.Connection) -> bool:
    """Whether SQLite finds no fault; a signal is heard meanwhile, as another thread looks."""
    with ThreadPoolExecutor(1) as thread:
        check = thread.submit(lambda: file.execute("pragma quick_check(1)").fetchone())
        try:
            return bool(check.result() == ("ok",))
        except BaseException:
            file.interrupt()
            raise


def _roll_back(path: Path) -> None:
    """Roll back a commit that a kill has cut, unless its journal names a further file."""
    journal = beside(path)[0]
    if not os.path.isfile(journal):
        return
    with closing(connected(path, "rw")) as file:
        if _end(journal) == _NAMES_ANOTHER:
            raise sqlite3.DatabaseError("its journal names another file")
        file.execute("select 1 from sqlite_master").fetchone()


def _end(journal: Path) -> bytes:
    """Return the end of a journal; nothing if a run has just removed it, or nobody can read it."""
    with suppress(OSError), journal.open("rb") as content:
        content.seek(max(0, journal.stat().st_size - len(_NAMES_ANOTHER)))
        return content.read()
    return b""


def beside(path: Path) -> list[Path]:
    """Return the files that SQLite leaves beside a file when it is killed."""
    return [path.with_name(path.name + end) for end in ("-journal", "-wal", "-shm")]
