"""The distance μ between a real sequence of noised vectors and a fake one.

A real user submits `g_t + N(0, σ²I)`, a fake user `F_t + N(0, σ²I)`, in rounds t = 1 … k, in R^d.
If both sequences are fixed, an attacker who knows them tests one normal vector of kd coordinates
against another. Only the distance of the means in standard deviations of the noise matters:

    μ = √(Σ_t ‖g_t − F_t‖²)/σ.

The likelihood ratio, as `Σ (x_t − F_t)·(g_t − F_t)/(σ²μ)`, is N(0, 1) for fakes and N(μ, 1) for
reals. `gdp.gaussian_epsilon` converts μ to ε at a δ, `gdp.gaussian_delta` to δ at an ε.

If g_t or F_t depend on earlier observations, μ is random. The trade-off curve of its largest value
then bounds every attack (fully adaptive composition of Gaussian DP, Smith & Thakurta 2022,
arXiv:2210.17520).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.core.errors import InputError

Values = NDArray[np.float64]


def sequence_mu(gradients: ArrayLike, fakes: ArrayLike, sigma: float) -> Values:
    """Return μ of each sequence: `√(Σ ‖g − F‖²)/σ` over rounds and coordinates.

    Args:
        gradients: real vectors without noise; shape (…, k, d).
        fakes: fake vectors without noise; a shape that broadcasts with `gradients`.
        sigma: standard deviation of the noise of each coordinate.

    Returns:
        Shape (…).

    Raises:
        InputError: the shapes do not broadcast, there are fewer than two axes, a number is not
            finite, or sigma is not a finite number above 0.
    """
    real, fake = np.asarray(gradients, np.float64), np.asarray(fakes, np.float64)
    if not 0 < sigma < math.inf:
        raise InputError(f"sigma = {sigma} is not a finite number above 0: give the noise's σ")
    try:
        shape = np.broadcast_shapes(real.shape, fake.shape)
    except ValueError as error:
        raise InputError(
            f"gradients {real.shape} and fakes {fake.shape} do not fit: give one fake per gradient"
        ) from error
    if len(shape) < 2:
        raise InputError(f"gradients have shape {shape}: give rounds and coordinates, (…, k, d)")
    for name, values in (("gradients", real), ("fakes", fake)):
        if not np.isfinite(values).all():
            raise InputError(f"{name} hold NaN or infinity: give finite numbers")
    # Divide first, so that squares of large gradients under large noise do not overflow.
    return np.sqrt(np.sum(((real - fake) / sigma) ** 2, axis=(-2, -1)))
