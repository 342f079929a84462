"""Run commands in forks of one process that has imported dpaudit, each with streams of its own.

Started as a script, it reads a line of JSON for each command: the current folder, the arguments,
and where standard output and standard error lead, null for closed. It answers with the exit code.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Commands:
    """The process that forks."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Keep the process."""
        self._process = process

    def run(self, folder: Path, *words: str, out: str | None, err: str | None) -> int:
        """Run `dpaudit` with these words, and return its exit code."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps([str(folder), words, out, err]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextmanager
def commands() -> Iterator[Commands]:
    """Start the process that forks, and end it."""
    with subprocess.Popen(
        [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Commands(process)
        assert process.stdin
        process.stdin.close()


def _run(folder: str, words: list[str], out: str | None, err: str | None) -> None:
    """Become the command."""
    from dpaudit.__main__ import main

    os.setsid()
    os.chdir(folder)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for number, place in ((1, out), (2, err)):
        if place is None:
            os.close(number)
        else:
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    # As Python starts with such descriptors.
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = None if out is None else open(1, "w", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.stderr = sys.__stderr__ = None if err is None else open(2, "w", closefd=False)  # type: ignore[misc]  # noqa: SIM115
    sys.argv = ["dpaudit", *words]
    main()


def _serve() -> None:
    from dpaudit.core import registry

    for group in ("audits", "recommenders", "attacks", "measures", "reports"):
        registry.every(group)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _run(*json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _serve()
