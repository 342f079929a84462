"""Neighbouring data sets: apply and invert a single change to ratings.

Items are public and fixed, so a change adds or removes ratings and users, never items. A removed
user keeps their index, without ratings, so that the other indices do not change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Adjacency
from dpaudit.core.errors import DataError
from dpaudit.core.user_profile import FloatArray, IntArray, Profile
from dpaudit.data.ratings import Friends, Ratings, Scale


@dataclass(frozen=True)
class RatingReplaced:
    """The user's rating of the item becomes `value`."""

    user: int
    item: int
    value: float


@dataclass(frozen=True)
class RatingAdded:
    """The user rates an item that they had not rated."""

    user: int
    item: int
    value: float


@dataclass(frozen=True)
class RatingRemoved:
    """The user's rating of the item disappears."""

    user: int
    item: int


@dataclass(frozen=True, eq=False)
class UserAdded:
    """A new user with these ratings gets the index `n_users`."""

    items: IntArray
    values: FloatArray

    def __post_init__(self) -> None:
        _freeze(self, self.items, self.values)


@dataclass(frozen=True)
class UserRemoved:
    """All ratings of the user disappear; the index stays."""

    user: int


@dataclass(frozen=True, eq=False)
class UserReplaced:
    """All ratings of the user, if any, are replaced by these."""

    user: int
    items: IntArray
    values: FloatArray

    def __post_init__(self) -> None:
        _freeze(self, self.items, self.values)


RatingChange = RatingReplaced | RatingAdded | RatingRemoved
Change = RatingChange | UserAdded | UserRemoved | UserReplaced

_ADJACENCY: dict[type[Any], Adjacency] = {
    RatingReplaced: "rating-replace",
    RatingAdded: "rating-add-remove",
    RatingRemoved: "rating-add-remove",
    UserAdded: "user-add-remove",
    UserRemoved: "user-add-remove",
    UserReplaced: "user-replace",
}


def adjacency_of_change(change: Change) -> Adjacency:
    """Return the adjacency under which `change` is a single step."""
    return _ADJACENCY[type(change)]


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
        case UserAdded(items, values):
            return _insert(ratings, ratings.n_users, _checked(ratings, items, values))
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
    place = int(np.searchsorted(kept.items, change.item))
    return Profile(
        np.insert(kept.items, place, change.item),
        np.insert(kept.values, place, np.float32(change.value)),
    )


def without(profile: Profile, item: int) -> Profile:
    """Return the profile without its rating of `item`, if it has one."""
    kept = profile.items != item
    return Profile(profile.items[kept], profile.values[kept])


def invert(ratings: Ratings, change: Change) -> Change:
    """Return the change that leads from `apply(ratings, change)` back to `ratings`.

    It restores the digest, with three exceptions. The inverse of a `UserAdded` is a `UserRemoved`,
    which restores every rating but leaves the new index as a user without ratings. A rating that is
    not a step of the scale, such as an average of duplicates, cannot be restored. A sensitive
    rating that was removed is restored as a non-sensitive one.

    The inverse of a `UserRemoved` is a `UserReplaced` of the user without ratings.

    Raises:
        DataError: the user or the rating named by the change does not exist.
    """
    match change:
        case RatingReplaced(user, item) | RatingRemoved(user, item):
            old = float(ratings.value[_existing_row(ratings, user, item)])
            replaced = isinstance(change, RatingReplaced)
            return RatingReplaced(user, item, old) if replaced else RatingAdded(user, item, old)
        case RatingAdded(user, item):
            return RatingRemoved(user, item)
        case UserAdded():
            return UserRemoved(ratings.n_users)
        case UserRemoved(user) | UserReplaced(user):
            profile = _profile(ratings, user)
            if not len(profile):
                return UserRemoved(user)
            return UserReplaced(user, profile.items, profile.values)


def _freeze(change: object, items: Sequence[int] | IntArray, values: object) -> None:
    """Store read-only copies of the arrays in the change."""
    for name, array in (
        ("items", np.array(items, dtype=np.int32)),
        ("values", np.array(values, dtype=np.float32)),
    ):
        array.setflags(write=False)
        object.__setattr__(change, name, array)


def _profile(ratings: Ratings, user: int) -> Profile:
    if not 0 <= user < ratings.n_users:
        raise DataError(f"user {user} lies outside 0..{ratings.n_users - 1}: choose one inside")
    return ratings.profile(user)


def _row(ratings: Ratings, user: int, item: int) -> int | None:
    items = _profile(ratings, user).items
    if not 0 <= item < ratings.n_items:
        raise DataError(f"item {item} lies outside 0..{ratings.n_items - 1}: choose one inside")
    place = int(np.searchsorted(items, item))
    if place == len(items) or items[place] != item:
        return None
    return int(ratings.by_user.start[user]) + place


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
        n_users=max(ratings.n_users, user + 1),
    )


def _rebuild(
    ratings: Ratings,
    user: IntArray,
    item: IntArray,
    value: FloatArray,
    n_users: int | None = None,
) -> Ratings:
    n_users = ratings.n_users if n_users is None else n_users
    user_ids, sensitive, budgets = ratings.user_ids, None, ratings.budgets
    if budgets is not None:  # a new user accepts the whole ε
        budgets = np.pad(budgets, (0, n_users - len(budgets)), constant_values=1.0)
    if ratings.sensitive is not None:
        # A changed rating stays sensitive or not; a new rating is not sensitive.
        held, rows = _pairs(ratings.user, ratings.item, ratings), _pairs(user, item, ratings)
        sensitive = np.isin(rows, held[ratings.sensitive])
    if user_ids is not None and n_users > ratings.n_users:
        user_ids = np.array([*user_ids, None])  # a new user has no id in the source
    return Ratings.build(
        user,
        item,
        value,
        n_users,
        ratings.n_items,
        ratings.scale,
        user_ids,
        ratings.item_ids,
        sensitive,
        _widened(ratings.friends, n_users),
        ratings.repairs,
        budgets=budgets,
    )


def _pairs(user: IntArray, item: IntArray, ratings: Ratings) -> NDArray[np.int64]:
    """Encode each pair of a user and an item as one number."""
    return user.astype(np.int64) * ratings.n_items + item


def _widened(friends: Friends | None, n_users: int) -> Friends | None:
    """Extend the links to `n_users` users; the new users have none."""
    if friends is None or len(friends.start) == n_users + 1:
        return friends
    more = np.full(n_users + 1 - len(friends.start), len(friends))
    return Friends(np.concatenate((friends.start, more)), friends.friend)
