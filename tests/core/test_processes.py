from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from textwrap import indent

import psutil
import pytest

from dpaudit.core.exit_codes import RUN_FAILED
from dpaudit.core.processes import (
    leave_current_folder,
    library_places,
    module_places,
    starting_workers,
)

# Tests that run in the background may inherit that Ctrl-C is ignored.
BEGIN = """
import atexit, os, signal, sys, time
from threading import Thread
from dpaudit.core import processes
signal.signal(signal.SIGINT, signal.SIG_DFL)
processes._LATEST = 0.5
with processes.supervised():
"""


def start(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BEGIN + indent(code, "  ")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("os._exit(0)", "ended the process with exit code 0, as os._exit does: "),
        ("os._exit(7)", "ended the process with exit code 7, as os._exit does: "),
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL ended the run, "),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV ended the run, "),
        ("os.fork() or sys.exit(); os.wait(); os._exit(0)", "exit code 0, as os._exit does: "),
    ],
)
def test_an_end_without_a_word_is_that_of_a_failed_run(code: str, words: str) -> None:
    process = start(code)
    said = process.communicate()[1]
    assert process.returncode == RUN_FAILED
    assert said.startswith("dpaudit: ")
    assert words in said
    assert said.count("\n") == 1


@pytest.mark.long
@pytest.mark.parametrize("code", [0, 1, 4])
def test_an_end_in_order_is_passed_on(code: int) -> None:
    process = start(f"print('done'); sys.exit({code})")
    assert process.communicate() == ("done\n", "")
    assert process.returncode == code


@pytest.mark.long
@pytest.mark.parametrize(
    "code",
    [
        "atexit.register(os._exit, 0)",
        "atexit.register(os.kill, os.getpid(), signal.SIGSEGV)",
        "sys.stdout = open('/dev/full', 'w'); print(2)",
        "Thread(target=time.sleep, args=(99,)).start()",
        "atexit.register(os.wait); os.fork() or time.sleep(99)",
    ],
)
def test_what_is_decided_before_the_exit_is_passed_on(code: str) -> None:
    process = start(f"print(1, flush=True)\n{code}\nsys.exit(4)")
    said, errors = process.communicate(timeout=60)
    assert (process.returncode, said) == (4, "1\n")
    assert ("are ended" in errors) == ("99" in code)


def await_handlers(pid: int) -> None:
    """Wait until the first process passes signals on; what it has forked may run before."""
    status = Path(f"/proc/{pid}/status")
    while status.exists():
        caught = re.search(r"^SigCgt:\s*(\w+)", status.read_text(), re.M)
        if caught is None or int(caught[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)
    time.sleep(0.5)  # a system without this file


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("handled", [True, False])
def test_a_signal_is_passed_on_once(number: signal.Signals, handled: bool) -> None:
    handler = "lambda *_: (print('stopped', flush=True), sys.exit(9))" if handled else "0"
    process = start(f"signal.signal({int(number)}, {handler}); print('ready', flush=True)\n{WAIT}")
    assert process.stdout is not None
    process.stdout.readline()
    await_handlers(process.pid)
    process.send_signal(number)
    assert process.communicate() == ("stopped\n" if handled else "", "")
    assert process.returncode == (9 if handled else -number)


WAIT = "while True: time.sleep(0.01)"


@pytest.mark.long
def test_both_processes_end_if_the_first_is_killed() -> None:
    process = start(f"print(os.getpid(), flush=True)\n{WAIT}")
    assert process.stdout is not None
    child = psutil.Process(int(process.stdout.readline()))
    process.kill()
    process.communicate()
    with suppress(psutil.NoSuchProcess):
        child.wait(60)


STANDARD = str(Path(os.__file__).parent)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The current folder, first on the path as in a notebook, and a library's folder after it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/library", STANDARD])
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    return str(tmp_path)


def test_the_standard_library_goes_first(here: str) -> None:
    assert module_places() == [STANDARD, here, "/library"]
    assert library_places() == [STANDARD, "/library"]


@pytest.mark.skipif(sys.platform == "win32", reason="a current folder cannot be removed")
def test_a_current_folder_that_is_gone_is_no_place(here: str) -> None:
    Path(here).rmdir()
    assert module_places() == library_places() == [STANDARD, "/library"]
    os.chdir("/")


@pytest.mark.parametrize("given", [None, "1"])
def test_workers_inherit_a_path_that_is_given_back(
    here: str, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    if given:
        monkeypatch.setenv("PYTHONSAFEPATH", given)
    with starting_workers():
        assert os.environ["PYTHONSAFEPATH"]
        assert sys.path == [STANDARD, here, "/library"]
        sys.path.append("/of the user's code")
    assert os.environ.get("PYTHONSAFEPATH") == given
    assert sys.path == ["", "/library", STANDARD, "/of the user's code"]


@pytest.mark.cases(
    ("given", "kept", "left"),
    [
        (":/library", "/library", True),
        ("/library:", "/library", True),
        (":", "", True),
        ("/library::.", "/library:.", False),
        ("/library", "/library", False),
        ("", "", False),
    ],
)
def test_an_empty_entry_of_the_path_is_left(
    here: str, monkeypatch: pytest.MonkeyPatch, given: str, kept: str, left: bool
) -> None:
    monkeypatch.setattr(sys, "path", [here, "/library"])
    monkeypatch.setenv("PYTHONPATH", given)
    leave_current_folder()
    assert os.environ["PYTHONPATH"] == kept
    assert (here not in sys.path) == left
