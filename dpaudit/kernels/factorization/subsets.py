"""Sixteen models, each of a subset of the same rows: parts of their training, and their lists.

A model without a row keeps its numbers at that row, bit for bit, and uses no noise for it. So it is
the model that is trained on its own rows alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.exact_noise import laplace_row
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lane_noise import LANE_TILE, Source
from dpaudit.kernels.lanes import LANES, dot, every, exceeds, greatest, least, load, select, store
from dpaudit.kernels.top_k import insert

F32 = np.float32

Flat = NDArray[np.float32]
Rows = NDArray[np.int32]

# Users and items that lists are made of at a time: their factors stay in the cache.
_USERS, _ITEMS = 32, 128


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
    source: Source,
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
        source: the noise source.
    """
    step, trials, key = source
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


@exact_kernel
def lane_lists(
    lists: NDArray[np.int32],
    users: Rows,
    left: Flat,
    right: Flat,
    size: int,
    bounds: tuple[np.float32, np.float32],
    start: NDArray[np.int64],
    seen: Rows,
    subsets: Subsets,
) -> None:
    """Find the items with the largest `b_0 + b_u + b_i + u·v` that a model's user lacks.

    Numbers are clipped to the bounds first. Ties are broken by the lower item index.

    Args:
        lists: result `(n, 16, k)`, best first; -1 where there are no more.
        users: the users to make lists for `(n,)`.
        left: the users' factors and biases `(N, size + 1, 16)`, flat.
        right: the items'.
        size: `d`.
        bounds: the range of predictions.
        start: the rows of user u are `start[u] … start[u + 1]`, `(N + 1,)`.
        seen: the item of each row, increasing for each user.
        subsets: the rows and the `b_0` of each model.
    """
    full, k = size + 1, lists.shape[2]
    bias, count = size * LANES, len(right) // (full * LANES)
    means, low, high = load(subsets.means, 0), every(bounds[0]), every(bounds[1])
    never = every(F32(-np.inf))
    values = np.empty((_USERS, LANES, k), np.float32)
    bars, shown = np.empty(_USERS * LANES, np.float32), np.empty(LANES, np.float32)
    row, place = np.empty(_USERS, np.int64), np.empty(_USERS, np.int64)
    lists[:] = -1
    for group in range(0, len(users), _USERS):
        members = min(_USERS, len(users) - group)
        values[:], bars[:] = -np.inf, -np.inf
        for g in range(members):
            row[g] = start[users[group + g]]
            place[g] = np.searchsorted(subsets.rows, row[g])
        for first in range(0, count, _ITEMS):
            for g in range(members):
                n, r, p = users[group + g], row[g], place[g]
                u, end = n * full * LANES, start[n + 1]
                a = load(left, u + bias)
                for m in range(first, min(first + _ITEMS, count)):
                    v, partial = m * full * LANES, False
                    if r < end and seen[r] == m:
                        partial = p < len(subsets.rows) and subsets.rows[p] == r
                        r += 1
                        if not partial:
                            continue
                        p += 1
                    score = means + (a + load(right, v + bias)) + dot(left, u, right, v, size)
                    score = greatest(least(score, high), low)
                    if partial:
                        score = select(load(subsets.included, (p - 1) * LANES), never, score)
                    if exceeds(score, load(bars, g * LANES)):
                        store(shown, 0, score)
                        for w in range(LANES):
                            if shown[w] > bars[g * LANES + w]:
                                insert(lists[group + g, w], values[g, w], m, shown[w])
                                bars[g * LANES + w] = values[g, w, k - 1]
                row[g], place[g] = r, p
