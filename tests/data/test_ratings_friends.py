from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.core.errors import DataError
from dpaudit.data import Friends, Ratings, Repair, Scale


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def ratings(friends: Friends | None = None, sensitive: list[bool] | None = None) -> Ratings:
    """User 2 rates items 1 and 0, user 0 item 1, given in this order."""
    return Ratings.build(
        ints(2, 2, 0),
        ints(1, 0, 1),
        np.array([5.0, 4.0, 3.0]),
        3,
        2,
        Scale(),
        sensitive=None if sensitive is None else np.array(sensitive),
        friends=friends,
    ).repaired(Repair("x", 2))


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.data())
def test_links_are_those_given(data: st.DataObject) -> None:
    n_users = data.draw(st.integers(1, 6))
    user = st.integers(0, n_users - 1)
    links = data.draw(st.sets(st.tuples(user, user).filter(lambda link: link[0] != link[1])))
    shuffled = data.draw(st.permutations(sorted(links)))
    left, right = np.array(shuffled, np.int64).reshape(-1, 2).T
    friends = Friends.build(left, right, n_users)
    assert len(friends) == len(links)
    assert set(zip(friends.users.tolist(), friends.friend.tolist(), strict=True)) == links
    for one in range(n_users):
        named = friends.friend[friends.start[one] : friends.start[one + 1]]
        assert named.tolist() == sorted(right for user, right in links if user == one)


@pytest.mark.cases(
    ("left", "right", "message"),
    [
        ((0, 3), (1, 0), r"a link's user lies outside 0\.\.2"),
        ((0, -1), (1, 0), "lies outside"),
        ((0, 1), (1, 3), "lies outside"),
        ((0, 1), (1, -1), "lies outside"),
        ((0, 1), (1, 1), "a link leads from a user to themselves"),
        ((0, 1, 0), (1, 0, 1), "a link is repeated"),
    ],
)
def test_what_is_no_link_is_refused(
    left: tuple[int, ...], right: tuple[int, ...], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        Friends.build(ints(*left), ints(*right), 3)


def test_nobody_has_a_friend() -> None:
    for friends in (Friends.none(3), Friends.build(ints(), ints(), 3)):
        assert len(friends) == 0
        assert friends.start.tolist() == [0, 0, 0, 0]


def test_links_cannot_be_changed() -> None:
    friends = Friends.build(ints(0), ints(1), 2)
    for array in (friends.start, friends.friend):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_links_of_other_users_are_refused() -> None:
    with pytest.raises(DataError, match=r"2 users .* of 3"):
        ratings(Friends.none(2))


def test_settings_are_sorted_with_their_ratings() -> None:
    data = ratings(sensitive=[True, False, False])
    assert data.user.tolist() == [0, 2, 2]
    assert data.item.tolist() == [1, 0, 1]
    assert data.sensitive is not None
    assert data.sensitive.tolist() == [False, False, True]
    assert data.kept_private is data.sensitive
    assert ratings().kept_private.tolist() == [False, False, False]


def test_a_part_keeps_settings_links_and_repairs() -> None:
    friends = Friends.build(ints(1), ints(2), 3)
    part = ratings(friends, [True, False, False]).only(np.array([False, True, True]))
    assert part.value.tolist() == [4, 5]
    assert part.kept_private.tolist() == [False, True]
    assert part.friends is friends
    assert part.repairs == (Repair("x", 2),)
    assert np.diff(part.by_user.start).tolist() == [0, 0, 2]
    assert not part.value.flags.writeable
    assert not part.kept_private.flags.writeable


def test_the_digest_tells_settings_and_links_apart() -> None:
    nobody, one = Friends.none(3), Friends.build(ints(1), ints(2), 3)
    plain = ratings()
    others = [
        ratings(sensitive=[False, False, False]),
        ratings(sensitive=[True, False, False]),
        ratings(sensitive=[False, True, False]),
        ratings(nobody),
        ratings(one),
        ratings(Friends.build(ints(2), ints(1), 3)),
        ratings(one, [True, False, False]),
    ]
    assert len({data.digest for data in [plain, *others]}) == 8
    assert ratings().digest == plain.digest
    bare = Ratings.build(plain.user, plain.item, plain.value, 3, 2, Scale())
    assert bare.repairs == ()
    assert bare.digest == plain.digest  # repairs are not part of the digest
