"""The data sets on which a training is run beside its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings

Indices = NDArray[np.int64]
# How many batches the rows of the three data sets fill, so that one takes a given row soon.
BATCHES = 16


def of_rows(
    ratings: Ratings, users: Indices, items: Indices, values: NDArray[np.float32]
) -> Ratings:
    """Return data of the same users, items and features with other rows, without times."""
    rows = Ratings.build(users, items, values, ratings.n_users, ratings.n_items, ratings.scale)
    columns: dict[str, Any] = {name: getattr(rows, name) for name in ("user", "item", "value")}
    return replace(ratings, **columns, sensitive=None, time=None)


def resized(ratings: Ratings, count: int, seed: int) -> Ratings:
    """Return data with so many rows: without some, or with further ones that nobody has.

    Args:
        ratings: the data.
        count: at least 1, and at most the number of pairs of a user and an item.
        seed: decides which.
    """
    rng = generator(seed, "resized")
    if count <= len(ratings):
        kept = np.zeros(len(ratings), np.bool_)
        kept[rng.permutation(len(ratings))[:count]] = True
        return replace(ratings.only(kept), sensitive=None, time=None)
    taken = ratings.user.astype(np.int64) * ratings.n_items + ratings.item
    new = _cells(ratings, count - len(ratings), seed, taken)
    values = np.append(ratings.value, np.resize(ratings.value, len(new)))
    users, items = np.divmod(np.append(taken, new), ratings.n_items)
    return of_rows(ratings, users, items, values)


def far(ratings: Ratings, count: int, seed: int) -> list[Ratings]:
    """Return data sets of as many rows that differ in all of them.

    They have reversed and permuted values, other users and items, and one value; purchases have
    other users and items in all of them.

    Args:
        ratings: the data.
        count: how many.
        seed: decides them.
    """
    rng, n = generator(seed, "far"), len(ratings)
    users, items = ratings.user.astype(np.int64), ratings.item.astype(np.int64)
    low, high = ratings.scale.minimum, ratings.scale.maximum
    values: Sequence[NDArray[np.float32]] = (
        (low + high - ratings.value).astype(np.float32),
        rng.permutation(ratings.value),
        rng.permutation(ratings.value),
        np.full(n, high, np.float32),
    )
    sets = []
    for index in range(count):
        chosen = values[index % len(values)]
        if index % len(values) == 2 or low == high:
            cells = _cells(ratings, n, seed + index, np.empty(0, np.int64))
            sets.append(of_rows(ratings, *np.divmod(cells, ratings.n_items), chosen))
        else:
            sets.append(of_rows(ratings, users, items, chosen))
    return sets


def _cells(ratings: Ratings, count: int, seed: int, taken: Indices) -> Indices:
    """Draw pairs of a user and an item that are not taken, as numbers of cells."""
    rng, size = generator(seed, "cells"), ratings.n_users * ratings.n_items
    drawn = np.empty(0, np.int64)
    while len(drawn) < count:
        more = rng.integers(size, size=2 * count + 16)
        drawn = np.setdiff1d(np.append(drawn, more), taken)
    return rng.permutation(drawn)[:count]


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
    users, values = (last - 2, last - 1, last), (high, low, low)
    return [
        of_rows(
            ratings,
            np.append(ratings.user[kept], np.full(own, user)).astype(np.int64),
            np.append(ratings.item[kept], np.sort(mine)).astype(np.int64),
            np.append(ratings.value[kept], np.full(own, value)).astype(np.float32),
        )
        for user, mine, value in zip(users, chosen, values, strict=True)
    ]
