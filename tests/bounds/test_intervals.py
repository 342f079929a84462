"""Confidence intervals: against other implementations, by hand, and by their coverage."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from dpaudit.bounds.intervals import bounded_mean, clopper_pearson, proportion

Floats = NDArray[np.float64]


@pytest.mark.parametrize("n", [1, 7, 100, 20_000])
@pytest.mark.parametrize("alpha", [0.2, 0.05, 1e-6])
def test_clopper_pearson_against_scipy_and_statsmodels(n: int, alpha: float) -> None:
    for count in sorted({0, 1, n // 3, n // 2, n - 1, n}):
        found = clopper_pearson(count, n, alpha)
        exact = stats.binomtest(count, n).proportion_ci(1 - alpha, method="exact")
        np.testing.assert_allclose(found, (exact.low, exact.high), rtol=1e-6, atol=1e-9)
        again = proportion_confint(count, n, alpha, method="beta")
        np.testing.assert_allclose(found, again, rtol=1e-12)
        # What the limits mean: this count or more has probability α/2 at the lower limit.
        low, high = found
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
    found = proportion(30, 100, 0.01, 0.95)
    assert (found.value, found.n, found.alpha, found.confidence) == (0.3, 100, 0.01, 0.95)
    assert (found.lower, found.upper) == clopper_pearson(30, 100, 0.01)
    assert found.kind == "frequentist"


def test_empirical_bernstein_by_hand() -> None:
    # n = 1000 with 500 ones, α = 0.05: V = 250/999, ln 80 = 4.382026634673881,
    # √(2 V ln 80 / n) = 0.0468317, 7 ln 80 / (3 · 999) = 0.0102349; together 0.0570666.
    values = np.repeat([0.0, 1.0], 500)
    found = bounded_mean(values, 0.05, 0.95)
    assert found.value == 0.5
    assert found.upper - 0.5 == pytest.approx(0.0570666, abs=1e-6)
    assert 0.5 - found.lower == pytest.approx(0.0570666, abs=1e-6)
    assert found.kind == "frequentist"
    # A constant has no variance: only the second term, clipped to [0, 1].
    constant = bounded_mean(np.full(1001, 0.25), 0.05, 0.95)
    assert constant.upper == pytest.approx(0.25 + 7 * math.log(80) / 3000)
    assert bounded_mean(np.zeros(5), 0.05, 0.95).lower == 0
    assert bounded_mean(np.ones(5), 0.05, 0.95).upper == 1
    with pytest.raises(ValueError, match="2 trials"):
        bounded_mean(np.zeros(1), 0.05, 0.95)


LAWS: list[tuple[str, float, Callable[[np.random.Generator, int], Floats]]] = [
    ("bernoulli", 0.01, lambda rng, n: (rng.random(n) < 0.01).astype(np.float64)),
    ("uniform", 0.5, lambda rng, n: rng.random(n)),
    ("constant", 0.3, lambda rng, n: np.full(n, 0.3)),
    ("rare large", 0.99, lambda rng, n: (rng.random(n) > 0.01).astype(np.float64)),
]


@pytest.mark.parametrize(("name", "mean", "law"), LAWS)
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_empirical_bernstein_covers(
    name: str, mean: float, law: Callable[[np.random.Generator, int], Floats], alpha: float
) -> None:
    # Misses of 4000 intervals are at most Binomial(4000, α): rate 1e-6 for all 8 cases together.
    runs, n = 4000, 100
    limit = stats.binom.isf(1e-6 / 8, runs, alpha)
    rng = np.random.default_rng(1)
    missed = naive = 0
    z = stats.norm.isf(alpha / 2)
    for _ in range(runs):
        values = law(rng, n)
        found = bounded_mean(values, alpha, 0.95)
        missed += not found.lower - 1e-12 <= mean <= found.upper + 1e-12
        half = z * values.std(ddof=1) / math.sqrt(n)
        naive += abs(values.mean() - mean) > half + 1e-12
    assert missed <= limit
    if mean in {0.01, 0.99} and alpha < 0.1:
        assert naive > limit  # the normal interval on a rare event would be caught
