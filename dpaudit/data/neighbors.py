"""Neighbouring data sets: apply a single change to ratings.

Items are public and fixed, so a change adds or removes ratings and users, never items. A removed
user keeps their index, without ratings, so that the other indices do not change. `adjacency` says
under which relation a change is a single step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Adjacency
from dpaudit.core.errors import DataError
from dpaudit.core.user_profile import FloatArray, IntArray, Profile
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
        case RatingReplaced(user, item, value):
            return _replace_rating(ratings, user, item, value)
        case RatingAdded(user, item, value):
            check(ratings, change)
            return _insert(ratings, user, _checked(ratings, [item], [value]))
        case RatingRemoved(user, item):
            row = _existing_row(ratings, user, item)
            return ratings.only(np.arange(len(ratings)) != row)
        case UserRemoved(user):
            if not len(_profile(ratings, user)):
                raise DataError(f"user {user} has no ratings to remove: choose another user")
            return ratings.only(ratings.user != user)
        case UserReplaced(user, items, values):
            return _replace_user(ratings, user, _checked(ratings, items, values))


def check(ratings: Ratings, change: RatingChange) -> None:
    """Refuse a change of one rating that is impossible or has no effect.

    Raises:
        DataError: as in `apply`, except that the scale is not checked.
    """
    match change:
        case RatingReplaced(user, item, value):
            row = _existing_row(ratings, user, item)
            if ratings.value[row] == np.float32(value):
                raise DataError(
                    f"user {user} rates item {item} {value:g} already: choose another rating"
                )
        case RatingAdded(user, item):
            if _row(ratings, user, item) is not None:
                raise DataError(f"user {user} has rated item {item}: replace the rating instead")
        case RatingRemoved(user, item):
            _existing_row(ratings, user, item)


def edited(profile: Profile, change: RatingChange) -> Profile:
    """Return a profile of the changed user after the change; the change is not checked."""
    kept = without(profile, change.item)
    if isinstance(change, RatingRemoved):
        return kept
    at = int(np.searchsorted(kept.items, change.item))
    return Profile(
        np.insert(kept.items, at, change.item),
        np.insert(kept.values, at, np.float32(change.value)),
    )


def without(profile: Profile, item: int) -> Profile:
    """Return the profile without its rating of `item`, if it has one."""
    kept = profile.items != item
    return Profile(profile.items[kept], profile.values[kept])


def _profile(ratings: Ratings, user: int) -> Profile:
    if not 0 <= user < ratings.n_users:
        raise DataError(f"user {user} lies outside 0..{ratings.n_users - 1}: choose one inside")
    return ratings.profile(user)


def _row(ratings: Ratings, user: int, item: int) -> int | None:
    items = _profile(ratings, user).items
    if not 0 <= item < ratings.n_items:
        raise DataError(f"item {item} lies outside 0..{ratings.n_items - 1}: choose one inside")
    at = int(np.searchsorted(items, item))
    if at == len(items) or items[at] != item:
        return None
    return int(ratings.by_user.start[user]) + at


def _existing_row(ratings: Ratings, user: int, item: int) -> int:
    row = _row(ratings, user, item)
    if row is None:
        raise DataError(f"user {user} has not rated item {item}: choose an item that they rated")
    return row


def _checked(
    ratings: Ratings,
    items: Sequence[int] | IntArray,
    values: Sequence[float] | FloatArray,
) -> Profile:
    """Validate the new ratings of one user and sort them by item."""
    item, value = np.array(items, dtype=np.int64), np.array(values, dtype=np.float32)
    if item.ndim != 1 or item.shape != value.shape or not len(item):
        raise DataError(
            f"items of shape {item.shape} and values of shape {value.shape} are not ratings of a "
            "user: give at least one item and one value for each"
        )
    if item.min() < 0 or item.max() >= ratings.n_items:
        raise DataError(f"an item lies outside 0..{ratings.n_items - 1}: choose items inside")
    if len(np.unique(item)) < len(item):
        raise DataError("an item is repeated in the new ratings: keep one rating of each item")
    _check_on_scale(value, ratings.scale)
    order = np.argsort(item)
    return Profile(item[order].astype(np.int32), value[order])


def _check_on_scale(value: FloatArray, scale: Scale) -> None:
    steps = (value.astype(np.float64) - scale.minimum) / scale.step
    inside = (steps > -1e-4) & (steps < len(scale.values) - 1 + 1e-4)
    good = inside & (np.abs(steps - np.rint(steps)) < 1e-4)
    if not good.all():
        raise DataError(
            f"the rating {value[~good][0]:g} is not on the scale {scale.minimum:g}.."
            f"{scale.maximum:g} with step {scale.step:g}: choose a rating on it"
        )


def _replace_rating(ratings: Ratings, user: int, item: int, value: float) -> Ratings:
    row = _existing_row(ratings, user, item)
    new = _checked(ratings, [item], [value]).values[0]
    check(ratings, RatingReplaced(user, item, value))
    column = ratings.value.copy()
    column[row] = new
    return _rebuild(ratings, ratings.user, ratings.item, column)


def _replace_user(ratings: Ratings, user: int, new: Profile) -> Ratings:
    old = _profile(ratings, user)
    if np.array_equal(old.items, new.items) and np.array_equal(old.values, new.values):
        raise DataError(f"user {user} has these ratings already: choose others")
    return _insert(ratings, user, new, kept=ratings.user != user)


def _insert(
    ratings: Ratings, user: int, new: Profile, kept: NDArray[np.bool_] | slice = slice(None)
) -> Ratings:
    return _rebuild(
        ratings,
        np.concatenate((ratings.user[kept], np.full(len(new), user, dtype=np.int32))),
        np.concatenate((ratings.item[kept], new.items)),
        np.concatenate((ratings.value[kept], new.values)),
    )


def _rebuild(ratings: Ratings, user: IntArray, item: IntArray, value: FloatArray) -> Ratings:
    sensitive, time = None, None
    held, rows = _pairs(ratings.user, ratings.item, ratings), _pairs(user, item, ratings)
    if ratings.sensitive is not None:
        # A changed rating stays sensitive or not; a new rating is not sensitive.
        sensitive = np.isin(rows, held[ratings.sensitive])
    if ratings.time is not None:
        # A changed rating keeps its time; a new rating comes last.
        known = np.append(held, ratings.n_users * ratings.n_items)
        place = np.searchsorted(known, rows)
        times = np.append(ratings.time, ratings.time.max(initial=0.0))
        time = times[np.where(known[place] == rows, place, len(held))]
    rebuilt = Ratings.build(
        user,
        item,
        value,
        ratings.n_users,
        ratings.n_items,
        ratings.scale,
        ratings.user_ids,
        ratings.item_ids,
        sensitive,
        ratings.friends,
        ratings.repairs,
        budgets=ratings.budgets,
        time=time,
    )
    return replace(
        rebuilt, user_features=ratings.user_features, item_features=ratings.item_features
    )


def _pairs(user: IntArray, item: IntArray, ratings: Ratings) -> NDArray[np.int64]:
    """Encode each pair of a user and an item as one number."""
    return user.astype(np.int64) * ratings.n_items + item
