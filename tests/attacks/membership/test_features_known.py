"""What the attacker knows: cosines and discounts, by hand and by dense arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership.features import Known, exposure
from dpaudit.core.releases import discounts

I32 = np.int32


def dense(seed: int = 0, users: int = 12, items: int = 9) -> NDArray[np.float64]:
    matrix = (np.random.default_rng(seed).random((users, items)) < 0.4).astype(np.float64)
    matrix[3] = 0  # a user without any interaction
    matrix[:, 5] = 0  # an item without any
    return matrix


def known(history: NDArray[np.float64]) -> Known:
    return Known(csr_array(history), np.array([1, 3, 4, 8, 10], I32), np.array([0, 1, 3], I32))


def cosine(x: NDArray[np.float64], y: NDArray[np.float64]) -> float:
    sizes = math.sqrt((x @ x) * (y @ y))
    return float(x @ y / sizes) if sizes else 0.0


def test_similar_items_are_cosines_of_columns() -> None:
    history = dense()
    items = np.array([5, 0, 7, 0], I32)
    cosines = known(history).similar_items(items).toarray()
    for row, item in zip(cosines, items, strict=True):
        assert row == pytest.approx([cosine(history[:, item], column) for column in history.T])


def test_similar_users_are_cosines_of_rows_and_nobody_observes_themselves() -> None:
    history, users, observed = dense(), np.arange(12, dtype=I32), (1, 3, 8)
    cosines = known(history).similar_observed(users)
    for user in users:
        expected = [
            0 if user == other else cosine(history[user], history[other]) for other in observed
        ]
        assert cosines[user] == pytest.approx(expected)


def test_two_items_of_the_same_two_of_three_users() -> None:
    history = np.array([[1.0, 1, 0], [1, 1, 1], [0, 0, 1]])
    facts = Known(csr_array(history), np.arange(3, dtype=I32), np.arange(3, dtype=I32))
    third = 1 / 2  # one common user of 2 and 2
    assert facts.similar_items(np.array([0], I32)).toarray()[0] == pytest.approx([1, 1, third])
    assert facts.similar_observed(np.array([0], I32))[0] == pytest.approx([0, 2 / 6**0.5, 0])


def test_the_row_of_a_user_among_the_lists() -> None:
    assert known(dense()).list_of(np.array([10, 1, 4], I32)).tolist() == [4, 0, 2]


def test_the_discount_is_that_of_ndcg() -> None:
    assert discounts(4) == pytest.approx([1, 1 / math.log2(3), 1 / 2, 1 / math.log2(5)])


def test_exposure_is_the_discount_of_each_listed_item_and_0_of_others() -> None:
    lists = np.array([[6, 2, 4], [3, -1, 0], [-1, -1, -1], [0, 1, -1]], I32)
    expected = np.zeros((4, 7))
    for row, shown in enumerate(lists):
        for place, item in enumerate(shown):
            if item >= 0:
                expected[row, item] = 1 / math.log2(2 + place)
    discounts = exposure(lists, 7)
    np.testing.assert_allclose(discounts.toarray(), expected)
    # Items of a list are in its order, not increasing: products and picks must not need that.
    np.testing.assert_allclose(
        discounts.multiply(csr_array(np.eye(4, 7))).toarray(), expected * np.eye(4, 7)
    )
    np.testing.assert_allclose(discounts[[0, 0, 1], [4, 5, 0]], expected[[0, 0, 1], [4, 5, 0]])


def test_no_list_at_all() -> None:
    assert exposure(np.empty((0, 3), I32), 5).shape == (0, 5)
    assert exposure(np.full((2, 3), -1, I32), 5).nnz == 0
