"""One-run bounds under Gaussian DP: published figures, linear programming, false claims."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from dpaudit.bounds.gdp import one_run_gdp_epsilon, one_run_gdp_mu
from dpaudit.core.errors import InputError

ORACLES = Path(__file__).parents[1] / "oracles" / "epsilon_bounds.json"
ROWS = [
    row
    for row in json.loads(ORACLES.read_text())["one_run"]
    if row["method"] == "one_run_fdp_mahloujifar24_gaussian"
]


@pytest.mark.cases("row", ROWS, ids=lambda row: f"{row['r']}-{row['v']}-{row['delta']}")
def test_oracle(row: dict[str, Any]) -> None:
    m, r, v, delta, alpha = (row[key] for key in ("m", "r", "v", "delta", "alpha"))
    mu = one_run_gdp_mu(m, r, v, alpha=alpha)
    assert mu.lower == pytest.approx(float(row["mu_lower"]), abs=1e-5)
    epsilon = one_run_gdp_epsilon(m, r, v, delta=delta, alpha=alpha)
    assert epsilon.lower == pytest.approx(float(row["eps_lower"]), abs=1e-5)
    for estimate in (mu, epsilon):
        assert (estimate.kind, estimate.n, estimate.confidence) == ("assumes-gdp", m, 1 - alpha)
        assert estimate.lower <= estimate.value
        assert estimate.upper == math.inf


def tangents(mu: float, points: int) -> list[tuple[float, float]]:
    """Lines a + b·y below y ↦ f(1 − y) = Φ(Φ⁻¹(y) − μ), touching it at evenly spaced points."""
    y = (np.arange(points) + 0.5) / points
    z = stats.norm.ppf(y)
    slopes = stats.norm.pdf(z - mu) / stats.norm.pdf(z)
    return list(zip(stats.norm.cdf(z - mu) - slopes * y, slopes, strict=True))


def largest_tail(m: int, r: int, v: int, lines: list[tuple[float, float]]) -> float:
    """The largest P[V ≥ v] under H_i ≥ a + b·R_{i+1} for all lines and i < v, as a program."""
    n = r + 1
    right, wrong = np.arange(n) / m, (r - np.arange(n)) / m
    rows, limits = [], []
    for i in range(v):
        for a, b in lines:
            rows.append(np.where(np.arange(n) > i, b * right, 0) - wrong * (np.arange(n) >= i))
            limits.append(-a)
    goal = -(np.arange(n) >= v).astype(float)
    solution = linprog(goal, A_ub=np.array(rows), b_ub=limits, A_eq=[np.ones(n)], b_eq=[1.0])
    assert solution.success
    return float(-solution.fun)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_recursion_is_the_optimum_of_its_theorem(alpha: float) -> None:
    m, r = 20, 12
    for v in (10, 11, 12):
        mu = one_run_gdp_mu(m, r, v, alpha=alpha).lower
        assert mu > 0
        # Tangents leave room above the optimum, little where they are many.
        relaxed = [largest_tail(m, r, v, tangents(mu, points)) for points in (20, 400)]
        assert relaxed[0] >= relaxed[1] - 1e-9
        assert relaxed[1] - 2e-3 * alpha < alpha <= relaxed[1] + 1e-8
        # A bound that is too large by 0.05 would be seen.
        assert largest_tail(m, r, v, tangents(mu + 0.05, 400)) > alpha * 1.02


def test_mu_by_hand() -> None:
    # One canary, one guess: P[right] ≤ f̄(P[wrong]), so that α = Φ(μ/2).
    estimate = one_run_gdp_mu(1, 1, 1, alpha=0.8)
    assert estimate.lower == pytest.approx(2 * stats.norm.ppf(0.8), abs=1e-8)
    # All right: under perfect privacy each step doubles what is needed, as in a binomial.
    assert one_run_gdp_mu(9, 9, 9, alpha=0.5**9 * (1 - 1e-6)).lower == 0
    assert 0 < one_run_gdp_mu(9, 9, 9, alpha=0.5**9 * (1 + 1e-3)).lower < 1e-3


@pytest.mark.long
def test_epsilon_of_a_gaussian_by_integration() -> None:
    """δ = ∫ (φ(x − μ) − e^ε φ(x))₊ dx."""
    mu = one_run_gdp_mu(1000, 300, 240)
    estimate = one_run_gdp_epsilon(1000, 300, 240, delta=1e-3)
    x = np.linspace(-12, 12, 2_000_001)
    for m, epsilon in ((mu.lower, estimate.lower), (mu.value, estimate.value)):
        excess = stats.norm.pdf(x - m) - math.exp(epsilon) * stats.norm.pdf(x)
        assert np.maximum(excess, 0).sum() * (x[1] - x[0]) == pytest.approx(1e-3, rel=1e-5)
    # A large δ covers the whole of a small μ.
    assert one_run_gdp_epsilon(1000, 300, 240, delta=0.5).lower == 0.0


def test_more_evidence_more_mu() -> None:
    bounds = [one_run_gdp_mu(400, 200, v).lower for v in range(100, 201, 4)]
    assert bounds[0] == 0.0
    assert all(a <= b for a, b in itertools.pairwise(bounds))
    assert all(a < b for a, b in itertools.pairwise(bounds[6:]))
    assert one_run_gdp_mu(400, 200, 160, alpha=0.01).lower < one_run_gdp_mu(400, 200, 160).lower
    assert one_run_gdp_mu(400, 200, 160, alpha=0.01).confidence == 0.99


def test_perfect_and_useless_audits() -> None:
    perfect = one_run_gdp_mu(50, 50, 50)
    assert 1 < perfect.lower < perfect.value == math.inf
    assert one_run_gdp_epsilon(50, 50, 50, delta=1e-5).value == math.inf
    for r, v in ((0, 0), (50, 0), (50, 25)):
        for estimate in (one_run_gdp_mu(50, r, v), one_run_gdp_epsilon(50, r, v, delta=1e-5)):
            assert (estimate.lower, estimate.value) == (0.0, 0.0)
    assert one_run_gdp_mu(1000, 1000, 750).value == pytest.approx(2 * stats.norm.ppf(0.75))
    assert one_run_gdp_mu(20_000, 20_000, 20_000).lower > 3


def test_false_claims_on_gaussian_noise() -> None:
    """Each coin ±μ/2 in unit noise of its own, the sign guessed: V ~ Binomial(m, Φ(μ/2)).

    Claims beyond `limit` happen with probability 1e-6 where the rate is 5 %.
    """
    rng, m, mu, audits = np.random.default_rng(6), 400, 0.8, 2000
    limit = stats.binom.isf(1e-6, audits, 0.05)
    correct = rng.binomial(m, stats.norm.cdf(mu / 2), audits)
    bound = cache(lambda v: one_run_gdp_mu(m, m, v).lower)
    assert bound(int(np.median(correct))) > 0
    assert sum(bound(int(v)) > mu for v in correct) <= limit
    # The same audits with this law inverted at 10 % claim too much too often, and are noticed.
    shares = stats.beta.ppf(0.1, correct, m - correct + 1)
    assert (2 * stats.norm.ppf(shares) > mu).sum() > limit


@pytest.mark.cases(
    ("arguments", "words"),
    [
        ((0, 0, 0), "m = 0"),
        ((10, 11, 5), "guesses = 11"),
        ((10, 5, 6), "correct = 6"),
        ((10, 5, 2.5), "correct = 2.5"),
    ],
)
def test_bad_counts(arguments: tuple[int, int, int], words: str) -> None:
    with pytest.raises(InputError, match=words):
        one_run_gdp_mu(*arguments)
    with pytest.raises(InputError, match=words):
        one_run_gdp_epsilon(*arguments, delta=1e-5)


def test_bad_parameters() -> None:
    for value in (0.0, -0.1, 1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            one_run_gdp_epsilon(10, 5, 4, delta=value)
    for value in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="alpha"):
            one_run_gdp_mu(10, 5, 4, alpha=value)
