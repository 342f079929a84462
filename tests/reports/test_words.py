from __future__ import annotations

import pytest

from dpaudit.core import rounding
from dpaudit.reports import words


@pytest.mark.cases(
    ("count", "said"),
    [(0, 0), (7, 7), (99, 99), (104, 100), (26318, 26000), (19_960_000, 20_000_000)],
)
def test_counts_of_two_digits(count: int, said: int) -> None:
    assert words.about(count) == said


def test_meanings_of_adjacencies_and_observers() -> None:
    assert words.meaning("user-replace") == "user-replace: all ratings of one user are replaced"
    assert words.meaning("public") == "public: the released model"
    assert words.meaning("own-list") == "own-list: the list shown to the target's user"
    assert words.meaning("as given") == "as given"


@pytest.mark.cases(
    ("value", "said", "least", "most"),
    [
        (0.1234567, "0.123", "0.123", "0.124"),
        (0.00123456, "0.0012", "0.0012", "0.0013"),
        (0.000123, "0.00012", "0.00012", "0.00013"),
        (1.72e-12, "1.7e-12", "1.7e-12", "1.8e-12"),
        (-1.72e-12, "-1.7e-12", "-1.8e-12", "-1.7e-12"),
        (9.99e-5, "1.0e-4", "9.9e-5", "1.0e-4"),
        (0.0, "0", "0", "0"),
    ],
)
def test_small_numbers_are_short_and_bounds_stay_bounds(
    value: float, said: str, least: str, most: str
) -> None:
    assert rounding.measured(value) == said
    assert rounding.at_least(value) == least
    assert rounding.at_most(value) == most
