"""Runs that are killed at random moments give the record of an undisturbed run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
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
LONG = CONFIGS["trained"].replace("epochs = 6", "epochs = 20").replace("400", "3000")
KILLS = 100


def command(folder: Path, name: str, *options: str) -> list[str]:
    config = folder / "config.toml"
    text = {**CONFIGS, "long": LONG}[name]
    config.write_text(f"seed = 5\n{text}", encoding="utf-8")
    run = ["run", str(config), "-o", str(folder / "out"), "-q", *options]
    return [sys.executable, "-m", "dpaudit", *run]


def started(arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(arguments, start_new_session=True, stderr=subprocess.PIPE)


def finished(process: subprocess.Popen[bytes]) -> None:
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said.decode()


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "record.json").read_text("utf-8"))
    del found["timing"]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], float]]:
    """The record of an undisturbed run of each config on one thread, and its seconds."""
    found = {}
    for name in (*CONFIGS, "long"):
        folder = tmp_path_factory.mktemp("whole")
        for _ in range(2):  # the first one compiles the kernels
            clock = time.monotonic()
            finished(started([*command(folder, name, "--workers", "1"), "--fresh"]))
        found[name] = record(folder), time.monotonic() - clock
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("workers", ["2", "processes:2"])
def test_a_run_killed_at_random_moments_gives_the_same_record(
    tmp_path: Path, whole: dict[str, tuple[dict[str, Any], float]], name: str, workers: str
) -> None:
    expected, seconds = whole[name]
    moment = random.Random(f"{name} {workers}")  # noqa: S311
    kills, folder = 0, 0
    while kills < KILLS / 4:
        folder += 1
        place = tmp_path / str(folder)
        place.mkdir()
        patience = seconds
        while True:
            process = started(command(place, name, "--workers", workers))
            try:
                process.wait(timeout=moment.uniform(0.3, 1.0) * patience)
            except subprocess.TimeoutExpired:
                kills += 1
                patience *= 1.1  # a machine that is busy now must get to work in the end
                # The process alone, as the kernel kills what takes too much memory; or with its
                # workers; or with time to clean up, as a scheduler does.
                if moment.random() < 0.5:
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.send_signal(moment.choice([signal.SIGKILL, signal.SIGTERM]))
                process.communicate()
                continue
            finished(process)
            break
        assert record(place) == expected


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


@pytest.mark.long
@pytest.mark.parametrize("workers", ["processes:2", "dask:2"])
def test_a_worker_that_is_killed_changes_no_number(
    tmp_path: Path, whole: dict[str, tuple[dict[str, Any], float]], workers: str
) -> None:
    expected, _ = whole["long"]
    moment = random.Random(workers)  # noqa: S311
    hit = 0
    for attempt in range(4):
        place = tmp_path / str(attempt)
        place.mkdir()
        process = started(command(place, "long", "--workers", workers))
        store = place / "out" / "tasks.sqlite"
        # Dask gives up a worker that dies before it has started.
        while process.poll() is None and not (store.exists() and count(store)):
            time.sleep(0.05)
        time.sleep(moment.uniform(0, 2))
        if process.poll() is None and (there := workers_of(process)):
            moment.choice(there).kill()
            hit += 1
        finished(process)
        assert record(place) == expected
    assert hit >= 2


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
