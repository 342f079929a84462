"""Sixteen models in training, each on a subset of the same rows.

A model without a row keeps its numbers at that row, bit for bit, and uses no noise for it. So it is
the model that is trained on its own rows alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import laplace_row
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lane_noise import LANE_TILE
from dpaudit.kernels.lanes import LANES, load, select, store

F32 = np.float32

Flat = NDArray[np.float32]
Words = NDArray[np.uint32]


class Subsets(NamedTuple):
    """The rows that each of sixteen models has, and what it knows of them.

    Attributes:
        rows: the rows that not every model has, increasing `(C,)`.
        included: 1 where a model has such a row, else 0, `(C, 16)`, flat.
        means: `b_0` of each model `(16,)`.
    """

    rows: NDArray[np.int32]
    included: Flat
    means: Flat


@exact_kernel
def save(before: Flat, side: Flat, first: int) -> None:
    """Copy numbers of one side's factors, `first` and the following, to `before`."""
    for f in range(0, len(before), LANES):
        store(before, f, load(side, first + f))


@exact_kernel
def restore(side: Flat, first: int, before: Flat, included: Flat, place: int) -> None:
    """Write `before` back in the models that do not have a row.

    Args:
        side: factors, flat; changed in place.
        first: the place of the saved numbers.
        before: from `save`.
        included: as in `Subsets`.
        place: the place of the row among those that not every model has.
    """
    mask = load(included, place * LANES)
    for f in range(0, len(before), LANES):
        store(side, first + f, select(mask, load(side, first + f), load(before, f)))


@exact_kernel
def subset_laplace(
    noise: Flat,
    had: NDArray[np.int64],
    first: int,
    last: int,
    place: int,
    subsets: Subsets,
    scale: float,
    step: int,
    trials: Words,
    key: Words,
) -> None:
    """Draw the Laplace noise of some rows; each model counts the coordinates of its own rows.

    Args:
        noise: result, 16 for each of the rows `first … last - 1`, at most LANE_TILE.
        had: the number of earlier rows that each model has `(16,)`; changed in place.
        first: the first row.
        last: the row after the last.
        place: the place of the first row that not every model has.
        subsets: which model has which row.
        scale: the scale.
        step: the noise source's step.
        trials: from `trial_words`.
        key: the noise source's key.
    """
    # A draw more, since they start at an even coordinate.
    draws = np.empty(LANE_TILE + 1, np.float64)
    words = np.empty((2, LANE_TILE + 2), np.uint32)
    for w in range(LANES):
        trial = int(trials[0, w]) | int(trials[1, w]) << 32
        start = had[w] // 2 * 2
        d, p = had[w] - start, place
        laplace_row(draws[: d + last - first], words, start, step, trial, key)
        for k in range(last - first):
            present = True
            if p < len(subsets.rows) and subsets.rows[p] == first + k:
                present = subsets.included[p * LANES + w] != 0
                p += 1
            noise[k * LANES + w] = F32(scale * draws[d])
            d += present
        had[w] = start + d
