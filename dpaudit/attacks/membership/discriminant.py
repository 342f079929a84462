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

    Σ⁻¹ (μ_in − μ_out), with the covariance Σ within both classes pooled over all targets and
    trainings (Fisher 1936, doi:10.1111/j.1469-1809.1936.tb02137.x). A feature that never changes,
    but for rounding, gets 0.

    Args:
        features: features in the attacker's trainings `(R, m, F)`.
        present: whether each target is in the data of each of these `(R, m)`.
    """
    within, without = features[present], features[~present]
    if not len(within) or not len(without):
        return np.zeros(features.shape[2])
    gap = within.mean(0) - without.mean(0)
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
