"""The neighbouring data sets that trained models are run on."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest

from dpaudit.audits.trained.pairs import size_class, target_pair
from dpaudit.core.claim import Adjacency
from dpaudit.core.errors import DataError
from dpaudit.core.releases import Profile
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.defenses.base import Targets

STARS = Scale()
# User 1 has the fewest ratings, user 2 the most; user 0 has too few to count. Item 4 has one rater,
# item 3 two and item 0 four.
PROFILES = [
    [(0, 3.0)],
    [(0, 5.0), (3, 1.0), (4, 3.0)],
    [(0, 1.0), (1, 2.0), (2, 5.0), (3, 3.0), (5, 4.0)],
    [(0, 2.0), (1, 4.0), (2, 2.0), (5, 1.0)],
]
RUN = [adjacency for adjacency in get_args(Adjacency) if adjacency != "entry-replace"]


def data() -> Ratings:
    return from_profiles(PROFILES, 6, STARS)


def dictionary(profile: Profile) -> dict[int, float]:
    return dict(zip(profile.items.tolist(), profile.values.tolist(), strict=True))


@pytest.mark.cases("adjacency", RUN)
@pytest.mark.cases("seed", range(5))
def test_pairs_are_neighbours_under_the_adjacency(adjacency: Adjacency, seed: int) -> None:
    source = np.random.default_rng(seed)
    user, item = np.nonzero(source.random((12, 9)) < 0.5)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    ratings = Ratings.build(user, item, value, 12, 9, STARS)
    pair, target = target_pair(ratings, adjacency, 2)
    again, _ = target_pair(ratings, adjacency, 2)
    assert pair.before is pair.public is ratings
    assert (pair.after.digest, pair.summary) == (again.after.digest, again.summary)
    assert (pair.after.n_users, pair.after.n_items) == (12, 9)
    differ = []
    for u in range(12):
        old, new = (dictionary(trial.profile(u)) for trial in (pair.before, pair.after))
        if old != new:
            differ.append((u, old, new))
    [(target_user, old, new)] = differ
    assert dictionary(target.before) == old
    assert dictionary(target.after) == new
    assert target.observer != target_user
    np.testing.assert_array_equal(target.items, sorted({*old, *new}))
    counts = np.diff(ratings.by_user.start)
    assert (
        counts[target_user]
        == len(old)
        == (counts.max() if adjacency.startswith("user") else counts[counts > 2].min())
    )
    moved = {item for item in old if old[item] != new.get(item)}
    assert all(1 <= value <= 5 for value in new.values())
    match adjacency:
        case "rating-replace":
            assert len(moved) == 1
            assert new.keys() == old.keys()
        case "rating-add-remove":
            assert len(moved) == 1
            assert new == {item: value for item, value in old.items() if item not in moved}
        case "user-replace":
            assert new.keys() == old.keys() == moved
        case _:
            assert not new


def test_a_rating_moves_as_far_as_one_can() -> None:
    # Of user 1 both 5 and 1 move by 4; item 3 has fewer raters than item 0.
    pair, target = target_pair(data(), "rating-replace", 1)
    assert dictionary(target.before) == {0: 5, 3: 1, 4: 3}
    assert dictionary(target.after) == {0: 5, 3: 5, 4: 3}
    words = "of 3 ratings of one user, that of an item with 2 raters goes from 1 to 5"
    classes = "of at most 10 ratings of one user, that of an item with at most 10 raters "
    assert pair.details == words
    assert pair.summary.startswith(classes)
    assert pair.summary.endswith("the far end of the scale")
    pair, target = target_pair(data(), "rating-add-remove", 1)
    assert dictionary(target.after) == {0: 5, 4: 3}
    assert pair.details == words.replace("goes from 1 to 5", "disappears")
    assert pair.summary == f"{classes}disappears"
    # User 1 is a possible target only if they are learned from.
    pair, target = target_pair(data(), "rating-replace", 3)
    assert dictionary(target.before) == dict(PROFILES[3])
    # Both ends are 4 away: of items 0 and 5 the latter has fewer raters, but only its 1 is far.
    assert dictionary(target.after) == dict(PROFILES[3]) | {5: 5}


def test_a_user_takes_the_far_end_everywhere_or_leaves() -> None:
    pair, target = target_pair(data(), "user-replace", 1)
    assert dictionary(target.before) == dict(PROFILES[2])
    assert dictionary(target.after) == {0: 5, 1: 5, 2: 1, 3: 5, 5: 1}
    assert target.observer == 3
    assert pair.details.startswith("one user with 5 ratings ")
    assert pair.summary.startswith("one user with at most 10 ratings ")
    pair, target = target_pair(data(), "user-add-remove", 1)
    assert len(target.after) == 0
    assert target.items.tolist() == [0, 1, 2, 3, 5]
    assert pair.details == "one user with 5 ratings disappears"


def test_a_buyer_takes_other_items() -> None:
    held = np.array([[1, 1, 1, 0, 0, 0], [1, 0, 0, 0, 1, 0]], bool)
    user, item = np.nonzero(held)
    ratings = Ratings.build(user, item, np.ones(len(user)), 2, 6, Scale(1, 1, 1))
    pair, target = target_pair(ratings, "user-replace", 0)
    assert target.before.items.tolist() == [0, 1, 2]
    assert target.after.items.tolist() == [3, 4, 5]
    assert pair.after.profile(1).items.tolist() == [0, 4]
    everything = Ratings.build(
        np.repeat([0, 1], 3), np.tile(np.arange(3), 2), np.ones(6), 2, 3, Scale(1, 1, 1)
    )
    with pytest.raises(DataError, match="all of the 3 items"):
        target_pair(everything, "user-replace", 0)


def test_sensitive_ratings_are_suspected_and_crowds_preferred_where_asked() -> None:
    source = np.random.default_rng(0)
    rated = source.random((30, 8)) < 0.6
    rated[:, 0] = True
    user, item = np.nonzero(rated)
    sensitive = (item == 3) & (user % 2 == 0) | (item == 0) & (user == 5)
    ratings = Ratings.build(
        user, item, source.integers(1, 6, len(user)).astype(float), 30, 8, Scale(),
        sensitive=sensitive,
    )  # fmt: skip
    for crowded, expected in ((True, {0}), (False, {0, 3})):
        pair, target = target_pair(ratings, "rating-replace", 0, Targets(crowded=crowded))
        assert "which is sensitive" in pair.summary
        [moved] = np.flatnonzero(pair.before.value != pair.after.value)
        assert pair.before.kept_private[moved]
        assert int(pair.before.item[moved]) in expected
        assert len(target.before) == len(target.after)
    allowed = ratings.user == 4
    pair, _ = target_pair(ratings, "rating-replace", 0, Targets(allowed, True))
    [moved] = np.flatnonzero(pair.before.value != pair.after.value)
    assert int(pair.before.user[moved]) == 4
    for crowded in (True, False):
        one = int(np.flatnonzero(sensitive)[-1])
        allowed = np.arange(len(ratings)) == one
        pair, _ = target_pair(ratings, "rating-replace", 0, Targets(allowed, crowded))
        [moved] = np.flatnonzero(pair.before.value != pair.after.value)
        assert moved == one
    with pytest.raises(DataError, match=r"none of the \d+ users .*: do this"):
        target_pair(ratings, "rating-replace", 0, Targets(~sensitive, remedy="do this"))


def test_a_size_is_one_of_few_classes() -> None:
    sizes = (0, 1, 10, 11, 100, 101, 1000, 1001, 10**6)
    assert [size_class(size) for size in sizes] == [
        *["at most 10"] * 3, *["11 to 100"] * 2, *["101 to 1000"] * 2, *["more than 1000"] * 2,
    ]  # fmt: skip


@pytest.mark.cases("adjacency", RUN)
def test_the_summary_names_no_one(adjacency: Adjacency) -> None:
    ratings = data()
    users, items = (
        np.array([f"{kind}-{k}" for k in range(count)], object)
        for kind, count in (("person", 4), ("film", 6))
    )
    named = Ratings.build(
        ratings.user, ratings.item, ratings.value, 4, 6, STARS, user_ids=users, item_ids=items
    )
    pair, _ = target_pair(named, adjacency, 1)
    assert "person" not in pair.summary
    assert "film" not in pair.summary
    assert pair.summary == target_pair(ratings, adjacency, 1)[0].summary


def test_data_without_a_target_or_an_observer_are_refused() -> None:
    for more_than in (5, 100):
        with pytest.raises(DataError, match=f"more than {more_than} .*more data"):
            target_pair(data(), "rating-replace", more_than)
    alone = from_profiles(PROFILES[2:3], 6, STARS)
    with pytest.raises(DataError, match=r"no second user.*more data"):
        target_pair(alone, "rating-replace", 1)
    single = from_profiles([[(0, 1.0)], [(1, 2.0)]], 2, STARS)
    with pytest.raises(DataError, match=r"more than 1 ratings"):
        target_pair(single, "user-replace", 0)
