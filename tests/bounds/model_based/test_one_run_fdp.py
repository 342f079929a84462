"""One-run bounds for a trade-off function: published figures, linear programming, false claims."""

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

from dpaudit.bounds.frequentist.one_run import one_run_p_value
from dpaudit.bounds.model_based.one_run_fdp import (
    TradeOff,
    approximate_trade_off,
    gaussian_trade_off,
    one_run_f_p_value,
    one_run_gdp_epsilon,
    one_run_gdp_mu,
)
from dpaudit.core.errors import InputError

ORACLES = Path(__file__).parents[2] / "oracles" / "epsilon_bounds.json"
ROWS = [
    row
    for row in json.loads(ORACLES.read_text())["one_run"]
    if row["method"] == "one_run_fdp_mahloujifar24_gaussian"
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['r']}-{row['v']}-{row['delta']}")
def test_oracle(row: dict[str, Any]) -> None:
    m, r, v, delta, alpha = (row[key] for key in ("m", "r", "v", "delta", "alpha"))
    mu = one_run_gdp_mu(m, r, v, alpha=alpha)
    assert mu.lower == pytest.approx(float(row["mu_lower"]), abs=1e-5)
    epsilon = one_run_gdp_epsilon(m, r, v, delta=delta, alpha=alpha)
    assert epsilon.lower == pytest.approx(float(row["eps_lower"]), abs=1e-5)
    for found in (mu, epsilon):
        assert (found.kind, found.n, found.confidence) == ("assumes-gdp", m, 1 - alpha)
        assert found.lower <= found.value
        assert found.upper == math.inf


def tangents(f: TradeOff, points: int) -> list[tuple[float, float]]:
    """Lines a + b·y below y ↦ f(1 − y), touching it at evenly spaced points."""
    lines = []
    for y in (np.arange(points) + 0.5) / points:
        step = 1e-6
        slope = (f(1 - y - step) - f(1 - y + step)) / (2 * step)
        lines.append((f(1 - y) - slope * y, slope))
    return lines


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
    found = linprog(goal, A_ub=np.array(rows), b_ub=limits, A_eq=[np.ones(n)], b_eq=[1.0])
    assert found.success
    return float(-found.fun)


@pytest.mark.parametrize(("m", "r"), [(3, 3), (12, 12), (30, 10)])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (0.5, 0.0), (1.0, 0.01), (0.2, 0.1)])
def test_recursion_is_the_optimum_of_its_theorem(
    m: int, r: int, epsilon: float, delta: float
) -> None:
    f = approximate_trade_off(epsilon, delta)
    up, down = math.exp(epsilon), math.exp(-epsilon)
    lines = [(0.0, 0.0), (1 - delta - up, up), (-down * delta, down)]
    for v in (1, r - 1, r):
        found = one_run_f_p_value(m, r, v, trade_off=f)
        assert found == pytest.approx(largest_tail(m, r, v, lines), abs=1e-7)
        # Never below what some (ε, δ)-DP output attains.
        attained = one_run_p_value(m, r, v, epsilon=epsilon, delta=delta)
        assert found >= attained - 1e-9


@pytest.mark.parametrize("mu", [0.3, 1.0])
def test_gaussian_recursion_is_the_optimum_of_its_theorem(mu: float) -> None:
    f, m, r = gaussian_trade_off(mu), 20, 12
    for v in (10, 11, 12):
        found = one_run_f_p_value(m, r, v, trade_off=f)
        # Tangents leave room above the optimum, little where they are many.
        relaxed = [largest_tail(m, r, v, tangents(f, points)) for points in (20, 400)]
        assert relaxed[0] >= relaxed[1] - 1e-9
        assert relaxed[1] - 2e-3 * found < found <= relaxed[1] + 1e-8


def test_p_value_and_mu_are_two_cuts_of_one_region() -> None:
    for r, v in ((40, 30), (100, 80), (100, 100)):
        mu = one_run_gdp_mu(100, r, v).lower
        found = one_run_f_p_value(100, r, v, trade_off=gaussian_trade_off(mu))
        assert found == pytest.approx(0.05, rel=1e-6)
        # Safe side: the number returned is itself excluded.
        assert found <= 0.05 * (1 + 1e-8)


