"""Calls of a mechanism each in a process of its own, so that no state outlives a call.

This module is what a fresh process loads, so it imports little.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from dpaudit.core.errors import InputError, RunError, said

# What a call needs: the data set, its stream, and the number of outputs of a batched mechanism.
Job = tuple[Any, np.random.SeedSequence, int | None]


def called(mechanism: Any, job: Job) -> Any:
    """What the mechanism returns for a job.

    Raises:
        RunError: the mechanism raised what would end this program, or a loop, and is no failure.
        Exception: the mechanism's own.
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
        raise RunError(f"the mechanism raised {said(error)}, which is no failure") from error


def each_in_a_process(mechanism: Any, jobs: Iterable[Job]) -> Iterator[Any]:
    """Run every job in a fresh process, as many at a time as there are cores; keep their order.

    Raises:
        InputError: the mechanism or a data set cannot be sent to a process, or a process ended
            without an answer.
        Exception: the mechanism's own.
    """
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    if method == "forkserver":
        context.set_forkserver_preload(["numpy", __name__])

    def run(job: Job) -> Any:
        try:
            work = pickle.dumps((mechanism, job))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise InputError(
                f"the mechanism and its data cannot be sent to a fresh process ({error}): define "
                "the mechanism at the top of a module, or leave out fresh_process"
            ) from error
        here, there = context.Pipe()
        # A forked server starts processes of any of its kinds alike.
        process = context.Process(target=_answer, args=(there, work))  # type: ignore[attr-defined]
        process.start()
        there.close()
        try:
            fine, answer = here.recv()
        except EOFError as error:
            raise InputError(
                "a fresh process ended without an answer: call the mechanism from a script whose "
                "own work stands under 'if __name__ == \"__main__\"', and see that it does not exit"
            ) from error
        finally:
            here.close()
            process.join()
        if not fine:
            raise answer
        return answer

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        yield from pool.map(run, jobs)


def _answer(there: Connection, work: bytes) -> None:
    """Send the result of a job, or the error that it raised."""
    try:
        mechanism, job = pickle.loads(work)  # noqa: S301  written by the parent process
        said = True, called(mechanism, job)
    except Exception as error:
        said = False, error
    try:
        there.send(said)
    except Exception as error:
        there.send((False, InputError(f"the mechanism's answer cannot be sent back: {error}")))
