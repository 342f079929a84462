"""Ratings as a sparse matrix and back."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpaudit.core.errors import DataError
from dpaudit.data.interactions import interactions_of, ratings_of
from dpaudit.data.ratings import Ratings, Scale

SCALE = Scale(0, 5, 1)


def sparse(seed: int = 1) -> Ratings:
    """Users 0 and 5 and items 0 and 7 have no rating."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((4, 6)) < 0.5)
    value = rng.integers(0, 6, len(user)).astype(np.float32)
    return Ratings.build(user + 1, item + 1, value, 6, 8, SCALE)


def test_the_matrix_holds_every_rating_at_its_place_in_the_shape_of_all_data() -> None:
    ratings = sparse()
    found = interactions_of(ratings)
    expected = np.zeros((6, 8), np.float32)
    expected[ratings.user, ratings.item] = ratings.value
    assert found.dtype == np.float32
    assert found.shape == (6, 8)
    np.testing.assert_array_equal(found.toarray(), expected)


def test_a_rating_of_zero_is_stored() -> None:
    ratings = Ratings.build(np.array([1]), np.array([2]), np.array([0.0]), 3, 4, SCALE)
    found = interactions_of(ratings)
    assert (found.nnz, found.indices.tolist(), found.data.tolist()) == (1, [2], [0])
    assert len(ratings_of(found, SCALE)) == 1


def test_purchases_are_ones() -> None:
    ratings = Ratings.build(np.array([0, 1]), np.array([1, 0]), np.ones(2), 2, 2, Scale(1, 1, 1))
    np.testing.assert_array_equal(interactions_of(ratings).toarray(), [[0, 1], [1, 0]])


def test_a_mask_keeps_rows_and_the_shape() -> None:
    ratings = sparse()
    kept = np.arange(len(ratings)) % 2 == 0
    found = interactions_of(ratings, kept)
    assert found.shape == (6, 8)
    np.testing.assert_array_equal(found.toarray(), interactions_of(ratings.only(kept)).toarray())
    nothing = interactions_of(ratings, np.zeros(len(ratings), np.bool_))
    assert (nothing.nnz, nothing.shape) == (0, (6, 8))


@pytest.mark.parametrize("masked", [False, True])
def test_whoever_trains_on_it_may_change_it(masked: bool) -> None:
    ratings = sparse()
    kept = np.ones(len(ratings), np.bool_) if masked else None
    digest = ratings.digest
    found = interactions_of(ratings, kept)
    found.data[:] = -1
    found.indices[:] = 0
    assert (
        sparse().digest
        == digest
        == Ratings.build(ratings.user, ratings.item, ratings.value, 6, 8, SCALE).digest
    )


def test_there_and_back_changes_nothing() -> None:
    ratings = sparse()
    back = ratings_of(interactions_of(ratings), SCALE)
    assert back.digest == ratings.digest
    assert (back.n_users, back.n_items, back.scale) == (6, 8, SCALE)


@pytest.mark.parametrize(
    ("columns", "said"),
    [(([5.0, 3], [1, 1]), "repeated"), (([9.0, 3], [0, 1]), "outside the scale")],
)
def test_what_is_no_data_set_is_refused(columns: tuple[list[float], list[int]], said: str) -> None:
    values, items = columns
    wrong = csr_array((np.array(values, np.float32), items, [0, 2]), shape=(1, 2))
    with pytest.raises(DataError, match=said):
        ratings_of(wrong, SCALE)
