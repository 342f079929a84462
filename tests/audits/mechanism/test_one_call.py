"""One call of a mechanism: its generators, its output or exception, and fresh processes."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dpaudit.audits.mechanism.kept import Snapshot
from dpaudit.audits.mechanism.one_call import (
    Raised,
    ambient_restored,
    called,
    each_in_a_process,
    received,
    seed_ambient,
)
from dpaudit.core.errors import InputError
from dpaudit.core.streams import seed_sequence


def drawn(number: int) -> tuple[float, float]:
    seed_ambient(seed_sequence(1, "test", child=number))
    return np.random.random(), random.random()  # noqa: NPY002, S311


def test_the_stream_decides_what_is_drawn() -> None:
    with ambient_restored():
        assert drawn(1) == drawn(1)
        assert len({number for call in range(100) for number in drawn(call)}) == 200


def test_the_states_are_given_back() -> None:
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    expected = np.random.random(), random.random()  # noqa: NPY002, S311
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    with pytest.raises(ValueError, match="now"), ambient_restored():  # noqa: PT012
        drawn(1)
        raise ValueError("now")
    assert (np.random.random(), random.random()) == expected  # noqa: NPY002, S311


@pytest.mark.parametrize("devices", [0, 2])
def test_torch_is_seeded_where_it_is_loaded(monkeypatch: pytest.MonkeyPatch, devices: int) -> None:
    """All of its generators where there is a device, else that of the processor."""
    state: list[Any] = ["before"]
    seeds: dict[str, list[int]] = {"all": [], "processor": []}
    torch = SimpleNamespace(
        manual_seed=seeds["all"].append,
        default_generator=SimpleNamespace(manual_seed=seeds["processor"].append),
        cuda=SimpleNamespace(device_count=lambda: devices),
        xpu=SimpleNamespace(device_count=lambda: 0),
        backends=SimpleNamespace(mps=SimpleNamespace(is_built=lambda: False)),
        get_rng_state=lambda: state[-1],
        set_rng_state=state.append,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    with ambient_restored():
        seed_ambient(seed_sequence(1, "test"))
    assert [len(seeds["all"]), len(seeds["processor"])] == ([1, 0] if devices else [0, 1])
    assert state == ["before", "before"]


def test_real_torch_repeats_its_draws() -> None:
    torch = pytest.importorskip("torch")
    draws = []
    with ambient_restored():
        for _ in range(2):
            seed_ambient(seed_sequence(1, "test"))
            draws.append(float(torch.rand(1)))
    assert draws[0] == draws[1]


STREAM = seed_sequence(1, "test")


class Holder:
    """An object with an array."""

    def __init__(self, values: Any) -> None:
        self.values = values


# How a buffer is given out, and how a number is read from what is received.
READ: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "array": (lambda a: a, np.sum),
    "view": (lambda a: a[1:], np.sum),
    "list of arrays": (lambda a: [a, a], lambda out: out[1].sum()),
    "tuple beside a lock": (lambda a: (a, threading.Lock()), lambda out: out[0].sum()),
    "dict beside a lock": (lambda a: {"a": a, "b": threading.Lock()}, lambda out: out["a"].sum()),
    "memory": (memoryview, lambda out: np.frombuffer(out).sum()),
    "generator": (lambda a: (x for x in a), sum),
    "generator in a list": (lambda a: [map(float, a)], lambda out: sum(out[0])),
    "views of a dict": (lambda a: {"a": a}.values(), lambda out: out[0].sum()),
    "sparse": (lambda a: sparse.csr_array((a, ([0, 0, 0], [0, 1, 2]))), lambda out: out.sum()),
    "frame": (lambda a: pd.DataFrame({"a": a}, copy=False), lambda out: out["a"].sum()),
    "object": (Holder, lambda out: out.values.sum()),
}


@pytest.mark.cases("name", READ)
def test_later_calls_change_no_output(name: str) -> None:
    make, read = READ[name]
    buffer = np.ones(3)
    output = received(make(buffer))
    buffer[:] = 5
    assert read(output) == pytest.approx(read(received(make(np.ones(3)))))
    assert read(output) <= 3


def test_what_cannot_be_copied_is_an_output() -> None:
    lock = threading.Lock()
    assert received(lock) is lock
    assert len(received(itertools.count())) == 100_000


def test_an_exception_is_an_output_without_addresses() -> None:
    def failing(data: Any, rng: Any) -> None:
        raise KeyError(f"no {data} in <object at 0x7f3a2b>")

    output = called(failing, (3, STREAM, None))
    assert output == Raised("KeyError", "'no 3 in <object at 0x…>'")
    assert str(output) == "KeyError: 'no 3 in <object at 0x…>'"


def test_an_interrupt_is_no_output() -> None:
    def interrupted(data: Any, rng: Any) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        called(interrupted, (3, STREAM, None))


def test_outputs_that_are_nested_too_deep_are_left_as_they_are() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert received(deep) is deep


def answers(mechanism: Any, units: int = 3, size: int = 2, **options: Any) -> list[list[Any]]:
    streams = seed_sequence(1, "test").spawn(units)
    jobs = [[([0, 1], stream, None)] * size for stream in streams]
    return list(each_in_a_process(Snapshot.of(mechanism).work, jobs, 2, **options))


@pytest.mark.long
def test_every_unit_has_a_process_and_some_share_hashes() -> None:
    units = answers(lambda data, rng: (os.getpid(), hash("a")), units=4)
    processes = [{process for process, _ in unit} for unit in units]
    assert all(len(unit) == 1 for unit in processes)
    assert len(set.union(*processes, {os.getpid()})) == 5
    assert len({code for unit in units for _, code in unit}) <= 2
    alone = answers(lambda data, rng: hash("a"), own_hash=True)
    assert len({code for unit in alone for code in unit}) == 3
    assert alone == answers(lambda data, rng: hash("a"), own_hash=True)


def test_a_mechanism_may_print_read_and_end() -> None:
    def hostile(data: Any, rng: Any) -> Any:
        print("hello")
        if rng.random() < 2:
            os.kill(os.getpid(), signal.SIGKILL)

    assert answers(hostile) == [[Raised("the process ended without an answer", "")] * 2] * 3
    assert answers(lambda data, rng: os.read(0, 1))[0] == [b""] * 2


def test_what_cannot_be_sent_is_said() -> None:
    with pytest.raises(InputError, match="answer cannot be sent"):
        answers(lambda data, rng: threading.Lock())
    with pytest.raises(InputError, match="the data cannot be sent"):
        list(each_in_a_process(b"", [[(threading.Lock(), seed_sequence(1), None)]], 1))
    with pytest.raises(InputError, match="cannot load the mechanism"):
        list(each_in_a_process(b"cno_such_module\nf\n.", [[(1, seed_sequence(1), None)]], 1))


def test_processes_end_with_their_caller() -> None:
    def slow(data: Any, rng: Any) -> int:
        if data:
            time.sleep(600)
        return os.getpid()

    jobs = [[(data, seed_sequence(1), None)] for data in (0, 1, 1)]
    running = each_in_a_process(Snapshot.of(slow).work, jobs, 2)
    start = time.monotonic()
    next(running)
    running.close()  # type: ignore[attr-defined]
    assert time.monotonic() - start < 300
