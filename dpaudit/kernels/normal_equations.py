"""Assemble and solve symmetric positive definite systems in a fixed order of operations.

BLAS and LAPACK sum in an order that depends on the machine, the sizes and the library version.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.kernels.jit import exact_kernel

Numbers = NDArray[np.float64]


@exact_kernel
def add_squares(rows: Numbers, weights: Numbers, squares: Numbers) -> None:
    """Add `Σ w x xᵀ` to the upper triangle of each of n matrices.

    Args:
        rows: the vectors x `(n, m, d)`.
        weights: their weights w `(n, m)`.
        squares: result `(n, d, d)`; entries below the diagonals are not changed.
    """
    _, count, d = rows.shape
    whole = count - count % 4
    for n in range(len(rows)):
        vectors, w, into = rows[n], weights[n], squares[n]
        # Four rows at a time, so that the triangle is read and written once for all four.
        for m in range(0, whole, 4):
            x, y, z, t = vectors[m], vectors[m + 1], vectors[m + 2], vectors[m + 3]
            for i in range(d):
                a, b = w[m] * x[i], w[m + 1] * y[i]
                c, e = w[m + 2] * z[i], w[m + 3] * t[i]
                for j in range(i, d):
                    into[i, j] += (a * x[j] + b * y[j]) + (c * z[j] + e * t[j])
        for m in range(whole, count):
            for i in range(d):
                a = w[m] * vectors[m, i]
                for j in range(i, d):
                    into[i, j] += a * vectors[m, j]


@exact_kernel
def eliminate(matrices: Numbers, right: Numbers) -> None:
    """Solve `A x = b` in place for each of n positive definite A, by Gaussian elimination.

    Positive definite matrices need no pivoting. A singular matrix gives infinities or NaN.

    Args:
        matrices: the matrices A `(n, d, d)`; only the upper triangle is read. It is overwritten
            with the eliminated rows, with the pivots on the diagonal; their product is `det A`.
        right: b `(n, d, k)`; overwritten with x.
    """
    d, k = right.shape[1:]
    for n in range(len(matrices)):
        a, b = matrices[n], right[n]
        for j in range(d):
            row, known = a[j], b[j]
            for i in range(j + 1, d):
                share, lower, solution = row[i] / row[j], a[i], b[i]
                for c in range(i, d):
                    lower[c] -= share * row[c]
                for c in range(k):
                    solution[c] -= share * known[c]
        for j in range(d - 1, -1, -1):
            row, solution = a[j], b[j]
            for i in range(j + 1, d):
                share, known = row[i], b[i]
                for c in range(k):
                    solution[c] -= share * known[c]
            for c in range(k):
                solution[c] /= row[j]


def ridged(rows: Numbers, ridge: float = 1.0) -> Numbers:
    """Return the upper triangles of n matrices `Σ x xᵀ + ridge · I`, from rows `(n, m, d)`."""
    d = rows.shape[2]
    squares = np.broadcast_to(ridge * np.eye(d), (len(rows), d, d)).copy()
    add_squares(np.ascontiguousarray(rows), np.ones(rows.shape[:2]), squares)
    return squares


def solved(matrices: ArrayLike, right: ArrayLike) -> Numbers:
    """Return the solutions x `(n, d, k)` of `A x = b` for n positive definite A.

    Args:
        matrices: the matrices A `(n, d, d)`; only the upper triangle is read.
        right: b `(n, d, k)`, or a shape that broadcasts to it.
    """
    eliminated = np.array(matrices, np.float64, order="C")
    given = np.asarray(right, np.float64)
    solutions = np.array(
        np.broadcast_to(given, (*eliminated.shape[:2], given.shape[-1])), order="C"
    )
    eliminate(eliminated, solutions)
    return solutions


def inverses(matrices: ArrayLike) -> tuple[Numbers, Numbers]:
    """Return the inverses of n positive definite matrices `(n, d, d)` and their `ln det` `(n,)`."""
    eliminated = np.array(matrices, np.float64, order="C")
    inverse = np.array(np.broadcast_to(np.eye(eliminated.shape[1]), eliminated.shape), order="C")
    eliminate(eliminated, inverse)
    return inverse, np.log(np.diagonal(eliminated, axis1=1, axis2=2)).sum(1)
