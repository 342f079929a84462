from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.data import Friends, Ratings, Scale
from dpaudit.data.ratings import from_profiles
from dpaudit.defenses.social.rows import friends_similarity


def by_hand(ratings: Ratings, friends: Friends) -> list[float]:
    """Evaluate the definition directly, by loops over links and items."""
    cosines = []
    given = {
        (int(u), int(j)): float(r)
        for u, j, r in zip(ratings.user, ratings.item, ratings.value, strict=True)
    }
    for i, f in zip(friends.users.tolist(), friends.friend.tolist(), strict=True):
        both = [j for j in range(ratings.n_items) if (i, j) in given and (f, j) in given]
        top = sum(given[i, j] * given[f, j] for j in both)
        squares = sum(given[i, j] ** 2 for j in both) * sum(given[f, j] ** 2 for j in both)
        cosines.append(top / math.sqrt(squares) if squares else 0.0)
    return cosines


@st.composite
def cases(draw: st.DrawFn) -> tuple[Ratings, Friends]:
    n_users, n_items = draw(st.integers(2, 6)), draw(st.integers(1, 5))
    scale = draw(st.sampled_from([Scale(), Scale(-2, 2, 1), Scale(0.5, 4, 0.5)]))
    level = st.sampled_from(scale.values.tolist())
    rated = st.dictionaries(st.integers(0, n_items - 1), level)
    profiles = [list(draw(rated).items()) for _ in range(n_users)]
    profiles[0] = profiles[0] or [(0, scale.maximum)]
    user = st.integers(0, n_users - 1)
    links = draw(st.sets(st.tuples(user, user).filter(lambda link: link[0] != link[1])))
    left, right = np.array(sorted(links), np.int64).reshape(-1, 2).T
    return from_profiles(profiles, n_items, scale), Friends.build(left, right, n_users)


@pytest.mark.long
@settings(deadline=None, max_examples=60, derandomize=True)
@given(cases())
def test_is_the_cosine_over_common_items(case: tuple[Ratings, Friends]) -> None:
    ratings, friends = case
    assert friends_similarity(ratings, friends) == pytest.approx(by_hand(ratings, friends))


def test_only_common_items_count() -> None:
    ratings = from_profiles([[(0, 3), (1, 4), (2, 5)], [(0, 4), (1, 3)], [(3, 2)]], 4, Scale())
    friends = Friends.build(np.array([0, 1, 0]), np.array([1, 0, 2]), 3)
    assert friends_similarity(ratings, friends) == pytest.approx([24 / 25, 0, 24 / 25])


def test_many_users_are_compared_as_by_hand() -> None:
    rng = np.random.default_rng(0)
    given = rng.random((20, 15)) < 0.4
    profiles = [[(int(j), float(rng.integers(1, 6))) for j in np.flatnonzero(row)] for row in given]
    ratings = from_profiles(profiles, 15, Scale())
    left, right = np.nonzero(rng.random((20, 20)) < 0.3)
    friends = Friends.build(left[left != right], right[left != right], 20)
    whole = friends_similarity(ratings, friends)
    assert (whole > 0).sum() > 50
    assert whole == pytest.approx(by_hand(ratings, friends))


def test_nobody_has_a_friend() -> None:
    ratings = from_profiles([[(0, 3)], [(0, 3)]], 1, Scale())
    assert friends_similarity(ratings, Friends.none(2)).shape == (0,)
