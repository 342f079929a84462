"""Scales of ratings that state none."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.data.readers.load import likely_ratings, occurring, possible_scale, usual_scale


def test_ratings_that_hardly_differ_have_no_usual_scale() -> None:
    for high in (float(np.nextafter(4.0, 5)), 4.0 + 1e-4):
        assert usual_scale(np.array([4.0, high])) is None
        scale = possible_scale(np.array([4.0, high]))
        assert scale is None or scale.maximum == high


def rated(*values: float, first: int = 1) -> list[float]:
    """Return the likely ratings of values in one row each, the lowest one in `first` rows."""
    rows = np.ones(len(values), np.int64)
    rows[0] = first
    return list(likely_ratings(np.array(sorted(values), np.float64), rows))


STARS, TEN, HALVES = [1, 2, 3, 4, 5], [*range(1, 11)], [0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5, 5]
JOKES = [round(-10 + k / 100, 2) for k in range(2001)]


@pytest.mark.cases(
    ("marks", "ratings"),
    [
        ([-1], TEN),
        ([-1], [4, 5]),
        ([-1], [*range(101)]),
        ([-1, 0], TEN),
        ([-999, -1], STARS),
        ([0], STARS),
        ([0], TEN),
        ([0], HALVES),
        ([9], STARS),
        ([99], [1, 2, 3]),
        ([98, 99], STARS),
        ([99], [*range(-10, 11)]),
        ([99], JOKES),
        ([255], [*range(101)]),
        ([1e300], STARS),
    ],
)
def test_values_that_may_mark_not_rated_are_no_likely_ratings(
    marks: list[float], ratings: list[float]
) -> None:
    assert rated(*marks, *ratings) == ratings


@pytest.mark.cases(
    "ratings",
    [
        *(STARS, TEN, HALVES, JOKES, [*range(101)], [0, 20, 40, 60, 80, 100], [0, 1, 2, 3, 4]),
        *([-1, 0, 1], [-1, 1], [0, 1], [1], [1, 2, 5], [1, 3, 4, 5], [1, 2, 3, 5], [0, 1, 5]),
        *([-2, -1, 1, 2, 3], [0.5, 2, 2.5, 3, 3.5, 4, 4.5, 5], [-9.5, 0, 9.99]),
    ],
)
def test_usual_scales_have_likely_ratings_alone(ratings: list[float]) -> None:
    assert rated(*ratings) == ratings


def test_a_zero_in_most_rows_may_mark_not_rated() -> None:
    assert rated(*range(101), first=2) == [*range(1, 101)]


def test_rows_of_each_value_are_counted_without_those_that_have_none() -> None:
    codes = np.array([0, 1, 2, 0, -1, 3], np.int32)
    values, rows = occurring(np.array([2.0, 1.0, 2.0, np.nan, 7.0]), codes)
    assert values.tolist() == [1, 2]
    assert rows.tolist() == [1, 3]
