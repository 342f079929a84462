"""Training and test ratings for cross-validation, and filters to apply before it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.memory import check_memory
from dpaudit.core.messages import place
from dpaudit.core.releases import FloatArray, IntArray, Profile
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.readers.text import read_delimited
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import RatingScale

Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Fold:
    """One division of ratings into training and test.

    Attributes:
        train: the training ratings, with the same users and items.
        users: the user of each test rating `(n,)`, sorted by user, then item.
        items: its item `(n,)`.
        values: the rating `(n,)`.
    """

    train: Ratings
    users: IntArray
    items: IntArray
    values: FloatArray


def random_folds(ratings: Ratings, count: int, seed: int, first: int | None = None) -> list[Fold]:
    """Partition ratings at random into `count` parts; each part is the test set of one fold.

    The sizes of the parts differ by at most 1.

    Args:
        ratings: the ratings.
        count: the number of parts.
        seed: the seed of the partition.
        first: the number of folds to return; all unless given.

    Raises:
        ConfigError: the folds do not fit the memory.
        DataError: `count` is less than 2 or more than there are ratings.
    """
    if not 2 <= count <= len(ratings):
        raise DataError(
            f"{len(ratings)} ratings cannot be divided into {count} folds: ask for at least 2 "
            "folds and at most one for each rating"
        )
    built = count if first is None else min(first, count)
    check_memory(
        "the training and test ratings of the folds",
        f"the number of folds ({built}) times that of ratings ({len(ratings):,})",
        # User, item, rating and perhaps a flag; and the partition.
        (built * 13 + 16) * len(ratings),
        "lower train.evaluate_folds or train.folds, use fewer ratings",
    )
    stream = generator(seed, "folds")
    part = stream.permutation(len(ratings)) % count
    return [_fold(ratings, part == number) for number in range(built)]


def files_folds(ratings: Ratings, paths: Sequence[Path]) -> list[Fold]:
    """Return the published folds of a data set, one for each file of test ratings.

    A file has the layout of MovieLens-100K's `u1.test`: user, item, rating and perhaps more,
    separated by tabs. It uses the ids of `ratings`; the training set is all other ratings.

    Raises:
        DataError: a file cannot be read, a line is malformed, or its rating is not among `ratings`;
            the message names the file, the line and the remedy.
    """
    return [_fold(ratings, _test_rows(ratings, path)) for path in paths]


def capped(ratings: Ratings, cap: int, seed: int) -> Ratings:
    """Keep at most `cap` ratings of each user, chosen uniformly at random.

    Each user has their own random stream, with one draw per item; the items with the smallest
    draws are kept. So the choice for a user does not depend on other users or on rating values, and
    adding or removing one rating changes at most one of the kept ratings.

    Raises:
        DataError: `cap` is less than 1.
    """
    if cap < 1:
        raise DataError(f"a cap of {cap} ratings leaves a user nothing: give at least 1")
    start = ratings.by_user.start
    kept = np.ones(len(ratings), bool)
    for user in np.flatnonzero(np.diff(start) > cap):
        rows = slice(int(start[user]), int(start[user + 1]))
        stream = generator(seed, "cap", child=int(user))
        draws = stream.random(ratings.n_items)[ratings.item[rows]]
        kept[rows] = np.argsort(np.argsort(draws, kind="stable"), kind="stable") < cap
    return ratings.only(kept)


def active(ratings: Ratings, more_than: int) -> Ratings:
    """Keep the ratings of users with more than `more_than` ratings; the others keep their index.

    Raises:
        DataError: no user has that many.
    """
    kept = (np.diff(ratings.by_user.start) > more_than)[ratings.user]
    if not kept.any():
        raise DataError(f"no user has more than {more_than} ratings: lower the number")
    return ratings.only(kept)


def _fold(ratings: Ratings, test: Mask) -> Fold:
    columns = (ratings.user[test], ratings.item[test], ratings.value[test])
    for column in columns:
        column.setflags(write=False)
    return Fold(ratings.only(~test), *columns)


def _test_rows(ratings: Ratings, path: Path) -> Mask:
    """Mask of the ratings that a file of test ratings contains."""
    scale = RatingScale(
        minimum=ratings.scale.minimum, maximum=ratings.scale.maximum, step=ratings.scale.step
    )
    source = DataSource(format="movielens-100k", path=str(path), scale=scale)
    load(source)  # refuses malformed and repeated lines
    table = read_delimited(source.file(), source.plain.layout())
    users = _known(path, ratings.user_ids, table.cells["user"])
    items = _known(path, ratings.item_ids, table.cells["item"])
    pairs = ratings.user.astype(np.int64) * ratings.n_items + ratings.item
    wanted = users * ratings.n_items + items
    row = np.minimum(np.searchsorted(pairs, wanted), len(pairs) - 1)
    row = np.where((users >= 0) & (items >= 0) & (pairs[row] == wanted), row, -1)
    faults = {
        "there is no rating of this user": users < 0,
        "there is no rating of this item": items < 0,
        "the user has not rated the item": row < 0,
        "the rating differs": ratings.value[row] != np.asarray(table.cells["rating"], np.float32),
    }
    faulty = np.any(list(faults.values()), axis=0)
    if faulty.any():
        line = int(np.argmax(faulty))
        fault = next(text for text, lines in faults.items() if lines[line])
        raise DataError(
            f"{table.path}, {table.place(line)}: not one of the ratings to divide, {fault}: remove "
            "the line or give the test files of the same data set"
        )
    test = np.zeros(len(ratings), bool)
    test[row] = True
    return test


def _known(path: Path, known: NDArray[np.object_] | None, names: Iterable[str]) -> Codes:
    """Return the index of each name among the known ids `(n,)`, −1 if it is unknown."""
    if known is None:
        raise DataError(
            f"{place(path)} names users and items by their ids, which the ratings lack: load the "
            "ratings from the data set's own file"
        )
    number = {name: index for index, name in enumerate(known)}
    return np.array([number.get(name.strip(), -1) for name in names], np.int64)


def split_users(ratings: Ratings, share: float, seed: int) -> tuple[Ratings, list[Profile]]:
    """Return the ratings without a random share of the users, and the profiles of that share.

    Users keep their indices; the removed ones have no ratings left.

    Raises:
        DataError: there are fewer than two users, so one side would be empty.
    """
    if ratings.n_users < 2:
        raise DataError(f"{ratings.n_users} user cannot be split into two groups: use more data")
    order = generator(seed, "split").permutation(ratings.n_users)
    count = min(max(1, round(share * ratings.n_users)), ratings.n_users - 1)
    taken = np.zeros(ratings.n_users, bool)
    taken[order[:count]] = True
    train = ratings.only(~taken[ratings.user])
    return train, [ratings.profile(int(user)) for user in np.flatnonzero(taken)]
