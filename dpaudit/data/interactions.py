"""Ratings as recommender libraries train on them: a sparse matrix, and a table in time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from dpaudit.core.errors import DataError
from dpaudit.core.foreign import foreign
from dpaudit.data.frames import UNMARKED, frame_table, numbered
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.readers.load import load
from dpaudit.data.readers.rows import LARGEST
from dpaudit.data.sniff import source_of
from dpaudit.data.sniff_names import UnknownColumnsError
from dpaudit.data.sniff_ratings import UnknownScaleError, check_marks

if TYPE_CHECKING:
    from pandas import DataFrame

_MATRIX = "the sparse matrix"


class Table(NamedTuple):
    """Interactions in the order of time; those of one time by user, then item.

    Attributes:
        user: the user's index `(R,)`.
        item: the item's index `(R,)`.
        rating: the rating, 1 for purchases `(R,)`.
        time: when it happened, in the source's unit or in seconds since 1970 `(R,)`; None if the
            data do not say, and then the order is by user and item.
    """

    user: NDArray[np.int32]
    item: NDArray[np.int32]
    rating: NDArray[np.float32]
    time: NDArray[np.float64] | None


@dataclass(frozen=True, eq=False)
class Interactions:
    """What one training gets; its arrays and frames belong to it alone.

    A user's class whose `fit(interactions, seed)` is annotated with this type gets it; any other
    gets `matrix`. Users and items are numbered by their sorted ids, in all trainings alike: index
    `i` is `item_ids[i]` and row `i` of `item_features`.

    Attributes:
        ratings: the ratings to train on, shared and read-only.
    """

    ratings: Ratings

    @classmethod
    def of(cls, ratings: Ratings, kept: NDArray[np.bool_] | None = None) -> Interactions:
        """Return some of the ratings to train on.

        Args:
            ratings: the ratings.
            kept: mask of the ratings to include `(R,)`; all if None.
        """
        return cls(ratings if kept is None else ratings.only(kept))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of users N and of items M, also of those without interactions."""
        return self.ratings.n_users, self.ratings.n_items

    @cached_property
    def matrix(self) -> csr_array:
        """Users × items `(N, M)`, as in `interactions_of`."""
        return interactions_of(self.ratings)

    @cached_property
    def table(self) -> Table:
        """The interactions in the order of time."""
        rows = self.ratings
        # Rows are by user, then item, and the sort keeps this order within one time.
        order = np.arange(len(rows)) if rows.time is None else np.argsort(rows.time, kind="stable")
        time = None if rows.time is None else rows.time[order]
        return Table(rows.user[order], rows.item[order], rows.value[order], time)

    @cached_property
    def user_features(self) -> DataFrame | None:
        """What the data say of each user, a row each `(N, …)`; None if nothing."""
        return _copied(self.ratings.user_features)

    @cached_property
    def item_features(self) -> DataFrame | None:
        """What the data say of each item, a row each `(M, …)`; None if nothing."""
        return _copied(self.ratings.item_features)

    @property
    def user_ids(self) -> NDArray[np.object_] | None:
        """The source's id of each user, as text `(N,)`; None if the data have only indices."""
        return _copied(self.ratings.user_ids)

    @property
    def item_ids(self) -> NDArray[np.object_] | None:
        """The source's id of each item, as text `(M,)`; None if the data have only indices."""
        return _copied(self.ratings.item_ids)


def _copied(values: Any) -> Any:
    return None if values is None else values.copy()


def interactions_of(ratings: Ratings, kept: NDArray[np.bool_] | None = None) -> csr_array:
    """Return a new users × items matrix `(N, M)` of float32 ratings, 1 for purchases.

    Its shape is that of all data, so rows and columns may be empty. A rating of 0 is stored.

    Args:
        ratings: the ratings.
        kept: mask of the ratings to include `(R,)`; all if None.
    """
    rows = ratings if kept is None else ratings.only(kept)
    start = np.searchsorted(rows.user, np.arange(ratings.n_users + 1)).astype(np.int32)
    # Copies: a library may change its input, and other trainings share the ratings.
    columns = (np.array(rows.value), np.array(rows.item), start)
    return csr_array(columns, shape=(ratings.n_users, ratings.n_items))


