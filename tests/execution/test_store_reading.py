"""Files that are no stores: nothing in them runs, and nothing waits for ever."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hostile_stores import IDENTITY, SCHEMAS, endless, filled, interrupted, made  # type: ignore[import-not-found]

from dpaudit.core.errors import ConfigError
from dpaudit.core.files import check_readable
from dpaudit.execution import store
from dpaudit.execution.store import NAME, connected, count, opened, read, reading, seed_in, words_of


def called(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dpaudit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.cases("name", SCHEMAS)
def test_other_tables_are_no_store(tmp_path: Path, name: str) -> None:
    path = made(tmp_path, SCHEMAS[name])
    with pytest.raises(sqlite3.DatabaseError, match="other tables"), reading(path):
        pass
    contents = read(path)
    assert contents.keys == set()
    assert contents.meta == {}
    assert "other tables" in contents.damage
    assert count(path) == 0
    assert words_of(path) == {}
    assert seed_in(path, {}) is None
    with opened(tmp_path, IDENTITY) as store:  # they are replaced, and nothing of theirs runs
        assert store.empty
    assert read(path).damage == ""
    for left in tmp_path.iterdir():
        left.unlink()


@pytest.mark.long
@pytest.mark.parametrize("name", ["results are a view", "words are a view"])
def test_runs_and_merge_end_on_a_view_that_does_not(tmp_path: Path, name: str) -> None:
    made(tmp_path, SCHEMAS[name]).rename(tmp_path / "tasks-1-of-1.sqlite")
    for command in ("runs", "merge"):
        done = called(command, tmp_path)
        assert done.returncode == 2
        [sentence] = done.stderr.splitlines()
        assert "other tables" in sentence


@pytest.mark.long
def test_a_tree_without_end_is_given_up(tmp_path: Path) -> None:
    path = endless(tmp_path)
    contents = read(path)
    assert "damaged" in contents.damage
    assert len(contents.keys) < 2_000


def test_a_store_is_opened_to_be_read_only(tmp_path: Path) -> None:
    path = filled(tmp_path)
    before = path.read_bytes()
    with pytest.raises(sqlite3.OperationalError, match="readonly"), reading(path) as file, file:
        file.execute("delete from results")
    with reading(path) as file:
        assert file.execute("pragma trusted_schema").fetchone() == (0,)
    path.chmod(0o400)
    assert len(read(path).keys) == 3
    assert path.read_bytes() == before
    assert [left.name for left in tmp_path.iterdir() if left.name != f".{NAME}.lock"] == [NAME]


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def piped(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to(path.with_name("pipe"))


@pytest.mark.skipif(sys.platform == "win32", reason="no pipes in folders")
@pytest.mark.cases("make", [pipe, folder, device, piped])
@pytest.mark.cases("end", ["", "-journal", "-wal"])
def test_what_could_block_is_refused(
    tmp_path: Path, make: Callable[[Path], None], end: str
) -> None:
    place = tmp_path / f"{make.__name__}{end}"
    place.mkdir()
    if end:
        filled(place)
    make(place / f"{NAME}{end}")
    for reader in (read, count, words_of):
        with pytest.raises(ConfigError, match="a pipe or a device"):
            reader(place / NAME)


def test_links_in_a_circle_are_no_store(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(tmp_path / NAME)
    assert "no store" in read(tmp_path / NAME).damage


def test_a_rollback_deletes_no_file_that_a_journal_names(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    path = interrupted(tmp_path, victim)
    assert "another file" in read(path).damage
    assert victim.read_text() == "kept"
    with opened(path.parent, IDENTITY) as store:
        assert store.empty
    assert victim.read_text() == "kept"


def test_a_commit_that_was_cut_is_rolled_back(tmp_path: Path) -> None:
    contents = read(interrupted(tmp_path))
    assert len(contents.keys) == 3
    assert contents.damage == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_a_signal_ends_a_long_check(tmp_path: Path) -> None:
    class Stopped(BaseException):
        pass

    class Long:
        """A file that is checked until somebody interrupts it."""

        ended = threading.Event()

        def execute(self, _: str) -> Any:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            assert self.ended.wait(60)
            raise sqlite3.OperationalError("interrupted")

        def interrupt(self) -> None:
            self.ended.set()

    def stop(_: int, __: FrameType | None) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with pytest.raises(Stopped):
            store._sound(Long())  # type: ignore[arg-type]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_missing_file_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError):
        connected(tmp_path / "none", "rw")
    assert list(tmp_path.iterdir()) == []


def test_a_journal_that_goes_meanwhile_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled(tmp_path)
    journal = path.with_name(f"{NAME}-journal")

    def gone(part: Path) -> None:
        if part == journal:
            journal.unlink()
        check_readable(part)

    monkeypatch.setattr(store, "check_readable", gone)
    journal.write_bytes(b"")
    assert count(path) == 3
