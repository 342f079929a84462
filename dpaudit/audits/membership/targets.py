"""The choice of targets: at random, or canaries that a model is likely to remember."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.membership.config import FEWEST_HELD_OUT, Membership
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.streams import generator
from dpaudit.core.user_profile import Profile
from dpaudit.data.interactions import interactions_of
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.times import in_unit_of

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

# The most values of a column whose users are groups.
_VALUES = 10


def held_out(ratings: Ratings, table: Membership, draw: Rows) -> Rows:
    """Return the rows that no training has, in any order.

    Args:
        ratings: the data.
        table: says which, and how many.
        draw: all rows in random order.

    Raises:
        DataError: the data have no times, or nothing happened since then, or too few users have
            two interactions.
    """
    if table.held_out_from is None and table.hold == "random":
        return draw[: table.held_out]
    key = "hold = 'last'" if table.held_out_from is None else "held_out_from"
    if ratings.time is None:
        raise DataError(
            f"membership.{key} needs to know when interactions happened, and the data have no "
            "times: name them in data.columns.time, or remove it"
        )
    if table.held_out_from is not None:
        start = in_unit_of(ratings.time, table.held_out_from)
        late = np.flatnonzero(ratings.time >= start)
        first, last = ratings.time.min(), ratings.time.max()
        if np.isnan(start):
            raise DataError(
                f"membership.held_out_from = {table.held_out_from:.17g} is a date or a time since "
                f"1970, and the times of the data, {first:.17g} to {last:.17g}, are none: give a "
                "number between these"
            )
        if len(late) < FEWEST_HELD_OUT:
            raise DataError(
                f"{len(late)} interactions happened since membership.held_out_from = "
                f"{start:.17g}, too few to measure utility, as times go from "
                f"{first:.17g} to {last:.17g}: set an earlier one"
            )
        return late
    place = np.empty(len(draw), np.int64)
    place[draw] = np.arange(len(draw))
    # Of each user's rows the last in time, and of those at one time a random one.
    order = np.lexsort((place, ratings.time, ratings.user))
    ends = np.cumsum(np.bincount(ratings.user, minlength=ratings.n_users))
    sizes = np.diff(ends, prepend=0)
    last = order[ends[sizes > 1] - 1]
    if len(last) < table.held_out:
        raise DataError(
            f"{len(last)} users have two interactions or more, too few for membership.held_out = "
            f"{table.held_out} with hold = 'last': lower it"
        )
    return last[np.argsort(place[last])][: table.held_out]


def chosen_rows(ratings: Ratings, able: Rows, draw: str, count: int) -> Rows:
    """Return which rows are targets, increasing `(count,)`.

    Canaries are taken in rounds, none of which has a user or an item twice: two targets of one item
    hide each other, since what a model shows of the item depends on both coins.

    The data and the seed decide the choice, no coin and no training.

    Args:
        ratings: the data.
        able: the rows that may be targets, at least `count`, in random order.
        draw: `random`; `rare-items`, those of the items with the fewest interactions first; or
            `out-of-profile`, those least like the rest of their user's history first.
        count: the number of targets, at least 1.
    """
    if draw == "random":
        return np.sort(able[:count])
    if draw == "rare-items":
        counts = np.bincount(ratings.item, minlength=ratings.n_items)
        order = np.argsort(counts[ratings.item[able]], kind="stable")
    else:
        order = np.argsort(likeness(ratings)[able], kind="stable")
    return np.sort(_in_rounds(ratings, able[order], count))


def _in_rounds(ratings: Ratings, rows: Rows, count: int) -> Rows:
    """Return the first rows whose users and items are new, then the first of the others, and so on.

    Args:
        ratings: the data.
        rows: the rows, those to prefer first.
        count: how many to return, at most as many as there are.
    """
    chosen: list[int] = []
    while True:
        users: set[int] = set()
        items: set[int] = set()
        others: list[int] = []
        for row, user, item in zip(rows, ratings.user[rows], ratings.item[rows], strict=True):
            if user in users or item in items:
                others.append(row)
                continue
            chosen.append(row)
            if len(chosen) == count:
                return np.array(chosen)
            users.add(user)
            items.add(item)
        rows = np.array(others)


def likeness(ratings: Ratings) -> NDArray[np.float64]:
    """Return each rating's mean cosine with the other items of its user `(R,)`; 0 without others.

    Cosines of items are by who has them. Σ_j cos(i, j) = x_i · Σ_j x_j for unit columns x, so the
    sum over a history is one product of its user's sum with the item's column.
    """
    history = interactions_of(ratings)
    history.data[:] = 1
    sizes = np.bincount(history.indices, minlength=ratings.n_items)
    columns = history.multiply(1 / np.sqrt(np.maximum(sizes, 1))).tocsr()
    cosines = np.empty(len(ratings))
    start = ratings.by_user.start
    by_item = columns.T.tocsr()
    for user in range(ratings.n_users):
        rows = slice(int(start[user]), int(start[user + 1]))
        items = by_item[ratings.item[rows]]
        total = np.asarray(items.sum(0)).reshape(-1)
        others = max(1, items.shape[0] - 1)
        # An item's cosine with itself is 1.
        cosines[rows] = (items @ total - 1) / others
    return cosines


def fake_users(ratings: Ratings, count: int, seed: int) -> Ratings:
    """Append fake users, whose histories have as few items in common as possible.

    Items are dealt at random like cards: no item comes twice before there are too few for another
    history. Each history has as many items as make all of them disjoint, but at least 5 and at most
    those of the median user; all have the largest rating. The real data stay as they are.

    Args:
        ratings: the data.
        count: number of fake users.
        seed: of the draws.
    """
    active = np.diff(ratings.by_user.start)
    median = max(5, int(np.median(active[active > 0])))
    size = min(ratings.n_items, max(5, min(median, ratings.n_items // count)))
    hands = ratings.n_items // size
    deals = [
        generator(seed, "membership fake users", child=deal)
        .permutation(ratings.n_items)[: hands * size]
        .reshape(hands, size)
        for deal in range(-(-count // hands))
    ]
    values = np.full(size, ratings.scale.maximum, np.float32)
    items = np.sort(np.concatenate(deals)[:count], axis=1).astype(np.int32)
    return ratings.with_users([Profile(hand, values) for hand in items])


def users_by(ratings: Ratings, columns: Sequence[str]) -> Mapping[str, Mask]:
    """Return the users with each value of some columns of their features.

    Args:
        ratings: the data.
        columns: the columns' names.

    Returns:
        Masks of the users `(N,)` by name of the group, such as `gender = F`. Users without a value
        are in no group.

    Raises:
        ConfigError: users have no features, or not this column, or it has too many values.
    """
    groups: dict[str, Mask] = {}
    for column in columns:
        table = ratings.user_features
        if table is None:
            raise ConfigError(
                f"membership.groups names {column!r}, and users have no features: name their "
                "table in [data.users]"
            )
        if column not in table.columns:
            raise ConfigError(
                f"membership.groups names {column!r}, which [data.users] does not read: it has "
                f"{', '.join(map(str, table.columns))}"
            )
        values = table[column].dropna().unique().tolist()
        if len(values) > _VALUES:
            raise ConfigError(
                f"membership.groups names {column!r}, which has {len(values)} values: name a "
                f"column with {_VALUES} at most"
            )
        groups |= {f"{column} = {value}": (table[column] == value).to_numpy() for value in values}
    return dict(sorted(groups.items()))
