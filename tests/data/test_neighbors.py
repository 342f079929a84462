from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.core.errors import DataError
from dpaudit.data import (
    Change,
    Friends,
    RatingAdded,
    RatingRemoved,
    RatingReplaced,
    Ratings,
    Repair,
    Scale,
    UserRemoved,
    UserReplaced,
    apply,
)

I32, F32 = np.int32, np.float32


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, dtype=I32)


def floats(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, dtype=F32)


def small() -> Ratings:
    """User 0 rates items 0 and 2, user 1 item 1, user 2 nothing."""
    return Ratings.build(
        ints(0, 0, 1),
        ints(0, 2, 1),
        floats(3, 4, 5),
        3,
        4,
        Scale(),
        np.array(["a", "b", "c"], dtype=object),
        np.array(["w", "x", "y", "z"], dtype=object),
    )


def triples(ratings: Ratings) -> set[tuple[int, int, float]]:
    rows = zip(ratings.user, ratings.item, ratings.value, strict=True)
    return {(int(user), int(item), float(value)) for user, item, value in rows}


CHANGES: list[tuple[Change, set[tuple[int, int, float]]]] = [
    (RatingReplaced(0, 2, 1), {(0, 0, 3), (0, 2, 1), (1, 1, 5)}),
    (RatingAdded(2, 3, 2), {(0, 0, 3), (0, 2, 4), (1, 1, 5), (2, 3, 2)}),
    (RatingRemoved(0, 0), {(0, 2, 4), (1, 1, 5)}),
    (UserRemoved(0), {(1, 1, 5)}),
    (UserReplaced(0, ints(1), floats(2)), {(0, 1, 2), (1, 1, 5)}),
    (UserReplaced(2, ints(1), floats(2)), {(0, 0, 3), (0, 2, 4), (1, 1, 5), (2, 1, 2)}),
]


@pytest.mark.cases(("change", "after"), CHANGES)
def test_each_change(change: Change, after: set[tuple[int, int, float]]) -> None:
    ratings = small()
    digest, before = small().digest, triples(ratings)
    changed = apply(ratings, change)
    assert triples(changed) == after
    assert triples(ratings) == before
    assert Ratings.build(ratings.user, ratings.item, ratings.value, 3, 4, Scale()).digest == digest
    assert not changed.value.flags.writeable
    assert changed.n_users == 3
    assert changed.user_ids is ratings.user_ids
    assert changed.item_ids is ratings.item_ids


# The settings after each change, of (user, item) sensitive before: (0, 2) and (1, 1).
SETTINGS: list[tuple[Change, set[tuple[int, int]]]] = [
    (RatingReplaced(0, 2, 1), {(0, 2), (1, 1)}),
    (RatingReplaced(0, 0, 1), {(0, 2), (1, 1)}),
    (RatingAdded(2, 2, 2), {(0, 2), (1, 1)}),
    (RatingRemoved(0, 0), {(0, 2), (1, 1)}),
    (RatingRemoved(0, 2), {(1, 1)}),
    (UserRemoved(0), {(1, 1)}),
    (UserReplaced(0, ints(2, 1), floats(2, 2)), {(0, 2), (1, 1)}),
    (UserReplaced(1, ints(2), floats(2)), {(0, 2)}),
    (UserReplaced(2, ints(2, 1), floats(2, 2)), {(0, 2), (1, 1)}),
]


@pytest.mark.cases(("change", "private"), SETTINGS)
def test_each_change_keeps_settings_and_friends(
    change: Change, private: set[tuple[int, int]]
) -> None:
    friends, plain = Friends.build(ints(0, 2), ints(1, 0), 3), small()
    ratings = Ratings.build(
        plain.user,
        plain.item,
        plain.value,
        3,
        4,
        Scale(),
        sensitive=np.array([False, True, True]),
        friends=friends,
    ).repaired(Repair("x", 1))
    changed = apply(ratings, change)
    kept = changed.kept_private
    rows = zip(changed.user[kept].tolist(), changed.item[kept].tolist(), strict=True)
    assert set(rows) == private
    assert len(kept) == len(changed)
    assert changed.repairs == ratings.repairs
    assert changed.friends is not None
    assert len(changed.friends.start) == changed.n_users + 1
    assert changed.friends.users.tolist() == friends.users.tolist()
    assert changed.friends.friend.tolist() == friends.friend.tolist()
    unknown = apply(plain, change)
    assert unknown.sensitive is None
    assert unknown.friends is None
    assert unknown.time is None


