"""Ratings as a sparse matrix, and as a table in time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from dpaudit.core.errors import DataError
from dpaudit.data.interactions import Interactions, given_ratings, interactions_of
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
    matrix = interactions_of(ratings)
    expected = np.zeros((6, 8), np.float32)
    expected[ratings.user, ratings.item] = ratings.value
    assert matrix.dtype == np.float32
    assert matrix.shape == (6, 8)
    np.testing.assert_array_equal(matrix.toarray(), expected)


def test_a_rating_of_zero_is_stored() -> None:
    ratings = Ratings.build(np.array([1]), np.array([2]), np.array([0.0]), 3, 4, SCALE)
    matrix = interactions_of(ratings)
    assert (matrix.nnz, matrix.indices.tolist(), matrix.data.tolist()) == (1, [2], [0])


def test_purchases_are_ones() -> None:
    ratings = Ratings.build(np.array([0, 1]), np.array([1, 0]), np.ones(2), 2, 2, Scale(1, 1, 1))
    np.testing.assert_array_equal(interactions_of(ratings).toarray(), [[0, 1], [1, 0]])


def test_a_mask_keeps_rows_and_the_shape() -> None:
    ratings = sparse()
    kept = np.arange(len(ratings)) % 2 == 0
    matrix = interactions_of(ratings, kept)
    assert matrix.shape == (6, 8)
    np.testing.assert_array_equal(matrix.toarray(), interactions_of(ratings.only(kept)).toarray())
    nothing = interactions_of(ratings, np.zeros(len(ratings), np.bool_))
    assert (nothing.nnz, nothing.shape) == (0, (6, 8))


@pytest.mark.parametrize("masked", [False, True])
def test_whoever_trains_on_it_may_change_it(masked: bool) -> None:
    ratings = sparse()
    kept = np.ones(len(ratings), np.bool_) if masked else None
    digest = ratings.digest
    matrix = interactions_of(ratings, kept)
    matrix.data[:] = -1
    matrix.indices[:] = 0
    assert (
        sparse().digest
        == digest
        == Ratings.build(ratings.user, ratings.item, ratings.value, 6, 8, SCALE).digest
    )


def test_the_table_is_in_the_order_of_time_and_ties_by_user_then_item() -> None:
    user, item = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 2])
    ratings = Ratings.build(
        user, item, np.array([1.0, 2, 3, 4]), 2, 3, SCALE, time=np.array([9.0, 5, 5, 1])
    )
    table = Interactions.of(ratings).table
    assert table.time is not None
    assert table.time.tolist() == [1, 5, 5, 9]
    assert list(zip(table.user, table.item, table.rating, strict=True)) == [
        (1, 2, 4), (0, 1, 2), (1, 0, 3), (0, 0, 1),
    ]  # fmt: skip
    part = Interactions.of(ratings, np.array([True, False, True, True])).table
    assert part.time is not None
    assert part.time.tolist() == [1, 5, 9]


def test_without_times_the_table_is_by_user_and_item() -> None:
    table = Interactions.of(sparse()).table
    assert table.time is None
    np.testing.assert_array_equal(table.user, sparse().user)


def test_what_a_training_gets_is_its_own() -> None:
    features = pd.DataFrame({"age": np.arange(6)})
    ratings = replace(sparse(), user_features=features, user_ids=np.arange(6).astype(object))
    given = Interactions.of(ratings)
    assert given.shape == (6, 8)
    assert given.item_features is None
    assert given.item_ids is None
    assert given.user_features is not None
    given.user_features.loc[:, "age"] = 0
    given.matrix.data[:] = 0
    given.table.rating[:] = 0
    again = Interactions.of(ratings)
    assert again.user_features is not None
    assert again.user_features["age"].tolist() == list(range(6))
    np.testing.assert_array_equal(again.matrix.data, ratings.value)
    np.testing.assert_array_equal(again.table.rating, ratings.value)


def test_a_frame_brings_its_times_and_ids() -> None:
    frame = pd.DataFrame({"user": [7, 7, 5], "item": ["x", "y", "x"], "time": [3, 2, 1]})
    ratings = given_ratings(frame)
    assert ratings.user_ids is not None
    assert ratings.user_ids.tolist() == ["5", "7"]
    assert ratings.time is not None
    assert ratings.time.tolist() == [1, 3, 2]


def test_a_column_that_holds_no_times_is_left_out_of_a_frame() -> None:
    frame = pd.DataFrame({"user": [7, 5], "item": ["x", "y"], "time": ["soon", "late"]})
    assert given_ratings(frame).time is None


def matrix(*values: complex, indices: tuple[int, ...] = (0, 1, 2)) -> csr_array:
    """Return a matrix of 3 × 3 with these entries, whose indices nobody has checked."""
    entries = csr_array(
        (np.array(values), np.array([0, 1, 2]), np.array([0, 1, 2, 3])), shape=(3, 3)
    )
    entries.indices[:] = indices
    return entries


@pytest.mark.cases(
    ("wrong", "words"),
    [
        (matrix(1, 2j, 3), "holds complex numbers: give ratings"),
        (matrix(1, 2, 1e300), r"row 2, column 2: the rating 1e\+300 is not a finite number within"),
        (matrix(1, np.nan, 3), "row 1, column 1: the rating nan is not a finite number"),
        (matrix(0, 0, 0), r"stores 3 zeros of 3 entries, which are no .* eliminate_zeros\(\)"),
        (matrix(1, 0, 1), "stores 1 zero of 3 entries"),
        (matrix(1, -1, 3), r'-1 \(in 1 row\) may mark "not rated" beside .* 1 to 3: leave'),
        (matrix(1, 2, 3, indices=(0, 1, 7)), "is damaged .* make it again from its entries"),
        (matrix(1, 2, 3, indices=(0, 1, -1)), "is damaged .* make it again from its entries"),
        (matrix(1, 2, 3)[0], "has 1 dimension: give users"),
    ],
)
def test_a_matrix_that_is_no_data_set_is_refused(wrong: csr_array, words: str) -> None:
    with pytest.raises(DataError, match=f"the sparse matrix.*{words}"):
        given_ratings(wrong)


def test_starts_that_lie_outside_a_matrix_are_refused() -> None:
    wrong = matrix(1, 2, 3)
    wrong.indptr[1] = 9
    with pytest.raises(DataError, match="the sparse matrix is damaged"):
        given_ratings(wrong)


def test_counts_and_dislikes_of_a_matrix_are_kept() -> None:
    assert given_ratings(matrix(1, 2, 500)).value.tolist() == [1, 2, 500]
    assert given_ratings(matrix(1, -1, 1)).value.tolist() == [1, -1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("who,what\n1,2\n", "the item: give a data frame with the columns user_id, item_id and"),
        ("user,item,rating\n1,2,-1\n1,3,4\n2,3,5\n", "beside the ratings 4 to 5: leave these rows"),
    ],
)
def test_what_is_not_clear_in_a_file_has_a_remedy_for_a_program(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "r.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=words) as caught:
        given_ratings(path)
    assert "--" not in str(caught.value)
