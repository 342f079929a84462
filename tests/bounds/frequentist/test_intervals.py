"""Confidence intervals: against other implementations, by hand, and by their coverage."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from dpaudit.bounds.frequentist.intervals import clopper_pearson, proportion

Floats = NDArray[np.float64]


@pytest.mark.cases("n", [1, 7, 100, 20_000])
@pytest.mark.cases("alpha", [0.2, 0.05, 1e-6])
def test_clopper_pearson_against_scipy_and_statsmodels(n: int, alpha: float) -> None:
    for count in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        limits = clopper_pearson(count, n, alpha)
        exact = stats.binomtest(count, n).proportion_ci(1 - alpha, method="exact")
        np.testing.assert_allclose(limits, (exact.low, exact.high), rtol=1e-6, atol=1e-9)
        again = proportion_confint(count, n, alpha, method="beta")
        np.testing.assert_allclose(limits, again, rtol=1e-12)
        # What the limits mean: this count or more has probability α/2 at the lower limit.
        low, high = limits
        if count > 0:
            assert stats.binom.sf(count - 1, n, low) == pytest.approx(alpha / 2, rel=1e-5)
        else:
            assert low == 0
        if count < n:
            assert stats.binom.cdf(count, n, high) == pytest.approx(alpha / 2, rel=1e-5)
        else:
            assert high == 1


def coverage(limits: Callable[[int], tuple[float, float]], n: int, p: float) -> float:
    """The exact coverage: the probability of the counts whose interval holds p."""
    inside = [low <= p <= high for low, high in map(limits, range(n + 1))]
    return float(stats.binom.pmf(np.arange(n + 1), n, p)[inside].sum())


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_clopper_pearson_covers_on_either_side(alpha: float) -> None:
    n = 40
    exact = [clopper_pearson(count, n, alpha) for count in range(n + 1)]
    points = np.linspace(0.003, 0.997, 150)
    assert min(coverage(lambda k: exact[k], n, p) for p in points) >= 1 - alpha
    # Each limit alone errs at most half of α: one-sided bounds use it so.
    for side in (0, 1):
        one = [(low, 1.0) if side == 0 else (0.0, high) for low, high in exact]
        assert min(coverage(lambda k, one=one: one[k], n, p) for p in points) >= 1 - alpha / 2  # type: ignore[misc]

    # The normal approximation would be caught.
    def wald(count: int) -> tuple[float, float]:
        share = count / n
        half = stats.norm.isf(alpha / 2) * math.sqrt(share * (1 - share) / n)
        return share - half, share + half

    assert min(coverage(wald, n, p) for p in points) < 1 - alpha


def test_proportion_says_what_it_is() -> None:
    estimate = proportion(30, 100, 0.01, 0.95)
    assert (estimate.value, estimate.n, estimate.alpha, estimate.confidence) == (
        0.3,
        100,
        0.01,
        0.95,
    )
    assert (estimate.lower, estimate.upper) == clopper_pearson(30, 100, 0.01)
    assert estimate.kind == "frequentist"
