"""Item-item statistics over the users who rated both items, and the predictions made of them.

Gustavson order: for each item `j`, walk the lists of its raters and add up one dense row. The total
work is the number of co-rated pairs; nothing of size items x items is ever stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, kernel

Ints = NDArray[np.int32]
Starts = NDArray[np.int64]
Floats = NDArray[np.float32]
Sums = NDArray[np.float64]
Rows = tuple[Starts, Ints, Floats]


@kernel
def _add_user(
    count: Ints, total: Sums, items: Ints, values: Floats, rating: np.float32, with_sums: bool
) -> None:
    # Unsigned indices spare numba's check for a negative one: twice the speed of this loop.
    if with_sums:
        for p in range(len(items)):
            k = np.uint32(items[p])
            count[k] += 1
            total[k] += rating - values[p]
    else:
        for k in items:
            count[np.uint32(k)] += 1


@kernel
def _grown(array: NDArray[Any], capacity: int) -> NDArray[Any]:
    larger = np.empty(capacity, array.dtype)
    larger[: len(array)] = array
    return larger


@kernel
def co_ratings(
    by_item: Rows, by_user: Rows, min_count: int, with_sums: bool
) -> tuple[Starts, Ints, Ints, Sums]:
    """Counts and rating differences of the item pairs `(j, k < j)` that enough users share.

    Args:
        by_item: start `(M + 1,)`, user and value `(R,)` of the ratings in rows by item.
        by_user: start `(N + 1,)`, item (increasing) and value `(R,)` in rows by user.
        min_count: pairs with at most this many common users are left out.
        with_sums: False leaves the sums of differences out (an empty array), at twice the speed.

    Returns:
        Compressed rows of the lower triangle: start `(M + 1,)`, item `k`, `|Φ(j,k)|` and
        `Σ_{i∈Φ(j,k)} (r_ij − r_ik)`, each `(P,)`.
    """
    item_start, item_user, item_value = by_item
    user_start, user_item, user_value = by_user
    n_items = len(item_start) - 1
    count = np.zeros(n_items, np.int32)
    total = np.zeros(n_items, np.float64)
    # Items come in increasing order, so a user's items below j are those seen so far.
    seen = user_start[:-1].copy()
    start = np.zeros(n_items + 1, np.int64)
    capacity = max(1024, 4 * len(item_user))
    other = np.empty(capacity, np.int32)
    counts = np.empty(capacity, np.int32)
    totals = np.empty(capacity if with_sums else 0, np.float64)
    found = 0
    for j in range(n_items):
        for t in range(item_start[j], item_start[j + 1]):
            i = item_user[t]
            below = slice(user_start[i], seen[i])
            _add_user(count, total, user_item[below], user_value[below], item_value[t], with_sums)
            seen[i] += 1
        if found + j > capacity:
            capacity = max(2 * capacity, found + j)
            other, counts = _grown(other, capacity), _grown(counts, capacity)
            if with_sums:
                totals = _grown(totals, capacity)
        for k in range(j):
            if count[k] > min_count:
                other[found], counts[found] = k, count[k]
                if with_sums:
                    totals[found] = total[k]
                found += 1
        count[:j] = 0
        if with_sums:
            total[:j] = 0.0
        start[j + 1] = found
    return start, other[:found].copy(), counts[:found].copy(), totals[:found].copy()


@kernel
def co_rating_row(item: int, by_item: Rows, by_user: Rows) -> tuple[Ints, Sums]:
    """Counts and difference sums of one item with every item, each `(M,)`; see `co_ratings`."""
    item_start, item_user, item_value = by_item
    user_start, user_item, user_value = by_user
    n_items = len(item_start) - 1
    count = np.zeros(n_items, np.int32)
    total = np.zeros(n_items, np.float64)
    for t in range(item_start[item], item_start[item + 1]):
        i = item_user[t]
        row = slice(user_start[i], user_start[i + 1])
        _add_user(count, total, user_item[row], user_value[row], item_value[t], True)
    count[item], total[item] = 0, 0.0
    return count, total


@exact_kernel
def mirror(start: Starts, other: Ints, value: Floats, sign: np.float32) -> Rows:
    """Full rows of a matrix with `s_kj = sign · s_jk` from its lower triangle.

    Row `k` of the result lists the items `j` in increasing order with `s_jk`: what rating `k` adds
    to the prediction of `j`.
    """
    n_items = len(start) - 1
    fill = np.zeros(n_items + 1, np.int64)
    for j in range(n_items):
        fill[j + 1] += start[j + 1] - start[j]
        for p in range(start[j], start[j + 1]):
            fill[other[p] + 1] += 1
    fill = np.cumsum(fill)
    full_start = fill.copy()
    full_other = np.empty(2 * len(other), np.int32)
    full_value = np.empty(2 * len(other), np.float32)
    for j in range(n_items):
        for p in range(start[j], start[j + 1]):
            k = other[p]
            full_other[fill[j]], full_value[fill[j]] = k, sign * value[p]
            fill[j] += 1
            full_other[fill[k]], full_value[fill[k]] = j, value[p]
            fill[k] += 1
    return full_start, full_other, full_value


@exact_kernel
def pair_sums(similarity: Rows, items: Ints, ratings: Floats, low: float, high: float) -> Sums:
    """`Σ_k (clip(r_k + s_jk, low, high) − r_k)` over a user's items, for every item `j`, `(M,)`.

    Args:
        similarity: start, item and value of full rows as made by `mirror`.
        items: the user's items `(n,)`.
        ratings: their ratings `(n,)`; zeros make it `Σ_k s_jk`.
        low: lower end for `r_k + s_jk`, `−inf` for none.
        high: upper end, `+inf` for none.
    """
    start, other, value = similarity
    sums = np.zeros(len(start) - 1, np.float64)
    for k in range(len(items)):
        r = np.float64(ratings[k])
        for p in range(start[items[k]], start[items[k] + 1]):
            sums[np.uint32(other[p])] += min(max(r + value[p], low), high) - r
    return sums
