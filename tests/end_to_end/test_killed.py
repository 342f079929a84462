"""Runs that are killed at random moments give the record of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest

from dpaudit.execution.store import count

CONFIGS = {
    "trained": """
[data]
synthetic = { n_users = 60, n_items = 80, mean_per_user = 30 }
[train]
folds = 3
trials = 32
[[model]]
defense = "dpsgd-mf"
epsilon = [1, 4]
params = { epochs = 6, dimensions = 8 }
grid = { learning_rate = [0.002, 0.004] }
[[game]]
pair = "rating"
trials = 400
""",
    "on demand": """
[data]
synthetic = { n_users = 150, n_items = 120, mean_per_user = 30 }
[[model]]
defense = "slope-one"
epsilon = [10]
[[attack]]
name = "linear-ideal"
[[sybil]]
efforts = [2, 20]
trials = 60
[[game]]
trials = 20000
[audit]
trials = 3000
""",
}
# Long enough for workers to be hit while they work.
LONG = CONFIGS["trained"].replace("epochs = 6", "epochs = 20").replace("400", "1000")
Whole = Callable[[str], dict[str, Any]]
KILLS = 2  # of each config and kind of workers
PATIENCE = 120  # seconds for a run


def command(folder: Path, name: str, *options: str) -> list[str]:
    config = folder / "config.toml"
    text = {**CONFIGS, "long": LONG}[name]
    config.write_text(f"seed = 5\n{text}", encoding="utf-8")
    run = ["run", str(config), "-o", str(folder / "out"), "-q", *options]
    return [sys.executable, "-m", "dpaudit", *run]


def started(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(arguments, start_new_session=True, stderr=subprocess.PIPE)


def finished(process: subprocess.Popen[bytes]) -> None:
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said.decode()


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "record.json").read_text("utf-8"))
    del found["timing"]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The record of an undisturbed run of a config on one thread."""

    @cache
    def whole(name: str) -> dict[str, Any]:
        folder = tmp_path_factory.mktemp("whole")
        finished(started(command(folder, name, "--workers", "1")))
        return record(folder)

    return whole


def works(process: subprocess.Popen[bytes], folder: Path, tasks: int) -> bool:
    """Wait until a run has stored more than a number of tasks; False if it ended before."""
    store = folder / "out" / "tasks.sqlite"
    while process.poll() is None:
        if store.exists() and count(store) > tasks:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("name", "workers"),
    [
        pytest.param("trained", "processes:2", marks=pytest.mark.long),
        pytest.param("trained", "2", marks=pytest.mark.nightly),
        pytest.param("on demand", "processes:2", marks=pytest.mark.nightly),
        pytest.param("on demand", "2", marks=pytest.mark.nightly),
    ],
)
def test_a_run_killed_at_random_moments_gives_the_same_record(
    tmp_path: Path, whole: Whole, name: str, workers: str
) -> None:
    moment = random.Random(f"{name} {workers}")  # noqa: S311
    run = command(tmp_path, name, "--workers", workers)
    kills, stored = 0, -1  # the first kill may come before any task is stored
    while kills < KILLS:
        process = started(run)
        if works(process, tmp_path, stored):
            time.sleep(moment.uniform(0, 0.5))
        if process.poll() is not None:  # it was faster: try another run
            finished(process)
            shutil.rmtree(tmp_path / "out")
            stored = -1
            continue
        kills += 1
        # The process alone, as the kernel kills what takes too much memory; or with its
        # workers; or with time to clean up, as a scheduler does.
        if moment.random() < 0.5:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.send_signal(moment.choice([signal.SIGKILL, signal.SIGTERM]))
        process.communicate()
        stored = count(tmp_path / "out" / "tasks.sqlite")
    finished(started(run))
    assert record(tmp_path) == whole(name)


def workers_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes that run tasks: Python without the helpers that watch others."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        try:
            words = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if "resource_tracker" not in words and "python" in words:
            found.append(child)
    return found


def kill_a_worker(process: subprocess.Popen[bytes], folder: Path, moment: random.Random) -> bool:
    """Kill a worker once the run has stored a task; False if the run ended before."""
    # Dask gives up a worker that dies before it has started.
    works(process, folder, 0)
    time.sleep(moment.uniform(0, 1))
    workers = workers_of(process) if process.poll() is None else []
    if workers:
        moment.choice(workers).kill()
    return bool(workers)


@pytest.mark.parametrize(
    "workers",
    [
        pytest.param("processes:2", marks=pytest.mark.long),
        pytest.param("dask:2", marks=pytest.mark.nightly),
    ],
)
def test_a_worker_that_is_killed_changes_no_number(
    tmp_path: Path, whole: Whole, workers: str
) -> None:
    moment = random.Random(workers)  # noqa: S311
    hits = 0
    for attempt in range(2):
        place = tmp_path / str(attempt)
        place.mkdir()
        run = command(place, "long", "--workers", workers)
        process = started(run)
        hits += kill_a_worker(process, place, moment)
        try:
            finished(process)
        except subprocess.TimeoutExpired:
            # Dask at times keeps a task with a worker that is gone (dask/distributed#6263).
            assert workers == "dask:2"
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            finished(started(run))
        assert record(place) == whole("long")
    assert hits


@pytest.mark.long
def test_no_process_outlives_a_run_that_is_killed(tmp_path: Path) -> None:
    for number, workers in enumerate(["processes:2", "dask:2"]):
        place = tmp_path / str(number)
        place.mkdir()
        process = started(command(place, "long", "--workers", workers))
        left: list[psutil.Process] = []
        while len(left) < 2 and process.poll() is None:
            time.sleep(0.1)
            left = workers_of(process)
        time.sleep(1)
        assert process.poll() is None
        process.kill()
        process.communicate()
        gone, alive = psutil.wait_procs(left, timeout=30)
        assert alive == []
        assert gone
