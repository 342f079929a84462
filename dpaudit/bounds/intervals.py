"""Confidence intervals for proportions and for means of bounded quantities."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.estimate import Estimate


def clopper_pearson(count: int, n: int, alpha: float) -> tuple[float, float]:
    """The exact two-sided interval of a proportion at level `alpha`, `α/2` on either side.

    Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404.
    """
    lower, upper = clopper_pearson_each(np.array(count), n, alpha)
    return float(lower), float(upper)


def clopper_pearson_each(
    count: NDArray[np.int64], n: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The interval of `clopper_pearson` for each count."""
    from statsmodels.stats.proportion import proportion_confint

    lower, upper = proportion_confint(count, n, alpha, method="beta")
    return np.asarray(lower), np.asarray(upper)


def proportion(count: int, n: int, alpha: float, confidence: float) -> Estimate:
    """A proportion with its Clopper-Pearson interval at level `alpha`."""
    lower, upper = clopper_pearson(count, n, alpha)
    return Estimate(
        value=count / n,
        lower=lower,
        upper=upper,
        confidence=confidence,
        alpha=alpha,
        n=n,
        method="clopper-pearson",
    )


def bounded_mean(values: NDArray[np.float64], alpha: float, confidence: float) -> Estimate:
    """The mean of independent values in [0, 1] with an empirical-Bernstein interval.

    With probability 1 − α, for the sample variance V (divisor n − 1),

        |mean − μ| ≤ √(2 V ln(4/α) / n) + 7 ln(4/α) / (3 (n − 1))

    valid at every n and for every law on [0, 1]. Maurer & Pontil 2009, Theorem 4,
    arXiv:0907.3740 (one-sided with ln(2/δ); δ = α/2 for either side).

    Raises:
        ValueError: fewer than two values.
    """
    n = len(values)
    if n < 2:
        raise ValueError(f"{n} values have no sample variance: use at least 2 trials")
    mean, variance, log = float(values.mean()), float(values.var(ddof=1)), math.log(4 / alpha)
    half = math.sqrt(2 * variance * log / n) + 7 * log / (3 * (n - 1))
    return Estimate(
        value=mean,
        lower=max(0.0, mean - half),
        upper=min(1.0, mean + half),
        confidence=confidence,
        alpha=alpha,
        n=n,
        method="empirical-bernstein",
    )
