"""The workers that run tasks: threads, processes, or a Dask cluster, all through joblib."""

from __future__ import annotations

import functools
import importlib
import logging
import multiprocessing
import os
import pickle
import platform
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from dpaudit.core.errors import ConfigError, DpauditError, RunError, installing, said
from dpaudit.core.foreign import foreign, lent
from dpaudit.core.processes import end_with, restore_environment, starting_workers
from dpaudit.execution.tasks import MACHINE, Result, identity_of

Backend = Literal["threads", "processes", "dask"]
# What a worker returns: the task's number, its result or the error that it raised, and the seconds.
Answer = tuple[int, Result | DpauditError, float]
# How often a task is run again whose process died.
_TRIES = 3
# Seconds between two questions to the scheduler.
_ASKED_EVERY = 2.0
# How long a scheduler may take to answer.
_TIMEOUT = "10s"
_OTHER = "has another dpaudit, Python or library than this machine"
_REMEDY = "install the same environment on all"
# Run by Dask's workers as they start: Ctrl-C reaches all processes of a terminal, and the one that
# started them ends them. A scheduler that a signal ended first is nothing to tell; memory is.
_PRELOAD = """
import logging, signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
logging.getLogger("distributed.worker").setLevel(logging.CRITICAL)
logging.getLogger("distributed.worker.memory").setLevel(logging.WARNING)
"""
_WORDS = "N, processes:N, dask, dask:N or dask:tcp://HOST:PORT"


@dataclass(frozen=True)
class Workers:
    """Where tasks run.

    Attributes:
        count: number of tasks at a time; of a cluster elsewhere, its cores decide.
        backend: threads of this process, processes of this machine, or a Dask cluster.
        address: of the scheduler; empty for a cluster on this machine.
    """

    count: int = 1
    backend: Backend = "threads"
    address: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `N`, `processes:N`, `dask`, `dask:N` or `dask:tcp://HOST:PORT`.

        Raises:
            ConfigError: it is none of these.
        """
        if re.fullmatch(r"dask:(tcp|tls|ucx)://.+", text):
            return cls(0, "dask", text.removeprefix("dask:"))
        match = re.fullmatch(r"(?:(processes|dask):?)?([0-9]{1,4})?", text)
        if not match or not text or text.endswith(":") or match[2] in {"0", "00"}:
            raise ConfigError(f"the option --workers {text!r} is none of {_WORDS}")
        backend: Any = match[1] or "threads"
        return cls(int(match[2]), backend) if match[2] else cls.all_cores(backend)

    @classmethod
    def all_cores(cls, backend: Backend) -> Self:
        """Return a worker for each core of this machine."""
        return cls(os.cpu_count() or 1, backend)

    def __str__(self) -> str:
        if self.address:
            return f"Dask at {self.address}"
        if self.backend == "dask":
            return f"{self.count} Dask workers"
        word = {"threads": "thread", "processes": "process"}[self.backend]
        plural = "es" if self.backend == "processes" else "s"
        return f"{self.count} {word}{plural if self.count > 1 else ''}"


# The caller's own thread.
ONE_THREAD = Workers()


class Shared:
    """A function that many tasks share: a process or machine receives it once.

    Attributes:
        work: the function.
        running: number of its tasks that have not ended.
        last: whether it gets no further tasks.
    """

    def __init__(self, work: Callable[[Any], Result]) -> None:
        """Keep the function."""
        self.work = work
        self.running, self.last = 0, False
        self._file: Path | None = None

    def save(self, folder: Path, number: int) -> None:
        """Write the function for processes of this machine, which then read it from there."""
        content = pickle.dumps((sys.path, sendable(self.work)))
        self._file = folder / f"{number}.pickle"
        self._file.write_bytes(content)

    def clean(self) -> None:
        """Delete the file if no task needs it any more."""
        if self.last and not self.running and self._file is not None:
            self._file.unlink(missing_ok=True)

    def __reduce__(self) -> Any:
        if self._file is not None:
            return _from_file, (str(self._file),)
        return _from_bytes, (sendable(self.work),)


def sendable(work: Any, otherwise: str = "take threads (--workers N)") -> bytes:
    """Return what another process needs to run what is audited.

    Args:
        work: the functions that it runs.
        otherwise: what else helps, in words.

    Raises:
        ConfigError: it cannot be sent there.
    """
    import cloudpickle

    with foreign(
        lambda said: ConfigError(
            f"what is audited cannot be sent to other processes ({said}): make such objects where "
            f"they are used, as in fit, or {otherwise}"
        )
    ):
        return cloudpickle.dumps(work)


@functools.lru_cache(maxsize=2)
def _from_file(path: str) -> Shared:
    # Written by the parent process, in a folder that only this user can write.
    paths, pickled = pickle.loads(Path(path).read_bytes())  # noqa: S301
    # A process that was started earlier may not find the user's modules, which the parent finds.
    sys.path += [place for place in paths if place not in sys.path]
    return _from_bytes(pickled)


def _from_bytes(pickled: bytes) -> Shared:
    import cloudpickle

    return Shared(cloudpickle.loads(pickled))


def answer(shared: Shared, number: int, part: Any) -> Answer:
    """Run a task; an error for the user is a result, so that the first one in order can be told."""
    clock = time.perf_counter()
    result: Result | DpauditError
    try:
        with lent():
            result = shared.work(part)
    except DpauditError as error:
        result = error
    return number, result, time.perf_counter() - clock


def answer_alone(shared: Shared, number: int, part: Any, code: str) -> Answer:
    """Run a task in another process, if it has the same code and libraries.

    Linear algebra has one thread there, as everywhere.
    """
    one_thread()
    restore_environment()
    if _code() != code:
        return number, RunError(f"a worker on {platform.node()} {_OTHER}: {_REMEDY}"), 0.0
    return answer(shared, number, part)


@functools.cache
def _code() -> str:
    """Return what code and libraries this process has; machines may differ in type."""
    identity = identity_of()
    return repr([identity[name] for name in sorted(identity) if name not in MACHINE])


def _begin(parent: int) -> None:
    """Let the process that started this one end it, and the user's code start processes."""
    multiprocessing.set_start_method(None, force=True)  # loky's own fails below a worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal
    end_with(parent)


