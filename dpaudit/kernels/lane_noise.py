"""The noise source for sixteen trials at once, the trial as innermost axis.

Draw `(key, trial, step, coordinate)` uses the same words as in `noise` and `exact_noise`, so a
Laplace draw has the same bits as there. Normal draws of coordinates `c` and `c + LANE_TILE/2` of a
tile share one Box-Muller pair, so they differ from those of `noise` and `exact_noise`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import (
    RARE,
    Reals,
    exponentials,
    far_exponential,
    normal_pair,
    signed,
)
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lanes import LANES
from dpaudit.kernels.noise import Draws, Words, _normal_pair, _philox

U64 = np.uint64

LANE_TILE = 128  # coordinates drawn at a time for 16 trials: 8 KiB of words


class Source(NamedTuple):
    """The noise source at one step, for sixteen trials.

    Attributes:
        step: the step.
        trials: from `trial_words`.
        key: the noise source's key.
    """

    step: int
    trials: Words
    key: Words


def trial_words(trials: NDArray[np.int64]) -> Words:
    """Return the low and high words `(2, 16)` of at most 16 trials, padded with the last trial."""
    full = np.pad(trials, (0, LANES - len(trials)), mode="edge")
    return np.stack((full & 0xFFFFFFFF, full >> 32)).astype(np.uint32)


@exact_kernel
def _lane_words(words: Words, first_block: int, step: int, trials: Words, key: Words) -> None:
    low, high = trials[0], trials[1]
    for b in range(len(words) // (4 * LANES)):
        block, place = U64(first_block + b), 4 * LANES * b
        for w in range(LANES):
            p, q, r, s = _philox(block, step, low[w], high[w], key)
            words[place + w] = p
            words[place + LANES + w] = q
            words[place + 2 * LANES + w] = r
            words[place + 3 * LANES + w] = s


@exact_kernel
def normal_lanes(
    out: Draws, words: Words, first: int, step: int, trials: Words, key: Words
) -> None:
    """Fill `out`, LANE_TILE coordinates of 16 trials, with fast normal draws like those of `noise`.

    Args:
        out: result, flat float32, 16 trials per coordinate.
        words: scratch of the same length.
        first: a multiple of LANE_TILE.
        step: the noise source's step.
        trials: from `trial_words`.
        key: the noise source's key.
    """
    _lane_words(words, first // 4, step, trials, key)
    half = LANES * LANE_TILE // 2
    one, other, radius, angle = out[:half], out[half:], words[:half], words[half:]
    for i in range(half):
        one[i], other[i] = _normal_pair(radius[i], angle[i])


@exact_kernel
def _wide_words(high: Words, low: Words, first: int, step: int, trials: Words, key: Words) -> None:
    for b in range(len(high) // (2 * LANES)):
        block, place = U64(first // 2 + b), 2 * LANES * b
        for w in range(LANES):
            p, q, r, s = _philox(block, step, trials[0, w], trials[1, w], key)
            high[place + w], high[place + LANES + w] = p, q
            low[place + w], low[place + LANES + w] = r, s


@exact_kernel
def _exponentials(
    out: Reals, high: Words, low: Words, first: int, step: int, trials: Words, key: Words
) -> None:
    if exponentials(out, high, low):
        for i in range(len(out)):
            if high[i] < RARE:
                w = i % LANES
                out[i] = far_exponential(
                    high[i], low[i], first + i // LANES, step, trials[0, w], trials[1, w], key
                )


@exact_kernel
def exact_laplace_lanes(
    out: Reals, words: NDArray[np.uint32], first: int, step: int, trials: Words, key: Words
) -> None:
    """Fill `out` with the exact standard Laplace draws of coordinates `first…` of 16 trials.

    Args:
        out: result, flat float64, 16 trials per coordinate, a multiple of 2 coordinates.
        words: scratch `(2, len(out))`.
        first: a multiple of 2.
        step: the noise source's step.
        trials: from `trial_words`.
        key: the noise source's key.
    """
    high, low = words[0, : len(out)], words[1, : len(out)]
    _wide_words(high, low, first, step, trials, key)
    _exponentials(out, high, low, first, step, trials, key)
    for i in range(len(out)):
        out[i] = signed(out[i], low[i])


@exact_kernel
def exact_normal_lanes(
    out: Reals, words: NDArray[np.uint32], first: int, step: int, trials: Words, key: Words
) -> None:
    """Fill `out`, LANE_TILE coordinates of 16 trials, with exact standard normal draws.

    The arguments are those of `exact_laplace_lanes`; `first` is a multiple of LANE_TILE.
    """
    high, low = words[0], words[1]
    _wide_words(high, low, first, step, trials, key)
    half = LANES * LANE_TILE // 2
    one, other = out[:half], out[half:]
    _exponentials(one, high[:half], low[:half], first, step, trials, key)
    turned, turned_low = high[half:], low[half:]
    for i in range(half):
        one[i], other[i] = normal_pair(one[i], turned[i], turned_low[i])
