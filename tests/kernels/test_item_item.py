"""Item-item kernels against naive loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.data.ratings import Csr, Ratings, Scale
from dpaudit.defenses.base import TickRows, frozen, frozen_rows, in_ticks
from dpaudit.kernels import item_item as pairs

Table = list[dict[int, float]]

# More pairs than any table has.
ROOM = 10**6


@st.composite
def tables(draw: st.DrawFn) -> tuple[Table, int]:
    """Half-star ratings by user; some users without ratings, some items without raters."""
    n_items = draw(st.integers(1, 8))
    row = st.dictionaries(
        st.integers(0, n_items - 1), st.integers(1, 10).map(lambda half: half / 2), max_size=n_items
    )
    return draw(st.lists(row, min_size=1, max_size=8)), n_items


def to_ratings(table: Table, n_items: int) -> Ratings:
    rows = [(u, i, v) for u, row in enumerate(table) for i, v in row.items()]
    return Ratings.build(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.float64),
        len(table),
        n_items,
        Scale(0.5, 5, 0.5),
    )


def naive(table: Table, j: int, k: int) -> tuple[int, float]:
    """`|Φ(j,k)|` and `Σ_Φ (r_ij − r_ik)`, eq. (3) of Park & Acharya 2011."""
    both = [row for row in table if j in row and k in row]
    return len(both), sum(row[j] - row[k] for row in both)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(tables(), st.integers(0, 3))
def test_co_ratings(data: tuple[Table, int], floor: int) -> None:
    table, n_items = data
    start, other, count, total = pairs.co_ratings(
        *in_ticks(to_ratings(table, n_items)), floor, ROOM
    )
    stored = {}
    for j in range(n_items):
        for p in range(start[j], start[j + 1]):
            stored[j, int(other[p])] = (int(count[p]), float(total[p]))
    expected = {}
    for j in range(n_items):
        for k in range(j):
            size, value = naive(table, j, k)
            if size > floor:
                expected[j, k] = (size, value)
    assert stored == expected  # half stars are exact in binary
    assert start[-1] == len(other) == len(count) == len(total)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(tables(), st.integers(0, 3))
def test_pairs_are_counted_as_they_are_found(data: tuple[Table, int], floor: int) -> None:
    ratings = to_ratings(*data)
    _, other, _, _ = pairs.co_ratings(*in_ticks(ratings), floor, ROOM)
    rows = frozen_rows(ratings.by_item), frozen_rows(ratings.by_user)
    counted = pairs.count_pairs(rows[0].start, rows[0].column, rows[1].start, rows[1].column, floor)
    assert counted == len(other)
    most = pairs.most_pairs(ratings.by_user.start, ratings.n_items)
    assert len(other) <= most
    # Room for exactly these pairs is enough.
    np.testing.assert_array_equal(pairs.co_ratings(*in_ticks(ratings), floor, counted)[1], other)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(tables())
def test_co_counts(data: tuple[Table, int]) -> None:
    table, n_items = data
    ratings = to_ratings(table, n_items)
    start, other, count, _ = pairs.co_ratings(*in_ticks(ratings), 0, ROOM)
    both = frozen_rows(ratings.by_item), frozen_rows(ratings.by_user)
    counts = pairs.co_counts(*both, ROOM)
    for mine, theirs in zip(counts, (start, other, count), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_ratings_off_the_binary_grid_are_near() -> None:
    """Averages of duplicates, in thirds, and a scale whose width is no power of two."""
    rng = np.random.default_rng(1)
    value = rng.integers(2, 15, 400) / 3
    user, item = np.divmod(np.arange(400), 20)
    ratings = Ratings.build(user, item, value, 20, 20, Scale(0.5, 5, 0.5))
    by_item, by_user, tick = in_ticks(ratings)
    assert tick == 2.0**-17
    _, _, count, total = pairs.co_ratings(by_item, by_user, tick, 0, ROOM)
    table = ratings.value.astype(np.float64).reshape(20, 20)
    expected = [(table[:, j] - table[:, k]).sum() for j in range(20) for k in range(j)]
    assert (count == 20).all()
    np.testing.assert_allclose(total / count, expected / count, atol=1e-5)


def test_the_packed_sums_hold_the_most_extreme_data() -> None:
    """The maximal number of users, all with ratings at opposite ends of the scale."""
    n = pairs.MOST_USERS
    start = np.arange(n + 1, dtype=np.int64) * 2
    column = np.tile(np.array([0, 1], np.int32), n)
    for low, high in ((0, pairs.MOST_TICKS), (pairs.MOST_TICKS, 0)):
        ticks = np.tile(np.array([low, high], np.int32), n)
        by_user = TickRows(start, frozen(column), ticks)
        by_item = TickRows(
            np.array([0, n, 2 * n], np.int64),
            frozen(np.tile(np.arange(n, dtype=np.int32), 2)),
            np.repeat(np.array([low, high], np.int32), n),
        )
        _, _, count, total = pairs.co_ratings(by_item, by_user, 1.0, 0, ROOM)
        assert (count.tolist(), total.tolist()) == ([n], [float(n * (high - low))])


def test_more_users_than_can_be_counted_are_refused() -> None:
    one = np.zeros(1, np.int64)
    ratings = Ratings.build(one, one, np.ones(1), pairs.MOST_USERS + 1, 1, Scale())
    with pytest.raises(DataError, match="1048576 users"):
        in_ticks(ratings)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(tables(), st.data())
def test_co_rating_row(data: tuple[Table, int], more: st.DataObject) -> None:
    table, n_items = data
    item = more.draw(st.integers(0, n_items - 1))
    ratings = to_ratings(table, n_items)
    count, total = pairs.co_rating_row(item, *in_ticks(ratings))
    for k in range(n_items):
        assert (count[k], total[k]) == ((0, 0.0) if k == item else naive(table, item, k))


def lower_triangle(
    dense: NDArray[np.float32],
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    start, other, value = [0], [], []
    for j in range(len(dense)):
        for k in range(j):
            if dense[j, k]:
                other.append(k)
                value.append(dense[j, k])
        start.append(len(other))
    return np.array(start), np.array(other, np.int32), np.array(value, np.float32)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(0, 2**32 - 1), st.sampled_from([-1.0, 1.0]))
def test_mirror(size: int, seed: int, sign: float) -> None:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-8, 9, (size, size)) / 4 * (rng.random((size, size)) < 0.6)
    dense: NDArray[np.float32] = np.tril(drawn, -1).astype(np.float32)
    start, other, value = pairs.mirror(*lower_triangle(dense), np.float32(sign))
    full = dense + np.float32(sign) * dense.T  # s_jk for every j, k
    for k in range(size):
        row = slice(start[k], start[k + 1])
        expected = np.flatnonzero(full[:, k])
        np.testing.assert_array_equal(other[row], expected)
        np.testing.assert_array_equal(value[row], full[expected, k])


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(1, 9), st.integers(0, 2**32 - 1), st.booleans())
def test_pair_sums(size: int, seed: int, clipped: bool) -> None:
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-16, 17, (size, size)) / 4 * (rng.random((size, size)) < 0.7)
    dense: NDArray[np.float32] = np.tril(drawn, -1).astype(np.float32)
    start, other, value = pairs.mirror(*lower_triangle(dense), np.float32(-1))
    full = dense - dense.T
    items = np.flatnonzero(rng.random(size) < 0.5).astype(np.int32)
    ratings = (rng.integers(2, 11, len(items)) / 2).astype(np.float32)
    low, high = (1.0, 5.0) if clipped else (-np.inf, np.inf)
    rows = Csr(start, other, value)
    sums = pairs.pair_sums(rows, frozen(items), frozen(ratings), low, high)
    for j in range(size):
        expected = sum(
            min(max(float(r) + float(full[j, k]), low), high) - float(r)
            for k, r in zip(items, ratings, strict=True)
            if full[j, k]
        )
        assert sums[j] == pytest.approx(expected, abs=1e-12)


def test_no_co_raters_and_no_ratings() -> None:
    ratings = to_ratings([{0: 1.0}, {1: 2.0}, {}], 4)
    start, other, _, _ = pairs.co_ratings(*in_ticks(ratings), 0, ROOM)
    assert start.tolist() == [0, 0, 0, 0, 0]
    assert len(other) == 0


def test_every_pair_of_one_user() -> None:
    ratings = to_ratings([{item: float(1 + item % 5) for item in range(80)}], 80)
    start, other, count, total = pairs.co_ratings(*in_ticks(ratings), 0, ROOM)
    assert len(other) == 80 * 79 // 2
    assert (count == 1).all()
    for j in range(80):
        row = slice(start[j], start[j + 1])
        np.testing.assert_array_equal(other[row], np.arange(j))
        np.testing.assert_array_equal(total[row], j % 5 - np.arange(j) % 5)
