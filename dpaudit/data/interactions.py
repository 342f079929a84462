"""Ratings as the sparse matrix of users and items that recommender libraries train on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.data.ratings import Ratings, Scale


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
