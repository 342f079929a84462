"""The data sets on which a training is run beside its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpaudit.core.releases import Profile
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings

# How many batches the rows of the three data sets fill, so that one takes a given row soon.
BATCHES = 16


def resized(ratings: Ratings, count: int, seed: int) -> Ratings:
    """Return data with so many rows: without some, or with one that nobody has.

    Args:
        ratings: the data.
        count: at least 1, and at most one more than the ratings; then a user lacks an item.
        seed: decides which.
    """
    rng = generator(seed, "resized")
    if count <= len(ratings):
        return ratings.only(rng.permutation(len(ratings)) < count)
    user = int(rng.choice(np.flatnonzero(np.diff(ratings.by_user.start) < ratings.n_items)))
    items, values = ratings.profile(user).items, ratings.profile(user).values
    item = rng.choice(np.setdiff1d(np.arange(ratings.n_items), items))
    place = np.searchsorted(items, item)
    value = ratings.scale.maximum
    longer = Profile(np.insert(items, place, item), np.insert(values, place, value))
    return ratings.with_profile(user, longer)


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
        np.float32(low + high) - ratings.value,
        rng.permutation(ratings.value),
        rng.permutation(ratings.value),
        np.full(len(ratings), high, np.float32),
    )
    per_user, sets = np.bincount(ratings.user), []
    for index in range(count):
        items = ratings.item
        if index % len(values) == 2 or low == high:
            drawn = [np.sort(rng.choice(ratings.n_items, n, replace=False)) for n in per_user]
            items = np.concatenate(drawn).astype(np.int32)
        value = values[index % len(values)]
        sets.append(replace(ratings, item=items, value=value, sensitive=None))
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
    last, low, high = ratings.n_users - 1, ratings.scale.minimum, ratings.scale.maximum
    others = np.flatnonzero(ratings.user < last - 2)
    chosen = generator(seed, "triple").permutation(others)[: rows - own]
    kept = ratings.only(np.isin(np.arange(len(ratings)), chosen))
    items = generator(seed, "items").permutation(ratings.n_items)[: 3 * own].reshape(3, own)
    values = np.repeat(np.array([[high], [low], [low]], np.float32), own, axis=1)
    return [
        kept.with_profile(last - 2 + index, Profile(np.sort(items[index]), values[index]))
        for index in range(3)
    ]
