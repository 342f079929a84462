"""What a call gives: a copy of its output, or its exception."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from dpaudit.audits.mechanism.outcome import Raised, called, received
from dpaudit.core.streams import seed_sequence

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
