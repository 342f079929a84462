"""Workers: how they are written, and what is told when they cannot start."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from poison import Poison, elsewhere  # type: ignore[import-not-found]

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.execution.executor import Executor
from dpaudit.execution.tasks import Result
from dpaudit.execution.workers import Shared, Workers, started


def test_workers_are_read_from_one_word() -> None:
    cores = os.cpu_count() or 1
    for text, expected in (
        ("1", Workers(1)),
        ("16", Workers(16)),
        ("processes:3", Workers(3, "processes")),
        ("processes", Workers(cores, "processes")),
        ("dask", Workers(cores, "dask")),
        ("dask:3", Workers(3, "dask")),
        ("dask:tcp://host:8786", Workers(0, "dask", "tcp://host:8786")),
    ):
        assert Workers.parse(text) == expected
    for text in ("", "0", "-1", "many", "dask:", "processes:0", "threads:2", "dask:http://a", "٣"):
        with pytest.raises(ConfigError, match="is none of"):
            Workers.parse(text)
    assert str(Workers(1)) == "1 thread"
    assert str(Workers(2, "processes")) == "2 processes"


def test_what_cannot_be_sent_to_processes_is_one_sentence(tmp_path: Path) -> None:
    lock = threading.Lock()
    work = Shared(lambda part: np.full(part, float(lock.locked())))
    for send in (lambda: work.save(tmp_path, 0), lambda: pickle.dumps(work)):
        with pytest.raises(ConfigError, match=r"cannot be sent .*pickle.*fit"):
            send()


def test_without_the_extra_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    real = importlib.import_module

    def without(name: str, *rest: Any) -> Any:
        if name == "distributed":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without)
    with (
        pytest.raises(ConfigError, match=r"the extra 'cluster'.*pip install 'distributed>="),
        started(Workers(1, "dask")),
    ):
        pass


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpaudit.execution.workers._TIMEOUT", "1s")
    with (
        pytest.raises(ConfigError, match="scheduler answers at tcp"),
        started(Workers(0, "dask", "tcp://127.0.0.1:1")),
    ):
        pass


# As the main thread hears a signal late: the loop's callbacks fail before it does, and after.
STOPPED = """
import logging
from dpaudit.execution.workers import Workers, started

if __name__ == "__main__":
    try:
        with started(Workers(1, "dask")):
            logging.getLogger("tornado.application").error("before")
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        for name in ("tornado.application", "distributed.client", "distributed.core", "asyncio"):
            logging.getLogger(name).error("after")
"""


@pytest.mark.long
def test_a_local_cluster_that_is_stopped_logs_nothing(tmp_path: Path) -> None:
    script = tmp_path / "stopped.py"
    script.write_text(STOPPED, encoding="utf-8")
    # The port of Dask's dashboard is taken, as where another cluster runs.
    with socket.socket() as dashboard:
        with suppress(OSError):
            dashboard.bind(("127.0.0.1", 8787))
            dashboard.listen()
        run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert not run.stderr


@pytest.mark.long
def test_a_task_that_always_kills_its_process_ends_the_run() -> None:
    def dying(number: int) -> Result:
        if number == 3:
            os._exit(1)
        return np.array([number])

    with (
        started(Workers(2, "processes")) as pool,
        pytest.raises(RunError, match=r"workers ended .* 3 times"),
    ):
        Executor(pool).map("", dying, range(6), lambda _: 1)


@pytest.mark.long
def test_a_process_that_dies_once_costs_nothing(tmp_path: Any) -> None:
    place = tmp_path / "died"

    def dying(number: int) -> Result:
        if number == 3 and not place.exists():
            place.write_text("")
            os._exit(1)
        return np.array([number])

    with started(Workers(2, "processes")) as pool:
        results = Executor(pool).map("", dying, range(20), lambda _: 1)
    assert [int(result[0]) for result in results] == list(range(20))
    assert place.exists()


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="there are no forks")
@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_a_task_in_a_process_starts_processes(method: str | None) -> None:
    def starting(number: int) -> Result:
        context: Any = multiprocessing.get_context(method) if method else multiprocessing
        process = context.Process(target=os._exit, args=(number,))
        process.start()
        process.join()
        return np.array([process.exitcode])

    with started(Workers(2, "processes")) as pool:
        results = Executor(pool).map("", starting, range(2), lambda _: 1)
    assert [int(result[0]) for result in results] == [0, 1]


# As in a notebook, whose path begins with the current folder once all that it needs is loaded.
PROGRAM = """
import sys
here = sys.path.pop(0)
import joblib.externals.loky.process_executor, numpy.random, distributed.deploy.local
from dpaudit.execution.executor import Executor
from dpaudit.execution.workers import Workers, started
sys.path.insert(0, here)

def squared(number):
    import own_module
    return numpy.array([own_module.times(number)])

for backend in ("processes", "dask"):
    with started(Workers(2, backend)) as pool:
        print(*Executor(pool).map("", squared, range(3), lambda _: 1))
print(sys.path[0] == here)
"""


@pytest.mark.long
def test_workers_of_a_program_load_no_standard_module_from_its_folder(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    folder = tmp_path / "notebooks"
    folder.mkdir()
    poison = Poison(folder, set(sys.stdlib_module_names) - elsewhere())
    (folder / "own_module.py").write_text("def times(number):\n    return 2 * number\n")
    command = [sys.executable, "-c", PROGRAM]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (poison.ran(), run.stderr) == ([], "")
    assert run.stdout == "[0] [2] [4]\n" * 2 + "True\n"
