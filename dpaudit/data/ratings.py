"""Ratings of items by users, and the views of them that recommenders need."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.releases import FloatArray, IntArray, Profile

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Scale:
    """The rating scale `minimum, minimum + step, …, maximum`.

    Purchases (present or absent) have the scale 1..1 with step 1.
    """

    minimum: float = 1.0
    maximum: float = 5.0
    step: float = 1.0

    def __post_init__(self) -> None:
        if not self.minimum <= self.maximum or not self.step > 0:
            raise DataError(
                f"the scale {self.minimum}..{self.maximum} with step {self.step} is empty: "
                "give minimum <= maximum and step > 0"
            )

    @property
    def width(self) -> float:
        """The width of the scale, `Δr = r_max − r_min`."""
        return self.maximum - self.minimum

    @property
    def values(self) -> FloatArray:
        """All ratings of the scale in increasing order, shape `(C,)`."""
        count = round(self.width / self.step) + 1
        return (self.minimum + self.step * np.arange(count)).astype(np.float32)


class Csr(NamedTuple):
    """Compressed rows: row `r` holds `start[r]` to `start[r + 1]` of `column` and `value`."""

    start: NDArray[np.int64]
    column: IntArray
    value: FloatArray


@dataclass(frozen=True, eq=False)
class Friends:
    """The friends of each user: directed links without repeats or self-links.

    Attributes:
        start: the friends of user u are `friend[start[u]] … friend[start[u + 1] − 1]`, `(N + 1,)`.
        friend: increasing for each user `(L,)`.
    """

    start: NDArray[np.int64]
    friend: IntArray

    @classmethod
    def build(
        cls, users: NDArray[np.integer], friends: NDArray[np.integer], n_users: int
    ) -> Friends:
        """Build the links from `users[k]` to `friends[k]`.

        Raises:
            DataError: an index is out of range, or there is a repeated link or a self-link.
        """
        order = np.lexsort((friends, users))
        left, right = users[order], friends[order]
        if len(left) and (
            left[0] < 0 or left[-1] >= n_users or right.min() < 0 or right.max() >= n_users
        ):
            raise DataError(f"a link's user lies outside 0..{n_users - 1}: renumber the users")
        if (left == right).any():
            raise DataError("a link leads from a user to themselves: remove it")
        if ((np.diff(left) == 0) & (np.diff(right) == 0)).any():
            raise DataError("a link is repeated: keep one of each")
        start = np.concatenate(([0], np.cumsum(np.bincount(left, minlength=n_users))))
        columns = start.astype(np.int64), np.ascontiguousarray(right, dtype=np.int32)
        _freeze(*columns)
        return cls(*columns)

    @classmethod
    def none(cls, n_users: int) -> Friends:
        """Return an empty set of links."""
        return cls(np.zeros(n_users + 1, np.int64), np.zeros(0, np.int32))

    def __len__(self) -> int:
        return len(self.friend)

    @cached_property
    def users(self) -> IntArray:
        """The user of each link `(L,)`."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int32), np.diff(self.start))


@dataclass(frozen=True)
class Repair:
    """What loading dropped, merged, changed or doubts.

    Attributes:
        what: a description, such as `rows with a rating outside the scale`.
        count: the number of cases.
    """

    what: str
    count: int


# The columns with a value for each row.
_ROWS = ("user", "item", "value", "sensitive", "time")


