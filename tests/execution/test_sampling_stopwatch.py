"""Tasks run in another process, which is ended at the limit."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.execution import sampling
from dpaudit.execution.sampling import Stopwatch
from dpaudit.execution.tasks import Task

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


def tasks(*works: Callable[[Any], Any]) -> list[Task]:
    return [Task(work, 0, 1) for work in works]


def raise_config_error(_: int) -> str:
    raise ConfigError("of the task")


def fail(_: int) -> str:
    raise ZeroDivisionError("of the task")


@FORKS
def test_a_task_that_takes_too_long_is_ended_and_the_next_one_runs(tmp_path: Path) -> None:
    begun, ended = tmp_path / "begun", tmp_path / "ended"

    def wait(_: int) -> str:
        begun.write_text(str(os.getpid()))
        time.sleep(60)
        ended.touch()
        return ""

    with closing(Stopwatch(tasks(wait, str))) as watch:
        assert watch.time(0, 0.2) is None
        seconds = watch.time(1, 60)
    assert seconds is not None
    assert begun.read_text() != str(os.getpid())
    assert not ended.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


@FORKS
def test_tasks_share_a_process_and_none_outlives_it() -> None:
    state: list[int] = []

    def count(_: int) -> str:
        state.append(0)
        if len(state) == 2:
            raise ConfigError(str(os.getpid()))
        return ""

    with closing(Stopwatch(tasks(count))) as watch:
        assert watch.time(0, 60) is not None
        with pytest.raises(ConfigError) as error:
            watch.time(0, 60)
    assert not state
    with pytest.raises(ProcessLookupError):
        os.kill(int(str(error.value)), 0)


@FORKS
def test_memory_is_that_of_the_largest_task() -> None:
    with closing(Stopwatch(tasks(str, lambda _: str(np.ones(2**23).sum())))) as watch:
        watch.time(0, 60)
        small = watch.memory
        watch.time(1, 60)
        large = watch.memory
        watch.time(0, 60)
        assert small < 2**25 < 2**26 <= large == watch.memory


def test_errors_are_those_of_the_task() -> None:
    with closing(Stopwatch(tasks(raise_config_error, fail))) as watch:
        with pytest.raises(ConfigError, match=r"^of the task$"):
            watch.time(0, 60)
        with pytest.raises(ZeroDivisionError) as error:
            watch.time(1, 60)
    assert "in fail" in error.value.__notes__[0]


@FORKS
@pytest.mark.parametrize(("code", "words"), [(0, "exit code 0"), (3, "exit code 3")])
def test_a_task_that_ends_its_process_is_an_error(code: int, words: str) -> None:
    with (
        closing(Stopwatch(tasks(lambda _: os._exit(code)))) as watch,
        pytest.raises(RunError, match=words),
    ):
        watch.time(0, 60)


def test_without_forks_tasks_run_in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_FORKS", False)
    pids: list[int] = []

    def work(_: int) -> str:
        pids.append(os.getpid())
        return ""

    with closing(Stopwatch(tasks(work))) as watch:
        seconds = watch.time(0, 1e-9)
    assert seconds is not None
    assert pids == [os.getpid()]
    assert watch.memory >= 0