def test_p_value_by_hand() -> None:
    # One canary, one guess: P[right] ≤ f̄(P[wrong]).
    delta, up = 0.1, math.exp(0.5)
    expected = (delta + up) / (1 + up)
    found = one_run_f_p_value(1, 1, 1, trade_off=approximate_trade_off(0.5, delta))
    assert found == pytest.approx(expected, abs=1e-8)
    found = one_run_f_p_value(1, 1, 1, trade_off=gaussian_trade_off(1.2))
    assert found == pytest.approx(stats.norm.cdf(0.6), abs=1e-8)
    # Perfect privacy, all right: each step doubles what is needed as in a binomial.
    found = one_run_f_p_value(9, 9, 9, trade_off=gaussian_trade_off(0.0))
    assert found == pytest.approx(0.5**9, rel=1e-6)
    assert one_run_f_p_value(9, 9, 0, trade_off=gaussian_trade_off(0.0)) == 1.0
    assert one_run_f_p_value(9, 0, 0, trade_off=gaussian_trade_off(0.0)) == 1.0
    assert one_run_f_p_value(900, 900, 900, trade_off=gaussian_trade_off(0.0)) == 1e-12


def test_trade_off_functions() -> None:
    gauss, pair = gaussian_trade_off(0.7), approximate_trade_off(0.4, 0.05)
    x = np.linspace(0, 1, 41)
    expected = stats.norm.cdf(stats.norm.ppf(1 - x) - 0.7)
    np.testing.assert_allclose([gauss(v) for v in x], expected, atol=1e-14)
    # f is the least β with 1 − β ≤ e^ε x + δ and 1 − x ≤ e^ε β + δ.
    least = np.maximum(1 - math.exp(0.4) * x - 0.05, (1 - x - 0.05) / math.exp(0.4)).clip(0)
    np.testing.assert_allclose([pair(v) for v in x], least, atol=1e-15)


def test_epsilon_of_a_gaussian_by_integration() -> None:
    """δ = ∫ (φ(x − μ) − e^ε φ(x))₊ dx."""
    mu = one_run_gdp_mu(1000, 300, 240)
    found = one_run_gdp_epsilon(1000, 300, 240, delta=1e-3)
    x = np.linspace(-12, 12, 2_000_001)
    for m, epsilon in ((mu.lower, found.lower), (mu.value, found.value)):
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
    assert one_run_gdp_mu(400, 200, 160, alpha=0.01, confidence=0.9).confidence == 0.9


def test_perfect_and_useless_audits() -> None:
    perfect = one_run_gdp_mu(50, 50, 50)
    assert 1 < perfect.lower < perfect.value == math.inf
    assert one_run_gdp_epsilon(50, 50, 50, delta=1e-5).value == math.inf
    for r, v in ((0, 0), (50, 0), (50, 25)):
        for found in (one_run_gdp_mu(50, r, v), one_run_gdp_epsilon(50, r, v, delta=1e-5)):
            assert (found.lower, found.value) == (0.0, 0.0)
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


def test_no_output_of_the_family_is_accused() -> None:
    """Everything told with probability δ, nothing otherwise: (0, δ)-DP, V = m with that share."""
    m, delta = 30, 0.04
    f = approximate_trade_off(0.0, delta)
    attained = delta + (1 - delta) * 0.5**m
    found = one_run_f_p_value(m, m, m, trade_off=f)
    assert found >= attained - 1e-9
    assert found == pytest.approx(attained, abs=1e-8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, 0, 0), "m = 0"),
        ((10, 11, 5), "guesses = 11"),
        ((10, 5, 6), "correct = 6"),
        ((10, 5, 2.5), "correct = 2.5"),
    ],
)
def test_bad_counts(arguments: tuple[int, int, int], words: str) -> None:
    for call in (
        lambda: one_run_gdp_mu(*arguments),
        lambda: one_run_gdp_epsilon(*arguments, delta=1e-5),
        lambda: one_run_f_p_value(*arguments, trade_off=gaussian_trade_off(1.0)),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_bad_parameters() -> None:
    for value in (0.0, -0.1, 1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            one_run_gdp_epsilon(10, 5, 4, delta=value)
    for value in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="alpha"):
            one_run_gdp_mu(10, 5, 4, alpha=value)
    for value in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="mu"):
            gaussian_trade_off(value)
        with pytest.raises(InputError, match="epsilon"):
            approximate_trade_off(value, 0.0)
    with pytest.raises(InputError, match="delta"):
        approximate_trade_off(1.0, 1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: 1 - x / 2,  # above 1 − x
        lambda x: -x,
        lambda x: math.nan,
        lambda x: (1 - x) / 2,  # its inverse jumps
        lambda x: (1 - x) ** 3,  # its inverse is another
    ],
)
def test_no_trade_off_function(wrong: TradeOff) -> None:
    with pytest.raises(InputError, match="trade_off"):
        one_run_f_p_value(10, 5, 4, trade_off=wrong)
