"""Neighbouring data sets made from the audited data by changing a target rating or target user."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.trained.trained_game import DataPair
from dpaudit.core.claim import Adjacency
from dpaudit.core.errors import DataError
from dpaudit.core.releases import TargetUser
from dpaudit.core.user_profile import Profile
from dpaudit.data.neighbors import (
    Change,
    RatingRemoved,
    RatingReplaced,
    UserRemoved,
    UserReplaced,
    apply,
)
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import Targets


def target_pair(
    ratings: Ratings,
    adjacency: Adjacency,
    more_than: int,
    targets: Targets | None = None,
) -> tuple[DataPair, TargetUser]:
    """Choose a pair of neighbours in the audited data that is likely to be informative.

    For an adjacency of ratings, the target user is the one with the fewest ratings among those
    learned from, so that each rating weighs most. The changed rating is one of theirs that can move
    farthest, and among these the one on the item with the fewest raters, where the fewest others
    interfere. If some ratings are sensitive, it is one of them. It moves to the far end of the
    scale, or is removed. For an adjacency of users, the target user is the one with the most
    ratings; all of these move to the far end of the scale, or are removed.

    Args:
        ratings: the audited data, data set `D`.
        adjacency: the adjacency.
        more_than: users with more ratings than this are learned from.
        targets: which users may be targets; all by default. If `crowded`, the target user is a
            rater of the item with the most raters, and items with many raters come before ratings
            that can move far.

    Raises:
        DataError: no allowed user has enough ratings, or no other user who could observe.
    """
    if ratings.n_users < 2:
        raise DataError(
            "there is no second user, to whom predictions could be shown: use more data"
        )
    counts = np.diff(ratings.by_user.start)
    of_user = adjacency.startswith("user")
    able = counts > max(more_than, 1)
    if not able.any():
        raise DataError(
            f"no user has more than {max(more_than, 1)} ratings, so there is no target user: "
            "use more data"
        )
    targets = targets or Targets()
    rows, crowded = targets.rows, targets.crowded
    if rows is None:
        rows = np.ones(len(ratings), np.bool_)
    if ratings.kept_private.any() and not of_user:
        rows = rows & ratings.kept_private
    rows = rows & able[ratings.user]
    learned = np.unique(ratings.user[rows])
    if not len(learned):
        raise DataError(
            f"none of the {able.sum()} users with more than {max(more_than, 1)} ratings can be "
            f"the target user: {targets.remedy or 'use more data'}"
        )
    most = counts[learned].max() if of_user else counts[learned].min()
    user = int(learned[counts[learned] == most][0])
    if crowded and not of_user:
        user = _crowded(ratings, rows)
    if of_user:
        change, words = _user(ratings, user, adjacency)
    else:
        change, words = _rating(ratings, user, adjacency, rows[ratings.user == user], crowded)
    after = apply(ratings, change)
    pair = DataPair(ratings, after, ratings, words.summary, words.details)
    observer = _observer(ratings, user)
    return pair, TargetUser(observer, ratings.profile(user), after.profile(user))


def size_class(size: int) -> str:
    """Coarsen a number of ratings or raters, which could identify a user, to one of four classes.

    Returns:
        `at most 10`, `11 to 100`, `101 to 1000` or `more than 1000`.
    """
    classes = ((10, "at most 10"), (100, "11 to 100"), (1000, "101 to 1000"))
    return next((name for top, name in classes if size <= top), "more than 1000")


class _Said(NamedTuple):
    """A description of a pair: with size classes only, and with exact sizes and values."""

    summary: str
    details: str


class _Words(NamedTuple):
    """The start of a sentence about a user, and the sizes that fill its placeholders."""

    begin: str
    sizes: tuple[int, ...]

    def end(self, summary: str, details: str = "") -> _Said:
        return _Said(
            f"{self.begin.format(*map(size_class, self.sizes))} {summary}",
            f"{self.begin.format(*self.sizes)} {details or summary}",
        )


def _observer(ratings: Ratings, user: int) -> int:
    """Return the other user who shares the most items with this one."""
    rated = np.zeros(ratings.n_items, bool)
    rated[ratings.profile(user).items] = True
    shared = np.bincount(ratings.user, rated[ratings.item], ratings.n_users)
    shared[user] = -1
    return int(np.argmax(shared))


def _crowded(ratings: Ratings, allowed: NDArray[np.bool_]) -> int:
    """Return the user with an allowed rating of the item with the most raters."""
    raters = np.bincount(ratings.item, minlength=ratings.n_items)[ratings.item]
    rows = np.flatnonzero(allowed)
    return int(ratings.user[rows[np.argmax(raters[rows])]])


def _rating(
    ratings: Ratings, user: int, adjacency: Adjacency, allowed: NDArray[np.bool_], crowded: bool
) -> tuple[Change, _Said]:
    profile = ratings.profile(user)
    raters = np.bincount(ratings.item, minlength=ratings.n_items)[profile.items]
    far = _opposed(ratings, profile).values
    kept = ratings.kept_private[ratings.user == user]
    moves = -abs(far - profile.values)
    # lexsort sorts by its last key first.
    ranks = (moves, -raters, ~allowed) if crowded else (raters, moves, ~allowed)
    place = int(np.lexsort(ranks)[0])
    item, value = int(profile.items[place]), float(profile.values[place])
    sensitive = ", which is sensitive," if kept[place] else ""
    words = _Words(
        f"of {{}} ratings of one user, that of an item with {{}} raters{sensitive}",
        (len(profile), int(raters[place])),
    )
    if adjacency == "rating-add-remove":
        return RatingRemoved(user, item), words.end("disappears")
    return (
        RatingReplaced(user, item, float(far[place])),
        words.end("goes to the far end of the scale", f"goes from {value:g} to {far[place]:g}"),
    )


def _user(ratings: Ratings, user: int, adjacency: Adjacency) -> tuple[Change, _Said]:
    profile = ratings.profile(user)
    who = _Words("one user with {} ratings", (len(profile),))
    if adjacency == "user-add-remove":
        return UserRemoved(user), who.end("disappears")
    if not ratings.scale.width:  # purchases
        others = np.setdiff1d(np.arange(ratings.n_items), profile.items)[: len(profile)]
        if not len(others):
            raise DataError(
                f"one user has bought all of the {ratings.n_items} items, so there are no others "
                "to take: use more data"
            )
        ones = np.ones(len(others), np.float32)
        change = UserReplaced(user, others.astype(np.int32), ones)
        return change, who.end("has others instead", f"has {len(others)} others instead")
    opposed = _opposed(ratings, profile)
    return (
        UserReplaced(user, profile.items, opposed.values),
        who.end("takes each at the far end of the scale"),
    )


def _opposed(ratings: Ratings, profile: Profile) -> Profile:
    """Move every rating to the end of the scale that is farther away."""
    scale = ratings.scale
    middle = (scale.minimum + scale.maximum) / 2
    values = np.where(profile.values > middle, scale.minimum, scale.maximum).astype(np.float32)
    return Profile(profile.items, values)
