"""Cosines that are asked again and again, against dense arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership.features import Known, Pairs, Shown, exposure, of_own_list

I32 = np.int32


def history() -> NDArray[np.float64]:
    matrix = (np.random.default_rng(0).random((12, 9)) < 0.4).astype(np.float64)
    matrix[3] = 0  # a user without any interaction
    matrix[:, 5] = 0  # an item without any
    return matrix


def known(had: NDArray[np.float64]) -> Known:
    return Known(csr_array(had), np.arange(len(had), dtype=I32), np.array([0, 1], I32))


def dense(had: NDArray[np.float64]) -> NDArray[np.float64]:
    unit = had / np.sqrt(np.maximum(had.sum(0), 1))
    cosines: NDArray[np.float64] = unit.T @ unit
    return cosines


def test_cosines_of_pairs_are_those_of_columns_whatever_was_asked_before() -> None:
    had = history()
    all_cosines, facts = dense(had), known(had)
    for items in (np.array([8, 0, 5, 0], I32), np.array([2], I32), np.array([8, 0, 5, 0], I32)):
        which, others = (side.reshape(-1) for side in np.indices((len(items), 9)))
        got = facts.cosines(items, which, others.astype(I32))
        assert got == pytest.approx(all_cosines[items[which], others])
    nothing = known(np.zeros((12, 9)))
    assert (
        nothing.cosines(np.array([1, 4], I32), np.array([0, 1]), np.array([1, 8], I32)).sum() == 0
    )


def test_near_histories_are_sums_of_cosines_whatever_was_asked_before() -> None:
    had = history()
    facts, all_cosines = known(had), dense(had)
    for users in (np.array([4, 3, 0], I32), np.array([11], I32), np.array([4, 3, 0], I32)):
        assert facts.near_histories(users).toarray() == pytest.approx(had[users] @ all_cosines)


def test_the_likeness_of_a_list_is_the_mean_cosine_of_its_items() -> None:
    had, rng = history(), np.random.default_rng(1)
    lists = np.stack([rng.permutation(9)[:4] for _ in range(12)]).astype(I32)
    lists[2], lists[6, 2:] = -1, -1
    users, items = rng.integers(0, 12, 20).astype(I32), rng.integers(0, 9, 20).astype(I32)
    users[:2] = 2, 6
    of = Pairs(users, items, np.ones(20, np.float32))
    shown = Shown(np.empty(0, np.float32), lists, np.empty((0, 0), np.float32))
    likeness = of_own_list(shown, known(had), of, False)[:, 1]
    weights = exposure(lists, 9).toarray()[users]
    total = np.maximum(weights.sum(1), 1e-12)
    assert likeness == pytest.approx((weights * dense(had)[items]).sum(1) / total)
    assert likeness[0] == 0
