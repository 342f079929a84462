"""Calls on several workers: the same outputs, and one sequence where a mechanism keeps a state."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from plain_mechanisms import laplace, many_laplace, words  # type: ignore[import-not-found]

from dpaudit.audits.mechanism.audit import audit, audit_pairs
from dpaudit.audits.mechanism.calls import Block, Caller, Calls, parallel
from dpaudit.audits.mechanism.one_call import Job, called
from dpaudit.core.errors import InputError, RunError
from dpaudit.core.streams import seed_sequence
from dpaudit.execution.executor import Executor
from dpaudit.execution.tasks import Progress
from dpaudit.execution.workers import ONE_THREAD, Workers, started

Rng = np.random.Generator
MAIN = os.getpid()


@pytest.fixture
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    """An executor with two workers."""
    with started(Workers(2, getattr(request, "param", "processes"))) as pool:
        yield Executor(pool)


def chosen(executor: Executor, mechanism: Any, *, batched: bool = False) -> bool:
    """Whether the calls of a mechanism run on the executor's workers."""
    caller = Caller(mechanism, (0, 1), 5, "twice")
    choice = parallel(executor, caller, batched=batched)
    assert choice is executor or choice.pool.workers == ONE_THREAD
    return choice is executor


@pytest.mark.long
@pytest.mark.parametrize("executor", ["threads", "processes"], indirect=True)
@pytest.mark.parametrize(
    ("mechanism", "batched"), [(laplace, False), (many_laplace, True), (words, False)]
)
def test_the_audit_is_the_same_on_any_workers(
    executor: Executor, mechanism: Any, batched: bool
) -> None:
    options: dict[str, Any] = {"trials": 600, "seed": 3, "batched": batched, "claim": 2.0}
    options |= {"search": 200, "confidence": 0.5, "detectable": 3}
    pairs = [(0, 1), (0, 1)] if mechanism is words else [(0.0, 1.0), (0.0, 1e-9)]
    assert chosen(executor, mechanism, batched=batched)
    result = audit_pairs(mechanism, pairs, **options, executor=executor)
    assert result == audit_pairs(mechanism, pairs, **options)
    assert result.control is not None


def test_calls_run_in_other_processes(executor: Executor) -> None:
    def where(data: int, rng: Rng) -> int:
        rng.random()
        return os.getpid()

    calls = Calls(where, False, 5, executor=executor)
    assert MAIN not in set(calls.run((0, 1), "test", 200).outputs.tolist())


def test_blocks_give_each_call_the_stream_of_its_number() -> None:
    streams = seed_sequence(5, "test").spawn(100)
    every = Block(0, np.arange(100) % 2 == 1, np.zeros(0, np.int64))
    caller = Caller(laplace, (0.0, 1.0), 5, "test")
    jobs = [job for block in every.parts() for job in caller.jobs(block)]
    assert [job[0] for job in jobs] == [0.0, 1.0] * 50
    assert [job[1].generate_state(1)[0] for job in jobs] == [
        stream.generate_state(1)[0] for stream in streams
    ]
    assert sum(block.trials for block in every.parts()) == 100
    sized = Block(0, every.present, np.arange(100))
    assert sum(block.trials for block in sized.parts()) == sum(range(100))
    assert [job[2] for block in sized.parts() for job in caller.jobs(block)] == [*range(100)]


def fixed() -> Callable[..., float]:
    """Noise of its own, from a fixed seed: in each process the same."""
    generator = np.random.default_rng(0)
    return lambda data, rng: data + generator.laplace()


def rare() -> Callable[..., bool]:
    """Randomised response of ε = 9, with bits of its own, that nearly always tells the truth."""
    generator = np.random.default_rng(0)
    return lambda data, rng: bool(data) ^ (generator.random() < np.exp(-9))


def both() -> Callable[..., float]:
    """Noise of its own beside that of the stream."""
    generator = np.random.default_rng(0)
    return lambda data, rng: data + rng.laplace() + 1e-3 * generator.normal()


def counting() -> Callable[..., float]:
    """The number of the call."""
    calls = itertools.count()
    return lambda data, rng: 0 * rng.random() + next(calls)


def locked() -> Callable[..., float]:
    """A lock, which no process can receive."""
    lock = threading.Lock()

    def mechanism(data: float, rng: Rng) -> float:
        with lock:
            return data + rng.laplace()

    return mechanism


@pytest.mark.cases("make", [fixed, rare, both, counting, locked])
def test_a_state_or_noise_of_its_own_stays_in_one_sequence(
    executor: Executor, make: Callable[[], Any]
) -> None:
    assert not chosen(executor, make())
    assert not chosen(executor, lambda data, rng: data)  # draws nothing


@pytest.mark.usefixtures("unrepeated")
@pytest.mark.parametrize("make", [fixed, counting])
def test_a_sequence_is_the_same_for_any_number_of_workers(
    executor: Executor, make: Callable[[], Any]
) -> None:
    alone = audit_pairs(make(), [(0, 1)], trials=400, seed=1, executor=Executor())
    assert audit_pairs(make(), [(0, 1)], trials=400, seed=1, executor=executor) == alone


def test_threads_need_nothing_sent() -> None:
    with started(Workers(2)) as pool:
        assert chosen(Executor(pool), locked())


def test_the_time_of_calls_does_not_choose_where_they_run(executor: Executor) -> None:
    assert chosen(executor, laplace)
    assert not chosen(Executor(), laplace)


def test_data_that_are_changed_in_a_process_are_refused(executor: Executor) -> None:
    def changing(data: list[int], rng: Rng) -> float:
        if os.getpid() != MAIN:
            data[0] += 1
        return rng.random()

    with pytest.raises(InputError, match="in place"):
        audit_pairs(changing, [([0], [1])], trials=400, executor=executor)
    with pytest.raises(InputError, match="in place"):
        audit(lambda data, rng: data.append(1) or rng.random(), [0], [1], trials=400)


class Mute(Exception):  # noqa: N818
    """An exception that cannot be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.cases("error", [ValueError("no answer"), Mute(), SystemExit(3)])
def test_an_error_in_a_process_is_one_sentence(executor: Executor, error: BaseException) -> None:
    kind = type(error)

    def failing(data: int, rng: Rng) -> float:
        if os.getpid() != MAIN:
            raise ValueError("no answer") if kind is ValueError else kind()
        return rng.random()

    with pytest.raises(RunError, match=f"the mechanism raised {kind.__name__}"):
        audit_pairs(failing, [(0, 1)], trials=400, executor=executor)


@pytest.mark.parametrize("fresh_process", [False, True])
def test_progress_counts_outputs(
    executor: Executor, fresh_process: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def here(work: bytes, units: Iterable[list[Job]], at_once: int, **options: Any) -> Any:
        return (
            [called(many_laplace, job) for job in unit] for unit in units
        )  # processes take time

    monkeypatch.setattr("dpaudit.audits.mechanism.one_call.each_in_a_process", here)

    class Told(Progress):
        def __init__(self) -> None:
            self.planned = self.finished = 0

        def expect(self, trials: int) -> None:
            self.planned += trials

        def advance(self, trials: int) -> None:
            self.finished += trials

    progress = Told()
    audit_pairs(
        many_laplace,
        [(0.0, 1.0)] if fresh_process else [(0.0, 1.0), (0.0, 2.0)],
        trials=200,
        search=200,
        batched=True,
        claim=None if fresh_process else 3.0,
        confidence=0.5,
        fresh_process=fresh_process,
        executor=replace(executor, progress=progress),
    )
    assert progress.finished == progress.planned + 200
    assert fresh_process == (progress.planned == 0)
