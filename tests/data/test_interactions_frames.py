"""Data frames of several libraries as ratings."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.interactions import frame_table, given_ratings

VALUES: dict[str, Any] = {
    "user_id": ["b", "a", "a ", "b"],
    "item_id": [3, 3, 11, 11],
    "rating": [1.0, 2.0, 3.0, 5.0],
}
FRAMES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "pandas, nullable types": lambda values: pd.DataFrame(values).convert_dtypes(),
    "pandas, Arrow types": lambda values: pd.DataFrame(values).convert_dtypes(
        dtype_backend="pyarrow"
    ),
    "pandas, categories": lambda values: pd.DataFrame(values).astype("category"),
    "polars": pl.DataFrame,
    "polars, lazy": pl.LazyFrame,
    "polars, categories": lambda values: pl.DataFrame(values).cast({"user_id": pl.Categorical}),
    "polars, wide integers": lambda values: pl.DataFrame(values).cast({"item_id": pl.Int128}),
    "polars, decimals": lambda values: pl.DataFrame(values).cast({"rating": pl.Decimal(5, 2)}),
    "Arrow table": pa.table,
    "Arrow batch": pa.RecordBatch.from_pydict,
    "Arrow reader": lambda values: pa.table(values).to_reader(),
}


@pytest.mark.cases("library", FRAMES)
def test_frames_of_all_libraries_give_the_same_ratings(library: str) -> None:
    ratings = given_ratings(FRAMES[library](VALUES))
    # The users are "a", "a " and "b", and the items 3 and 11.
    assert ratings.user.tolist() == [0, 1, 2, 2]
    assert ratings.item.tolist() == [0, 1, 0, 1]
    assert ratings.value.tolist() == [2, 3, 1, 5]
    assert (ratings.scale.minimum, ratings.scale.maximum) == (1, 5)


def of(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({**{name: values[:3] for name, values in VALUES.items()}, **columns})


@pytest.mark.cases(
    ("users", "count"),
    [
        ([1, "1", 1.0], 1),  # as a text file would hold them
        ([1.0, 2.0, 1.5], 3),
        (["17850", "17850.0", 17850], 1),  # one file of integers, another with a missing value
        (["1", "1.0", "1.1"], 3),  # numbers of versions
        (["a", "1", "1.0"], 3),
        ([2**60, 2**60 + 1, 2**60 + 2], 3),
        ([True, False, True], 2),
        ([b"a", b"b", b"b "], 3),
        (pd.to_datetime(["2020-01-01", "2020-01-01", "2021-01-01"]), 2),
        ([2**100, 2**100 + 1, 7], 3),
    ],
)
def test_ids_are_told_apart_by_their_values(users: Any, count: int) -> None:
    assert given_ratings(of(user_id=users, item_id=[1, 2, 3])).n_users == count


MISSING = {
    "None": [1, None, 3],
    "NaN": [1.0, np.nan, np.nan],
    "NA": pd.array([1, None, None], "Int64"),
    "NaT": pd.to_datetime(["2020-01-01", None, "2021-01-01"]),
    "no category": pd.Categorical(["a", None, "b"]),
    "marker": ["a", "NULL", "b"],
    "blank": ["a", " ", "b"],
}


@pytest.mark.cases("users", MISSING)
def test_a_missing_id_is_refused_with_its_row(users: str) -> None:
    with pytest.raises(DataError, match="the data frame, row 2, column 'user_id'"):
        given_ratings(of(user_id=MISSING[users]))


@pytest.mark.cases("rating", ["x", None, np.inf, "", "1_0", "٣", 10**400])
def test_a_rating_that_is_no_number_is_refused_with_its_row(rating: Any) -> None:
    with pytest.raises(DataError, match=r"row 3, column 'rating': .* not a finite"):
        given_ratings(of(rating=[1.0, 2.0, rating]))


@pytest.mark.cases(
    ("columns", "words"),
    [
        ({"rating": [1.0, 2.0, 1e300]}, r"row 3, column 'rating': the rating 1e\+300 is beyond"),
        ({"quantity": [1, -2, 0]}, "row 2, column 'quantity': the count -2 is no interaction, as"),
        ({"plays": [1, 0, 3]}, "the count 0 is no interaction: leave such rows out"),
        ({"liked": [1, 0, 1]}, "row 2, column 'liked': the rating 0 is no interaction: leave such"),
        ({"rating": [-1, 1, 1]}, "the rating -1 is no interaction"),
        ({"rating": [-1, 4, 5]}, r'-1 \(in 1 row\) may mark "not rated" beside .* 4 to 5: leave'),
        ({"plays": ["1,200", "7", "9"]}, "row 1, column 'plays': the count '1,200' .* write 1200$"),
        (
            {"rating": ["3,5", "4", "5"]},
            "row 1, .* the rating '3,5' .* write decimals with a point",
        ),
        ({"quantity": [1, None, 3]}, "column 'quantity': the count is not a finite number"),
    ],
)
def test_rows_that_are_no_interactions_are_refused(columns: Any, words: str) -> None:
    frame = of(**columns) if "rating" in columns else of(**columns).drop(columns="rating")
    with pytest.raises(DataError, match=words) as caught:
        given_ratings(frame)
    assert "--" not in str(caught.value)


def test_counts_are_interactions() -> None:
    ratings = given_ratings(of(plays=[1, 20, 300]).drop(columns="rating"))
    assert ratings.value.tolist() == [1, 1, 1]


def test_times_that_cannot_be_used_are_counted() -> None:
    ratings = given_ratings(of(timestamp=[1.7e9, 1.7e9, 1.7e12]))
    repair = ratings.repairs[0]
    assert (ratings.time, repair.count) == (None, 3)
    assert repair.what.startswith("times, not used as in row 3 ")


class Nameless:
    """An object whose text is its address."""


@pytest.mark.cases(
    "users",
    [
        [Nameless(), Nameless(), Nameless()],
        pl.Series([Nameless(), Nameless(), Nameless()], dtype=pl.Object),
        [(1, 2), (1, 3), (1, 4)],
    ],
)
def test_objects_are_no_ids(users: Any) -> None:
    columns = {"user_id": users, "item_id": [1, 2, 3]}
    frame = pl.DataFrame(columns) if isinstance(users, pl.Series) else pd.DataFrame(columns)
    with pytest.raises(DataError, match=r"column 'user_id': .* (objects|lists)"):
        given_ratings(frame)


NESTED: list[Any] = [
    pl.DataFrame({**VALUES, "user_id": [{"a": 1}] * 4}),
    of(user_id=[[1], [2], [3]]),
    pl.DataFrame({**VALUES, "user_id": [[1], [2], [3], [4]]}),
    pa.table({**VALUES, "user_id": [{"a": 1}] * 4}),
]


@pytest.mark.cases("frame", NESTED)
def test_lists_and_records_are_no_ids(frame: Any) -> None:
    with pytest.raises(DataError, match=r"column 'user_id': .* lists or records"):
        given_ratings(frame)


def renamed(names: Any) -> pd.DataFrame:
    return of().set_axis(names, axis="columns")


@pytest.mark.cases(
    ("frame", "words"),
    [
        (renamed(["user_id", "user_id", "item_id"]), "give one with distinct names"),
        (renamed(pd.MultiIndex.from_product([["x"], [*VALUES]])), "none is known to hold the user"),
        (renamed([0, 1, 2]), "none is known to hold the user"),
        (
            of().set_index(["user_id", "item_id"]),
            "hold the user or the item: give a data frame with the columns",
        ),
        (pl.Series([1, 2]), r"interactions are one column \(Series\): give a data frame with"),
        (pd.Series([1, 2]), r"interactions are one column \(Series\): give a data frame with"),
        (pd.DataFrame(), "the data frame holds no columns"),
        (VALUES, "interactions are dict"),
    ],
)
def test_what_is_no_frame_of_interactions_is_refused(frame: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        given_ratings(frame)


@pytest.mark.cases("library", ["pandas", "polars, lazy", "Arrow table"])
def test_an_empty_frame_is_refused(library: str) -> None:
    empty: dict[str, Any] = {name: [] for name in VALUES}
    with pytest.raises(DataError, match="holds no ratings"):
        given_ratings(FRAMES[library](empty))


def test_only_the_used_columns_are_read() -> None:
    frame = of(time=[datetime.date(2020, 1, 1)] * 3, tags=[["x"], [], ["y"]])
    read = frame_table(frame)
    assert read is not None
    assert sorted(read[0].cells) == ["item", "rating", "time", "user"]
