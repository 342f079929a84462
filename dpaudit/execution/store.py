"""The store of finished tasks: an SQLite file in the output folder, written by one run at a time.

Results are committed together as often as costs a hundredth of the time, and at once when the run
ends. So a run that is killed loses the tasks that were running, and a fraction of a second. Each
row holds a digest of its own content: what a fault of the disk changed is not used.

Others may have written the file, so it is opened here alone, checked, and read with limits. What is
no store's own tables runs nothing: a view or a generated column could run for ever, and a trigger
or a journal could write elsewhere (SQLite, "Defense Against The Dark Arts").
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import os
import sqlite3
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.files import check_readable, check_writable
from dpaudit.core.messages import place
from dpaudit.execution.tasks import Result

# The store's file in an output folder, and that of the lock beside it.
NAME = "tasks.sqlite"
_FORMAT = "1"
# The most digits of a seed, which has 128 bits.
_DIGITS = 39
# The least seconds between two commits, and the largest share of the time that commits take.
_LEAST, _SHARE = 0.1, 0.01
_SCHEMA = """
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


@dataclass
class Store:
    """The results of one run, open for writing.

    Attributes:
        path: the file.
        identity: what the results depend on besides the config: code, libraries, data and seed.
        note: receives sentences on what was found.
    """

    path: Path
    identity: Mapping[str, str]
    note: Callable[[str], None]
    _rows: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    _file: Any = None
    _known: dict[str, Path] = field(default_factory=dict)
    _files: dict[Path, Any] = field(default_factory=dict)
    _next: float = field(default_factory=time.monotonic)
    _lock: Any = field(default_factory=RLock)

    def get(self, key: str) -> Result | None:
        """Return a stored result, or None."""
        with self._lock:
            if key in self._rows:
                kind, value = self._rows[key][4:6]
            elif key in self._known:
                with _writing(self.path):
                    kind, value = (
                        self._files[self._known[key]]
                        .execute("select kind, value from results where key = ?", (key,))
                        .fetchone()
                    )
            else:
                return None
        with suppress(Exception):  # it is not what this version writes
            return _decoded(kind, value)
        return None

    def put(self, key: str, stage: str, size: int, seconds: float, result: Result) -> None:
        """Store the result of a finished task; it is on disk with the next commit.

        Raises:
            RunError: the file cannot be written.
        """
        kind, value = _encoded(result)
        row = (key, stage, size, seconds, kind, value)
        with self._lock:
            self._rows[key] = (*row, _digest(row))
            if time.monotonic() >= self._next:
                self.flush()

    @property
    def empty(self) -> bool:
        """Whether it holds no result."""
        return not self._known and not self._rows

    def flush(self) -> None:
        """Commit what is not yet on disk.

        Raises:
            RunError: the file cannot be written.
        """
        with self._lock:
            clock = time.monotonic()
            if self._rows:
                with _writing(self.path), self._file:
                    self._file.executemany(
                        "insert or replace into results values (?, ?, ?, ?, ?, ?, ?)",
                        self._rows.values(),
                    )
                self._known |= dict.fromkeys(self._rows, self.path)
                self._rows.clear()
            now = time.monotonic()
            self._next = now + max(_LEAST, (now - clock) / _SHARE)

    def set(self, name: str, value: str) -> None:
        """Store a word about the run."""
        with self._lock, _writing(self.path), self._file:
            self._file.execute("insert or replace into meta values (?, ?)", (name, value))

    def read_also(self, path: Path) -> None:
        """Use the results of another store of the same identity too; it is not written."""
        contents = read(path)
        why = differences(contents.identity, self.identity)
        if why:
            self.note(f"{place(path)} is of another run ({why}), so it is not used")
            return
        self._files[path] = connected(path, "ro")
        self._known = dict.fromkeys(contents.keys, path) | self._known

    def add(self, paths: Iterable[Path]) -> None:
        """Copy the results of other stores of the same run into this one.

        Raises:
            RunError: the file cannot be written.
        """
        with self._lock, _writing(self.path), self._file:
            for path in paths:
                keys = copied(path, self._file, set(self._known))
                self._known |= dict.fromkeys(keys, self.path)

    def close(self) -> None:
        """Commit what is not yet on disk, and close the files.

        Raises:
            RunError: the file cannot be written.
        """
        try:
            self.flush()
        finally:
            for file in self._files.values():
                file.close()

    def _open(self, fresh: bool) -> None:
        """Open the file, with the rows that belong to this identity and are undamaged."""
        if not self.path.exists() or fresh:
            self._begin(None)
            return
        contents = read(self.path)
        if not contents.identity:
            self.note(f"{place(self.path)} is damaged and nothing in it is used")
            self._begin(None)
        elif why := differences(contents.identity, self.identity):
            self.note(f"{place(self.path)} is of another run ({why}), so this one starts anew")
            self._begin(None)
        elif contents.damage or not self._writable():
            self.note(contents.damage or _damage(self.path, len(contents.keys)))
            self._begin(self.path)
        else:
            self._connect()
            self._known = dict.fromkeys(contents.keys, self.path)

    def _writable(self) -> bool:
        """Whether SQLite can write the file; a damaged header may forbid it."""
        try:
            with closing(connected(self.path, "rw")) as file, file:
                file.execute("update meta set value = value")
        except sqlite3.Error:
            return False
        return True

    def _begin(self, old: Path | None) -> None:
        """Write a new file, with the sound rows of an old one, and replace the old one by it."""
        draft = self.path.with_name(f".{self.path.name}.draft")
        with _writing(self.path):
            draft.unlink(missing_ok=True)
            try:
                with closing(connected(draft, "rwc")) as file, file:
                    draft.chmod(0o600)  # it tells how attacks on single users ended
                    file.executescript(_SCHEMA)
                    words = {"format": _FORMAT, "identity": json.dumps(dict(self.identity))}
                    file.executemany("insert into meta values (?, ?)", words.items())
                    if old is not None:
                        self._known = dict.fromkeys(copied(old, file), self.path)
                for rest in beside(self.path):
                    rest.unlink(missing_ok=True)
                draft.replace(self.path)
            finally:
                for rest in (draft, *beside(draft)):
                    rest.unlink(missing_ok=True)
        self._connect()

    def _connect(self) -> None:
        with _writing(self.path):
            self._file = self._files[self.path] = connected(self.path, "rw")
            # Survives a power loss; a commit that was cut is rolled back at the next opening.
            self._file.execute("pragma synchronous = full")


