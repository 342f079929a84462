"""Calls of a mechanism in fresh processes, so that no state in memory outlives a call.

A worker is a new Python with its own seed of hashes. It loads numpy, and forks a fresh process for
each unit of calls, which loads the mechanism's modules. Every worker loads this module, so it
imports little.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event, local
from typing import Any, BinaryIO, cast

import cloudpickle

from dpaudit.audits.mechanism.ambient import seed_ambient
from dpaudit.audits.mechanism.outcome import Job, Raised, called
from dpaudit.core.errors import InputError, said
from dpaudit.core.processes import module_places, restore_environment

_SERVE = """
import sys
sys.path[:] = {places!r}
from dpaudit.audits.mechanism.isolated import serve
serve()
"""
_FORKS = hasattr(os, "fork")
_SIZE = 8


def each_in_a_process(
    mechanism: bytes, units: Iterable[Sequence[Job]], at_once: int = 0, *, own_hash: bool = False
) -> Iterator[list[Any]]:
    """Run every unit of jobs in a fresh process, and yield their results in order.

    If the caller stops, so do the processes.

    Args:
        mechanism: the pickled mechanism, see `snapshot`.
        units: jobs that are run one after the other in one process.
        at_once: the number of processes at a time; 0 for one per core.
        own_hash: whether every unit has a seed of hashes of its own, by the stream of its first
            job; else units of one worker share one, which is faster.

    Raises:
        InputError: the mechanism, a data set or an output cannot be sent.
    """
    running: set[_Worker] = set()
    stopped, thread = Event(), local()

    def new(seed: int) -> _Worker:
        worker = _Worker(mechanism, seed)
        running.add(worker)
        if stopped.is_set():
            worker.kill()
        return worker

    def run(unit: Sequence[Job]) -> list[Any]:
        if own_hash or not _FORKS:
            worker = new(int(unit[0][1].generate_state(1)[0]))
            try:
                return worker.run(unit)
            finally:
                worker.kill()
                running.discard(worker)
        if not hasattr(thread, "worker") or thread.worker.ended:
            thread.worker = new(int.from_bytes(os.urandom(4), "little"))
        return thread.worker.run(unit)

    with ThreadPoolExecutor(at_once or os.cpu_count() or 1) as pool:
        try:
            yield from pool.map(run, units)
        finally:
            stopped.set()
            for worker in list(running):
                worker.kill()


class _Worker:
    """A new Python that runs units of jobs."""

    def __init__(self, mechanism: bytes, hash_seed: int) -> None:
        """Start it, and send it the mechanism."""
        self._process = subprocess.Popen(  # noqa: S603  this Python, and code of ours
            [sys.executable, "-P", "-c", _SERVE.format(places=module_places())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            start_new_session=True,  # the parent process decides what Ctrl-C ends
        )
        with suppress(OSError):  # it has ended: each of its units will say so
            _send(self._requests, mechanism)

    @property
    def _requests(self) -> BinaryIO:
        assert self._process.stdin is not None  # noqa: S101
        return cast("BinaryIO", self._process.stdin)

    @property
    def _answers(self) -> BinaryIO:
        assert self._process.stdout is not None  # noqa: S101
        return cast("BinaryIO", self._process.stdout)

    @property
    def ended(self) -> bool:
        """Whether its process has ended, as one does that lacks memory."""
        return self._process.poll() is not None

    def run(self, unit: Sequence[Job]) -> list[Any]:
        """Return the results of a unit of jobs.

        Raises:
            InputError: something cannot be sent.
        """
        try:
            jobs = cloudpickle.dumps(list(unit))
        except Exception as error:
            raise InputError(
                f"the data cannot be sent to a fresh process ({said(error)}): use data that can be "
                "pickled, or leave out fresh_process"
            ) from error
        try:
            _send(self._requests, jobs)
            answer = _received(self._answers)
        except OSError:
            answer = b""
        if not answer:  # the process ended in the midst of a call, as its caller sees
            return [Raised("the process ended without an answer", "")] * len(unit)
        fine, outputs = pickle.loads(answer)  # noqa: S301  written by a process of ours
        if not fine:
            raise InputError(outputs)
        return list(outputs)

    def kill(self) -> None:
        """End it, and the process that it has forked."""
        if self._process.poll() is None:
            if _FORKS:
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        self._process.wait()
        for stream in (self._requests, self._answers):
            with suppress(OSError):
                stream.close()


def serve() -> None:
    """Answer units of jobs from the standard input until it ends."""
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # The mechanism may read and print as it likes.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    restore_environment()
    mechanism = _received(requests)
    while jobs := _received(requests):
        _send(answers, _answer(mechanism, jobs))


def _answer(mechanism: bytes, jobs: bytes) -> bytes:
    """Run a unit in a fork of this process; nothing is returned if that ends early."""
    if not _FORKS:
        return _worked(mechanism, jobs)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "wb") as answer:
            answer.write(_worked(mechanism, jobs))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        results = answer.read()
    os.waitpid(child, 0)
    return results


def _worked(mechanism: bytes, jobs: bytes) -> bytes:
    """Run a unit, and return the pickled results, or the words on why there are none."""
    try:
        unit: list[Job] = pickle.loads(jobs)  # noqa: S301  written by the parent process
        # What is drawn while the mechanism's modules are loaded is of this process, too.
        seed_ambient(unit[0][1])
        function = pickle.loads(mechanism)  # noqa: S301
    except Exception as error:
        return pickle.dumps(
            (
                False,
                f"a fresh process cannot load the mechanism or its data ({said(error)}): define "
                "them at the top of a module that can be imported, or leave out fresh_process",
            )
        )
    outputs = [called(function, job) for job in unit]
    try:
        return cloudpickle.dumps((True, outputs))
    except Exception as error:
        return pickle.dumps(
            (
                False,
                f"the mechanism's answer cannot be sent back ({said(error)}): return plain data",
            )
        )


def _send(stream: BinaryIO, content: bytes) -> None:
    stream.write(len(content).to_bytes(_SIZE, "little"))
    stream.write(content)
    stream.flush()


def _received(stream: BinaryIO) -> bytes:
    """Read what was sent; nothing at the end of the stream."""
    return stream.read(int.from_bytes(stream.read(_SIZE), "little"))
