"""Start a Python beside this one, end it with its parent, and report how it ended."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import NoReturn

from dpaudit.core.exit_codes import RUN_FAILED

# How often, in seconds, a process checks that its parent still runs.
_LOOK = 0.5
# How long, in seconds, what the user's code started may go on after the command's end.
_LATEST = 30.0
_FORWARDED = (signal.SIGINT, signal.SIGTERM)
# The exit codes of a process that one of these signals stops, as Python and as shells give them.
_STOPPED = {code for number in _FORWARDED for code in (-number, 128 + number)}
# Where this variable is set, Python leaves its current folder and that of its script off its path.
# The value tells it from the user's own.
_SAFE, _OURS = "PYTHONSAFEPATH", "dpaudit"


def current_folder() -> str | None:
    """Return the current folder; None if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return None


def leave_current_folder() -> None:
    """Take the current folder off the path where only an empty entry of PYTHONPATH names it.

    `PYTHONPATH=$PYTHONPATH:/lib` makes such an entry where the variable was not set.
    """
    named = os.environ.get("PYTHONPATH", "")
    kept = [place for place in named.split(os.pathsep) if place]
    if named == os.pathsep.join(kept):
        return
    os.environ["PYTHONPATH"] = os.pathsep.join(kept)
    here, home = current_folder(), os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    if here and here in sys.path and here not in {home, *map(os.path.abspath, kept)}:
        sys.path.remove(here)


def module_places() -> list[str]:
    """Return where a new Python finds the modules that this one finds, the standard library first.

    So a file of a script's folder or of the current one hides no module of the standard library.
    """
    standard = os.path.dirname(os.__file__)
    first = (standard, os.path.join(standard, "lib-dynload"))
    gone = current_folder() is None
    places = [os.path.abspath(place) for place in sys.path if not gone or os.path.isabs(place)]
    return sorted(places, key=lambda place: place not in first)


def library_places() -> list[str]:
    """Return `module_places` without the current folder, for a process without the user's code."""
    return [place for place in module_places() if place != current_folder()]


@contextmanager
def starting_workers() -> Iterator[None]:
    """Let workers start meanwhile, which inherit the environment and the path of this process.

    They begin without the current folder on their path; then they find modules as `module_places`.
    """
    given, path = os.environ.get(_SAFE), [*sys.path]
    os.environ[_SAFE] = given or _OURS
    sys.path[:] = places = module_places()
    try:
        yield
    finally:
        sys.path[:] = [*path, *(place for place in sys.path if place not in places)]
        restore_environment()


def restore_environment() -> None:
    """Give programs that the user's code starts the environment of the user."""
    if os.environ.get(_SAFE) == _OURS:
        del os.environ[_SAFE]


def end_with(parent: int) -> None:
    """End this process once its parent has ended, even if the parent was killed.

    Args:
        parent: the id of the process that started this one.
    """

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    Thread(target=look, daemon=True).start()


@contextmanager
def supervised() -> Iterator[None]:
    """Fork, and continue in the child; the parent waits, and ends with the child's exit code.

    Enter it before any thread starts. The child runs the user's code, which may end it silently and
    with any exit code (`os._exit`, a crash of a library, the system for lack of memory). An exit
    code of 0 would be read as a pass, so the parent reports such an end, and fails the run. Once
    the block has ended, its `SystemExit` has decided: what the code does at exit changes nothing.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child:
        os.close(writer)
        _wait(child, reader)
    os.close(reader)
    os.setpgid(0, 0)  # a terminal's Ctrl-C reaches the parent alone, which forwards it
    end_with(parent)
    pid, code = os.getpid(), RUN_FAILED
    try:
        yield
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else code
        raise
    finally:
        if os.getpid() == pid:
            with suppress(OSError):  # the code may have closed all
                os.write(writer, bytes([code]))


def _wait(child: int, reader: int) -> NoReturn:
    """End as the child ends; `reader` tells the exit code that it has decided on."""
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: _forward(child, number))
    Thread(target=_end_late, args=(child, reader), daemon=True).start()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os.set_blocking(reader, False)  # processes that the child started may hold the other end
    decided = b""
    with suppress(BlockingIOError):
        decided = os.read(reader, 1)
    if decided:
        code = decided[0]
    elif code not in _STOPPED:
        sys.stderr.write(f"dpaudit: {ended(code)}\n")
        code = RUN_FAILED
    sys.stderr.flush()
    if -code in _FORWARDED:
        signal.signal(-code, signal.SIG_DFL)
        signal.raise_signal(-code)
    os._exit(128 - code if code < 0 else code)


def _end_late(child: int, reader: int) -> None:
    """End the child, and what it started, if it goes on long after it has decided."""
    decision = select.poll()
    decision.register(reader, select.POLLIN)
    if not decision.poll()[0][1] & select.POLLIN:
        return  # closed
    time.sleep(_LATEST)
    sys.stderr.write(
        "dpaudit: threads or processes that the code named in the config started go on "
        f"{_LATEST:.0f} seconds after the run, and are ended: let that code end them\n"
    )
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _forward(child: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)


def ended(code: int) -> str:
    """Say how a process ended out of order; `code` is its exit code, or minus a signal."""
    if code < 0:
        return (
            f"{signal.Signals(-code).name} ended the run, in the code that the config names or by "
            "the system for lack of memory: correct that code, or use fewer workers or less data"
        )
    return (
        f"the code that the config names ended the process with exit code {code}, as os._exit "
        "does: let it raise an exception instead"
    )