@dataclass(frozen=True, eq=False)
class Ratings:
    """Immutable ratings, sorted by user, then item; each (user, item) at most once.

    Attributes:
        user: the user of each row, `0..n_users-1`, shape `(R,)`.
        item: the item of each row, `0..n_items-1`, shape `(R,)`.
        value: the rating of each row, shape `(R,)`.
        n_users: number of users; some may have no rating.
        n_items: number of items; some may have no rating.
        scale: the rating scale.
        user_ids: the source's ids by user, kept only for reading and writing.
        item_ids: the source's ids by item, kept only for reading and writing.
        sensitive: whether the user keeps the rating private `(R,)`; None if the data do not say.
        friends: the links between users; None if unknown.
        budgets: the share of ε that each user accepts, above 0 and at most 1 `(N,)`; None if
            unknown.
        repairs: what loading dropped, merged, changed or doubts; not part of the digest.
        time: when each row happened, in the source's unit or in seconds since 1970 `(R,)`; None if
            unknown.
        user_features: what the source says of each user, one row each `(N, …)`; None if unknown.
        item_features: what the source says of each item, one row each `(M, …)`; None if unknown.
    """

    user: IntArray
    item: IntArray
    value: FloatArray
    n_users: int
    n_items: int
    scale: Scale
    user_ids: NDArray[np.object_] | None = None
    item_ids: NDArray[np.object_] | None = None
    sensitive: NDArray[np.bool_] | None = None
    friends: Friends | None = None
    budgets: NDArray[np.float64] | None = None
    repairs: tuple[Repair, ...] = ()
    time: NDArray[np.float64] | None = None
    user_features: DataFrame | None = None
    item_features: DataFrame | None = None

    @classmethod
    def build(
        cls,
        user: NDArray[np.integer],
        item: NDArray[np.integer],
        value: NDArray[np.floating],
        n_users: int,
        n_items: int,
        scale: Scale,
        user_ids: NDArray[np.object_] | None = None,
        item_ids: NDArray[np.object_] | None = None,
        sensitive: NDArray[np.bool_] | None = None,
        friends: Friends | None = None,
        *,
        budgets: NDArray[np.float64] | None = None,
        time: NDArray[np.floating] | None = None,
        ordered: bool = False,
    ) -> Ratings:
        """Sort the rows, unless they are `ordered` already, and check them.

        Ordered columns of the final types are not copied, so the caller must not change them later.

        Raises:
            DataError: an index is out of range, a rating is outside the range of the scale, a
                (user, item) is repeated, the links or budgets have another number of users, a
                budget is not above 0 and at most 1, or a time is not finite.
        """
        order = slice(None) if ordered else np.lexsort((item, user))
        columns = (
            np.ascontiguousarray(user[order], dtype=np.int32),
            np.ascontiguousarray(item[order], dtype=np.int32),
            np.ascontiguousarray(value[order], dtype=np.float32),
        )
        flags = None if sensitive is None else np.ascontiguousarray(sensitive[order], np.bool_)
        times = None if time is None else np.ascontiguousarray(time[order], np.float64)
        _freeze(*columns, flags, budgets, times)
        ids = user_ids, item_ids
        ratings = cls(*columns, n_users, n_items, scale, *ids, flags, friends, budgets, (), times)
        ratings._check()
        return ratings

    def _check(self) -> None:
        if self.friends is not None and len(self.friends.start) != self.n_users + 1:
            raise DataError(
                f"the links are of {len(self.friends.start) - 1} users and the ratings of "
                f"{self.n_users}: give links of the same users"
            )
        shares = np.ones(self.n_users) if self.budgets is None else self.budgets
        if len(shares) != self.n_users or not ((shares > 0) & (shares <= 1)).all():
            raise DataError(
                f"the budgets are not one number above 0 and at most 1 for each of {self.n_users} "
                "users: give each user's share of ε"
            )
        if self.time is not None and not np.isfinite(self.time).all():
            raise DataError("a time is not a finite number: give when each interaction happened")
        if not len(self.user):
            return
        if self.user[0] < 0 or self.user[-1] >= self.n_users:
            raise DataError(f"a user index lies outside 0..{self.n_users - 1}: renumber the users")
        if self.item.min() < 0 or self.item.max() >= self.n_items:
            raise DataError(f"an item index lies outside 0..{self.n_items - 1}: renumber the items")
        inside = (self.value >= self.scale.minimum) & (self.value <= self.scale.maximum)
        if not inside.all():
            raise DataError(
                f"the rating {self.value[~inside][0]} lies outside the scale "
                f"{self.scale.minimum:g}..{self.scale.maximum:g}: correct it or state the scale"
            )
        # Comparisons, unlike differences, need one byte per row.
        same = (self.user[1:] == self.user[:-1]) & (self.item[1:] == self.item[:-1])
        if same.any():
            raise DataError(
                f"{same.sum()} (user, item) pairs are repeated: keep one rating of each"
            )

    def __len__(self) -> int:
        return len(self.user)

    def only(self, kept: NDArray[np.bool_]) -> Ratings:
        """Return the kept rows; users and items, their ids and links stay the same."""
        return self._with_rows(lambda name, column: column[kept])

    def _with_rows(
        self, rows: Callable[[str, NDArray[Any]], NDArray[Any]], **changes: Any
    ) -> Ratings:
        """Return the ratings with other rows of each column that is there, by its name."""
        named = {name: getattr(self, name) for name in _ROWS}
        columns: dict[str, Any] = {
            name: None if column is None else rows(name, column) for name, column in named.items()
        }
        _freeze(*columns.values())
        return replace(self, **columns, **changes)

    @property
    def _last(self) -> float:
        """The time of the last row."""
        return 0.0 if self.time is None else self.time.max(initial=0.0)

    def repaired(self, *repairs: Repair, **columns: Any) -> Ratings:
        """Return the ratings with other columns, and those of further repairs that have cases."""
        counted = (repair for repair in repairs if repair.count)
        return replace(self, repairs=(*self.repairs, *counted), **columns)

    def with_users(self, profiles: Sequence[Profile]) -> Ratings:
        """Append users, who come last, share all that they rate and have no friends.

        What they rate happens last, their ids are new, and each has the features of another user.
        The budgets of the other users are left out.

        Raises:
            DataError: an item index or a rating outside its range, or a repeated item.
        """
        if not profiles:
            return self
        sizes = [len(profile) for profile in profiles]
        new = Ratings.build(
            np.repeat(np.arange(len(profiles)), sizes),
            np.concatenate([profile.items for profile in profiles]),
            np.concatenate([profile.values for profile in profiles]),
            len(profiles),
            self.n_items,
            self.scale,
        )
        friends = self.friends
        if friends is not None:
            start = np.append(friends.start, [len(friends)] * len(profiles))
            friends = Friends(start, friends.friend)
        added: dict[str, NDArray[Any]] = {
            "user": new.user + np.int32(self.n_users),
            "item": new.item,
            "value": new.value,
            "sensitive": new.kept_private,
            "time": np.full(len(new), self._last),
        }
        count, ids, features = len(profiles), self.user_ids, self.user_features
        if ids is not None:
            taken = set(ids)
            names = (f"added-{number}" for number in range(len(taken) + count))
            new_ids = [name for name in names if name not in taken][:count]
            ids = np.append(ids, np.array(new_ids, object))
        if features is not None:
            rows = np.append(np.arange(self.n_users), np.arange(count) % self.n_users)
            features = features.take(rows).reset_index(drop=True)
        return self._with_rows(
            lambda name, column: np.append(column, added[name]),
            n_users=self.n_users + len(profiles),
            user_ids=ids,
            friends=friends,
            budgets=None,
            user_features=features,
        )

    def with_profile(self, user: int, profile: Profile) -> Ratings:
        """Return the ratings with others of one user, of items that increase.

        An item that the user has rated keeps its time, and stays sensitive if it is; others are not
        sensitive and happen last.

        Raises:
            DataError: an item index or a rating outside its range.
        """
        start, end = self.by_user.start[user : user + 2]
        _, old, new = np.intersect1d(self.item[start:end], profile.items, return_indices=True)

        given = {"user": user, "item": profile.items, "value": profile.values}
        absent = given | {"sensitive": False, "time": self._last}

        def spliced(name: str, column: NDArray[Any]) -> NDArray[Any]:
            rows = np.empty(len(profile), column.dtype)
            rows[:] = absent[name]
            if name not in given:
                rows[new] = column[start:end][old]
            return np.concatenate((column[:start], rows, column[end:]))

        ratings = self._with_rows(spliced)
        ratings._check()
        return ratings

    @cached_property
    def kept_private(self) -> NDArray[np.bool_]:
        """Whether each row is sensitive `(R,)`; all False if the data do not say."""
        return np.zeros(len(self), np.bool_) if self.sensitive is None else self.sensitive

    @property
    def shared(self) -> Ratings:
        """The ratings that are not sensitive."""
        return self.only(~self.kept_private)

    @cached_property
    def by_user(self) -> Csr:
        """The items of each user, increasing, with their ratings."""
        counts = np.bincount(self.user, minlength=self.n_users)
        return Csr(np.concatenate(([0], np.cumsum(counts))), self.item, self.value)

    @cached_property
    def by_item(self) -> Csr:
        """The users of each item, increasing, with their ratings."""
        order = np.argsort(self.item, kind="stable")
        counts = np.bincount(self.item, minlength=self.n_items)
        return Csr(np.concatenate(([0], np.cumsum(counts))), self.user[order], self.value[order])

    def profile(self, user: int) -> Profile:
        """The ratings of one user."""
        start, index, value = self.by_user
        rows = slice(int(start[user]), int(start[user + 1]))
        return Profile(index[rows], value[rows])

    @cached_property
    def digest(self) -> str:
        """SHA-256 of sizes, scale, columns, links, budgets and features, in hexadecimal."""
        head = f"{self.n_users} {self.n_items} {self.scale}".encode()
        state = hashlib.sha256(head)
        columns: list[NDArray[Any] | None] = [self.user, self.item, self.value, self.sensitive]
        columns += [] if self.friends is None else [self.friends.start, self.friends.friend]
        columns += [self.budgets, self.time]
        for column in (column for column in columns if column is not None):
            state.update(column.astype(column.dtype.newbyteorder("<"), order="C", copy=False).data)
        state.update(self.features)
        return state.hexdigest()

    @property
    def features(self) -> bytes:
        """The features of users, then of items, as text; empty without any."""
        tables = (self.user_features, self.item_features)
        return b"".join(table.to_csv().encode() for table in tables if table is not None)


def _freeze(*columns: NDArray[Any] | None) -> None:
    """Make arrays read-only, in place; None stands for a column that is not there."""
    for column in columns:
        if column is not None:
            column.setflags(write=False)


STARS = Scale(1, 5, 1)
# The items and values of one user.
RatedItems = Sequence[tuple[int, float]]


def from_profiles(profiles: Sequence[RatedItems], n_items: int, scale: Scale = STARS) -> Ratings:
    """Build ratings from one list of (item, value) per user, in the order of the users."""
    rows = [(user, *entry) for user, profile in enumerate(profiles) for entry in profile]
    user, item, value = (np.array(column) for column in zip(*rows, strict=True))
    return Ratings.build(user, item, value.astype(np.float32), len(profiles), n_items, scale)
