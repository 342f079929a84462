"""One call of a mechanism: what it gives, in this process or in a fresh one.

A mechanism may draw from the generators that a process has without being asked, of numpy, of
`random` and of torch, and ignore its own stream. They are seeded from the stream of each call: so
its outputs repeat, and processes that inherit equal states share no noise.

A call gives a copy of its output, or the exception that it raised. An exception is an output:
whoever calls the mechanism sees it, and one that is raised on one data set only tells it from the
other.

In fresh processes no state in memory outlives a call. A worker is a new Python with its own seed of
hashes. It loads numpy, and forks a fresh process for each unit of calls, which loads the
mechanism's modules. Every worker loads this module, so it imports little.
"""

from __future__ import annotations

import copy
import os
import pickle
import random
import re
import signal
import subprocess
import sys
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Sequence, ValuesView
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from threading import Event, local
from typing import Any, BinaryIO, cast

import cloudpickle
import numpy as np

from dpaudit.core.errors import InputError, said, shortened
from dpaudit.core.processes import module_places, restore_environment

# The arguments of a call: the data set, the random stream, and a batched mechanism's number of
# outputs.
Job = tuple[Any, np.random.SeedSequence, int | None]
# Most entries of an iterator, which may have no end.
_MOST = 100_000
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
_VIEWS = (KeysView, ValuesView, ItemsView)
_SERVE = """
import sys
sys.path[:] = {places!r}
from dpaudit.audits.mechanism.one_call import serve
serve()
"""
_FORKS = hasattr(os, "fork")
_SIZE = 8


def seed_ambient(stream: np.random.SeedSequence) -> None:
    """Seed the process's generators from the stream of a call."""
    first, second = stream.generate_state(2).tolist()
    np.random.seed(first)  # noqa: NPY002  the mechanism may read it
    random.seed(first << 32 | second)
    torch = sys.modules.get("torch")
    if torch is not None:
        _seed_torch(torch, second)


def _seed_torch(torch: Any, seed: int) -> None:
    """Seed torch's generators.

    `torch.manual_seed` formats the stack of each call for devices that nobody uses, which takes
    longer than many a mechanism: where there is no device, only the processor's is seeded. Counting
    devices starts none, so that processes may still fork.
    """
    if torch.cuda.device_count() or torch.xpu.device_count() or torch.backends.mps.is_built():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


@contextmanager
def ambient_restored() -> Iterator[None]:
    """Give the process's generators back the states that they had, whatever happens between."""
    states = np.random.get_state(), random.getstate()  # noqa: NPY002
    torch = sys.modules.get("torch")
    torch_state = torch.get_rng_state() if torch is not None else None
    try:
        yield
    finally:
        np.random.set_state(states[0])  # noqa: NPY002
        random.setstate(states[1])
        if torch is not None:
            torch.set_rng_state(torch_state)


@dataclass(frozen=True)
class Raised:
    """The exception that a call raised, as its output.

    Attributes:
        kind: the name of its type.
        message: its text, which may tell something of the data; addresses of memory, which differ
            from process to process, are left out.
    """

    kind: str
    message: str

    def __str__(self) -> str:
        return shortened(f"{self.kind}: {self.message}" if self.message else self.kind)


def called(mechanism: Any, job: Job, *, ambient: bool = True) -> Any:
    """Call the mechanism for a job, and return what its caller receives.

    Args:
        mechanism: the mechanism.
        job: the arguments of the call.
        ambient: whether to seed the generators of this process from the job's stream; not where
            other threads draw from them.
    """
    data, stream, count = job
    rng = np.random.default_rng(stream)
    if ambient:
        seed_ambient(stream)
    try:
        return received(mechanism(data, rng) if count is None else mechanism(data, rng, count))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also SystemExit, by which a mechanism may answer
        return _raised(error)


def received(output: Any) -> Any:  # noqa: PLR0911  one kind of output each
    """Return a copy of an output, which no later call can change.

    Iterators and views, which show what is there when they are read, become lists, and views of
    memory become bytes. What cannot be copied is returned as it is.
    """
    if isinstance(output, Iterator):
        return [received(entry) for entry in islice(output, _MOST)]
    if isinstance(output, _VIEWS):
        return [received(entry) for entry in output]
    if isinstance(output, memoryview):
        return bytes(output)
    try:
        return copy.deepcopy(output)
    except RecursionError:  # it is nested too deep, so all its parts are
        return output
    except Exception:  # some part cannot be copied: copy the others
        if type(output) is dict:
            return {key: received(value) for key, value in output.items()}
        if type(output) in (list, tuple):
            return type(output)(received(entry) for entry in output)
        return output


def _raised(error: BaseException) -> Raised:
    try:
        message = _ADDRESS.sub("0x…", str(error))
    except KeyboardInterrupt:
        raise
    except BaseException:  # its own __str__ failed
        return Raised(type(error).__name__, "")
    return Raised(type(error).__name__, message)


def each_in_a_process(
    mechanism: bytes, units: Iterable[Sequence[Job]], at_once: int = 0, *, own_hash: bool = False
) -> Iterator[list[Any]]:
    """Run every unit of jobs in a fresh process, and yield their results in order.

    If the caller stops, so do the processes.

    Args:
        mechanism: the pickled mechanism, see `kept.Snapshot`.
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
        streams = self._process.stdin, self._process.stdout
        self._requests, self._answers = cast("tuple[BinaryIO, BinaryIO]", streams)
        with suppress(OSError):  # it has ended: each of its units will say so
            _write_message(self._requests, mechanism)

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
            _write_message(self._requests, jobs)
            answer = _read_message(self._answers)
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
    mechanism = _read_message(requests)
    while jobs := _read_message(requests):
        _write_message(answers, _answer(mechanism, jobs))


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
        words = (
            f"a fresh process cannot load the mechanism or its data ({said(error)}): define "
            "them at the top of a module that can be imported, or leave out fresh_process"
        )
        return pickle.dumps((False, words))
    outputs = [called(function, job) for job in unit]
    try:
        return cloudpickle.dumps((True, outputs))
    except Exception as error:
        words = f"the mechanism's answer cannot be sent back ({said(error)}): return plain data"
        return pickle.dumps((False, words))


def _write_message(stream: BinaryIO, content: bytes) -> None:
    stream.write(len(content).to_bytes(_SIZE, "little"))
    stream.write(content)
    stream.flush()


def _read_message(stream: BinaryIO) -> bytes:
    """Read what was sent; nothing at the end of the stream."""
    return stream.read(int.from_bytes(stream.read(_SIZE), "little"))
