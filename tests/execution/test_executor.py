"""The executor: results in order on any workers, errors in order, and what the store holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from executors import on_threads  # type: ignore[import-not-found]

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.streams import Streams
from dpaudit.execution.executor import Executor, UnfinishedError
from dpaudit.execution.store import opened
from dpaudit.execution.tasks import Progress, Result, Shard, digest_of
from dpaudit.execution.workers import Pool, Workers

IDENTITY = {"code": "a", "seed": "1"}


class Told(Progress):
    """Counts the finished trials and the stored ones."""

    def __init__(self) -> None:
        self.finished, self.known = 0, 0

    def advance(self, trials: int) -> None:
        self.finished += trials

    def stored(self, trials: int) -> None:
        self.known += trials


def numbers(count: int) -> Iterator[int]:
    yield from range(count)


def squared(number: int) -> Result:
    return np.array([number**2])


def test_tasks_run_in_threads_and_are_taken_as_workers_become_free() -> None:
    now, most, made, done, lock = 0, 0, 0, 0, threading.Lock()

    def work(number: int) -> Result:
        nonlocal now, most, done
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.002 * (number % 3))
        with lock:
            now -= 1
            done += 1
        return np.array([number])

    def parts() -> Iterator[int]:
        nonlocal made
        for number in range(20):
            made += 1
            assert made - done <= 8  # three running and the next ones
            yield number

    results = on_threads(3).map("", work, parts(), lambda _: 1)
    assert [int(result[0]) for result in results] == list(range(20))
    assert 1 < most <= 3
    assert on_threads(2).map("", work, []) == []


def test_of_tasks_that_fail_the_first_in_order_is_told() -> None:
    called: list[int] = []

    def work(number: int) -> Result:
        called.append(number)
        time.sleep(0.05 if number == 1 else 0.002)
        if number in {1, 2}:
            raise RunError(f"task {number}")
        return np.zeros(1)

    with pytest.raises(RunError, match="task 1"):
        on_threads(2).map("", work, numbers(100), lambda _: 1)
    assert len(called) < 30  # the others are not started


def test_a_defect_is_raised_as_it_is() -> None:
    def work(number: int) -> Result:
        return np.zeros(1 // number)

    for executor in (Executor(), on_threads(2)):
        with pytest.raises(ZeroDivisionError):
            executor.map("", work, numbers(3), lambda _: 1)


def test_stored_results_are_not_computed_again(tmp_path: Path) -> None:
    called: list[int] = []

    def work(number: int) -> Result:
        called.append(number)
        return str(number) if number % 2 else np.array([[number, -0.0, np.inf]])

    def run(count: int, *words: str) -> tuple[list[Any], Told]:
        told = Told()
        with opened(tmp_path, IDENTITY) as store:
            executor = Executor(progress=told, store=store).within("stage", *words)
            return executor.map("", work, numbers(count), lambda _: 2), told

    first, told = run(3)
    assert (told.finished, told.known, called) == (6, 0, [0, 1, 2])
    again, told = run(5)
    assert (told.finished, told.known, called) == (4, 6, [0, 1, 2, 3, 4])
    for old, new in zip(first, again, strict=False):
        assert np.array_equal(old, new)
        assert getattr(old, "dtype", str) == getattr(new, "dtype", str)
    run(1, "another scope")
    assert called[5:] == [0]


def test_a_stage_never_gets_the_results_of_another_one_of_the_run(tmp_path: Path) -> None:
    with opened(tmp_path, IDENTITY) as store:
        executor = Executor(store=store)
        for word in ("1.0", "2.0"):
            assert executor.within("m: share", word).map("", str, numbers(2), lambda _: 1)
        with pytest.raises(ConfigError, match=r"m: share: .* an earlier"):
            executor.within("m: share", "1.0").map("", str, numbers(2), lambda _: 1)


def test_shards_run_every_task_once_and_then_wait(tmp_path: Path) -> None:
    called: list[int] = []

    def work(number: int) -> Result:
        called.append(number)
        return np.array([number])

    for index in (1, 2, 3):
        executor = Executor(shard=Shard(index, 3)).within("stage")
        with pytest.raises(UnfinishedError):
            executor.map("", work, numbers(10), lambda _: 1)
    assert sorted(called) == list(range(10))


@pytest.mark.long
def test_processes_give_the_same_results_and_know_closures() -> None:
    offset = np.arange(5.0)

    def work(streams: Streams) -> Result:
        return offset[streams.trials] * 3

    parts = list(Streams.first(1, "test", 5).blocks(2))
    executor = Executor(Pool(Workers(2, "processes"), {"backend": "loky"}))
    alone = Executor().map("", work, parts)
    assert all(
        np.array_equal(one, other)
        for one, other in zip(executor.map("", work, parts), alone, strict=True)
    )


def test_parts_of_equal_words_have_equal_digests_and_others_none() -> None:
    same = [("a", 1, np.arange(3)), ("a", 1, np.arange(3))]
    assert digest_of(*same[0]) == digest_of(*same[1])
    others = [("a", 1), ("a", "1"), ("a1",), (("a",), 1), ("a", 1.0), ("a", np.arange(3.0))]
    assert len({digest_of(*other) for other in others}) == len(others)
    with pytest.raises(TypeError, match="list cannot be a part"):
        digest_of([1])
