"""Ridge-penalised logistic regression by Newton's method, for millions of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
# Blocks of the rows of the design matrix, in single precision, and their labels.
Blocks = Callable[[], Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]]

# The most Newton steps per penalty, and the decrease of the loss per row that ends them.
_STEPS, _ENOUGH = 6, 1e-7
# The most blocks used for the Hessian, which need only be approximate.
_CURVED = 4


def fit_logistic(blocks: Blocks, width: int, penalties: Sequence[float]) -> list[Vector]:
    """Return the intercept and the weights for each penalty; penalties must decrease.

    Minimises Σ ln(1 + e^(−y·z)) + ½ penalty · ‖weights‖² with y = ±1 and z the log-odds; the
    intercept is not penalised. A step is H⁻¹g with H = XᵀWX + penalty and W = p(1 − p); it is
    halved while the loss rises. H is estimated from the first blocks, so rows should be in random
    order. Each solution starts the fit for the next smaller penalty.
    """
    at = np.zeros(width + 1)
    solutions = []
    for penalty in penalties:
        ridge = np.r_[1e-9, np.full(width, penalty)]
        best: tuple[float, Vector] = np.inf, at
        step = np.zeros_like(at)
        for _ in range(_STEPS):
            loss, gradient, hessian, rows = _derivatives(blocks, at)
            loss += 0.5 * float(ridge @ at**2)
            if loss > best[0]:
                step = step / 2
                at = best[1] + step
                continue
            done = best[0] - loss < _ENOUGH * rows
            best = loss, at
            if done:
                break
            gradient = gradient - ridge * at
            step = np.linalg.solve(hessian + np.diag(ridge), gradient)
            step *= min(1.0, 10.0 / max(float(np.abs(step).max()), 1e-300))
            at = at + step
        at = best[1]
        solutions.append(at)
    return solutions


def _derivatives(blocks: Blocks, at: Vector) -> tuple[float, Vector, Matrix, int]:
    """Return the loss, the gradient of its negative, the Hessian and the number of rows."""
    from scipy.special import expit

    loss, rows, curved = 0.0, 0, 0
    gradient, hessian = np.zeros_like(at), np.zeros((len(at), len(at)))
    for i, (block, labels) in enumerate(blocks()):
        log_odds = at[0] + block @ at[1:].astype(np.float32)
        share = expit(log_odds)
        loss += float(np.logaddexp(0, np.where(labels == 1, -log_odds, log_odds)).sum())
        excess, weight = labels - share, share * (1 - share)
        gradient += np.r_[excess.sum(), excess.astype(np.float32) @ block]
        rows += len(labels)
        if i < _CURVED:
            curved = rows
            weighted = block * weight[:, None].astype(np.float32)
            hessian[0, 0] += weight.sum()
            hessian[0, 1:] += weighted.sum(0)
            hessian[1:, 1:] += weighted.T @ block
    hessian[1:, 0] = hessian[0, 1:]
    return loss, gradient, hessian * (rows / curved), rows
