"""Neighbouring data sets: apply a single change to ratings.

Items are public and fixed, so a change adds or removes ratings and users, never items. A removed
user keeps their index, without ratings, so that the other indices do not change. `adjacency` says
under which relation a change is a single step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpaudit.core.claim import Adjacency
from dpaudit.core.errors import DataError
from dpaudit.core.releases import FloatArray, IntArray, Profile
from dpaudit.data.ratings import Ratings, Scale


@dataclass(frozen=True)
class RatingReplaced:
    """The user's rating of the item becomes `value`."""

    adjacency: ClassVar[Adjacency] = "rating-replace"

    user: int
    item: int
    value: float


@dataclass(frozen=True)
class RatingAdded:
    """The user rates an item that they had not rated."""

    adjacency: ClassVar[Adjacency] = "rating-add-remove"

    user: int
    item: int
    value: float


@dataclass(frozen=True)
class RatingRemoved:
    """The user's rating of the item disappears."""

    adjacency: ClassVar[Adjacency] = "rating-add-remove"

    user: int
    item: int


@dataclass(frozen=True)
class UserRemoved:
    """All ratings of the user disappear; the index stays."""

    adjacency: ClassVar[Adjacency] = "user-add-remove"

    user: int


@dataclass(frozen=True, eq=False)
class UserReplaced:
    """All ratings of the user, if any, are replaced by these."""

    adjacency: ClassVar[Adjacency] = "user-replace"

    user: int
    items: IntArray
    values: FloatArray

    def __post_init__(self) -> None:
        # Read-only copies.
        for name, dtype in (("items", np.int32), ("values", np.float32)):
            array = np.array(getattr(self, name), dtype)
            array.setflags(write=False)
            object.__setattr__(self, name, array)


RatingChange = RatingReplaced | RatingAdded | RatingRemoved
Change = RatingChange | UserRemoved | UserReplaced


def apply(ratings: Ratings, change: Change) -> Ratings:
    """Return the ratings after the change; `ratings` is not modified.

    Raises:
        DataError: an index is out of range, a rating is off the scale, a rating or user that must
            exist does not (or the reverse), or the change has no effect.
    """
    match change:
        case UserRemoved(user):
            if not len(_profile(ratings, user)):
                raise DataError(f"user {user} has no ratings to remove: choose another user")
            return ratings.only(ratings.user != user)
        case UserReplaced(user, items, values):
            item, value = np.array(items, dtype=np.int64), np.array(values, dtype=np.float32)
            if item.ndim != 1 or item.shape != value.shape or not len(item):
                raise DataError(
                    f"items of shape {item.shape} and values of shape {value.shape} are not "
                    "ratings of a user: give at least one item and one value for each"
                )
            if item.min() < 0 or item.max() >= ratings.n_items:
                raise DataError(
                    f"an item lies outside 0..{ratings.n_items - 1}: choose items inside"
                )
            if len(np.unique(item)) < len(item):
                raise DataError(
                    "an item is repeated in the new ratings: keep one rating of each item"
                )
            _check_on_scale(value, ratings.scale)
            order, old = np.argsort(item), _profile(ratings, user)
            profile = Profile(item[order].astype(np.int32), value[order])
            same = np.array_equal(old.items, profile.items)
            if same and np.array_equal(old.values, profile.values):
                raise DataError(f"user {user} has these ratings already: choose others")
        case RatingReplaced() | RatingAdded() | RatingRemoved():
            check(ratings, change)
            if not isinstance(change, RatingRemoved):
                _check_on_scale(np.array([change.value], np.float32), ratings.scale)
            profile = edited(ratings.profile(change.user), change)
    return ratings.with_profile(change.user, profile)


def check(ratings: Ratings, change: RatingChange) -> None:
    """Refuse a change of one rating that is impossible or has no effect.

    Raises:
        DataError: as in `apply`, except that the scale is not checked.
    """
    user, item = change.user, change.item
    profile = _profile(ratings, user)
    if not 0 <= item < ratings.n_items:
        raise DataError(f"item {item} lies outside 0..{ratings.n_items - 1}: choose one inside")
    value = profile.values[profile.items == item]
    if isinstance(change, RatingAdded):
        if len(value):
            raise DataError(f"user {user} has rated item {item}: replace the rating instead")
    elif not len(value):
        raise DataError(f"user {user} has not rated item {item}: choose an item that they rated")
    elif isinstance(change, RatingReplaced) and value[0] == np.float32(change.value):
        raise DataError(
            f"user {user} rates item {item} {change.value:g} already: choose another rating"
        )


def edited(profile: Profile, change: RatingChange) -> Profile:
    """Return a profile of the changed user after the change; the change is not checked."""
    kept = without(profile, change.item)
    if isinstance(change, RatingRemoved):
        return kept
    at = int(np.searchsorted(kept.items, change.item))
    return Profile(
        np.insert(kept.items, at, change.item), np.insert(kept.values, at, np.float32(change.value))
    )


def without(profile: Profile, item: int) -> Profile:
    """Return the profile without its rating of `item`, if it has one."""
    kept = profile.items != item
    return Profile(profile.items[kept], profile.values[kept])


def _profile(ratings: Ratings, user: int) -> Profile:
    if not 0 <= user < ratings.n_users:
        raise DataError(f"user {user} lies outside 0..{ratings.n_users - 1}: choose one inside")
    return ratings.profile(user)


def _check_on_scale(value: FloatArray, scale: Scale) -> None:
    steps = (value.astype(np.float64) - scale.minimum) / scale.step
    inside = (steps > -1e-4) & (steps < len(scale.values) - 1 + 1e-4)
    good = inside & (np.abs(steps - np.rint(steps)) < 1e-4)
    if not good.all():
        raise DataError(
            f"the rating {value[~good][0]:g} is not on the scale {scale.minimum:g}.."
            f"{scale.maximum:g} with step {scale.step:g}: choose a rating on it"
        )
