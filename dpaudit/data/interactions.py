"""Ratings as the sparse matrix of users and items that recommender libraries train on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, issparse

from dpaudit.core.errors import DataError
from dpaudit.data.frames import frame_table, numbered
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.readers.load import load
from dpaudit.data.sniff import source_of


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


def ratings_of(interactions: csr_array, scale: Scale) -> Ratings:
    """Return the ratings in a users × items matrix with sorted, distinct entries.

    Raises:
        DataError: an entry is repeated, or outside the scale.
    """
    n_users, n_items = interactions.shape
    users = np.repeat(np.arange(n_users), np.diff(interactions.indptr))
    return Ratings.build(users, interactions.indices, interactions.data, n_users, n_items, scale)


def given_ratings(interactions: Any) -> Ratings:
    """Return ratings from what a Python program passes.

    Args:
        interactions: ratings; a sparse matrix of users × items; a data frame of pandas, polars,
            Arrow or another library, whose columns are named as in a file of interactions; or the
            path of such a file.

    Raises:
        DataError: it is none of these or empty, or its columns or values cannot be used.
    """
    if isinstance(interactions, str | Path):
        return load(source_of(Path(interactions)))
    if isinstance(interactions, Ratings):
        ratings, name = interactions, "the data set"
    elif issparse(interactions):
        ratings, name = _of_matrix(coo_array(interactions)), "the sparse matrix"
    else:
        table = frame_table(interactions)
        if table is None:
            raise DataError(
                f"interactions are {type(interactions).__name__}: give a sparse matrix of users "
                "and items, a data frame, or the path of a file"
            )
        ratings, name = _valued(*numbered(table)), table.path
    if not len(ratings):
        raise DataError(f"{name} holds no ratings: give some")
    return ratings


def _of_matrix(entries: coo_array) -> Ratings:
    if entries.ndim != 2:
        raise DataError(
            f"the sparse matrix has {entries.ndim} dimension{'s' * (entries.ndim > 1)}: give users "
            "× items"
        )
    users, items = entries.coords
    return _valued(users, items, entries.data, entries.shape)


def _valued(users: Any, items: Any, values: Any, shape: tuple[int, ...]) -> Ratings:
    numbers = np.asarray(values, np.float64)
    if not np.isfinite(numbers).all():
        raise DataError("a rating is NaN or infinite: leave its row out")
    low, high = (numbers.min(), numbers.max()) if len(numbers) else (1.0, 1.0)
    if low == high:
        low = high = 1.0
        numbers = np.ones(len(numbers))
    return Ratings.build(
        users, items, numbers, shape[0], shape[1], Scale(float(low), float(high), 1.0)
    )
