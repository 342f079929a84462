"""Neighbouring data sets for the claims of Wang & Tang 2017, on the scale 1..5.

The data sets differ in the ratings of user 0. Item means are public and come from a separate data
set, unless stated otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpaudit.audits.trained.pairs import DataPair
from dpaudit.data.neighbors import Change, RatingReplaced, UserReplaced, apply
from dpaudit.data.ratings import Ratings, from_profiles

Profile = Mapping[int, float]
# Profiles, each with the number of users who share it.
Crowd = Sequence[tuple[Profile, int]]


def _ratings(profiles: Sequence[Profile], items: int) -> Ratings:
    return from_profiles([list(profile.items()) for profile in profiles], items)


def _pair(
    victim: Profile, others: Crowd, change: Change, items: int, public: Ratings | None, summary: str
) -> DataPair:
    crowd = [profile for profile, count in others for _ in range(count)]
    before = _ratings([victim, *crowd], items)
    return DataPair(before, apply(before, change), public, summary)


def replaced(profile: Profile) -> UserReplaced:
    """Return the change that replaces user 0's ratings by `profile`."""
    items = np.array(list(profile), np.int32)
    return UserReplaced(0, items, np.array(list(profile.values()), np.float32))


def means_of(*profile: float) -> Ratings:
    """Return public data whose item means are these ratings."""
    return _ratings([dict(enumerate(profile))], len(profile))


def near_one(items: int) -> Ratings:
    """Return public data with all item means 1.05: nineteen users rate 1 and one rates 2."""
    return _ratings([dict.fromkeys(range(items), value) for value in [1.0] * 19 + [2.0]], items)


