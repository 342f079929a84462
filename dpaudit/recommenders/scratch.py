"""Temporary folders for the files of a command, removed when the command or this process ends."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_CLEANUP = Path(__file__).with_name("cleanup.py")


@dataclass(frozen=True)
class Scratch:
    """A temporary folder.

    Attributes:
        folder: its absolute path.
    """

    folder: Path

    def note(self, group: int) -> None:
        """Register a process group, which is killed if this process is killed."""
        self._send(b"%d" % group)

    def _send(self, state: bytes) -> None:
        with suppress(BrokenPipeError):  # the script has ended
            os.write(_cleanup_pipe(os.getpid()), os.fsencode(self.folder) + b"\0" + state + b"\n")


@contextmanager
def scratch_folder() -> Iterator[Scratch]:
    """Make a temporary folder, and remove it at the end, even if this process is killed."""
    _cleanup_pipe(os.getpid())
    folder = tempfile.TemporaryDirectory(prefix="dpaudit-", ignore_cleanup_errors=True)
    scratch = Scratch(Path(folder.name).resolve())
    try:
        with folder:
            scratch._send(b"")
            yield scratch
    finally:
        scratch._send(b"end")


@functools.lru_cache(maxsize=1)
def _cleanup_pipe(process: int) -> int:
    """Start the cleanup script of this process; return the pipe to it, which is never closed.

    Args:
        process: the id of this process; a fork needs a script of its own.
    """
    there, here = os.pipe()
    # The script leaves a process that is no child of this one, and ends at once.
    subprocess.run(  # noqa: S603  the interpreter that runs already
        [sys.executable, "-I", "-S", str(_CLEANUP)],
        stdin=there,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    os.close(there)
    return here
