"""Rows that some of sixteen models do not have, and the noise of the rows that they have."""

from __future__ import annotations

import numpy as np

from dpaudit.kernels import exact_noise
from dpaudit.kernels.factorization.subsets import Subsets, restore, save, subset_laplace
from dpaudit.kernels.lane_noise import LANE_TILE, trial_words
from dpaudit.kernels.lanes import LANES

KEY = np.array([0xABCDEF01, 77], np.uint32)
TRIALS = np.array([3, 2**32 + 3, 2**40, *range(50, 63)], np.int64)


def test_each_model_draws_the_noise_of_its_own_rows_in_turn() -> None:
    count, step, scale = 3 * LANE_TILE - 5, 9, 0.75
    source = np.random.default_rng(2)
    rows = np.sort(source.choice(count, 120, replace=False)).astype(np.int32)
    included = (source.random((len(rows), LANES)) < 0.5).astype(np.float32)
    subsets = Subsets(rows, included.reshape(-1), np.zeros(LANES, np.float32))
    kept = np.ones((count, LANES), np.bool_)
    kept[rows] = included > 0
    drawn, had = np.empty((count, LANES), np.float32), np.zeros(LANES, np.int64)
    for first in range(0, count, LANE_TILE):
        last = min(first + LANE_TILE, count)
        noise = np.empty(LANE_TILE * LANES, np.float32)
        place = int(np.searchsorted(rows, first))
        subset_laplace(
            noise, had, first, last, place, subsets, scale, step, trial_words(TRIALS), KEY
        )
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
