"""Time tasks in a process of its own, which is ended if one takes too long."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Self

from dpaudit.core.errors import DpauditError, RunError
from dpaudit.core.processes import end_with, ended
from dpaudit.execution.tasks import Task
from dpaudit.execution.workers import Shared, answer

_FORKS = hasattr(os, "fork")


class Stopwatch:
    """Times tasks, one after the other, in a fork of this process.

    A kernel and the user's code cannot be interrupted, so their process is ended, and the next task
    has a new one. Where processes cannot fork, tasks run in this one, each to its end.

    Attributes:
        memory: bytes that the tasks have taken so far, besides what this process holds.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Take the tasks, which a fork inherits."""
        self.memory = 0
        self._tasks = tasks
        self._start = peak_memory()
        self._fork: tuple[BaseProcess, Connection[Any, Any]] | None = None

    def __enter__(self) -> Self:
        """Return itself; the first task starts the process."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self._end()

    def time(self, number: int, limit: float) -> float | None:
        """Run a task.

        Args:
            number: its place among the tasks.
            limit: the most seconds that it may take.

        Returns:
            Its seconds; None if it takes longer than the limit, and is ended.

        Raises:
            DpauditError: as the task does.
            RunError: the task ends its process.
        """
        if not _FORKS:
            reply = _reply(self._tasks[number], self._start)
        else:
            process, pipe = self._fork = self._fork or _forked(self._tasks)
            try:
                pipe.send(number)
                if not pipe.poll(limit):
                    self._end()
                    return None
                reply = pipe.recv()
            except (EOFError, OSError):
                process.join()
                raise RunError(ended(process.exitcode or 0)) from None
        if isinstance(reply, Exception):
            raise reply
        seconds, memory = reply
        self.memory = max(self.memory, memory)
        return seconds

    def _end(self) -> None:
        if self._fork is not None:
            process, pipe = self._fork
            process.kill()
            process.join()
            pipe.close()
            self._fork = None


# The seconds of a task, and the bytes that the tasks so far have taken; or the error of the task.
Reply = tuple[float, int] | Exception


def _forked(tasks: Sequence[Task]) -> tuple[BaseProcess, Connection[Any, Any]]:
    context: Any = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(tasks, there, os.getpid()), daemon=True)
    process.start()
    there.close()
    return process, here


def _serve(tasks: Sequence[Task], calls: Connection[Any, Any], parent: int) -> None:
    """Run the tasks whose numbers arrive, until this process is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent)
    start = peak_memory()
    while True:
        calls.send(_reply(tasks[calls.recv()], start))


def _reply(task: Task, start: int) -> Reply:
    try:
        _, result, seconds = answer(Shared(task.work), 0, task.part)
    except Exception as error:
        error.add_note(traceback.format_exc())  # which a pipe does not carry
        return error
    return result if isinstance(result, DpauditError) else (seconds, peak_memory() - start)


def peak_memory() -> int:
    """Return the largest memory that this process has had so far, in bytes."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
