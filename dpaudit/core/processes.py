"""Processes that end together, and one that tells how another ended."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import time
from contextlib import suppress
from threading import Thread

from dpaudit.core.exit_codes import RUN_FAILED

# Seconds between two looks of a process at the one that started it.
_LOOK = 0.5
_FORWARDED = (signal.SIGINT, signal.SIGTERM)
# How a process ends that such a signal stops: by it, or with the exit code of shells.
_STOPPED = {code for number in _FORWARDED for code in (-number, 128 + number)}


def end_with(parent: int) -> None:
    """End this process when the one that started it is gone: also if that was killed.

    Args:
        parent: the id of the process that started this one.
    """

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK)
        os._exit(1)

    Thread(target=look, daemon=True).start()


def supervise() -> None:
    """Go on in a new process, and end this one as the new one ends; call before any thread starts.

    The new process is about to run the user's code, which may end it without a word (`os._exit`, a
    crash of a library, the system for lack of memory), and with any exit code: 0 would be read as
    a pass. This process then says so, and its exit code is that of a failed run.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if not child:
        os.close(reader)
        os.setpgid(0, 0)  # a terminal's Ctrl-C reaches the parent alone, which forwards it
        pid = os.getpid()
        # Run only where Python ends in order.
        atexit.register(lambda: os.getpid() == pid and os.write(writer, b"."))
        end_with(parent)
        return
    os.close(writer)
    for number in _FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: _forward(child, number))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    os.set_blocking(reader, False)  # what the child started may hold the other end
    in_order = False
    with suppress(BlockingIOError):
        in_order = bool(os.read(reader, 1))
    if not in_order and code not in _STOPPED:
        sys.stderr.write(f"dpaudit: {_said(code)}\n")
        code = RUN_FAILED
    sys.stderr.flush()
    if -code in _FORWARDED:
        signal.signal(-code, signal.SIG_DFL)
        signal.raise_signal(-code)
    os._exit(128 - code if code < 0 else code)


def _forward(child: int, number: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(child, number)


def _said(code: int) -> str:
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