@dataclass(frozen=True)
class Stage:
    """The stored results of one stage.

    Attributes:
        tasks: their number.
        trials: the trials that they finished.
        size: their bytes.
        seconds: the time that workers spent on them.
    """

    tasks: int = 0
    trials: int = 0
    size: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Contents:
    """What a store's file holds.

    Attributes:
        identity: what its results depend on; empty if unknown.
        meta: all its words.
        stages: what it holds, by stage.
        keys: the keys of the undamaged results.
        damage: a sentence if something is damaged; else empty.
    """

    identity: dict[str, str]
    meta: dict[str, str]
    stages: dict[str, Stage]
    keys: set[str]
    damage: str = ""


def read(path: Path) -> Contents:
    """Read a store's file, and check every result against its digest.

    Raises:
        ConfigError: it is a folder, a pipe or a device.
    """
    stages: dict[str, Stage] = {}
    keys: set[str] = set()
    sound = True
    for row in _rows(path):
        if row is None:
            sound = False
            continue
        key, stage, size, seconds, _, value, _ = row
        one = stages.get(stage, Stage())
        stages[stage] = Stage(
            one.tasks + 1, one.trials + size, one.size + len(value), one.seconds + seconds
        )
        keys.add(key)
    damage = "" if sound else _damage(path, len(keys))
    try:
        meta = _words(path)
    except sqlite3.Error as error:
        meta, damage = {}, f"{place(path)} is damaged, or no store ({error})"
    return Contents(identity_in(meta), meta, stages, keys, damage)


def _damage(path: Path, sound: int) -> str:
    return f"{place(path)} is damaged: its {sound} sound results are used, the others run again"


def copied(path: Path, file: sqlite3.Connection, known: Container[str] = ()) -> set[str]:
    """Copy a file's sound results into an open one, but for known ones; return their keys."""
    keys: set[str] = set()
    for row in _rows(path):
        if row is not None and row[0] not in known:
            file.execute("insert into results values (?, ?, ?, ?, ?, ?, ?)", row)
            keys.add(row[0])
    return keys


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
        file.executescript(_SCHEMA)
        return file.execute(_OBJECTS).fetchall()


def _rows(path: Path) -> Iterator[tuple[Any, ...] | None]:
    """Yield the results of a file, and None for each one, or each part, that is damaged."""
    try:
        with reading(path) as file:
            if not _sound(file):
                yield None
            for row in file.execute("select * from results"):
                typed = tuple(map(type, row)) == _TYPES
                yield row if typed and _digest(row[:-1]) == row[-1] else None
    except sqlite3.Error:
        yield None


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


def identity_in(meta: Mapping[str, str]) -> dict[str, str]:
    """Return the identity among a store's words; empty if there is none of this format."""
    if meta.get("format") != _FORMAT:
        return {}
    with suppress(ValueError, KeyError, RecursionError):
        identity = json.loads(meta["identity"])
        if isinstance(identity, dict) and all(isinstance(word, str) for word in identity.values()):
            return identity
    return {}


