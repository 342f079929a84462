"""The best linear direction of features, which orients and joins them into one number."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Numbers
from dpaudit.kernels.normal_equations import solved

# Added to the covariance, as a share of each feature's variance, so that it is never singular.
_RIDGE = 1e-6
# A feature with a smaller spread, relative to its size, differs by rounding alone.
_ROUNDING = 1e-12


def direction(features: Numbers, present: NDArray[np.bool_]) -> Numbers:
    """Return Fisher's linear discriminant of present against absent targets `(F,)`.

    Σ⁻¹ g, for the change g of the features by the coin and the covariance Σ within both classes,
    pooled over all targets and trainings (Fisher 1936, doi:10.1111/j.1469-1809.1936.tb02137.x).
    Targets differ, as by how popular their items are. In the difference of the classes' means this
    may drown what one interaction changes, and turn even its sign. So a part θ of each target's
    means, of the feature and of the coin, is taken off before g is estimated by least squares,

        θ = 1 − √(s² / (R S²)),

    for the variance s² within targets and that S² of the means of R trainings: the estimate of g
    with random effects of targets (Swamy & Arora 1972, doi:10.2307/1909405). It compares targets
    with each other as far as they are alike, and each with itself as far as they differ. In one
    training all are compared, θ = 0. A feature that never changes, but for rounding, gets 0.

    Args:
        features: features in the attacker's trainings `(R, m, F)`.
        present: whether each target is in the data of each of these `(R, m)`.
    """
    if present.all() or not present.any():
        return np.zeros(features.shape[2])
    gap = _change(features, present)
    within, without = features[present], features[~present]
    away = np.concatenate((within - within.mean(0), without - without.mean(0)))
    spread = away.std(0)
    least = _ROUNDING * np.abs(features).max((0, 1))
    # A feature without any spread that differs between the classes decides alone: give it some.
    spread = np.where(spread > least, spread, np.abs(gap))
    able = spread > least
    scaled = away[:, able] / spread[able]
    covariance = np.einsum("ni,nj->ij", scaled, scaled) / len(scaled)
    covariance += _RIDGE * np.eye(len(covariance))
    weights = np.zeros(features.shape[2])
    right = (gap[able] / spread[able])[None, :, None]
    weights[able] = solved(covariance[None], right)[0, :, 0] / spread[able]
    return weights


def _change(features: Numbers, present: NDArray[np.bool_]) -> Numbers:
    """Return how much of each feature the coin changes `(F,)`."""
    share = _share(features)
    coins = present[:, :, None] - share * present.mean(0)[None, :, None]
    moved = features - share * features.mean(0)
    coins -= coins.mean((0, 1))
    moved -= moved.mean((0, 1))
    products, squares = (coins * moved).sum((0, 1)), (coins**2).sum((0, 1))
    # Without any coin that changes, what differs between targets tells nothing.
    return np.divide(products, squares, out=np.zeros_like(squares), where=squares > 0)


def _share(features: Numbers) -> Numbers:
    """Return the part θ of a target's mean that is taken off each feature `(F,)`."""
    trainings = len(features)
    if trainings == 1:
        return np.zeros(features.shape[2])
    within = features.var(0, ddof=1).mean(0)
    between = trainings * features.mean(0).var(0)
    ratio = np.divide(within, between, out=np.ones_like(within), where=between > 0)
    return 1 - np.sqrt(np.minimum(ratio, 1.0))