def _split(size: int) -> dict[int, float]:
    """Return a profile of items 1 to n: the first half rated lowest, the second half highest."""
    return {item: 1.0 if item <= size // 2 else 5.0 for item in range(1, size + 1)}


def one_rating(size: int) -> DataPair:
    """Return P1: a single user whose rating of item 0 moves from end to end; the means are 3."""
    return _pair(
        {0: 1.0, **_split(size)},
        (),
        RatingReplaced(0, 0, 5.0),
        size + 1,
        means_of(*[3] * (size + 1)),
        f"a user has rated {size} items, half lowest and half highest, and one more, whose rating "
        "changes from lowest to highest; the means are 3",
    )


def sampled(size: int) -> DataPair:
    """Return P2: P1 with other users, whose gradients are 0, so that there are 10 ratings."""
    flat = dict.fromkeys(range(size + 1), 3.0)
    others: Crowd = ((flat, 1),)
    if size == 2:
        others = ((flat, 1), (dict.fromkeys(range(4), 3.0), 1))
    items = 4 if size == 2 else size + 1
    return _pair(
        {0: 1.0, **_split(size)},
        others,
        RatingReplaced(0, 0, 5.0),
        items,
        means_of(*[3] * items),
        f"a user has rated {size} items, half lowest and half highest, and one more, whose rating "
        "changes from lowest to highest; with others, who rate everything 3, there are 10 ratings, "
        "of which one is drawn; the means are 3",
    )


def recomputed(size: int, raters: int) -> DataPair:
    """Return P1 with `raters` other raters of item 0, where each data set has its own means."""
    mine = _split(size)
    opposite = {item: 6 - value for item, value in mine.items()}
    return _pair(
        {0: 1.0, **mine},
        (({0: 3.0, **opposite}, raters), ({**mine, size + 1: 3.0}, raters - 1)),
        RatingReplaced(0, 0, 5.0),
        size + 2,
        None,
        f"a rating changes from lowest to highest, and with it the mean of the item, which has "
        f"{raters} other raters; all other means are 3",
    )


def whole_user(others: int) -> DataPair:
    """Return the worst pair of the corrected steps: opposite gradients, all others as in D'.

    With three items, an item's row of the gradient is its error times the difference of the other
    two ratings, with opposite signs. Swapping two ratings reverses all three rows: a shift of 2c on
    six coordinates, the fewest possible.
    """
    mine, theirs = {0: 1.0, 1: 2.0, 2: 5.0}, {0: 1.0, 1: 5.0, 2: 2.0}
    return _pair(
        mine,
        ((theirs, others),),
        replaced(theirs),
        3,
        means_of(*[3] * 3),
        "a user with the ratings 1, 2, 5 of three items is replaced by one with 1, 5, 2, as "
        f"{others} {'other has' if others == 1 else 'others have'}: every gradient is reversed",
    )


def signs(against: int, for_it: int) -> DataPair:
    """Return P3: two items rated 5 are replaced by two others; other users make the signs rare.

    Args:
        against: number of users who rate items 0 and 1 at opposite ends.
        for_it: number of users who rate items 2 and 3 highest.
    """
    half = against // 2
    crowd: Crowd = (
        ({0: 5.0, 1: 1.0}, against - half),
        ({0: 1.0, 1: 5.0}, half),
        ({2: 5.0, 3: 5.0}, for_it),
    )
    return _pair(
        {0: 5.0, 1: 5.0},
        crowd,
        replaced({2: 5.0, 3: 5.0}),
        4,
        near_one(4),
        f"a user who rates two items 5 is replaced by one who rates two others 5; {against} users "
        f"rate the first two at opposite ends and {for_it} the other two 5; the means are 1.05",
    )


def signs_alone(for_it: int) -> DataPair:
    """Return P3 without means, which needs no other raters of the first two items."""
    return _pair(
        {0: 5.0, 1: 5.0},
        (({2: 5.0, 3: 5.0}, for_it),),
        replaced({2: 5.0, 3: 5.0}),
        4,
        means_of(3, 3, 3, 3),
        "a user who rates two items 5 is replaced by one who rates two others 5, as "
        f"{for_it} others do",
    )


def three_items(for_it: int) -> DataPair:
    """Return the pair with three items in place of two, which a chain of small steps can learn."""
    mine, theirs = dict.fromkeys(range(3), 5.0), dict.fromkeys(range(3, 6), 5.0)
    return _pair(
        mine,
        ((theirs, for_it),),
        replaced(theirs),
        6,
        means_of(*[3] * 6),
        f"a user who rates three items 5 is replaced by one who rates three others 5, as {for_it} "
        "others do",
    )


def opposite(means: Sequence[float]) -> DataPair:
    """Return P4: a single user, all of whose three ratings move from end to end."""
    return _pair(
        {0: 5.0, 1: 1.0, 2: 5.0},
        (),
        replaced({0: 1.0, 1: 5.0, 2: 1.0}),
        3,
        means_of(*means),
        "the only user, with the ratings 5, 1, 5, is replaced by one with 1, 5, 1",
    )


def one_of_two(against: int) -> DataPair:
    """Return P5: one of two ratings changes from 5 to 1; others rate both at opposite ends."""
    half = against // 2
    crowd: Crowd = (({0: 5.0, 1: 1.0}, against - half), ({0: 1.0, 1: 5.0}, half))
    return _pair(
        {0: 5.0, 1: 5.0},
        crowd,
        RatingReplaced(0, 0, 1.0),
        2,
        near_one(2),
        f"one of a user's two ratings changes from 5 to 1; {against} others rate the two items at "
        "opposite ends; the means are 1.05",
    )


# Other users with ratings of up to three items, who make the loss of P5 with three items visible.
_PINS: Crowd = (
    ({1: 1.0, 2: 5.0}, 101),
    ({1: 5.0, 2: 1.0}, 13),
    ({0: 1.0, 2: 1.0}, 60),
    ({0: 1.0, 2: 5.0}, 43),
    ({0: 1.0, 1: 1.0}, 1),
    ({0: 1.0, 1: 1.0, 2: 1.0}, 60),
    ({0: 1.0, 1: 1.0, 2: 5.0}, 85),
    ({0: 1.0, 1: 5.0}, 44),
    ({0: 1.0, 1: 5.0, 2: 1.0}, 47),
    ({0: 5.0, 1: 1.0}, 11),
)


def one_of_three() -> DataPair:
    """Return P5 with three items; the other users were found by search."""
    return _pair(
        dict.fromkeys(range(3), 5.0),
        _PINS,
        RatingReplaced(0, 0, 1.0),
        3,
        near_one(3),
        "one of a user's three ratings changes from 5 to 1; 465 others have rated two or three of "
        "the items; the means are 1.05",
    )


PARTS = (
    one_of_three,
    one_of_two,
    one_rating,
    opposite,
    recomputed,
    sampled,
    signs,
    signs_alone,
    three_items,
    whole_user,
)
