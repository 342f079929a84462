"""Rows that some of sixteen models do not have, the noise of those that they have, and lists."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.kernels import exact_noise
from dpaudit.kernels.factorization.subsets import Subsets, lane_lists, restore, save, subset_laplace
from dpaudit.kernels.lane_noise import LANE_TILE, Source, trial_words
from dpaudit.kernels.lanes import LANES

KEY = np.array([0xABCDEF01, 77], np.uint32)
F32 = np.float32
N, M = 37, 150  # more than one group of users that lists are made for, and of items
BOUNDS = (F32(-2), F32(2))
TRIALS = np.array([3, 2**32 + 3, 2**40, *range(50, 63)], np.int64)


def test_each_model_draws_the_noise_of_its_own_rows_in_turn() -> None:
    count, step, scale = 3 * LANE_TILE - 5, 9, 0.75
    source = np.random.default_rng(2)
    rows = np.sort(source.choice(count, 120, replace=False)).astype(np.int32)
    included = (source.random((len(rows), LANES)) < 0.5).astype(np.float32)
    subsets = Subsets(rows, included.reshape(-1), np.zeros(LANES, np.float32))
    kept = np.ones((count, LANES), np.bool_)
    kept[rows] = included > 0
    drawn_from = Source(step, trial_words(TRIALS), KEY)
    drawn, had = np.empty((count, LANES), np.float32), np.zeros(LANES, np.int64)
    for first in range(0, count, LANE_TILE):
        last = min(first + LANE_TILE, count)
        noise = np.empty(LANE_TILE * LANES, np.float32)
        place = int(np.searchsorted(rows, first))
        subset_laplace(noise, had, first, last, place, subsets, scale, drawn_from)
        drawn[first:last] = noise.reshape(LANE_TILE, LANES)[: last - first]
    np.testing.assert_array_equal(had, kept.sum(0))
    draws = np.empty((LANES, count))
    exact_noise.laplace(draws, TRIALS, step, KEY)
    for w in range(LANES):
        expected = (scale * draws[w, : had[w]]).astype(np.float32)
        np.testing.assert_array_equal(drawn[kept[:, w], w], expected)


def test_models_without_a_row_get_their_numbers_back() -> None:
    source = np.random.default_rng(3)
    side = source.random(6 * LANES).astype(np.float32)
    side[0], side[LANES] = np.nan, np.inf
    old, before = side.copy(), np.empty(2 * LANES, np.float32)
    save(before, side, LANES)
    side += 1
    included = (np.arange(2 * LANES) % 3 == 0).astype(np.float32)
    restore(side, LANES, before, included, 1)
    expected = (old + np.float32(1)).reshape(6, LANES)
    expected[1:3] = np.where(included[LANES:] > 0, expected[1:3], old.reshape(6, LANES)[1:3])
    np.testing.assert_array_equal(side.reshape(6, LANES), expected)


@pytest.mark.cases("size", [1, 2, 5])
@pytest.mark.cases("k", [1, 4, M + 1])
def test_lists_are_sorted_predictions_that_were_not_seen(size: int, k: int) -> None:
    source = np.random.default_rng(size)
    # Eighths up to 2: products and sums are exact, and many are equal or out of bounds.
    left, right = (
        (source.integers(-8, 9, (n, size + 1, LANES)) / 8).astype(np.float32) for n in (N, M)
    )
    means = (source.integers(-2, 3, LANES) / 4).astype(np.float32)
    seen = source.random((N, M)) < 0.3
    seen[0], seen[1], seen[2, :-2] = False, True, True
    user, item = np.nonzero(seen)
    start = np.searchsorted(user, np.arange(N + 1)).astype(np.int64)
    rows = np.flatnonzero(source.random(len(user)) < 0.2).astype(np.int32)
    included = (source.random((len(rows), LANES)) < 0.5).astype(np.float32)
    users = source.permutation(N)[: N - 1].astype(np.int32)
    lists = np.empty((len(users), LANES, k), np.int32)
    lane_lists(
        lists,
        users,
        left.reshape(-1),
        right.reshape(-1),
        size,
        BOUNDS,
        start,
        item.astype(np.int32),
        Subsets(rows, included.reshape(-1), means),
    )
    scores = np.einsum("nfw,mfw->wnm", left[:, :-1], right[:, :-1])
    scores += means[:, None, None] + left[:, -1].T[:, :, None] + right[:, -1].T[:, None]
    scores = np.clip(scores, *BOUNDS)
    assert (scores == BOUNDS[1]).any(2).mean() > 0.2
    for w in range(LANES):
        has = seen.copy()
        has[user[rows], item[rows]] = included[:, w] > 0
        unseen = np.where(has, -np.inf, scores[w])
        best = np.argsort(-unseen, axis=1, kind="stable")
        best = np.where(np.take_along_axis(unseen, best, 1) > -np.inf, best, -1)[users]
        expected = np.full((len(users), k), -1)
        expected[:, :M] = best[:, :k]
        np.testing.assert_array_equal(lists[:, w], expected)