@functools.cache
def one_thread() -> None:
    """Limit linear algebra to one thread for the life of this process."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)


Job = tuple[Shared, int, Any]


@dataclass
class Pool:
    """Workers that are running.

    Attributes:
        workers: the workers.
        options: joblib's name and settings of the backend.
    """

    workers: Workers
    options: dict[str, Any] = field(default_factory=lambda: {"backend": "threading"})
    _folder: Path | None = None
    _saved: int = 0
    _asked: float = 0.0
    _said: str = ""

    def alive(self) -> str:
        """Describe the workers that are alive."""
        client = self.options.get("client")
        if client is None:
            return str(self.workers)
        if time.monotonic() - self._asked > _ASKED_EVERY:
            self._asked = time.monotonic()
            count = len(client.ncores())
            some = client.scheduler_info()["workers"].values()  # of a large cluster, the first few
            least = min((worker["memory_limit"] for worker in some), default=0)
            self._said = f"{count} Dask workers alive, {least / 2**30:.1f} GiB each"
        return self._said

    def shared(self, work: Callable[[Any], Result]) -> Shared:
        """Prepare a function for being sent."""
        shared = Shared(work)
        if self._folder is not None:
            shared.save(self._folder, self._saved)
            self._saved += 1
        return shared

    def run(self, jobs: Iterable[Job]) -> Iterator[Answer]:
        """Run jobs and yield their answers as they arrive, in any order.

        Jobs are taken from the iterator as workers become free, at times from another thread.

        Raises:
            RunError: processes or the cluster were lost, and running again did not help.
        """
        if self.workers.backend == "threads" and self.workers.count == 1:
            # Handing a small training to another thread takes as long as the training itself.
            yield from (answer(*job) for job in jobs)
            return
        open_jobs: dict[int, Job] = {}

        def noted() -> Iterator[Job]:
            yield from [*open_jobs.values()]
            for job in jobs:
                open_jobs[job[1]] = job
                yield job

        for tried in range(_TRIES):
            try:
                for reply in self._parallel(noted()):
                    open_jobs.pop(reply[0], None)
                    yield reply
                return
            except Exception as error:
                if not _lost(error):
                    raise
                if tried + 1 == _TRIES:
                    raise RunError(
                        f"workers ended before their tasks did, {_TRIES} times ({said(error)}): "
                        "use fewer workers, or machines with more memory, and let no code of yours "
                        "end its process (os._exit); the same command goes on where it was"
                    ) from error

    def _parallel(self, jobs: Iterator[Job]) -> Iterator[Answer]:
        from joblib import Parallel, delayed, parallel_config

        alone = self.workers.backend != "threads"
        with parallel_config(**self.options):
            calls = (
                delayed(answer_alone)(*job, _code()) if alone else delayed(answer)(*job)
                for job in jobs
            )
            yield from Parallel(
                n_jobs=self.workers.count or -1,
                return_as="generator_unordered",
                # Tasks are prepared as they are needed: their inputs take memory.
                pre_dispatch="n_jobs + 1" if self.workers.backend == "threads" else "2 * n_jobs",
            )(calls)


@contextmanager
def started(workers: Workers) -> Iterator[Pool]:
    """Start the workers, and end them afterwards.

    Raises:
        ConfigError: the extra `cluster` is not installed, or no scheduler answers.
    """
    if workers.backend == "threads":
        yield Pool(workers)
    elif workers.backend == "processes":
        with starting_workers(), tempfile.TemporaryDirectory(prefix="dpaudit-") as folder:
            options = {
                "backend": "loky",
                "inner_max_num_threads": 1,
                "initializer": _begin,
                "initargs": (os.getpid(),),
            }
            yield Pool(workers, options, Path(folder))
    else:
        with starting_workers(), _client(workers) as client:
            yield Pool(workers, {"backend": "dask", "client": client})


@contextmanager
def _client(workers: Workers) -> Iterator[Any]:
    try:
        distributed: Any = importlib.import_module("distributed")
        sizeof = importlib.import_module("dask.sizeof").sizeof
        config = importlib.import_module("dask.config")
    except ImportError as error:
        raise ConfigError(
            f"--workers dask needs Dask, the extra 'cluster' ({error}): {installing('cluster')}"
        ) from error

    # joblib sends large arguments once a worker, and asks Dask how large they are.
    sizeof.register(Shared, lambda _: 2**20)
    if workers.address:
        try:
            client = distributed.Client(workers.address, timeout=_TIMEOUT, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"no Dask scheduler answers at {workers.address} ({said(error)}): start one with "
                "'dask scheduler', or correct --workers"
            ) from error
        with client:
            _check_cluster(client, workers.address)
            yield client
        return
    # A signal may end the workers before it is heard here; a failing task raises its own error.
    _silence("tornado", "asyncio")
    try:
        # Daemons may not have children, and a training may start some.
        with config.set({"distributed.worker.daemon": False}):
            cluster = distributed.LocalCluster(
                n_workers=workers.count,
                threads_per_worker=1,
                dashboard_address=None,
                # The scheduler listens without a dashboard too: at any port, as there may be many.
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                preload=_PRELOAD,
            )
    except RuntimeError as error:
        raise ConfigError(
            f"Dask's workers do not start ({said(error)}): in a script, call dpaudit under "
            "'if __name__ == \"__main__\"', as they import it"
        ) from error
    client = distributed.Client(cluster, set_as_default=False)
    try:
        with cluster, client:
            try:
                yield client
            except KeyboardInterrupt:
                # That the tasks which are stopped have no answer is nothing to tell.
                _silence("distributed")
                raise
    finally:
        # A close that a signal cut would be tried again when Python ends, with a traceback.
        client.status = "closed"


def _silence(*packages: str) -> None:
    """Let the loggers of packages say nothing but what ends the process.

    Dask gives loggers below a package's own their own levels and handlers.
    """
    for name in (*packages, *logging.root.manager.loggerDict):
        if name.partition(".")[0] in packages:
            logging.getLogger(name).setLevel(logging.CRITICAL)


def _check_cluster(client: Any, address: str) -> None:
    """Refuse a cluster without workers, or with workers of other code.

    A worker that connects later is checked with each task.
    """
    try:
        client.wait_for_workers(1, timeout=_TIMEOUT)
    except TimeoutError as error:
        raise ConfigError(
            f"the scheduler at {address} has no workers: start one with 'dask worker {address}'"
        ) from error
    try:
        codes = set(client.run(_code).values())
    except Exception as error:  # whatever a worker of another environment raises
        raise ConfigError(f"a Dask worker cannot run dpaudit ({said(error)}): {_REMEDY}") from error
    if codes != {_code()}:
        raise ConfigError(f"a Dask worker {_OTHER}: {_REMEDY}")


def _lost(error: Exception) -> bool:
    """Whether workers died, rather than a task raised an error."""
    from concurrent.futures import BrokenExecutor, CancelledError

    # Dask is not imported where it is not used.
    scheduler = sys.modules.get("distributed.scheduler")
    return isinstance(error, BrokenExecutor | CancelledError) or (
        scheduler is not None and isinstance(error, scheduler.KilledWorker)
    )