def given_ratings(interactions: Any) -> Ratings:
    """Convert what a Python program passes to ratings.

    Args:
        interactions: ratings; a sparse matrix of users × items; a data frame of pandas, polars,
            Arrow or another library, whose columns are named as in a file of interactions; or the
            path of such a file.

    Raises:
        DataError: it is none of these or empty, or its columns or values cannot be used.
    """
    if isinstance(interactions, str | Path):
        return _of_file(Path(interactions))
    if isinstance(interactions, Ratings):
        ratings, name = interactions, "the data set"
    elif issparse(interactions):
        ratings, name = _of_matrix(interactions), _MATRIX
    else:
        frame = frame_table(interactions)
        if frame is None:
            raise DataError(
                f"interactions are {type(interactions).__name__}: give a sparse matrix of users "
                "and items, a data frame, or the path of a file"
            )
        rows, name = numbered(*frame), frame[0].path
        counts = len(rows.user_ids), len(rows.item_ids)
        ratings = replace(
            _valued(rows.user, rows.item, rows.rating, counts, rows.time),
            user_ids=rows.user_ids,
            item_ids=rows.item_ids,
            repairs=tuple(repair for repair in rows.repairs if repair.count),
        )
    if not len(ratings):
        raise DataError(f"{name} holds no ratings: give some")
    return ratings


def _of_file(path: Path) -> Ratings:
    """Return the ratings in a file; errors name what a program can do.

    Raises:
        DataError: the file cannot be read, or what it holds is not clear.
    """
    try:
        return load(source_of(path))
    except UnknownColumnsError as error:
        raise DataError(f"{error.fault}: {error.remedy}") from error
    except UnknownScaleError as error:
        raise DataError(f"{error.fault}: {UNMARKED}") from error


def _of_matrix(matrix: Any) -> Ratings:
    if matrix.ndim != 2:
        raise DataError(
            f"{_MATRIX} has {matrix.ndim} dimension{'s' * (matrix.ndim > 1)}: give users × items"
        )
    if matrix.dtype.kind == "c":
        raise DataError(f"{_MATRIX} holds complex numbers: give ratings")
    if matrix.format in {"csr", "csc", "bsr"}:
        with foreign(_damaged):
            # Wrong indices or starts make scipy read other memory, or crash.
            matrix.check_format(full_check=True)
    with foreign(_damaged):
        entries = coo_array(matrix)
    users, items = entries.coords
    values = np.asarray(entries.data, np.float64)
    wrong = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if len(wrong):
        at = f"{_MATRIX}, row {users[wrong[0]]}, column {items[wrong[0]]}"
        raise DataError(
            f"{at}: the rating {values[wrong[0]]:g} is not a finite number within single "
            "precision: correct it or leave it out"
        )
    _check_values(values)
    return _valued(users, items, values, entries.shape)


def _check_values(values: NDArray[np.float64]) -> None:
    """Refuse stored zeros that are likely no ratings, and values that may mark "not rated".

    Raises:
        DataError: there are some.
    """
    zeros = int((values == 0).sum())
    if zeros and values.min() >= 0:
        raise DataError(
            f"{_MATRIX} stores {zeros:,} zero{'s' * (zeros > 1)} of {len(values):,} entries, which "
            "are no interactions: call its method eliminate_zeros(), or if they are ratings, give "
            "dpaudit.data.Ratings.build(…) with the scale"
        )
    levels, rows = np.unique(values, return_counts=True)
    # Without a value below 0 these may be counts, the largest of which is often far from the rest.
    if len(levels) and levels[0] < 0:
        try:
            check_marks(_MATRIX, levels, rows, "rating")
        except UnknownScaleError as error:
            raise DataError(f"{error.fault}: {UNMARKED}") from error


def _damaged(said: str) -> DataError:
    return DataError(f"{_MATRIX} is damaged ({said}): make it again from its entries")


def _valued(
    users: Any, items: Any, numbers: Any, shape: tuple[int, ...], time: Any = None
) -> Ratings:
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (1.0, 1.0)
    if low == high:
        low = high = 1.0
        numbers = np.ones(len(numbers))
    return Ratings.build(
        users,
        items,
        numbers,
        shape[0],
        shape[1],
        Scale(float(low), float(high), 1.0),
        time=time,
    )
