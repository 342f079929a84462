"""Neighbouring data sets for the claims of Liu, Wang & Smola 2015 and of Berlioz et al. 2015.

All are on the scale 1..5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpaudit.audits.trained.pairs import DataPair
from dpaudit.data.instances import Profile, from_profiles


def _pair(
    before: Sequence[Profile],
    after: Sequence[Profile],
    n_items: int,
    summary: str,
    *,
    own_means: bool = False,
    budgets: Sequence[float] | None = None,
) -> DataPair:
    """Return a pair with the same budgets of users.

    The first's statistics are public, unless `own_means` gives each its own.
    """
    shares = None if budgets is None else np.array(budgets)
    first, second = (
        replace(from_profiles(profiles, n_items), budgets=shares) for profiles in (before, after)
    )
    return DataPair(first, second, None if own_means else first, summary)


VALUE = _pair(
    [[(0, 5)]], [[(0, 1)]], 1, "one user, one item, whose rating changes from highest to lowest"
)
ROW = _pair(
    [[(0, 3)]],
    [[(0, 3)], [(0, 3)]],
    1,
    "one user has rated one item with the middle of the scale; another user with the same rating "
    "joins",
)
SECOND_ITEM = _pair(
    [[(0, 5), (1, 5)]],
    [[(0, 5)]],
    2,
    "one user who has given two items the highest rating is replaced by one who has given it to "
    "the first item only",
)
TWO_AFTER_ONE = _pair(
    [[(0, 5)]],
    [[(0, 5), (1, 5)]],
    2,
    "one user who has given one item the highest rating is replaced by one who has given it to two",
)
MANY_AFTER_ONE = _pair(
    [[(0, 5)]],
    [[(item, 5) for item in range(40)]],
    40,
    "one user who has given one of 40 items the highest rating is replaced by one who has given it "
    "to all",
)
FIRST_RATING = _pair(
    [[(0, 3)], []],
    [[(0, 3)], [(0, 5)]],
    1,
    "two users and one item, which one of them has rated with the middle of the scale; the other, "
    "who has rated nothing, gives it the highest rating",
)
QUARTER = _pair(
    [[(0, 5)]],
    [[(0, 1), (1, 1)]],
    2,
    "one user, whose budget is a quarter of ε, has given one of two items the highest rating, and "
    "is replaced by one with the same budget who has given both the lowest",
    budgets=[0.25],
)
NEW_ITEM = _pair(
    [[(0, 3)]],
    [[(0, 3), (1, 5)]],
    2,
    "one user and two items; the user has rated one of them and adds a rating of the other",
)


def recomputed_mean(users: int) -> DataPair:
    """Return the pair of users with one item each, where one rating and the mean change."""
    rest: list[Profile] = [[(user, 3)] for user in range(1, users)]
    return _pair(
        [[(0, 5)], *rest],
        [[(0, 1)], *rest],
        users,
        f"{users} users, each of whom has rated a different item with the middle of the scale, "
        "except one whose rating changes from highest to lowest; the mean is computed from each "
        "data set",
        own_means=True,
    )
