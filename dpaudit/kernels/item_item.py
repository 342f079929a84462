"""Item-item statistics over the users who rated both items, and predictions from them.

Gustavson's order: for each item `j`, go through its raters' lists and sum up one dense row. The
total work is the number of co-rated pairs; no items x items array is stored.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel, inline

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float32]
Sums = NDArray[np.float64]
Rows = tuple[Longs, Ints, Floats]
Ticks = tuple[Longs, Ints, Ints]

# One 64-bit integer packs the number of users and the sum of their rating differences, so that each
# pair costs one addition.
_BITS = np.int64(43)
_ONE = np.int64(1) << _BITS
_HALF = np.int64(1) << np.int64(42)
MOST_USERS = 2**20 - 1  # the largest count that fits in the upper bits
MOST_TICKS = 2**20  # the largest rating difference in ticks whose sum fits in the lower bits


@inline
def _users(packed: int) -> int:
    return int((packed + _HALF) >> _BITS)


@inline
def _difference(packed: int) -> int:
    return int(packed - (_users(packed) << _BITS))


@exact_kernel
def _add_ratings(sums: Longs, items: Ints, ticks: Ints, first: int, last: int, rating: int) -> None:
    for p in range(first, last):
        # Unsigned indices avoid numba's check for negative ones; this doubles the loop's speed.
        q = np.uint64(p)
        sums[np.uint32(items[q])] += rating - ticks[q]


@exact_kernel
def _add_ones(count: Ints, items: Ints, first: int, last: int) -> None:
    for p in range(first, last):
        count[np.uint32(items[np.uint64(p)])] += 1


def most_pairs(user_start: Longs, n_items: int) -> int:
    """Return an upper bound on the number of item pairs with a common user.

    Args:
        user_start: where each user's items start `(N + 1,)`.
        n_items: the number of items.
    """
    rated = np.diff(user_start)
    return min(int((rated * (rated - 1)).sum()) // 2, n_items * (n_items - 1) // 2)


@exact_kernel
def count_pairs(
    item_start: Longs, item_user: Ints, user_start: Longs, user_item: Ints, min_count: int
) -> int:
    """Return the number of item pairs that `co_ratings` or `co_counts` finds, without storing them.

    Args:
        item_start: where each item's users start `(M + 1,)`.
        item_user: the users of all items `(R,)`.
        user_start: where each user's items start `(N + 1,)`.
        user_item: the items of all users, increasing for each `(R,)`.
        min_count: pairs with at most this many common users do not count.
    """
    n_items = len(item_start) - 1
    count = np.zeros(n_items, np.int32)
    seen = user_start[:-1].copy()
    pairs = 0
    for j in range(n_items):
        for t in range(item_start[j], item_start[j + 1]):
            i = item_user[t]
            _add_ones(count, user_item, user_start[i], seen[i])
            seen[i] += 1
        for k in range(j):
            pairs += count[k] > min_count
        count[:j] = 0
    return pairs


@exact_kernel
def co_ratings(
    by_item: Ticks, by_user: Ticks, tick: float, min_count: int, room: int
) -> tuple[Longs, Ints, Ints, Sums]:
    """Counts and rating differences of the item pairs `(j, k < j)` with enough common users.

    Args:
        by_item: start `(M + 1,)`, user and rating in ticks `(R,)`, rows grouped by item.
        by_user: start `(N + 1,)`, item (increasing) and rating in ticks `(R,)`, rows grouped by
            user; at most `MOST_USERS` users, and ratings at most `MOST_TICKS` apart.
        tick: the size of a tick.
        min_count: pairs with at most this many common users are left out.
        room: an upper bound on the number of pairs. Memory that is never written costs nothing.

    Returns:
        Compressed rows of the lower triangle: start `(M + 1,)`, item `k`, `|Φ(j,k)|` and
        `Σ_{i∈Φ(j,k)} (r_ij − r_ik)`, each `(P,)`.
    """
    item_start, item_user, item_ticks = by_item
    user_start, user_item, user_ticks = by_user
    n_items = len(item_start) - 1
    sums = np.zeros(n_items, np.int64)
    # Items are visited in increasing order, so a user's items below j are those before `seen`.
    seen = user_start[:-1].copy()
    start = np.zeros(n_items + 1, np.int64)
    other, counts = np.empty(room + 1, np.int32), np.empty(room + 1, np.int32)
    totals = np.empty(room + 1, np.float64)
    pairs = 0
    for j in range(n_items):
        for t in range(item_start[j], item_start[j + 1]):
            i = item_user[t]
            rating = _ONE + item_ticks[t]
            _add_ratings(sums, user_item, user_ticks, user_start[i], seen[i], rating)
            seen[i] += 1
        for k in range(j):
            # Always write, and keep the entry by advancing `pairs`: this avoids a branch.
            other[pairs], counts[pairs] = k, _users(sums[k])
            totals[pairs] = tick * _difference(sums[k])
            pairs += _users(sums[k]) > min_count
        sums[:j] = 0
        start[j + 1] = pairs
    return start, other[:pairs], counts[:pairs], totals[:pairs]


@exact_kernel
def co_counts(by_item: Rows, by_user: Rows, room: int) -> tuple[Longs, Ints, Ints]:
    """Counts of the item pairs `(j, k < j)` with any common user; see `co_ratings`."""
    item_start, item_user, _ = by_item
    user_start, user_item, _ = by_user
    n_items = len(item_start) - 1
    count = np.zeros(n_items, np.int32)
    seen = user_start[:-1].copy()
    start = np.zeros(n_items + 1, np.int64)
    other, counts = np.empty(room + 1, np.int32), np.empty(room + 1, np.int32)
    pairs = 0
    for j in range(n_items):
        for t in range(item_start[j], item_start[j + 1]):
            i = item_user[t]
            _add_ones(count, user_item, user_start[i], seen[i])
            seen[i] += 1
        for k in range(j):
            other[pairs], counts[pairs] = k, count[k]
            pairs += count[k] > 0
        count[:j] = 0
        start[j + 1] = pairs
    return start, other[:pairs], counts[:pairs]


@exact_kernel
def co_rating_row(item: int, by_item: Ticks, by_user: Ticks, tick: float) -> tuple[Longs, Sums]:
    """Counts and rating differences of one item with every item, `(M,)`; see `co_ratings`."""
    item_start, item_user, item_ticks = by_item
    user_start, user_item, user_ticks = by_user
    n_items = len(item_start) - 1
    sums = np.zeros(n_items, np.int64)
    for t in range(item_start[item], item_start[item + 1]):
        i = item_user[t]
        rating = _ONE + item_ticks[t]
        _add_ratings(sums, user_item, user_ticks, user_start[i], user_start[i + 1], rating)
    sums[item] = 0
    count, total = np.empty(n_items, np.int64), np.empty(n_items, np.float64)
    for k in range(n_items):
        count[k], total[k] = _users(sums[k]), tick * _difference(sums[k])
    return count, total


@exact_kernel
def mirror(start: Longs, other: Ints, value: Floats, sign: np.float32) -> Rows:
    """Return full rows of a matrix with `s_kj = sign · s_jk` from its lower triangle.

    Row `k` of the result lists the items `j` in increasing order with `s_jk`, the contribution of
    the rating of `k` to the prediction of `j`.
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
        similarity: start, item and value of full rows, from `mirror`.
        items: the user's items `(n,)`.
        ratings: their ratings `(n,)`; with zeros the result is `Σ_k s_jk`, unless clipped.
        low: lower bound of `r_k + s_jk`, `−inf` for none.
        high: upper bound, `+inf` for none.
    """
    start, other, value = similarity
    sums = np.zeros(len(start) - 1, np.float64)
    for k in range(len(items)):
        r = np.float64(ratings[k])
        for p in range(start[items[k]], start[items[k] + 1]):
            sums[np.uint32(other[p])] += min(max(r + value[p], low), high) - r
    return sums
