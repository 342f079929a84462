"""Calls of a mechanism in fresh processes, so that no state outlives a call.

Every fresh process loads this module, so it imports little.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from threading import Event
from typing import Any

import numpy as np

from dpaudit.core.errors import InputError, RunError, said

# The arguments of a call: the data set, the random stream, and a batched mechanism's number of
# outputs.
Job = tuple[Any, np.random.SeedSequence, int | None]


def called(mechanism: Any, job: Job) -> Any:
    """Call the mechanism for a job and return its result.

    Raises:
        RunError: the mechanism raised StopIteration, or an exception such as SystemExit that would
            end this program.
        Exception: any other exception of the mechanism.
    """
    data, stream, count = job
    rng = np.random.default_rng(stream)
    try:
        return mechanism(data, rng) if count is None else mechanism(data, rng, count)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, Exception) and not isinstance(error, StopIteration):
            raise
        raise RunError(f"the mechanism raised {said(error)}, which is not an error") from error


def each_in_a_process(mechanism: Any, jobs: Iterable[Job], at_once: int = 0) -> Iterator[Any]:
    """Run every job in a fresh process, and yield the results in order.

    If the caller stops, so do the processes.

    Args:
        mechanism: the mechanism.
        jobs: the jobs.
        at_once: the number of processes at a time; 0 for one per core.

    Raises:
        InputError: the mechanism or a data set cannot be sent to a process, or a process ended
            without an answer.
        Exception: any exception of the mechanism.
    """
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["numpy", __name__])

    running: set[Any] = set()
    stopped = Event()

    def run(job: Job) -> Any:
        try:
            work = pickle.dumps((mechanism, job))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"the mechanism and its data cannot be sent to a fresh process ({error}): define "
                "the mechanism at the top of a module, or leave out fresh_process"
            ) from error
        here, there = context.Pipe()
        # mypy does not know that every start method's context has Process.
        process = context.Process(target=_answer, args=(there, work))  # type: ignore[attr-defined]
        process.start()
        running.add(process)
        if stopped.is_set():
            process.kill()
        there.close()
        try:
            fine, answer = here.recv()
        except EOFError as error:
            raise InputError(
                "a fresh process ended without an answer: put the calling script's code under "
                "'if __name__ == \"__main__\"', and check that the mechanism does not exit"
            ) from error
        finally:
            here.close()
            process.join()
            running.discard(process)
        if not fine:
            raise answer
        return answer

    with ThreadPoolExecutor(at_once or os.cpu_count() or 1) as pool:
        try:
            yield from pool.map(run, jobs)
        finally:
            stopped.set()
            for process in list(running):
                process.kill()


def _answer(there: Connection, work: bytes) -> None:
    """Send the result of a job, or the exception that it raised."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process decides what Ctrl-C ends
    try:
        mechanism, job = pickle.loads(work)  # noqa: S301  written by the parent process
        said = True, called(mechanism, job)
    except Exception as error:
        said = False, error
    try:
        there.send(said)
    except Exception as error:
        there.send((False, InputError(f"the mechanism's answer cannot be sent back: {error}")))