def seed_in(path: Path, identity: Mapping[str, str], *, secret: bool = False) -> int | None:
    """Return the seed of a store's run; None if there is none, or its code and libraries differ.

    A seed that was drawn for other code is not used again: results must not depend on what was seen
    of that code.

    Args:
        path: the store.
        identity: the identity of this code and its libraries.
        secret: whether only a seed that no record stores counts; else only another.
    """
    words = words_of(path)
    known = identity_in(words)
    differs = any(known.get(name) != value for name, value in identity.items())
    if differs or (words.get("secret") == "yes") != secret:
        return None
    seed = known.get("seed", "")
    return int(seed) if seed.isdecimal() and len(seed) <= _DIGITS else None


def words_of(path: Path) -> dict[str, str]:
    """Return a store's words about its run; empty if there is none, or it cannot be read."""
    with suppress(sqlite3.Error):
        return _words(path)
    return {}


def _words(path: Path) -> dict[str, str]:
    with reading(path) as file:
        words = file.execute("select name, value from meta").fetchall()
    return {name: word for name, word in words if isinstance(name, str) and isinstance(word, str)}


def count(path: Path) -> int:
    """Return the number of results in a store's file; 0 if there is none, or it cannot be read."""
    with suppress(sqlite3.Error), reading(path) as file:
        (number,) = file.execute("select count(*) from results").fetchone()
        return int(number)
    return 0


def others_results(path: Path, identity: Mapping[str, str]) -> str:
    """Say how many results of a run with another seed or other data a store keeps.

    A run of this identity would drop them. Empty if there are none, or if the code or the machine
    differ too, as no run can use them any more.
    """
    old = identity_in(words_of(path))
    names = {name for name in {**old, **identity} if old.get(name) != identity.get(name)}
    tasks = count(path)
    if not names or not tasks or names - {"seed", "data"}:
        return ""
    word = "task" if tasks == 1 else "tasks"
    why = differences(old, identity)
    return f"{path.parent} holds {tasks} finished {word} of another run ({why})"


def differences(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Name what differs between two identities, in a few words; empty if nothing does."""
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return ", ".join(f"other {_SAID.get(name, name)}" for name in names)


_SAID = {
    "code": "code of dpaudit or of a plug-in",
    "tool": "version of dpaudit",
    "files": "files that the config names",
}


@contextmanager
def opened(
    folder: Path,
    identity: Mapping[str, str],
    *,
    name: str = NAME,
    fresh: bool = False,
    note: Callable[[str], None] = lambda _: None,
) -> Iterator[Store]:
    """Open the store of a folder for one run at a time.

    If the last results cannot be kept, that is noted, as it costs no finished run.

    Args:
        folder: the output folder; it is made if it is missing.
        identity: what the results depend on besides the config.
        name: the file's name.
        fresh: whether to drop what the file holds.
        note: receives sentences on what was found, and on what cannot be kept.

    Raises:
        ConfigError: another run works in the folder, or it cannot be written.
        RunError: the file cannot be written later on.
    """
    from filelock import FileLock, Timeout

    path, locked = folder / name, folder / f".{name}.lock"
    check_writable([path, locked])
    lock = FileLock(locked, timeout=0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout as error:
        raise ConfigError(
            f"another run works in {place(folder)}: wait for its end, or name another folder "
            "with -o"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{place(folder)} cannot be written ({error.strerror}): name another folder with -o"
        ) from error
    store = Store(path, identity, note)
    try:
        store._open(fresh)
        try:
            yield store
        except BaseException:
            store.close()
            if store.empty:
                path.unlink()
            raise
        try:
            store.close()
        except RunError as error:
            note(str(error))
    finally:
        if not path.exists():  # a run that was refused, or stopped at once, leaves nothing
            locked.unlink(missing_ok=True)
            with suppress(OSError):  # other files are there
                folder.rmdir()
        lock.release()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if not path.exists():
            raise RunError(
                f"{place(path)} is gone: let the code that the config names leave the output "
                "folder alone"
            ) from error
        raise RunError(
            f"{place(path)} cannot be written ({error}): free the disk or name another folder "
            "with -o; the same command goes on where it was"
        ) from error


def _digest(row: tuple[Any, ...]) -> bytes:
    state = hashlib.blake2b(repr(row[:-1]).encode(), digest_size=16)
    state.update(row[-1])
    return state.digest()


def _encoded(result: Result) -> tuple[str, bytes]:
    if isinstance(result, str):
        return "text", result.encode()
    file = io.BytesIO()
    np.save(file, result, allow_pickle=False)
    return "npy", file.getvalue()


def _decoded(kind: str, value: bytes) -> Result:
    if kind == "text":
        return value.decode()
    # `np.load` also takes archives.
    array: Result = np.lib.format.read_array(io.BytesIO(value), allow_pickle=False)
    return array
