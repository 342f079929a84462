"""What a training gets, from a sparse matrix."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale


def trained_on(matrix: csr_array) -> Interactions:
    """Interactions whose matrix this is, without times, features and ids."""
    n_users, n_items = matrix.shape
    users = np.repeat(np.arange(n_users), np.diff(matrix.indptr))
    low, high = (matrix.data.min(), matrix.data.max()) if matrix.nnz else (1.0, 1.0)
    scale = Scale(float(low), float(high), 1.0)
    return Interactions(Ratings.build(users, matrix.indices, matrix.data, n_users, n_items, scale))
