"""Folders for the files of a command, which outlive neither the command nor this process."""

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

_WATCHER = Path(__file__).with_name("watcher.py")


@dataclass(frozen=True)
class Scratch:
    """A temporary folder.

    Attributes:
        folder: its absolute path.
    """

    folder: Path

    def note(self, group: int) -> None:
        """Let this process group be killed with the folder, should this process be killed."""
        self._tell(b"%d" % group)

    def _tell(self, state: bytes) -> None:
        with suppress(BrokenPipeError):  # nobody watches any more
            os.write(_watcher(os.getpid()), os.fsencode(self.folder) + b"\0" + state + b"\n")


@contextmanager
def scratch_folder() -> Iterator[Scratch]:
    """Make a temporary folder, and remove it in the end, even if this process is killed."""
    _watcher(os.getpid())
    folder = tempfile.TemporaryDirectory(prefix="dpaudit-", ignore_cleanup_errors=True)
    scratch = Scratch(Path(folder.name).resolve())
    try:
        with folder:
            scratch._tell(b"")
            yield scratch
    finally:
        scratch._tell(b"end")


@functools.lru_cache(maxsize=1)
def _watcher(process: int) -> int:
    """Start the watcher of this process, and return the pipe to it, which is never closed.

    Args:
        process: the number of this process, as a fork needs a watcher of its own.
    """
    there, here = os.pipe()
    # The script leaves a process that is no child of this one, and ends at once.
    subprocess.run(  # noqa: S603  the interpreter that runs already
        [sys.executable, "-I", "-S", str(_WATCHER)],
        stdin=there,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=False,
    )
    os.close(there)
    return here
