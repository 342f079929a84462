"""Run a command with a limit on its time and on what is kept of its output; leave no process.

The command leads a process group of its own. The group is killed when the command ends, when it
reaches its limit, and when this process is interrupted or killed.
"""

from __future__ import annotations

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from dpaudit.core.messages import plain
from dpaudit.recommenders.scratch import Scratch

# The number of bytes that are kept from the beginning of the output, and from its end.
_HALF = 2**19
_AT_ONCE = 2**16
# The most pieces of output that a pipe holds.
_PIECES = 16
# How often, in seconds, a command that prints nothing is checked.
_LOOK = 0.05
_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)")


@dataclass
class Log:
    """What a command printed: its first and last half MiB.

    Attributes:
        total: the number of bytes that it printed.
    """

    total: int = 0
    _first: bytearray = field(default_factory=bytearray)
    _last: bytearray = field(default_factory=bytearray)

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self.total += len(piece)
        room = _HALF - len(self._first)
        self._first += piece[:room]
        self._last += piece[room:]
        if len(self._last) > 2 * _HALF:
            del self._last[:-_HALF]

    def kept(self) -> bytes:
        """Return the output; a line in its middle says how many bytes were dropped."""
        last = self._last[-_HALF:]
        dropped = self.total - len(self._first) - len(last)
        middle = f"\n[dpaudit dropped {dropped} bytes here]\n".encode() if dropped else b""
        return bytes(self._first + middle + last)

    def tail(self, lines: int, characters: int) -> str:
        """Return the last lines that hold text, joined by ` | `, as one line.

        Bytes that are not UTF-8 are replaced; control characters are removed. Of a line that was
        written over, such as a progress bar, the last state counts.
        """
        text = self.kept()[-_AT_ONCE:].decode(errors="replace")
        states = (line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
        shown = (plain(_ESCAPES.sub("", state)).strip() for state in states)
        joined = " | ".join([line for line in shown if line][-lines:])
        return joined if len(joined) <= characters else f"…{joined[-characters:]}"


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        status: its exit code; -n if signal n ended it; None if it was stopped at its limit.
        log: what it printed to standard output and standard error.
    """

    status: int | None
    log: Log


def run(
    words: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    seconds: float,
    scratch: Scratch,
) -> Ended:
    """Run a command to its end, or to its limit; its standard input is empty.

    Args:
        words: the program and its arguments.
        cwd: the folder in which it runs.
        environment: its whole environment.
        seconds: the limit on its time.
        scratch: the folder of its files; a folder serves one command at a time.

    Raises:
        OSError, ValueError: the command cannot be started.
    """
    child = subprocess.Popen(  # noqa: S603  the command is the user's, and no shell reads it
        words,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        scratch.note(child.pid)
        log = Log()
        return Ended(_status(child, log, time.monotonic() + seconds), log)
    finally:
        _end(child)


def _status(child: subprocess.Popen[bytes], log: Log, end: float) -> int | None:
    """Read the output until the command ends; None if it reaches the time `end` first.

    What the command started may hold the other end of the pipe, so its end is not waited for.
    """
    output = _output(child)
    os.set_blocking(output.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(output, selectors.EVENT_READ)
        while True:
            left = end - time.monotonic()
            if ready.select(min(_LOOK, max(0.0, left))) and not _read(output, log):
                break
            if child.poll() is not None:
                for _ in range(_PIECES):
                    _read(output, log)
                return child.returncode
            if left <= 0:
                return None
    try:
        return child.wait(max(0.0, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return None


def _read(output: IO[bytes], log: Log) -> bool:
    """Read what is there; False at the end of the output."""
    try:
        piece = os.read(output.fileno(), _AT_ONCE)
    except BlockingIOError:
        return True
    log.add(piece)
    return bool(piece)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the command and all processes of its group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.kill()
    _output(child).close()
    child.wait()


def _output(child: subprocess.Popen[bytes]) -> IO[bytes]:
    if child.stdout is None:
        raise TypeError("the command has no output")
    return child.stdout
