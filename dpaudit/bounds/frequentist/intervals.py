"""Confidence intervals for proportions; those for means are in `means`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.estimate import Estimate


def clopper_pearson(count: int, n: int, alpha: float) -> tuple[float, float]:
    """Return the exact two-sided interval of a proportion at level `alpha`, `α/2` on either side.

    Clopper & Pearson 1934, doi:10.1093/biomet/26.4.404.
    """
    lower, upper = clopper_pearson_each(np.array(count), n, alpha)
    return float(lower), float(upper)


def clopper_pearson_each(
    count: NDArray[np.int64], n: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the limits of `clopper_pearson` for each count."""
    from statsmodels.stats.proportion import proportion_confint

    lower, upper = proportion_confint(count, n, alpha, method="beta")
    return np.asarray(lower), np.asarray(upper)


def proportion(count: int, n: int, alpha: float, confidence: float) -> Estimate:
    """Estimate a proportion with its Clopper-Pearson interval at level `alpha`."""
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
