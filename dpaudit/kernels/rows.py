"""Sums of rows of matrices, in the order of an index: gradients of look-ups, and sums over a graph."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.kernels.jit import exact_kernel

Matrix = NDArray[np.float32]
Indices = NDArray[np.int64]


@exact_kernel
def add_rows(index: Indices, rows: Matrix, sums: Matrix) -> None:
    """Add each row to the row of the sums that its index names, in their order.

    Args:
        index: the row of the sums `(n,)`.
        rows: what is added `(n, d)`.
        sums: changed `(N, d)`.
    """
    for row in range(len(index)):
        place = np.uint64(index[row])
        for column in range(rows.shape[1]):
            sums[place, column] += rows[row, column]
