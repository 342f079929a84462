"""Closed forms of distinguishing a real sequence of noised vectors from a fake one.

A real user submits `g_t + N(0, σ²I)`, a fake user `F_t + N(0, σ²I)`, in rounds t = 1 … k, in R^d.
With both sequences fixed, all curves depend on μ of `sequence_mu` alone: the likelihood ratio, as
`Σ (x_t − F_t)·(g_t − F_t)/(σ²μ)`, is N(0, 1) for fakes and N(μ, 1) for reals.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erf, ncfdtr, ndtr, ndtri
from scipy.stats import chi2, ncx2

Values = NDArray[np.float64]


def sequence_mu(gradients: ArrayLike, fakes: ArrayLike, sigma: float) -> Values:
    """The distance of each sequence `(…, k, d)` from its fake, `√(Σ ‖g − F‖²)/σ`, `(…)`."""
    # Divide first, so that squares of large gradients under large noise do not overflow.
    away = (np.asarray(gradients, np.float64) - np.asarray(fakes, np.float64)) / sigma
    return np.asarray(np.sqrt(np.sum(away**2, axis=(-2, -1))))


def sequence_kl(gradients: ArrayLike, fakes: ArrayLike, sigma: float) -> Values:
    """KL of each real sequence of noised vectors from its fake one, `Σ‖g − F‖²/(2σ²)`.

    Exact for fixed sequences. If g_t and F_t depend on the past, the mean over runs with the real
    user is the KL of the whole run by the chain rule, and at least the KL of any observation of it
    (Cover & Thomas 2006, Theorem 2.5.3, doi:10.1002/047174882X).
    """
    return sequence_mu(gradients, fakes, sigma) ** 2 / 2


def total_variation(mu: ArrayLike) -> Values:
    """The largest TPR − FPR of any attack, `2Φ(μ/2) − 1`, reached at the threshold μ/2.

    Dong, Roth, Su 2019, arXiv:1905.02383, section 2.
    """
    # 2Φ(μ/2) − 1 = erf(μ/√8), which keeps its digits at a small μ.
    return np.asarray(erf(np.asarray(mu, np.float64) / math.sqrt(8)))


def type_two_error(mu: ArrayLike, level: float) -> Values:
    """The smallest share of reals that any test at this level misses, `Φ(z_{1−level} − μ)`.

    Reached by the likelihood ratio (Neyman & Pearson 1933, doi:10.1098/rsta.1933.0009).
    """
    return np.asarray(ndtr(-ndtri(level) - np.asarray(mu, np.float64)))  # z_{1−level} = −z_level


def ratio_auc(mu: ArrayLike) -> Values:
    """The area under the ROC curve of the likelihood ratio, `Φ(μ/√2)`: the largest of any score.

    A real's ratio minus a fake's is N(μ, 2) (Green & Swets 1966, Signal Detection Theory and
    Psychophysics, section 3.2).
    """
    return np.asarray(ndtr(np.asarray(mu, np.float64) / math.sqrt(2)))


def energy_power(mu: ArrayLike, degrees: ArrayLike, level: float) -> Values:
    """The share of reals that the energy detector finds, which knows the fakes only.

    Its score `Σ ‖x_t − F_t‖²/σ²` is χ² with `degrees` = kd degrees of freedom for fakes, and
    noncentral χ² with noncentrality μ² for reals (Urkowitz 1967, doi:10.1109/PROC.1967.5573).
    """
    free = np.asarray(degrees, np.float64)
    return np.asarray(ncx2.sf(chi2.isf(level, free), free, np.asarray(mu, np.float64) ** 2))


def energy_auc(mu: ArrayLike, degrees: ArrayLike) -> Values:
    """The area under the ROC curve of the energy detector, `P(F_{kd,kd}(μ²) > 1)`.

    The ratio of a real's energy to an independent fake's is noncentral F (Johnson, Kotz,
    Balakrishnan 1995, Continuous Univariate Distributions 2, chapter 30).
    """
    free = np.asarray(degrees, np.float64)
    return np.asarray(1 - ncfdtr(free, free, np.asarray(mu, np.float64) ** 2, 1.0))
