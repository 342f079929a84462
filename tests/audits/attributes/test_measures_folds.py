"""Classes of users and their folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit.audits.attributes.measures import FOLDS, Attribute, attribute_of, folds_of
from dpaudit.core.errors import DataError
from dpaudit.data.ratings import Ratings, Scale


def with_column(values: Sequence[Any]) -> Ratings:
    users = np.arange(len(values))
    ratings = Ratings.build(users, 0 * users, np.ones(len(users)), len(users), 1, Scale(1, 1, 1))
    object.__setattr__(ratings, "user_features", pd.DataFrame({"age": values}))
    return ratings


def classes(values: Sequence[Any], bounds: Sequence[float] | None = None) -> list[int]:
    return list(attribute_of(with_column(values), "age", bounds).classes)


def test_numbers_are_classes_at_their_median_or_at_given_bounds() -> None:
    ages = [float(age) for age in range(60)]
    assert classes(ages) == [0] * 30 + [1] * 30
    assert classes(ages, [20.0, 40.0]) == [0] * 20 + [1] * 20 + [2] * 20


def test_texts_and_two_numbers_are_classes_and_nothing_is_minus_one() -> None:
    assert classes(["b", "a"] * 20) == [1, 0] * 20
    assert classes([7.0, 3.0] * 20 + [float("nan")]) == [1, 0] * 20 + [-1]
    assert classes([*["b", "a"] * 20, None]) == [1, 0] * 20 + [-1]


@pytest.mark.cases(
    ("values", "bounds", "words"),
    [
        (["a"] * 50, None, "has 1 class of users"),
        (["a"] * 50 + ["b"] * 3, None, "one of them with 3 users, and each needs 20"),
        (["a"] * 50 + ["b"] * 3, None, r"^attributes\.column = 'age' .*: merge 'b' with another"),
        ([3.0] * 50 + [9.0] * 3, None, r"merge 9 with .*set attributes\.classes\.age"),
        (["a", "b"] * 30, [1.0], r"^attributes\.classes\.age .* holds texts: remove the bounds"),
        ([None] * 50, None, "has 0 classes of users"),
    ],
)
def test_a_column_that_cannot_be_guessed_is_one_sentence(
    values: list[Any], bounds: list[float] | None, words: str
) -> None:
    with pytest.raises(DataError, match=words):
        attribute_of(with_column(values), "age", bounds)


def test_folds_have_the_same_classes_up_to_one_user() -> None:
    attribute = Attribute("gender", np.repeat([0, 1, -1], [101, 57, 20]))
    folds = folds_of([attribute], 3)
    for kind in (0, 1):
        counts = np.bincount(folds[attribute.classes == kind], minlength=FOLDS)
        assert np.ptp(counts) <= 1
    assert (folds != folds_of([attribute], 4)).any()
