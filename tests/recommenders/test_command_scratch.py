"""A folder for one command is removed, whatever happens in it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from dpaudit.recommenders import cleanup, command
from dpaudit.recommenders.command import note, scratch_folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.cases("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_it_is_removed_after_an_error_and_an_interrupt(
    temporary: Path, error: type[BaseException]
) -> None:
    def work() -> None:
        with scratch_folder() as folder:
            assert folder.parent == temporary
            (folder / "sub").mkdir()
            (folder / "sub" / "file").touch()
            raise error

    with pytest.raises(error):
        work()
    assert not list(temporary.iterdir())


def test_it_is_removed_without_the_cleanup_script_too(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, here = os.pipe()
    os.close(there)
    monkeypatch.setattr(command, "_cleanup_pipe", lambda process: here)
    with scratch_folder() as folder:
        note(folder, os.getpid())
    os.close(here)
    assert not list(temporary.iterdir())


def test_the_script_cleans_up_only_what_has_not_ended(tmp_path: Path) -> None:
    names = ("ended", "running", "before")
    folders = {name: tmp_path / name for name in names}
    for folder in folders.values():
        folder.mkdir()
        (folder / "file").touch()
    commands = [subprocess.Popen(["sleep", "60"], start_new_session=True) for _ in range(2)]  # noqa: S607
    ended, running = commands
    lines = [
        *(f"{folder}\0" for folder in folders.values()),
        f"{folders['running']}\0{running.pid}",
        f"{folders['ended']}\0{ended.pid}",
        f"{folders['ended']}\0end",
        f"{tmp_path / 'removed'}\0",
    ]
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(
        [sys.executable, "-I", "-S", cleanup.__file__], input=text, text=True, check=True
    )
    assert running.wait(10) == -9
    end = time.monotonic() + 10
    while folders["before"].exists() or folders["running"].exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    assert folders["ended"].exists()
    assert ended.poll() is None
    ended.kill()
    ended.wait()
