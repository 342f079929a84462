"""Mechanisms whose calls share randomness: noise drawn once, state kept, or what processes inherit.

One answer of each satisfies its ε for data sets [0, 1] and [1, 1], given in `SHARING`; a second one
may reveal the noise of the first. Each is a function that makes a mechanism.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
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
    """Noise of ε = 1 that no stream decides; rounded, as low bits reveal what is added.

    It has digits that nobody writes: noise of 0.0625 would count as a setting.
    """
    steps = 0
    while steps % 100 == 0 or abs(steps) < 1000:
        steps = round(1e6 * float(np.random.default_rng().laplace()))
    return steps / 1e6


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


def answered(data: Data, rng: Rng, noise: float = 0.0, scale: float = 0.1) -> float:
    """Add kept noise, and fresh noise from the stream."""
    return round(sum(data) + noise + scale * rng.laplace(), 6)


class OnceAndFresh:
    """Add noise that is drawn when the object is made, and fresh noise of a given scale."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.noise = laplace()

    def __call__(self, data: Data, rng: Rng) -> float:
        return answered(data, rng, self.noise, self.scale)


class OfArray(OnceAndFresh):
    """Keep it in an array, and not under the name of an argument."""

    def __init__(self) -> None:
        self.kept = {"of each item": np.full(2, laplace())}

    def __call__(self, data: Data, rng: Rng) -> float:
        return answered(data, rng, self.kept["of each item"][0])


class Geometric(OnceAndFresh):
    """Keep an integer."""

    def __init__(self) -> None:
        own = np.random.default_rng()
        self.noise = int(own.geometric(1 - math.exp(-1)) - own.geometric(1 - math.exp(-1)))
        self.scale = 0.1


class Entropy(OnceAndFresh):
    """Draw the fresh noise from elsewhere than the stream."""

    def __call__(self, data: Data, rng: Rng) -> float:
        return super().__call__(data, np.random.default_rng())


@dataclasses.dataclass
class Fields:
    """Keep it in a field."""

    scale: float = 0.1
    noise: float = dataclasses.field(default_factory=laplace)

    def __call__(self, data: Data, rng: Rng) -> float:
        return answered(data, rng, self.noise, self.scale)


def _in_a_class() -> Mechanism:
    class Local:
        noise = laplace()

        def __call__(self, data: Data, rng: Rng) -> float:
            return answered(data, rng, self.noise)

    return Local()


def _in_a_closure() -> Mechanism:
    noise = laplace()
    return lambda data, rng: answered(data, rng, noise)


def _in_a_default() -> Mechanism:
    def mechanism(data: Data, rng: Rng, noise: float = laplace()) -> float:
        return answered(data, rng, noise)

    return mechanism


def _in_an_attribute() -> Mechanism:
    def mechanism(data: Data, rng: Rng) -> float:
        return answered(data, rng, mechanism.noise)  # type: ignore[attr-defined]

    mechanism.noise = laplace()  # type: ignore[attr-defined]
    return mechanism


def _in_a_list() -> Mechanism:
    return functools.partial(_first, [OnceAndFresh(0.1)])


def _first(mechanisms: list[Mechanism], data: Data, rng: Rng) -> Any:
    return mechanisms[0](data, rng)


ONCE_AND_FRESH = OnceAndFresh(0.1)
ONCE_AND_FRESH.noise *= 10  # of ε = 0.1

# Mechanisms that keep their noise, of ε = 1, and add fresh noise of ε = 10 to it.
KEEPING: dict[str, Callable[[], Mechanism]] = {
    "an object": lambda: OnceAndFresh(0.1),
    "an array": OfArray,
    "an integer": Geometric,
    "fresh noise from elsewhere": lambda: Entropy(0.1),
    "a field of a dataclass": Fields,
    "a class": _in_a_class,
    "a closure": _in_a_closure,
    "a default argument": _in_a_default,
    "an attribute of a function": _in_an_attribute,
    "a partial function": lambda: functools.partial(answered, noise=laplace()),
    "an object in a list": _in_a_list,
    "a bound method": lambda: OnceAndFresh(0.1).__call__,
}


class Setting:
    """Add noise of a scale that the constructor computes."""

    def __init__(self, epsilon: float, sensitivity: float = 1.0) -> None:
        self.scale = sensitivity / epsilon

    def __call__(self, data: Data, rng: Rng) -> float:
        return answered(data, rng, scale=self.scale)


class Gaussian(Setting):
    """Keep the arguments, a computed scale and a generator."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self._epsilon, self.delta = epsilon, delta
        self.scale = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        self.weights = np.random.default_rng(0).normal(size=3)
        self.own = np.random.default_rng()


@dataclasses.dataclass(frozen=True, slots=True)
class Slots:
    """Keep the scale in a slot."""

    scale: float

    def __call__(self, data: Data, rng: Rng) -> float:
        return answered(data, rng, scale=self.scale)


def _scaled() -> Mechanism:
    scale = 0.1
    return lambda data, rng: answered(data, rng, scale=scale)


# Mechanisms of ε = 10 or more that keep settings.
SETTINGS: dict[str, Callable[[], Mechanism]] = {
    "a computed scale": lambda: Setting(30),
    "a computed scale without its arguments": lambda: Setting(70.0, 3),
    "arguments, weights and a generator": lambda: Gaussian(50, 1e-5),
    "a slot": lambda: Slots(0.1),
    "a closure": _scaled,
    "a partial function": lambda: functools.partial(answered, scale=0.1),
}
