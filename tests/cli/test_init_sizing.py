"""Sizes of a first audit fit the data, or the data are refused."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.cli.init import defense_sizes, least_raters
from dpaudit.core.errors import DataError
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.source import SyntheticParams
from dpaudit.data.synthetic import generate


def drawn(users: int, items: int, share: float, values: tuple[float, ...] = (1, 2, 3)) -> Ratings:
    rng = np.random.default_rng(2)
    user, item = np.nonzero(rng.random((users, items)) < share)
    scale = Scale(min(values), max(values), 1)
    return Ratings.build(user, item, rng.choice(values, len(user)), users, items, scale)


def test_the_sizes_of_the_generated_ratings_are_the_usual_ones() -> None:
    sizes = defense_sizes(generate(SyntheticParams()), "")
    assert (sizes.min_ratings, sizes.min_co_ratings, sizes.top_k) == (20, 10, 20)


@pytest.mark.cases(("users", "items", "share"), [(60, 30, 0.3), (200, 12, 0.4), (90, 400, 0.02)])
def test_sizes_leave_users_to_attack(users: int, items: int, share: float) -> None:
    ratings = drawn(users, items, share)
    sizes = defense_sizes(ratings, "")
    counts = np.diff(ratings.by_user.start)
    served = (counts > sizes.min_ratings) & (counts < items - sizes.top_k)
    assert served.mean() > 0.2
    assert 2 <= sizes.min_co_ratings <= sizes.min_ratings


def test_the_gate_is_above_the_best_constant_guess() -> None:
    ratings = drawn(80, 40, 0.3, (1, 2, 3, 3, 3, 3))
    most = (ratings.value == 3).mean()
    assert most + 0.05 < defense_sizes(ratings, "").accuracy < most + 0.25


def test_few_enough_items_are_left() -> None:
    assert least_raters(drawn(20, 500, 0.1)) == 1
    ratings = drawn(30, 6000, 0.3)
    least = least_raters(ratings)
    left = int((np.diff(ratings.by_item.start) >= least).sum())
    assert 1000 < left <= 4000


@pytest.mark.cases(("users", "items", "share"), [(1, 50, 0.5), (20, 30, 0.5), (60, 5, 1.0)])
def test_too_few_data_are_refused(users: int, items: int, share: float) -> None:
    with pytest.raises(DataError, match=r"^here: of \d+ users, [0-4] can be attacked"):
        defense_sizes(drawn(users, items, share), "here: ")
