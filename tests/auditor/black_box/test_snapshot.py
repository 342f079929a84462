"""Mechanisms as they are before their first call."""

from __future__ import annotations

import functools
import pickle
import random
import threading
from typing import Any

import numpy as np
import pytest
import sharing_mechanisms as sharing  # type: ignore[import-not-found]

from dpaudit.auditor.black_box.snapshot import Snapshot

Rng = np.random.Generator


def copies(mechanism: Any) -> list[Any]:
    """Two answers of two copies."""
    work = Snapshot.of(mechanism).work
    made = [pickle.loads(work) for _ in range(2)]  # noqa: S301
    return [[copy([0, 1], np.random.default_rng(1)) for _ in range(2)] for copy in made]


@pytest.mark.parametrize(
    "own",
    [
        np.random.default_rng(3),
        np.random.RandomState(3),
        random.Random(3),  # noqa: S311
        random.SystemRandom(),
    ],
)
def test_a_copy_draws_its_own_numbers(own: Any) -> None:
    first, second = copies(lambda data, rng: own.random())
    assert len({*first, *second}) == 4


def test_a_copy_has_empty_caches() -> None:
    @functools.lru_cache(maxsize=7)
    def answer(data: tuple[int, ...]) -> float:
        return np.random.default_rng().random()

    answer((0, 1))
    first, second = copies(lambda data, rng: answer(tuple(data)))
    assert first[0] == first[1] != second[0] == second[1]


def test_what_a_module_holds_is_imported() -> None:
    assert b"ONCE" in Snapshot.of(sharing.ONCE).work
    assert b"ONCE" in Snapshot.of(calling(sharing.ONCE)).work
    assert b"ONCE" in Snapshot.of(sharing.ONCE.__call__).work


def test_what_cannot_be_pickled_says_so() -> None:
    lock = threading.Lock()
    found = Snapshot.of(lambda data, rng: lock)
    assert found.work == b""
    assert "lock" in found.obstacle


class Stateless:
    """A class without noise."""

    def __call__(self, data: Any, rng: Rng) -> Any:
        return sum(data)


class Scaled(Stateless):
    """A class that holds a number."""

    def __init__(self) -> None:
        self.scale = 2.0


class Holding(Stateless):
    """A class that holds an object without numbers."""

    def __init__(self, part: Any) -> None:
        self.part = part


def exact(data: Any, rng: Rng) -> Any:
    """Return the sum, by functions of a module."""
    return np.sum(data)


def calling(part: Any) -> Any:
    """A function of another function, which no other process can import."""

    def mechanism(data: Any, rng: Rng) -> Any:
        return part(data, rng)

    return mechanism


def scaled(scale: float) -> Any:
    """A function with a number as a default."""

    def mechanism(data: Any, rng: Rng, scale: float = scale) -> Any:
        return scale * np.sum(data)

    return mechanism


@pytest.mark.parametrize(
    ("mechanism", "remembers"),
    [
        (exact, False),
        (sharing.cached, False),
        (sharing.ONCE, False),
        (sharing.ONCE.__call__, False),
        (Stateless(), False),
        (Holding(exact), False),
        (Holding({}), False),
        (calling(exact), False),
        (calling(sharing.ONCE), False),
        (calling(np.random.default_rng(1)), False),
        (Scaled(), True),
        (Holding([1]), True),
        (Holding(Scaled()), True),
        (Holding({1: 2}), True),
        (calling(Scaled()), True),
        (scaled(2.0), True),
        (functools.partial(exact), True),
        (sharing.Once(), True),
    ],
)
def test_values_from_when_it_was_made_are_seen(mechanism: Any, remembers: bool) -> None:
    assert Snapshot.of(mechanism).remembers == remembers
