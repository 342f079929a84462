"""Closed forms of telling a real sequence of noised vectors from a fake one.

A real user submits `g_t + N(0, σ²I)`, a fake one `F_t + N(0, σ²I)`, in rounds t = 1 … k, in R^d.
With both sequences fixed this is one normal vector of kd coordinates against another, and all that
matters for whoever knows both is the distance of the means in standard deviations of the noise,

    μ = √(Σ_t ‖g_t − F_t‖²)/σ.

The likelihood ratio, as `Σ (x_t − F_t)·(g_t − F_t)/(σ²μ)`, is N(0, 1) for fakes and N(μ, 1) for
reals. The same μ is read as ε at a δ by `gdp.gaussian_epsilon`, as δ at an ε by `gaussian_delta`.

Where g_t or F_t depend on what was seen before, μ is random: the curves below are no longer exact,
but those of its largest value bound every attack (fully adaptive composition of Gaussian DP, Smith
& Thakurta 2022, arXiv:2210.17520).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.outcomes import check_alpha
from dpaudit.core.errors import InputError

Values = NDArray[np.float64]


def sequence_mu(gradients: ArrayLike, fakes: ArrayLike, sigma: float) -> Values:
    """μ of each sequence: `√(Σ ‖g − F‖²)/σ` over rounds and coordinates.

    Args:
        gradients: real vectors without noise; shape (…, k, d).
        fakes: fake vectors without noise; a shape that broadcasts with it.
        sigma: standard deviation of the noise of each coordinate.

    Returns:
        Shape (…).

    Raises:
        InputError: shapes that do not fit, fewer than two axes, numbers that are not finite, or a
            sigma that is not a finite number above 0.
    """
    real, fake = np.asarray(gradients, np.float64), np.asarray(fakes, np.float64)
    if not 0 < sigma < math.inf:
        raise InputError(f"sigma = {sigma} is not a finite number above 0: give the noise's scale")
    try:
        shape = np.broadcast_shapes(real.shape, fake.shape)
    except ValueError as error:
        raise InputError(
            f"gradients {real.shape} and fakes {fake.shape} do not fit: give one fake a gradient"
        ) from error
    if len(shape) < 2:
        raise InputError(f"gradients have shape {shape}: give rounds and coordinates, (…, k, d)")
    for name, values in (("gradients", real), ("fakes", fake)):
        if not np.isfinite(values).all():
            raise InputError(f"{name} hold NaN or infinity: give finite numbers")
    # Divided first: squares of large gradients under large noise do not overflow.
    return np.sqrt(np.sum(((real - fake) / sigma) ** 2, axis=(-2, -1)))


def total_variation(mu: ArrayLike) -> Values:
    """The total variation distance `2Φ(μ/2) − 1`: the largest TPR − FPR of any attack.

    It is `gdp.gaussian_delta` at ε = 0, for many μ at once: TPR − FPR of N(0, 1) against N(μ, 1) is
    largest at the threshold μ/2 (Dong, Roth, Su 2019, arXiv:1905.02383, section 2).

    Args:
        mu: from `sequence_mu`; any shape.

    Returns:
        Numbers in [0, 1]; the shape of μ.

    Raises:
        InputError: a μ is negative or not finite.
    """
    from scipy.special import erf

    # 2Φ(μ/2) − 1 = erf(μ/√8), which keeps its digits at a small μ.
    return np.asarray(erf(_checked(mu) / math.sqrt(8)))


def type_two_error(mu: ArrayLike, level: float) -> Values:
    """The least share of reals that any test at this level misses: `Φ(z_{1−level} − μ)`.

    Reached by the likelihood ratio (Neyman & Pearson 1933, doi:10.1098/rsta.1933.0009).

    Args:
        mu: from `sequence_mu`; any shape.
        level: the share of fakes that the test calls real.

    Returns:
        Numbers in [0, 1 − level]; the shape of μ.

    Raises:
        InputError: a μ is negative or not finite, or the level is not in (0, 1).
    """
    from scipy.special import ndtr, ndtri

    check_alpha(level)
    return np.asarray(ndtr(-ndtri(level) - _checked(mu)))  # z_{1−level} = −z_level


def ratio_auc(mu: ArrayLike) -> Values:
    """The area under the ROC curve of the likelihood ratio, `Φ(μ/√2)`: the largest of any score.

    A real's ratio minus a fake's is N(μ, 2) (Green & Swets 1966, Signal Detection Theory and
    Psychophysics, section 3.2). Pairs of a real and a fake all have the same μ.

    Args:
        mu: from `sequence_mu`; any shape.

    Returns:
        Numbers in [½, 1]; the shape of μ.

    Raises:
        InputError: a μ is negative or not finite.
    """
    from scipy.special import ndtr

    return np.asarray(ndtr(_checked(mu) / math.sqrt(2)))


def energy_power(mu: ArrayLike, degrees: ArrayLike, level: float) -> Values:
    """The share of reals that the energy detector finds, who knows the fakes and not the gradients.

    Its score `Σ ‖x_t − F_t‖²/σ²` is χ² with kd degrees of freedom for fakes, and noncentral χ² with
    noncentrality μ² for reals (Urkowitz 1967, doi:10.1109/PROC.1967.5573):

        P(χ²_{kd}(μ²) > c),   P(χ²_{kd} > c) = level.

    Args:
        mu: from `sequence_mu`; any shape.
        degrees: the number of coordinates of a sequence, kd; a shape that broadcasts with it.
        level: the share of fakes that the detector calls real.

    Returns:
        Numbers in [level, 1]; the shape of both together.

    Raises:
        InputError: a μ is negative or not finite, degrees below 1, or the level is not in (0, 1).
    """
    from scipy.stats import chi2, ncx2

    check_alpha(level)
    found, free = _checked(mu), _degrees(degrees)
    return np.asarray(ncx2.sf(chi2.isf(level, free), free, found**2))


def energy_auc(mu: ArrayLike, degrees: ArrayLike) -> Values:
    """The area under the ROC curve of the energy detector.

    The ratio of a real's energy to an independent fake's has the noncentral F law with (kd, kd)
    degrees of freedom and noncentrality μ², so the area is `P(F_{kd,kd}(μ²) > 1)` (Johnson, Kotz,
    Balakrishnan 1995, Continuous Univariate Distributions 2, chapter 30).

    Args:
        mu: from `sequence_mu`; any shape.
        degrees: the number of coordinates of a sequence, kd; a shape that broadcasts with it.

    Returns:
        Numbers in [½, 1]; the shape of both together.

    Raises:
        InputError: a μ is negative or not finite, or degrees below 1.
    """
    from scipy.special import ncfdtr

    found, free = _checked(mu), _degrees(degrees)
    return np.asarray(1 - ncfdtr(free, free, found**2, 1.0))


def _checked(mu: ArrayLike) -> Values:
    """Each μ a finite number of at least 0."""
    found = np.asarray(mu, np.float64)
    bad = found[~((found >= 0) & (found < math.inf))]
    if bad.size:
        raise InputError(f"mu = {bad.flat[0]} is not a finite number of at least 0")
    return found


def _degrees(degrees: ArrayLike) -> Values:
    """Each number of coordinates at least 1."""
    found = np.asarray(degrees, np.float64)
    bad = found[~((found >= 1) & (found < math.inf))]
    if bad.size:
        raise InputError(f"degrees = {bad.flat[0]} is no number of coordinates: give k·d, from 1")
    return found
