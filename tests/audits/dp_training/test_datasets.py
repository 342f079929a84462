"""The data sets beside a training's own."""

from __future__ import annotations

import numpy as np

from dpaudit.audits.dp_training import datasets
from dpaudit.data.ratings import Ratings, Scale

CELLS = np.random.default_rng(0).permutation(60 * 40)[:600]
VALUES = np.random.default_rng(1).integers(1, 6, 600).astype(np.float32)
RATINGS = Ratings.build(*np.divmod(CELLS, 40), VALUES, 60, 40, Scale())


def test_other_numbers_of_rows_keep_users_and_items() -> None:
    count = len(RATINGS)
    for rows in (1, count - 1, count + 1):
        other = datasets.resized(RATINGS, rows, 0)
        assert len(other) == rows
        assert (other.n_users, other.n_items) == (60, 40)


def test_far_data_have_as_many_rows_with_other_values_or_cells() -> None:
    for other in datasets.far(RATINGS, 4, 0):
        assert len(other) == len(RATINGS)
        same = np.array_equal(other.user, RATINGS.user) and np.array_equal(other.item, RATINGS.item)
        assert not same or not np.array_equal(other.value, RATINGS.value)


def test_far_data_of_purchases_have_other_cells() -> None:
    ones = np.ones(len(RATINGS), np.float32)
    bought = Ratings.build(RATINGS.user, RATINGS.item, ones, 60, 40, Scale(1, 1, 1))
    for other in datasets.far(bought, 2, 0):
        assert not np.array_equal(other.item, bought.item)


def test_three_data_sets_differ_in_the_last_rows_of_one_user() -> None:
    first, second, third = datasets.triple(RATINGS, 200, 3, 0)
    assert len(first) == len(second) == len(third) == 200
    for other in (second, third):
        for name in ("user", "item", "value"):
            assert np.array_equal(getattr(first, name)[:-3], getattr(other, name)[:-3])
    assert [set(data.user[-3:]) for data in (first, second, third)] == [{57}, {58}, {59}]
    items = [set(data.item[-3:].tolist()) for data in (first, second, third)]
    assert not items[0] & items[1]
    assert not items[1] & items[2]
