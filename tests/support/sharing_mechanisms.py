"""Mechanisms whose calls share randomness: noise drawn once, state kept, or what processes inherit.

One answer of each satisfies its ε for data sets [0, 1] and [1, 1], given in `SHARING`; a second one
may reveal the noise of the first. Each is a function that makes a mechanism.
"""

from __future__ import annotations

import functools
import itertools
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Data = list[int]
Mechanism = Callable[[Data, Rng], Any]

random.seed(7)
_OWN, _FIXED = np.random.default_rng(), np.random.default_rng(7)


def laplace() -> float:
    """Noise of ε = 1 that no stream decides; rounded, as low bits reveal what is added."""
    return round(float(np.random.default_rng().laplace()), 6)


def numpys(data: Data, rng: Rng) -> float:
    """Add noise of numpy's global generator."""
    return round(float(sum(data) + np.random.laplace()), 6)  # noqa: NPY002


def pythons(data: Data, rng: Rng) -> float:
    """Add noise of Python's generator, which this module has seeded."""
    sign = random.choice([-1, 1])  # noqa: S311
    return round(sum(data) + sign * random.expovariate(1.0), 6)


def defaulted(data: Data, rng: Rng, own: Rng = np.random.default_rng()) -> float:  # noqa: B008
    """Add noise of a generator in a default argument."""
    return round(sum(data) + own.laplace(), 6)


def of_the_module(data: Data, rng: Rng) -> float:
    """Add noise of a generator of this module."""
    return round(sum(data) + _OWN.laplace(), 6)


def of_a_fixed_seed(data: Data, rng: Rng) -> float:
    """Add noise of a generator of this module whose seed is fixed."""
    return round(sum(data) + _FIXED.laplace(), 6)


def hashed(data: Data, rng: Rng) -> float:
    """Read the seed of hashes, which a process draws once."""
    return round(hash(str(data)) % 5 + rng.normal(), 6)


def by_id(data: Data, rng: Rng) -> float:
    """Read the address of the data."""
    return round(id(data) // 16 % 7 + rng.normal(), 6)


@functools.lru_cache(None)
def _of_tuple(data: tuple[int, ...]) -> float:
    return laplace()


def cached(data: Data, rng: Rng) -> float:
    """Answer noise that is cached for each data set."""
    return _of_tuple(tuple(data))


@functools.cache
def _of_bytes(data: bytes) -> float:
    return laplace()


def cached_by_bytes(data: Data, rng: Rng) -> float:
    """Answer noise that is cached for the bytes of each data set."""
    return _of_bytes(bytes(data))


@functools.cache
def _of_length(length: int) -> float:
    return laplace()


def cached_by_length(data: Data, rng: Rng) -> float:
    """Add noise that is cached for each number of records."""
    return sum(data) + _of_length(len(data))


class Once:
    """Add noise that is drawn when the object is made."""

    def __init__(self) -> None:
        self.noise = laplace()

    def __call__(self, data: Data, rng: Rng) -> float:
        return sum(data) + self.noise


ONCE = Once()


class OfClass:
    """Add noise that the class keeps."""

    noise = laplace()

    def __call__(self, data: Data, rng: Rng) -> float:
        return sum(data) + self.noise


class OfData:
    """Keep noise for each data set, and add fresh noise to it."""

    def __init__(self) -> None:
        self.kept: dict[str, float] = {}

    def __call__(self, data: Data, rng: Rng) -> float:
        return round(self.kept.setdefault(repr(data), laplace()) + 0.5 * rng.normal(), 6)


class Budget:
    """Count the answers about each data set."""

    def __init__(self) -> None:
        self.answers: dict[str, int] = {}

    def __call__(self, data: Data, rng: Rng) -> float:
        self.answers[repr(data)] = self.answers.get(repr(data), 0) + 1
        return float(self.answers[repr(data)])


class FirstSeen:
    """Compare the data with the first that came."""

    first: Data | None = None

    def __call__(self, data: Data, rng: Rng) -> float:
        if self.first is None:
            self.first = data
        return round(3 * float(data is self.first) + rng.normal(), 6)


def counting() -> Mechanism:
    """Count the calls in a closure, and add noise."""
    calls = itertools.count()
    return lambda data, rng: next(calls) + round(rng.laplace(), 6)


def threaded(data: Data, rng: Rng) -> list[float]:
    """Add noise in two threads, which end in any order."""
    answers: list[float] = []

    def answer(seed: int) -> None:
        answers.append(round(sum(data) + 2 * np.random.default_rng(seed).laplace(), 6))

    seeds = rng.integers(2**32, size=2)
    threads = [threading.Thread(target=answer, args=(int(seed),)) for seed in seeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


# The mechanisms, and the ε of one answer.
SHARING: dict[str, tuple[Callable[[], Mechanism], float]] = {
    "numpy's global generator": (lambda: numpys, 1.0),
    "random, seeded at import": (lambda: pythons, 1.0),
    "generator in a default argument": (lambda: defaulted, 1.0),
    "generator of a module": (lambda: of_the_module, 1.0),
    "generator of a module, with a fixed seed": (lambda: of_a_fixed_seed, 1.0),
    "hash of the data": (lambda: hashed, 0.0),
    "address of the data": (lambda: by_id, 0.0),
    "lru_cache": (lambda: cached, 0.0),
    "cache of bytes": (lambda: cached_by_bytes, 0.0),
    "cache of a length": (lambda: cached_by_length, 1.0),
    "noise drawn in __init__": (Once, 1.0),
    "noise drawn in __init__ of a module's object": (lambda: ONCE, 1.0),
    "noise of a class": (OfClass, 1.0),
    "noise kept for each data set": (OfData, 0.0),
    "budget of each data set": (Budget, 0.0),
    "first data set seen": (FirstSeen, 0.0),
    "counter in a closure": (counting, 0.0),
    "threads": (lambda: threaded, 1.0),
}
