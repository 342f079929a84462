"""The data sets on which a training is run beside its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings

# How many batches the rows of the three data sets fill, so that one takes a given row soon.
BATCHES = 16


def _of_rows(ratings: Ratings, users: Any, items: Any, values: Any, time: Any) -> Ratings:
    """Return data of the same users, items and features with other rows."""
    time = None if ratings.time is None else time
    shape = ratings.n_users, ratings.n_items
    rows = Ratings.build(users, items, values, *shape, ratings.scale, time=time)
    columns: dict[str, Any] = {
        name: getattr(rows, name) for name in ("user", "item", "value", "time")
    }
    return replace(ratings, **columns, sensitive=None)


def _times(ratings: Ratings, kept: Any, more: int) -> Any:
    """Return the times of kept rows, and the last one for further rows."""
    if ratings.time is None:
        return None
    return np.append(ratings.time[kept], np.full(more, ratings.time.max()))


def resized(ratings: Ratings, count: int, seed: int) -> Ratings:
    """Return data with so many rows: without some, or with further ones that nobody has.

    Args:
        ratings: the data.
        count: at least 1, and at most the number of pairs of a user and an item.
        seed: decides which.
    """
    rng, size = generator(seed, "resized"), ratings.n_users * ratings.n_items
    if count <= len(ratings):
        kept = np.zeros(len(ratings), np.bool_)
        kept[rng.permutation(len(ratings))[:count]] = True
        return ratings.only(kept)
    taken = ratings.user.astype(np.int64) * ratings.n_items + ratings.item
    more, new = count - len(ratings), np.empty(0, np.int64)
    while len(new) < more:
        new = np.setdiff1d(np.append(new, rng.integers(size, size=2 * more + 16)), taken)
    cells = np.append(taken, rng.permutation(new)[:more])
    values = np.append(ratings.value, np.resize(ratings.value, more))
    time = _times(ratings, slice(None), more)
    return _of_rows(ratings, *np.divmod(cells, ratings.n_items), values, time)


def far(ratings: Ratings, count: int, seed: int) -> list[Ratings]:
    """Return data sets with as many rows of each user that differ in all of them.

    They have reversed and permuted values, other items, and one value; purchases have other items
    in all of them.

    Args:
        ratings: the data.
        count: how many.
        seed: decides them.
    """
    rng, low, high = generator(seed, "far"), ratings.scale.minimum, ratings.scale.maximum
    values = (
        low + high - ratings.value,
        rng.permutation(ratings.value),
        rng.permutation(ratings.value),
        np.full(len(ratings), high),
    )
    per_user, sets = np.bincount(ratings.user), []
    for index in range(count):
        items = ratings.item
        if index % len(values) == 2 or low == high:
            drawn = [rng.choice(ratings.n_items, rows, replace=False) for rows in per_user]
            items = np.concatenate([np.sort(one) for one in drawn])
        chosen = values[index % len(values)]
        sets.append(_of_rows(ratings, ratings.user, items, chosen, ratings.time))
    return sets


def triple(ratings: Ratings, rows: int, own: int, seed: int) -> list[Ratings]:
    """Return three data sets that differ in their last rows alone, which are of one user.

    The user of these rows is the last but two in the first data set, the last but one in the
    second, and the last in the third, and the items differ; none has other rows. In the first they
    have the largest value, in the others the smallest.

    Args:
        ratings: the data, of at least four users and `3 own` items.
        rows: how many rows each has.
        own: how many of these are the user's.
        seed: decides which.
    """
    last, items = ratings.n_users - 1, ratings.n_items
    others = np.flatnonzero(ratings.user < last - 2)
    kept = np.sort(generator(seed, "triple").permutation(others)[: rows - own])
    chosen = generator(seed, "items").permutation(items)[: 3 * own].reshape(3, own)
    low, high = ratings.scale.minimum, ratings.scale.maximum
    users, values, time = (last - 2, last - 1, last), (high, low, low), _times(ratings, kept, own)
    return [
        _of_rows(
            ratings,
            np.append(ratings.user[kept], np.full(own, user)),
            np.append(ratings.item[kept], mine),
            np.append(ratings.value[kept], np.full(own, value)),
            time,
        )
        for user, mine, value in zip(users, chosen, values, strict=True)
    ]
