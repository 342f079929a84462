"""Lists of sixteen factorisations against sorted predictions, on numbers without rounding."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.kernels.factorization.lists import lane_lists
from dpaudit.kernels.factorization.subsets import Subsets
from dpaudit.kernels.lanes import LANES

F32 = np.float32
N, M = 37, 150  # more than one group of users, and of items
BOUNDS = (F32(-2), F32(2))


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
