"""Features: which rows are alike, which columns are asked about, and what a time says."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audits.scores.observational import FeatureKind, Features
from dpaudit.core.errors import InputError


def test_rows_are_alike_by_all_columns_but_groups() -> None:
    values = np.array([[0.0, 1, 5], [-0.0, 1, 6], [0.0, 2, 5], [1e-9, 1, 5]])
    numbers = Features(values, {2: "group"}).equal()
    assert numbers[0] == numbers[1]
    assert len({numbers[0], numbers[2], numbers[3]}) == 3


def test_one_row_of_each_group_is_kept() -> None:
    values = np.array([[0.0, 7], [1, 8], [2, 7], [3, 9], [4, 8]])
    assert Features(values, {1: "group"}).alone().tolist() == [0, 1, 3]
    assert Features(values, {}).alone().tolist() == [0, 1, 2, 3, 4]


@pytest.mark.cases(
    ("values", "asked"),
    [
        (np.arange(600) % 7, True),
        (np.arange(600) % 50, True),
        (np.arange(600) % 51, False),
        (np.arange(600) % 2, False),
        (np.arange(600) % 7 + 0.5, False),
        (np.zeros(600), False),
    ],
)
def test_whole_numbers_of_few_values_are_asked_about(values: np.ndarray, asked: bool) -> None:
    features = Features(values.astype(float)[:, None], {})
    assert (features.unsaid() is not None) is asked
    for kind in ("number", "category"):
        assert Features(features.values, {0: kind}).unsaid() is None


def test_a_time_gives_hour_weekday_and_trend() -> None:
    times = np.array([0.0, 13.5 * 3600, 86400 * 4 + 60])  # Thursday, Thursday, Monday
    columns, codes = Features(times[:, None], {0: "time"}).columns()
    assert columns[:, 0].tolist() == [0, 13, 0]
    assert columns[0, 1] == columns[1, 1] != columns[2, 1]
    assert columns[:, 2].tolist() == times.tolist()
    assert codes.tolist() == [True, True, False]


@pytest.mark.cases("kinds", [{2: "number"}, {-1: "number"}, {0: "word"}, {0: "group", 1: "group"}])
def test_kinds_that_do_not_fit_are_refused(kinds: dict[int, FeatureKind]) -> None:
    with pytest.raises(InputError):
        Features(np.zeros((3, 2)), kinds)
