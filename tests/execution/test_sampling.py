"""Stages are counted whole, and their first tasks timed as time allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self, cast

import pytest

from dpaudit.execution import sampling
from dpaudit.execution.sampling import Sample, Sampler
from dpaudit.execution.tasks import Task


@dataclass
class Clock:
    """A stopwatch, and the time, in which a task takes what its part says, first and later."""

    now: float = 0.0
    ran: list[str] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    memory: int = 7

    def __call__(self, tasks: Sequence[Task]) -> Self:
        self.tasks = tasks
        return self

    def start(self) -> None:
        return None

    def close(self) -> None:
        return None

    def monotonic(self) -> float:
        return self.now

    def time(self, number: int, limit: float) -> float | None:
        task = self.tasks[number]
        first, later = cast("tuple[float, float]", task.part)
        seconds = later if task.name in self.ended else first
        self.ran.append(task.name)
        self.now += min(seconds, limit)
        if seconds > limit:
            return None
        self.ended.add(task.name)
        return seconds


Stage = Callable[[Sampler], bool]


def stage(
    name: str, first: float, later: float, *, count: int = 1, size: int = 1, task: str = ""
) -> Stage:
    tasks = [Task(str, (first, later), size, task or name) for _ in range(count)]
    return lambda sampler: sampler.take(name, tasks)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(sampling, "Stopwatch", clock)
    monkeypatch.setattr(sampling, "time", clock)
    return clock


def timed(seconds: float, *stages: Stage) -> list[Sample]:
    sampler = Sampler()
    assert all(take(sampler) for take in stages)
    samples, memory = sampler.timed(seconds)
    assert memory == 7
    return samples


def test_a_quick_task_runs_twice_and_counts_for_all(clock: Clock) -> None:
    """The first time compiles what tasks share."""
    assert timed(5, stage("a", 0.25, 0.125, count=3, size=4)) == [Sample("a", 3, 12, 0.375)]
    assert clock.ran == ["a", "a"]


def test_a_long_task_runs_after_the_short_ones_and_again_if_there_is_time(clock: Clock) -> None:
    assert timed(20, stage("a", 5, 4, count=2), stage("b", 0.25, 0.125)) == [
        Sample("a", 2, 2, 8.0),
        Sample("b", 1, 1, 0.125),
    ]
    assert clock.ran == ["a", "b", "b", "a", "a"]


def test_what_ran_once_is_marked(clock: Clock) -> None:
    assert timed(3, stage("a", 2, 1, count=2)) == [Sample("a", 2, 2, 4.0, once=True)]
    assert clock.ran == ["a"]


def test_a_task_gets_half_of_what_is_left_and_the_last_one_all(clock: Clock) -> None:
    """None of them is extrapolated: the time may be that of compilation."""
    assert timed(12, stage("a", 99, 99, count=9), stage("b", 0.25, 0.25), stage("c", 99, 1)) == [
        Sample("a", 9, 9, None, limit=4.75),
        Sample("b", 1, 1, 0.25),
        Sample("c", 1, 1, None, limit=4.75),
    ]
    assert clock.ran == ["a", "b", "b", "c", "a", "c"]
    assert clock.now == 12


def test_with_little_time_only_short_tasks_run(clock: Clock) -> None:
    """They have a quarter of the time, in equal parts."""
    assert timed(0.25, stage("a", 0.01, 0.01), stage("b", 0.125, 0.125)) == [
        Sample("a", 1, 1, 0.01),
        Sample("b", 1, 1, None, limit=0.03125),
    ]
    assert clock.ran == ["a", "a", "b"]


def test_a_single_task_has_all_time_and_needs_some(clock: Clock) -> None:
    assert timed(0.125, stage("a", 0.01, 0.01)) == [Sample("a", 1, 1, None)]
    assert clock.ran == []


def test_every_stage_is_timed_before_a_second_batch_of_one(clock: Clock) -> None:
    """A batch has the slowest pace of its stage if it would be cut short, as a2 in 1.4 seconds."""
    batches = [stage("a", 1, 1, size=2, task=name) for name in ("a1", "a2", "a3")]
    assert timed(5, *batches, stage("b", 0.25, 0.25)) == [
        Sample("a", 3, 6, 3.0),
        Sample("b", 1, 1, 0.25),
    ]
    assert clock.ran == ["a1", "b", "b", "a1", "a3", "a1"]


def test_a_stage_with_a_batch_that_takes_too_long_is_not_timed(clock: Clock) -> None:
    batches = [stage("a", 0.25, 0.25, task="a1"), stage("a", 99, 99, task="a2")]
    assert timed(5, *batches, stage("b", 0.25, 0.25)) == [
        Sample("a", 2, 2, None, limit=4.0),
        Sample("b", 1, 1, 0.25),
    ]


def test_a_smaller_last_task_counts_less(clock: Clock) -> None:
    sampler = Sampler()
    sampler.take("a", [Task(str, (0.25, 0.25), 4), Task(str, (0.25, 0.25), 2)])
    assert sampler.timed(5)[0] == [Sample("a", 2, 6, 0.375)]


def test_without_tasks_there_is_no_stage() -> None:
    sampler = Sampler()
    assert not sampler.take("a", [])
    assert sampler.timed(1) == ([], 0)


def test_only_first_tasks_run() -> None:
    """With the true clock, in another process."""
    sampler = Sampler()
    sampler.take("a", (Task(_fine_if_zero, number, 4) for number in range(5)), controlled=True)
    ((sample,), memory) = sampler.timed(5)
    assert (sample.stage, sample.tasks, sample.trials, sample.once) == ("a", 5, 20, False)
    assert sample.controlled
    assert sample.seconds is not None
    assert memory >= 0


def _fine_if_zero(number: int) -> str:
    assert not number
    return ""
