"""The best items of users by sixteen factorisations at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.factorization.subsets import Subsets
from dpaudit.kernels.jit import exact_kernel
from dpaudit.kernels.lanes import (
    LANES,
    dot,
    every,
    exceeds,
    greatest,
    least,
    load,
    select,
    store,
)
from dpaudit.kernels.top_k.ranking import insert

F32 = np.float32

Flat = NDArray[np.float32]
Rows = NDArray[np.int32]

# Users and items at a time: their factors stay in the cache.
_USERS, _ITEMS = 32, 128


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
