from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpaudit.core.errors import DataError
from dpaudit.core.user_profile import Profile
from dpaudit.data.instances import from_profiles
from dpaudit.data.ratings import Friends, Ratings, Scale

STARS = Scale(1, 5, 1)


def social() -> Ratings:
    """Three users, two links, one rating kept private."""
    plain = from_profiles([[(0, 5), (2, 1)], [(1, 4)], [(2, 3)]], 3, STARS)
    return Ratings.build(
        plain.user, plain.item, plain.value, 3, 3, STARS,
        sensitive=np.array([False, True, False, False]),
        friends=Friends.build(np.array([0, 2]), np.array([1, 0]), 3),
    )  # fmt: skip


def account(*ratings: tuple[int, float]) -> Profile:
    items, values = zip(*ratings, strict=True)
    return Profile(np.array(items, np.int32), np.array(values, np.float32))


def test_new_users_come_last_and_keep_every_column_in_step() -> None:
    ratings = social()
    wider = ratings.with_users([account((0, 1), (1, 2)), account((2, 5))])
    assert wider.n_users == 5
    assert len(wider) == len(wider.kept_private) == len(ratings) + 3
    # They share all that they rate, and nobody is their friend.
    assert wider.kept_private.tolist() == [False, True, False, False, False, False, False]
    assert wider.friends is not None
    assert wider.friends.start.tolist() == [0, 1, 1, 2, 2, 2]
    np.testing.assert_array_equal(wider.profile(3).items, [0, 1])
    # The rows are in order, as those of checked ratings are.
    again = Ratings.build(
        wider.user, wider.item, wider.value, 5, 3, STARS,
        sensitive=wider.sensitive, friends=wider.friends,
    )  # fmt: skip
    assert again.digest == wider.digest
    assert not wider.value.flags.writeable


def test_no_new_users_are_the_same_ratings() -> None:
    ratings = social()
    assert ratings.with_users([]) is ratings


@pytest.mark.parametrize("profile", [account((3, 1)), account((0, 6)), account((1, 2), (1, 3))])
def test_new_users_are_checked(profile: Profile) -> None:
    with pytest.raises(DataError):
        social().with_users([profile])


def test_rows_that_are_left_out_leave_no_setting_behind() -> None:
    ratings = social()
    kept = ratings.only(ratings.item != 2)
    assert kept.kept_private.tolist() == [False, False]
    assert replace(kept, sensitive=None).shared.n_users == 3
