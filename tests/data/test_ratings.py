from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.core.releases import Profile
from dpaudit.data.ratings import Friends, Ratings, Scale, from_profiles

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


def timed() -> Ratings:
    """Ratings with times, ids and features; users a to c, the last without a rating."""
    plain = from_profiles([[(0, 5), (2, 1)], [(1, 4)], []], 3, STARS)
    return replace(
        plain,
        time=np.array([3.0, 1.0, 2.0]),
        user_ids=np.array(["a", "added-0", "c"], object),
        user_features=pd.DataFrame({"age": [20, 30, 40]}),
        item_features=pd.DataFrame({"year": [1, 2, 3]}),
    )


def test_a_row_takes_its_time_with_it() -> None:
    left = timed().only(np.array([False, True, True]))
    assert left.time is not None
    assert left.time.tolist() == [1, 2]
    assert left.user_features is not None
    assert len(left.user_features) == 3


def test_what_new_users_rate_happens_last_and_they_have_ids_and_features() -> None:
    wider = timed().with_users([account((0, 1)), account((2, 5))])
    assert wider.time is not None
    assert wider.time.tolist() == [3, 1, 2, 3, 3]
    assert wider.user_ids is not None
    assert wider.user_ids.tolist() == ["a", "added-0", "c", "added-1", "added-2"]
    assert wider.user_features is not None
    assert wider.user_features["age"].tolist() == [20, 30, 40, 20, 30]
    assert wider.user_features.index.tolist() == list(range(5))
    assert wider.item_features is not None


def test_a_time_that_is_not_finite_is_refused() -> None:
    one = np.zeros(1, np.int32)
    with pytest.raises(DataError, match="a time is not"):
        Ratings.build(one, one, np.ones(1), 1, 1, STARS, time=np.array([np.nan]))


def test_the_digest_covers_times_and_features() -> None:
    ratings = timed()
    digests = {
        ratings.digest,
        replace(ratings, time=None).digest,
        replace(ratings, time=np.array([1.0, 2.0, 3.0])).digest,
        replace(ratings, user_features=None).digest,
        replace(ratings, item_features=None).digest,
    }
    assert len(digests) == 5


def test_no_new_users_are_the_same_ratings() -> None:
    ratings = social()
    assert ratings.with_users([]) is ratings


@pytest.mark.cases("profile", [account((3, 1)), account((0, 6)), account((1, 2), (1, 3))])
def test_new_users_are_checked(profile: Profile) -> None:
    with pytest.raises(DataError):
        social().with_users([profile])


def test_rows_that_are_left_out_leave_no_setting_behind() -> None:
    ratings = social()
    kept = ratings.only(ratings.item != 2)
    assert kept.kept_private.tolist() == [False, False]
    assert replace(kept, sensitive=None).shared.n_users == 3
