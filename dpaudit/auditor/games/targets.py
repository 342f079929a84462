"""Neighbouring data sets made of the audited data: the rating or the user who is in doubt."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.trained import DataPair
from dpaudit.core.claim import Adjacency
from dpaudit.core.errors import DataError
from dpaudit.core.profile import Profile
from dpaudit.core.releases import TargetUser
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
    """A pair that is likely to show much: neighbours under this adjacency, in the audited data.

    Of a rating: the user with the fewest ratings that are learned from, so that each weighs most;
    of hers that can move farthest, and of these that on the item with the fewest raters, where the
    fewest others interfere. It takes the value at the far end of the scale, or disappears; where
    some ratings are sensitive it is one of them. Of a user: the one with the most ratings; each of
    hers goes to the far end of the scale, or all disappear.

    Args:
        ratings: the audited data, world `D`.
        adjacency: what neighbours are.
        more_than: users with more ratings than this are learned from.
        targets: which users may be in doubt; all unless given. Where they are `crowded` it is a
            rater of the item with the most raters, and how far the rating may move comes second.

    Raises:
        DataError: no user has so many ratings or is allowed, or there is no other user to watch.
    """
    if ratings.n_users < 2:
        raise DataError("there is one user, and none to be shown predictions: use more data")
    counts = np.diff(ratings.by_user.start)
    of_user = adjacency.startswith("user")
    able = counts > max(more_than, 1)
    if not able.any():
        raise DataError(
            f"no user has more than {max(more_than, 1)} ratings, so there is nobody to suspect: "
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
            f"suspected: {targets.remedy or 'use more data'}"
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
    watcher = _watcher(ratings, user)
    return pair, TargetUser(watcher, ratings.profile(user), after.profile(user))


def size_class(size: int) -> str:
    """A number of ratings or raters as one of four classes: the number itself may tell who it is.

    Returns:
        `at most 10`, `11 to 100`, `101 to 1000` or `more than 1000`.
    """
    classes = ((10, "at most 10"), (100, "11 to 100"), (1000, "101 to 1000"))
    return next((name for top, name in classes if size <= top), "more than 1000")


class _Said(NamedTuple):
    """A pair in one sentence, in classes of sizes alone, and with its sizes and values."""

    summary: str
    details: str


class _Words(NamedTuple):
    """How a sentence about a user begins, and the numbers that it tells in classes."""

    begin: str
    sizes: tuple[int, ...]

    def end(self, summary: str, details: str = "") -> _Said:
        return _Said(
            f"{self.begin.format(*map(size_class, self.sizes))} {summary}",
            f"{self.begin.format(*self.sizes)} {details or summary}",
        )


def _watcher(ratings: Ratings, user: int) -> int:
    """The other user who shares most items with this one."""
    mine = np.zeros(ratings.n_items, bool)
    mine[ratings.profile(user).items] = True
    shared = np.bincount(ratings.user, mine[ratings.item], ratings.n_users)
    shared[user] = -1
    return int(np.argmax(shared))


def _crowded(ratings: Ratings, allowed: NDArray[np.bool_]) -> int:
    """The one with an allowed rating of the item with the most raters."""
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
    # The last counts first.
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
    """Every rating at the end of the scale that is farther away."""
    scale = ratings.scale
    middle = (scale.minimum + scale.maximum) / 2
    values = np.where(profile.values > middle, scale.minimum, scale.maximum).astype(np.float32)
    return Profile(profile.items, values)
