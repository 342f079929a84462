from __future__ import annotations

import pytest

from dpaudit.reports import words


@pytest.mark.parametrize(
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
