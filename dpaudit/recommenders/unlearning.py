"""Steps by which a trained factorisation forgets: a Newton step, and the ascent of a loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, minres

Array = NDArray[np.float64]
Index = NDArray[np.integer]

# Steps of an ascent, and by which share of its length each of them moves a row.
ASCENTS, STEP = 5, 0.01
# Iterations that solve for a Newton step. More of them follow directions in which the Hessian of a
# model that has not converged is nearly 0, and lead further away from a new training.
ITERATIONS = 10
# The number of inner products at a time.
_TOGETHER = 2**16


class Pair(NamedTuple):
    """A row for each user `(N, d)` and for each item `(M, d)`."""

    users: Array
    items: Array


# Returns the derivative of a loss by the score of each pair (user, item), given the factors.
Slopes = Callable[[Pair], csr_array]


def products(factors: Pair, users: Index, items: Index) -> Array:
    """Return the scores of pairs (user, item) `(n,)`: the inner products of their factors."""
    scores = np.empty(len(users))
    for start in range(0, len(users), _TOGETHER):
        part = slice(start, start + _TOGETHER)
        rows = factors.users[users[part]], factors.items[items[part]]
        scores[part] = np.einsum("nd,nd->n", *rows)
    return scores


def ascended(factors: Pair, slopes: Slopes, trained: tuple[Index, Index]) -> Pair:
    """Follow the gradient of a loss upwards, for `ASCENTS` steps.

    This is the negative gradient that Golatkar et al. 2020, arXiv:1911.04933, compare with. Each
    step moves a row of factors in the direction of its gradient by `STEP` of its length, and a row
    whose gradient is 0 not at all. The length of a gradient decides nothing, since it is not a
    property of the model: all scores are the same if the factors of users are divided and those of
    items multiplied by a number.

    Args:
        factors: the factors.
        slopes: the derivative of the sum of the losses of what is forgotten by each score.
        trained: 1 for the columns of users and of items that are trained, 0 for those that are
            constant `(d,)`.
    """
    for _ in range(ASCENTS):
        slope = slopes(factors)
        # For the scores S = X Y^T: dl/dX = (dl/dS) Y, and dl/dY = (dl/dS)^T X.
        gradients = slope @ factors.items, slope.T @ factors.users
        factors = Pair(*map(_moved, factors, gradients, trained))
    return factors


def _moved(rows: Array, gradient: Array, trained: Index) -> Array:
    direction = gradient * trained
    length, norm = (np.linalg.norm(part, axis=1, keepdims=True) for part in (rows, direction))
    return rows + STEP * length * direction / np.where(norm > 0, norm, 1)


def newton_step(factors: Pair, seen: csr_array, kept: csr_array, regularization: float) -> Pair:
    """Move the factors of alternating least squares towards the optimum without some pairs.

    The loss of Hu, Koren & Volinsky 2008 on confidences c is, with the factors X and Y,

        L = sum_ui w_ui (p_ui - x_u . y_i)^2 + lambda (|X|^2 + |Y|^2)

    in which w is |c| and p is whether c > 0 where there is an interaction, and 1 and 0 elsewhere.
    At an optimum of L on all data, the optimum on what stays is nearly

        (X, Y) - H^-1 grad (L_kept - L_seen)

    in which H is the Hessian of L_kept by all factors together. This is the influence function of
    Koh & Liang 2017, arXiv:1703.04730, with the Hessian of what stays (Guo et al. 2020,
    arXiv:1911.03030), and for recommenders that of Zhang et al. 2023, arXiv:2307.02147,
    without its pruning. MINRES solves for the step in `ITERATIONS` iterations, since H may have
    negative eigenvalues where a training did not converge. It is preconditioned by the blocks of
    H that belong to single users and items.

    Args:
        factors: trained factors.
        seen: the confidences that they were trained on `(N, M)`.
        kept: those that stay `(N, M)`.
        regularization: lambda.
    """
    (x, y), (n, d) = factors, factors.users.shape
    inverse = _blocks(kept, y, regularization), _blocks(csr_array(kept.T), x, regularization)
    residual = _residual(factors, kept)
    users, items, weight = _rows(kept), kept.indices, np.abs(kept.data) - 1
    squares_x, squares_y = (z.T @ z + regularization * np.eye(d) for z in (x, y))

    def parts(vector: Array) -> Pair:
        return Pair(vector[: n * d].reshape(n, d), vector[n * d :].reshape(-1, d))

    def hessian(vector: Array) -> Array:
        # Half the gradient by X is X (Y^T Y + lambda) + R Y, with the residuals R at interactions.
        # Its derivative in the direction (dx, dy), and likewise by Y:
        dx, dy = parts(vector)
        scores = products(Pair(dx, y), users, items) + products(Pair(x, dy), users, items)
        change = csr_array((weight * scores, items, kept.indptr), shape=kept.shape)
        by_x = dx @ squares_y + x @ (dy.T @ y + y.T @ dy) + change @ y + residual @ dy
        by_y = dy @ squares_x + y @ (dx.T @ x + x.T @ dx) + change.T @ x + residual.T @ dx
        return np.concatenate((by_x, by_y), axis=None)

    def preconditioned(vector: Array) -> Array:
        blocks = (
            np.einsum("nij,nj->ni", block, part)
            for block, part in zip(inverse, parts(vector), strict=True)
        )
        return np.concatenate(tuple(blocks), axis=None)

    difference = residual - _residual(factors, seen)
    gradient = np.concatenate((difference @ y, difference.T @ x), axis=None)
    shape = len(gradient), len(gradient)
    step, _ = minres(
        LinearOperator(shape, matvec=hessian, dtype=np.float64),
        gradient,
        M=LinearOperator(shape, matvec=preconditioned, dtype=np.float64),
        maxiter=ITERATIONS,
    )
    dx, dy = parts(step)
    return Pair(x - dx, y - dy)


def _residual(factors: Pair, confidences: csr_array) -> csr_array:
    """Return by how much half of dL/ds at each interaction is more than the score s itself."""
    scores = products(factors, _rows(confidences), confidences.indices)
    # w (s - p) - s = (w - 1) s - w p
    data = (np.abs(confidences.data) - 1) * scores - np.maximum(confidences.data, 0)
    return csr_array((data, confidences.indices, confidences.indptr), shape=confidences.shape)


def _rows(matrix: csr_array) -> Index:
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _blocks(confidences: csr_array, columns: Array, regularization: float) -> Array:
    """Return the inverses of the blocks of half the Hessian that belong to rows `(N, d, d)`."""
    base = columns.T @ columns + regularization * np.eye(columns.shape[1])
    blocks = np.empty((confidences.shape[0], *base.shape))
    for row, block in enumerate(blocks):
        place = slice(*confidences.indptr[row : row + 2])
        liked = columns[confidences.indices[place]]
        # Y^T W Y + lambda, in which W is 1 where there is no interaction.
        block[:] = base + (liked.T * (np.abs(confidences.data[place]) - 1)) @ liked
    inverse: Array = np.linalg.inv(blocks)
    return inverse