@pytest.mark.cases("change", [change for change, _ in SETTINGS])
def test_each_change_keeps_times_and_features(change: Change) -> None:
    plain = small()
    times = {(u, i): 10.0 * u + i for u, i in zip(plain.user, plain.item, strict=True)}
    features = pd.DataFrame({"age": [1, 2, 3]})
    ratings = replace(plain, time=np.array([*times.values()]), user_features=features)
    changed = apply(ratings, change)
    assert changed.time is not None
    rows = zip(changed.user, changed.item, changed.time, strict=True)
    last = max(times.values())
    assert all(time == times.get((user, item), last) for user, item, time in rows)
    assert changed.user_features is features


@pytest.mark.cases(
    ("change", "message"),
    [
        (RatingReplaced(0, 1, 3), "user 0 has not rated item 1"),
        (RatingReplaced(0, 0, 3), "rates item 0 3 already"),
        (RatingReplaced(0, 0, 3.5), "the rating 3.5 is not on the scale 1..5 with step 1"),
        (RatingReplaced(0, 0, 6), "the rating 6 is not on the scale"),
        (RatingReplaced(0, 0, float("nan")), "is not on the scale"),
        (RatingReplaced(3, 0, 1), "user 3 lies outside 0..2"),
        (RatingReplaced(-1, 0, 1), "user -1 lies outside 0..2"),
        (RatingAdded(0, 0, 1), "user 0 has rated item 0"),
        (RatingAdded(0, 4, 1), "item 4 lies outside 0..3"),
        (RatingAdded(0, 1, 0), "the rating 0 is not on the scale"),
        (RatingRemoved(2, 1), "user 2 has not rated item 1"),
        (UserRemoved(2), "user 2 has no ratings"),
        (UserRemoved(3), "user 3 lies outside"),
        (UserReplaced(0, ints(), floats()), "give at least one item"),
        (UserReplaced(0, ints(0, 1), floats(3)), "one value for each"),
        (UserReplaced(0, ints(0, 0), floats(3, 4)), "an item is repeated"),
        (UserReplaced(0, ints(4), floats(3)), "an item lies outside 0..3"),
        (UserReplaced(0, ints(0), floats(9)), "the rating 9 is not on the scale"),
        (UserReplaced(0, ints(2, 0), floats(4, 3)), "has these ratings already"),
        (UserReplaced(3, ints(0), floats(3)), "user 3 lies outside"),
    ],
)
def test_impossible_changes_are_named(change: Change, message: str) -> None:
    with pytest.raises(DataError, match=message):
        apply(small(), change)


def test_changes_keep_their_own_arrays() -> None:
    items, values = ints(0, 1), floats(3, 4)
    change = UserReplaced(0, items, values)
    items[0] = 2
    assert change.items[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        change.values[0] = 1


@st.composite
def ratings_and_change(draw: st.DrawFn) -> tuple[Ratings, Change]:
    n_users, n_items = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    scale = draw(st.sampled_from([Scale(), Scale(0.5, 4, 0.5), Scale(1, 3, 0.1)]))
    rated = draw(st.sets(st.integers(0, n_users * n_items - 1), min_size=1))
    pairs = [divmod(cell, n_items) for cell in sorted(rated)]
    level = st.sampled_from(scale.values.tolist())
    values = [draw(level) for _ in pairs]
    ratings = Ratings.build(
        ints(*(u for u, _ in pairs)),
        ints(*(i for _, i in pairs)),
        floats(*values),
        n_users,
        n_items,
        scale,
    )
    user, item = draw(st.sampled_from(pairs))
    any_user = draw(st.integers(0, n_users - 1))
    new_items = draw(st.lists(st.integers(0, n_items - 1), min_size=1, unique=True))
    new_values = floats(*(draw(level) for _ in new_items))
    choices: list[Change] = [
        RatingReplaced(user, item, draw(level)),
        RatingAdded(any_user, draw(st.integers(0, n_items - 1)), draw(level)),
        RatingRemoved(user, item),
        UserRemoved(user),
        UserReplaced(any_user, ints(*new_items), new_values),
    ]
    return ratings, draw(st.sampled_from(choices))


@settings(deadline=None, max_examples=50, derandomize=True)
@given(ratings_and_change())
def test_only_the_changed_user_differs(case: tuple[Ratings, Change]) -> None:
    ratings, change = case
    try:
        changed = apply(ratings, change)
    except DataError:
        return  # the change happened to be impossible
    assert changed.digest != ratings.digest
    differing = triples(changed) ^ triples(ratings)
    assert {user for user, _, _ in differing} == {change.user}
