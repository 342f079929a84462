"""The noise source for sixteen worlds at once, the world innermost.

Draw `(key, world, step, coordinate)` rests on the same word as in `noise`, so a Laplace draw has
the same bits there. Of normal draws coordinates `c` and `c + LANE_TILE/2` of a tile share one
Box-Muller pair.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lanes import LANES
from dpaudit.kernels.noise import Draws, Words, _laplace, _normal_pair, _philox

U32 = np.uint32

LANE_TILE = 128  # coordinates drawn at a time for 16 worlds: 8 KiB of words


def world_words(worlds: NDArray[np.int64]) -> Words:
    """The low and high words `(2, 16)` of at most 16 worlds; what lacks repeats the last."""
    full = np.pad(worlds, (0, LANES - len(worlds)), mode="edge")
    return np.stack((full & 0xFFFFFFFF, full >> 32)).astype(np.uint32)


@exact_kernel
def _lane_words(words: Words, first_block: int, step: int, worlds: Words, key: Words) -> None:
    low, high = worlds[0], worlds[1]
    for b in range(len(words) // (4 * LANES)):
        block, place = U32(first_block + b), 4 * LANES * b
        for w in range(LANES):
            p, q, r, s = _philox(block, step, low[w], high[w], key)
            words[place + w] = p
            words[place + LANES + w] = q
            words[place + 2 * LANES + w] = r
            words[place + 3 * LANES + w] = s


@exact_kernel
def laplace_lanes(
    out: Draws, words: Words, first: int, step: int, worlds: Words, key: Words
) -> None:
    """Fill `out` with the standard Laplace draws of coordinates `first…` of 16 worlds.

    Args:
        out: result, flat float32, 16 worlds a coordinate, a multiple of 4 coordinates.
        words: scratch of as many words.
        first: a multiple of 4.
        step: the noise source's step.
        worlds: from `world_words`.
        key: the noise source's key.
    """
    _lane_words(words[: len(out)], first // 4, step, worlds, key)
    for i in range(len(out)):
        out[i] = _laplace(words[i])


@exact_kernel
def normal_lanes(
    out: Draws, words: Words, first: int, step: int, worlds: Words, key: Words
) -> None:
    """Fill `out`, LANE_TILE coordinates of 16 worlds, with standard normal draws.

    The arguments are those of `laplace_lanes`; `first` is a multiple of LANE_TILE.
    """
    _lane_words(words, first // 4, step, worlds, key)
    half = LANES * LANE_TILE // 2
    one, other, radius, angle = out[:half], out[half:], words[:half], words[half:]
    for i in range(half):
        one[i], other[i] = _normal_pair(radius[i], angle[i])
