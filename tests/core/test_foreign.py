"""What code of others may do to this process, and what it finds at its next call."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from dpaudit.cli.stopping import StopSignal, stoppable
from dpaudit.core.errors import RunError
from dpaudit.core.foreign import foreign, lent


def closed() -> None:
    sys.stdout.close()


def detached() -> None:
    stream: Any = sys.stdout
    sys.stdout = io.TextIOWrapper(stream.detach(), "utf-8")


def replaced() -> None:
    sys.stdout = io.StringIO()


def removed() -> None:
    sys.stdout = None


@pytest.mark.cases("change", [closed, detached, replaced, removed])
def test_sys_has_an_open_stream_after_each_call(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[], None]
) -> None:
    stream = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", stream)
    with lent():
        with foreign(RunError):
            change()
        assert not sys.stdout.closed
        assert sys.stdout is stream or change in {closed, detached}


def test_a_call_in_another_thread_does_not_decide_what_is_put_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream, barrier = io.StringIO(), Barrier(2, timeout=60)
    monkeypatch.setattr(sys, "stdout", stream)

    def first() -> None:
        with lent():
            sys.stdout = io.StringIO()
            barrier.wait()  # the second call begins and finds this stream
            barrier.wait()

    thread = Thread(target=first)
    thread.start()
    barrier.wait()
    with lent():
        barrier.wait()
        thread.join()
    assert sys.stdout is stream


@pytest.mark.parametrize("change", ["os.close(1)", "os.dup2(os.open(os.devnull, os.O_WRONLY), 1)"])
def test_a_descriptor_leads_where_it_led(change: str) -> None:
    code = f"""
import os
from dpaudit.core.foreign import lent
with lent():
    {change}
os.write(1, b"seen")
"""
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert said.stdout == b"seen"


def test_no_file_takes_the_number_of_a_closed_descriptor() -> None:
    code = """
import os
from dpaudit.core.foreign import lent
os.close(1)
with lent():
    pass
assert os.open(os.devnull, os.O_RDONLY) > 2
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_descriptor_is_lost() -> None:
    def count() -> int:
        return len(os.listdir("/dev/fd"))

    before = count()
    for _ in range(3):
        with lent(), lent():
            pass
    assert count() == before


@pytest.mark.cases("gone", [False, True])
def test_the_current_folder_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("elsewhere").mkdir()
    with lent():
        os.chdir("elsewhere")
        if gone:
            (tmp_path / "elsewhere").rmdir()
    assert Path.cwd() == tmp_path


def test_the_mask_of_new_files_and_the_path_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before, mask = [*sys.path], os.umask(0o027)
    monkeypatch.setattr(sys, "path", [*before])
    with lent():
        os.umask(0o777)
        sys.path = ["added"]
    assert os.umask(mask) == 0o027
    assert sys.path == ["added", *before]


def test_a_current_folder_that_is_removed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    with pytest.raises(RunError, match="here cannot be entered again"), foreign(RunError):
        here.rmdir()
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("end", "code"), [("pass", 0), ("sys.exit(5)", 5), ("sys.exit('no')", 1), ("1 / 0", 1)]
)
def test_a_fork_ends_where_the_code_of_others_does(end: str, code: int) -> None:
    text = f"""
import os, sys
from dpaudit.cli.stopping import StopSignal, stoppable
from dpaudit.core.errors import RunError
from dpaudit.core.foreign import foreign
with foreign(RunError):
    child = os.fork()
    if not child:
        {end}
if not child:
    print("went on")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert said.stdout == f"{code}\n"
    assert "Traceback" not in said.stderr


def test_signals_and_alarms_are_put_back() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGALRM)}
    with lent():
        for number in before:
            signal.signal(number, lambda *_: sys.exit(0))
        signal.alarm(99)
    assert {number: signal.getsignal(number) for number in before} == before
    assert signal.alarm(0) == 0


def test_an_alarm_of_the_caller_goes_on() -> None:
    signal.alarm(99)
    with lent():
        pass
    assert signal.alarm(0) > 0


def test_a_stop_that_the_code_catches_is_raised() -> None:
    with pytest.raises(StopSignal) as caught, stoppable(), foreign(RunError):  # noqa: PT012
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        with lent():  # ends as usual: it began later
            pass
    assert caught.value.code == 143
    with lent():
        pass
