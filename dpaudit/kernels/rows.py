"""Sums of rows of matrices in a fixed order: gradients of look-ups, and sums over a graph."""

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


@exact_kernel
def add_neighbours(start: Indices, neighbour: Indices, rows: Matrix, sums: Matrix) -> None:
    """Add to each row of the sums the rows of its neighbours, in their order.

    Args:
        start: the neighbours of r are `neighbour[start[r]] … neighbour[start[r + 1] − 1]`.
        neighbour: rows of `rows`.
        rows: `(N, d)`.
        sums: changed `(N, d)`.
    """
    for row in range(len(start) - 1):
        total = sums[row]
        for place in range(start[row], start[row + 1]):
            other = rows[np.uint64(neighbour[place])]
            for column in range(rows.shape[1]):
                total[column] += other[column]
