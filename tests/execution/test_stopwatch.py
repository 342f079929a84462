"""Tasks run in another process, which is ended at the limit."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import threadpoolctl

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.execution.stopwatch import Stopwatch
from dpaudit.execution.tasks import Task

FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")


@pytest.fixture(autouse=True)
def without_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no jax, as other tests of this process may have loaded it."""
    monkeypatch.delitem(sys.modules, "jax", raising=False)


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, without_jax: None) -> None:
    """Have what no fork can run."""
    monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))


def tasks(*works: Callable[[Any], Any]) -> list[Task]:
    return [Task(work, 0, 1) for work in works]


def raise_config_error(_: int) -> str:
    raise ConfigError("of the task")


def fail(_: int) -> str:
    raise ZeroDivisionError("of the task")


def sleep(_: int) -> str:
    time.sleep(60)
    return ""


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


@pytest.mark.parametrize("other", [False, True])
def test_memory_is_that_of_the_largest_task(monkeypatch: pytest.MonkeyPatch, other: bool) -> None:
    if other:
        monkeypatch.setitem(sys.modules, "jax", ModuleType("jax"))
    with closing(Stopwatch(tasks(str, lambda _: str(np.ones(2**23).sum())))) as watch:
        watch.time(0, 60)
        small = watch.memory
        watch.time(1, 60)
        large = watch.memory
        watch.time(0, 60)
        assert small < 2**25 < large == watch.memory


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


class Unreadable:
    """An object that no other process can read."""

    def __reduce__(self) -> Any:
        return (int, ("no number",))


@pytest.mark.parametrize("missing", [True, False])
def test_a_process_that_no_fork_can_give_is_a_fresh_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fresh: None, missing: bool
) -> None:
    if missing:
        monkeypatch.delitem(sys.modules, "jax")
        monkeypatch.delattr(os, "fork", raising=False)
    seen = tmp_path / "seen"

    def work(_: int) -> str:
        threads = {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}
        seen.write_text(f"{os.getpid()} {type(sys.modules.get('jax'))} {threads}")
        return ""

    with closing(Stopwatch(tasks(work, sleep))) as watch:
        watch.start()
        assert watch.time(0, 0.5) is not None  # what starts it has no part in its time
        pid, words = seen.read_text().split(maxsplit=1)
        assert (int(pid) != os.getpid(), words) == (True, f"{type(None)} {{1}}")
        assert watch.time(1, 0.1) is None
        assert watch.time(0, 0.5) is not None
    assert seen.read_text() != f"{pid} {words}"
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


def test_what_a_fresh_process_cannot_get_is_one_sentence(fresh: None) -> None:
    lock, unreadable = Lock(), Unreadable()
    with (
        closing(Stopwatch(tasks(lambda _: str(lock)))) as watch,
        pytest.raises(ConfigError, match=r"cannot be sent .* or import jax there"),
    ):
        watch.start()
    with (
        closing(Stopwatch(tasks(lambda _: str(unreadable)))) as watch,
        pytest.raises(RunError, match=r"cannot be read .*no number"),
    ):
        watch.start()


# A computation that a library divides among threads, which a fork does not have.
THREADED = {
    "torch": """
import torch
torch.set_num_threads(2)
ones = torch.ones(3000, 300, requires_grad=True)
def work(_):
    (ones @ torch.ones(300, 3000)).sum().backward()
    return ""
""",
    "jax": """
import jax
ones = jax.numpy.ones((300, 300))
def work(_):
    jax.grad(lambda weights: (weights @ ones).sum())(ones).block_until_ready()
    return ""
""",
}


@FORKS
@pytest.mark.parametrize("library", THREADED)
def test_threads_that_a_library_has_started_hang_no_task(library: str) -> None:
    if find_spec(library) is None:
        pytest.skip(f"could not import '{library}'")
    script = f"""
from dpaudit.execution.stopwatch import Stopwatch
from dpaudit.execution.tasks import Task
{THREADED[library]}
work(0)
watch = Stopwatch([Task(work, 0, 1)])
assert watch.time(0, 60) is not None
watch.close()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=120)
