"""What replays of noised trainings by numpy share: ratings, fused products, the kernels' noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.kernels.lane_noise import LANE_TILE, trial_words
from dpaudit.kernels.lanes import LANES


def ratings(users: int, items: int) -> Ratings:
    """Return random ratings of half of the pairs."""
    source = np.random.default_rng(0)
    user, item = np.nonzero(source.random((users, items)) < 0.5)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, users, items, Scale())


def fma(a: Any, b: Any, c: Any) -> Any:
    """`a·b + c` of single precision; the product of two is exact in double precision."""
    return (np.multiply(a, b, dtype=np.float64) + c).astype(np.float32)


def noise(
    draw: Callable[..., Any], count: int, streams: Streams, step: int, start: int = 0
) -> NDArray[np.float64]:
    """Draw what a kernel draws in tiles of coordinates of sixteen trials, of which one is."""
    draws, words = np.empty(LANE_TILE * LANES), np.empty((2, LANE_TILE * LANES), np.uint32)
    drawn = np.empty(count)
    for first in range(0, count, LANE_TILE):
        draw(draws, words, start + first, step, trial_words(streams.trials), streams.key)
        part = drawn[first : first + LANE_TILE]
        part[:] = draws.reshape(LANE_TILE, LANES)[: len(part), 0]
    return drawn
