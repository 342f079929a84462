"""Mechanisms that ignore their data, so that ε = 0, and yet behave differently from call to call.

Each is a function that makes a fresh one. `STATEFUL` are called with (data, rng), `BATCHED` with
(data, rng, n); `SCORES` read the batch that they score.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator
Mechanism = Callable[..., Any]


def drifting() -> Mechanism:
    """Each output is larger by 1e-4 than the one before, but for noise of a hundredth."""
    calls = itertools.count()
    return lambda data, rng: 1e-4 * next(calls) + 0.01 * rng.normal()


def numbering() -> Mechanism:
    """Ids in the order of their first use."""
    calls = itertools.count()
    return lambda data, rng: next(calls)


def warming_up() -> Mechanism:
    """The first 400 calls take longer."""
    calls = itertools.count()
    return lambda data, rng: rng.exponential() + 3.0 * (next(calls) < 400)


def spending() -> Mechanism:
    """A budget for 500 answers; 0 from then on."""
    calls = itertools.count()
    return lambda data, rng: rng.exponential() if next(calls) < 500 else 0.0


def remembering() -> Mechanism:
    """Noise that follows the noise before: an autoregression of order one."""
    last = [0.0]

    def mechanism(data: Any, rng: Rng) -> float:
        last[0] = 0.99 * last[0] + rng.normal()
        return last[0]

    return mechanism


def offset() -> Mechanism:
    """The outputs of one call share an offset."""
    return lambda data, rng, n: rng.normal() + 0.01 * rng.normal(size=n)


def drifting_batches() -> Mechanism:
    """Each call's outputs are larger than those of the call before."""
    calls = itertools.count()
    return lambda data, rng, n: 1e-2 * next(calls) + rng.normal(size=n)


def shaped() -> Mechanism:
    """Matrices whose width is that of the longest output of their call."""

    def mechanism(data: Any, rng: Rng, n: int) -> Any:
        width = 1 + int(rng.integers(3))
        return np.where(rng.random((n, width)) < 0.5, rng.normal(size=(n, width)), 0.0)

    return mechanism


def typed() -> Mechanism:
    """Numbers, but words for the whole call where a rare word is among them."""

    def mechanism(data: Any, rng: Rng, n: int) -> Any:
        made = rng.integers(0, 5, n)
        return np.where(rng.random(n) < 0.3, "rare", made) if rng.random() < 0.5 else made

    return mechanism


STATEFUL: dict[str, Callable[[], Mechanism]] = {
    "drift of 1e-4 a call": drifting,
    "ids by first use": numbering,
    "cold start": warming_up,
    "spent budget": spending,
    "AR(1) noise": remembering,
}
BATCHED: dict[str, Callable[[], Mechanism]] = {
    "offset of each call": offset,
    "drift between calls": drifting_batches,
}
SHAPED: dict[str, Callable[[], Mechanism]] = {
    "width of each call": shaped,
    "type of each call": typed,
}


def itself(outputs: Any) -> Any:
    """Score outputs by their values."""
    return outputs


def mean_of_batch(outputs: Any) -> Any:
    """Score every output of a batch by the batch's mean."""
    return np.full(len(outputs), np.mean(outputs))


def above_first(outputs: Any) -> Any:
    """Score outputs by whether they exceed the batch's first."""
    return (np.asarray(outputs) > outputs[0]).astype(float)


SCORES = {"mean of the batch": mean_of_batch, "above the batch's first": above_first}


def noise(data: Any, rng: Rng) -> float:
    """Ignore the data and keep no state."""
    return rng.normal()


_COUNT = itertools.count()


def counting(data: Any, rng: Rng) -> int:
    """Count the calls in this process."""
    return next(_COUNT)


def failing(data: Any, rng: Rng) -> int:
    """Raise an error."""
    raise ZeroDivisionError("no answer today")


def leaving(data: Any, rng: Rng) -> int:
    """End the process."""
    import os

    os._exit(3)
