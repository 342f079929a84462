"""A process of its own in which tasks are timed, and which is ended if one takes too long."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from dpaudit.core.errors import DpauditError, RunError, said
from dpaudit.core.memory import peak_memory
from dpaudit.core.processes import end_with, ended, restore_environment, starting_workers
from dpaudit.execution.tasks import Task
from dpaudit.execution.workers import Shared, answer, one_thread, sendable

# The seconds of a task, and the bytes that the tasks so far have taken; or the error of the task.
Reply = tuple[float, int] | Exception


class Stopwatch:
    """Times tasks, one after the other, in another process.

    A kernel and the user's code cannot be interrupted, so their process is ended, and the next task
    has a new one.

    Attributes:
        memory: bytes that the tasks have taken so far, besides what this process holds.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        """Take the tasks."""
        self.memory = 0
        self._tasks = tasks
        self._process: tuple[BaseProcess, Connection[Any, Any]] | None = None

    def start(self) -> Connection[Any, Any]:
        """Start the process, unless it runs, and return its pipe once it has the tasks.

        Raises:
            ConfigError: the tasks cannot be sent to it.
            RunError: it cannot read them.
        """
        if self._process is None:
            self._process = _started(self._tasks)
            _received(*self._process)
        return self._process[1]

    def time(self, number: int, limit: float) -> float | None:
        """Run a task.

        Args:
            number: its place among the tasks.
            limit: the most seconds that it may take.

        Returns:
            Its seconds; None if it takes longer than the limit, and is ended.

        Raises:
            DpauditError: as the task does, or as `start`.
            RunError: the task ends its process.
        """
        pipe = self.start()
        with suppress(OSError):  # what ended the process is said below
            pipe.send(number)
        if self._process is None or not pipe.poll(limit):
            self.close()
            return None
        seconds, memory = _received(*self._process)
        self.memory = max(self.memory, memory)
        return float(seconds)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            process, pipe = self._process
            _end(process)
            pipe.close()
            self._process = None


def _started(tasks: Sequence[Task]) -> tuple[BaseProcess, Connection[Any, Any]]:
    """Start a process for the tasks: a fork, which has all that they need, where it can run them.

    A fork has none of the threads of its parent. jax starts some as soon as it computes, which the
    user's modules may do when they are imported, and would wait for them.
    """
    forks = hasattr(os, "fork") and "jax" not in sys.modules
    context: Any = multiprocessing.get_context("fork") if forks else _loky()
    here, there = context.Pipe()
    given = (tasks if forks else sendable(tasks, "import jax there too"), there, os.getpid())
    process = context.Process(target=_serve, args=given, daemon=True)
    with nullcontext() if forks else starting_workers():
        process.start()
    there.close()
    return process, here


def _loky() -> Any:
    """Return joblib's way to start a process, which does not run the main script again."""
    from joblib.externals.loky.backend import get_context

    return get_context("loky")


def _received(process: BaseProcess, pipe: Connection[Any, Any]) -> Any:
    """Return what a process sends, or raise it."""
    try:
        reply = pipe.recv()
    except (EOFError, OSError):
        process.join()
        raise RunError(ended(process.exitcode or 0)) from None
    if isinstance(reply, Exception):
        raise reply
    return reply


def _end(process: BaseProcess) -> None:
    import psutil

    if process.exitcode is None:
        with suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).kill()
    process.join()


def _serve(given: Sequence[Task] | bytes, calls: Connection[Any, Any], parent: int) -> None:
    """Say that the tasks are here, and run those whose numbers arrive, until this is ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with(parent)
    restore_environment()
    try:
        # Pickled by the parent.
        tasks: Sequence[Task] = pickle.loads(given) if isinstance(given, bytes) else given  # noqa: S301
    except Exception as error:
        calls.send(RunError(f"what is audited cannot be read in another process ({said(error)})"))
        return
    if tasks is not given:
        one_thread()  # as its parent has, and a fork of that
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)  # a fork would wait for those that its parent's torch has started
    calls.send(None)
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
