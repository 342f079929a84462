"""Gaussian DP: its curve, bounds on μ from one event and from scores, and when they are false."""

from __future__ import annotations

import json
import math
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import erfcx, ndtr

from dpaudit.bounds.gdp import (
    RankTest,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gdp_epsilon,
    gdp_mu,
    gdp_roc_epsilon,
    gdp_roc_mu,
    ranks,
)
from dpaudit.bounds.outcomes import Counts
from dpaudit.core.errors import InputError

ORACLES = json.loads(
    (Path(__file__).parents[1] / "oracles" / "epsilon_bounds.json").read_text("utf-8")
)
SINGLE = [row for row in ORACLES["threshold"] if row["method"] == "gdp_single_threshold"]
GAUSSIAN = [row for row in ORACLES["accounting"] if row["kind"] == "gaussian"]


def test_oracles_are_whole() -> None:
    assert (len(SINGLE), len(GAUSSIAN), len(ORACLES["tightness"])) == (14, 6, 3)


# The curve.


@pytest.mark.cases("row", GAUSSIAN)
def test_gaussian_epsilon_oracle(row: dict[str, Any]) -> None:
    mu = math.sqrt(row["T"]) * row["sensitivity"] / row["sigma"]
    exact = row["method"] == "analytic_balle_wang"
    epsilon = gaussian_epsilon(mu, row["delta"])
    assert epsilon == pytest.approx(row["eps"], rel=1e-9 if exact else 1e-4)
    assert gaussian_delta(row["eps"], mu) == pytest.approx(row["delta"], rel=1e-6)


@pytest.mark.cases(("epsilon", "mu"), [(0.0, 0.3), (0.5, 0.3), (1.0, 1.0), (6.0, 3.0)])
def test_gaussian_delta_is_the_hockey_stick_divergence(epsilon: float, mu: float) -> None:
    """∫ (φ(x − μ) − e^ε φ(x))₊ dx, which starts at x = ε/μ + μ/2."""

    def excess(x: float) -> float:
        return float(stats.norm.pdf(x - mu) - math.exp(epsilon) * stats.norm.pdf(x))

    expected, _ = integrate.quad(excess, epsilon / mu + mu / 2, mu + 40, epsabs=1e-14)
    assert gaussian_delta(epsilon, mu) == pytest.approx(expected, rel=1e-7)


@pytest.mark.cases(
    ("epsilon", "mu"), [(4.0, 0.5), (0.1, 0.01), (600.0, 30.0), (800.0, 38.0), (1e4, 140.0)]
)
def test_gaussian_delta_by_mills_ratios(epsilon: float, mu: float) -> None:
    """φ(u)(R(u) − R(v)) with u, v = ε/μ ∓ μ/2 and R(x) = √(π/2) erfcx(x/√2): no large e^ε."""
    u, v = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    mills = math.sqrt(math.pi / 2) * (erfcx(u / math.sqrt(2)) - erfcx(v / math.sqrt(2)))
    assert gaussian_delta(epsilon, mu) == pytest.approx(float(stats.norm.pdf(u) * mills), rel=1e-9)


def test_the_curve_at_its_ends() -> None:
    for mu in (0.1, 1.0, 5.0):
        assert gaussian_delta(0.0, mu) == pytest.approx(2 * float(ndtr(mu / 2)) - 1, rel=1e-12)
    assert gaussian_delta(1.0, 0.0) == 0
    assert gaussian_delta(1e5, 1.0) == 0
    assert gaussian_delta(3.0, 1e-300) == 0
    assert gaussian_delta(0.0, 1e3) == 1
    assert gaussian_epsilon(0.0, 0.0) == 0
    assert gaussian_epsilon(1e-300, 0.0) == math.inf
    assert gaussian_epsilon(1.0, 0.5) == 0
    assert gaussian_epsilon(1e200, 0.1) == math.inf
    assert gaussian_epsilon(1e17, 1e-5) == pytest.approx(5e33, rel=1e-6)


@pytest.mark.cases("mu", [1e-3, 0.3, 1.0, 10.0, 300.0])
@pytest.mark.cases("delta", [1e-200, 1e-9, 1e-4])
def test_gaussian_epsilon_inverts(mu: float, delta: float) -> None:
    epsilon = gaussian_epsilon(mu, delta)
    assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=1e-4)
    assert gaussian_epsilon(mu * 1.01, delta) > epsilon > gaussian_epsilon(mu * 0.99, delta)


@pytest.mark.cases(("epsilon", "delta"), [(0.0, 0.1), (0.3, 1e-5), (7.0, 0.4), (900, 1e-9)])
def test_gaussian_mu_inverts(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) == pytest.approx(delta, rel=1e-6)
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-6)
    for bad in ((-1.0, delta), (math.inf, delta), (epsilon, 0.0), (epsilon, 1.0)):
        with pytest.raises(InputError):
            gaussian_mu(*bad)


@pytest.mark.cases("mu", [-1.0, math.nan, math.inf])
def test_bad_mu_is_refused(mu: float) -> None:
    with pytest.raises(InputError, match=r"^mu = "):
        gaussian_delta(1.0, mu)
    with pytest.raises(InputError, match=r"^mu = "):
        gaussian_epsilon(mu, 1e-5)
    with pytest.raises(InputError, match=r"^epsilon = "):
        gaussian_delta(mu, 1.0)
    with pytest.raises(InputError, match=r"^delta = "):
        gaussian_epsilon(1.0, mu)


# One event.


@pytest.mark.cases("row", SINGLE)
def test_single_threshold_oracle(row: dict[str, Any]) -> None:
    counts = Counts(row["TP"], row["FP"], row["FN"], row["TN"])
    estimate = gdp_epsilon(counts, delta=row["delta"], alpha=row["alpha"])
    assert estimate.lower == pytest.approx(row["eps_lower"], abs=1e-6)
    assert (estimate.kind, estimate.upper, estimate.n) == ("assumes-gdp", math.inf, 2000)


def test_gdp_mu_by_hand() -> None:
    counts = Counts(50, 0, 0, 80)
    tpr, fpr = 0.025 ** (1 / 50), 1 - 0.025 ** (1 / 80)
    estimate = gdp_mu(counts)
    assert estimate.lower == pytest.approx(stats.norm.ppf(tpr) - stats.norm.ppf(fpr))
    assert estimate.value == math.inf
    assert gdp_epsilon(counts, delta=1e-5).value == math.inf
    assert gdp_mu(Counts(80, 30, 20, 70)).value == pytest.approx(
        stats.norm.ppf(0.8) - stats.norm.ppf(0.3)
    )
    backwards = gdp_mu(Counts(30, 80, 70, 20), alpha=0.5)
    assert (backwards.lower, backwards.value, backwards.confidence) == (0, 0, 0.5)


def test_gdp_mu_covers() -> None:
    """Exact coverage for Gaussian scores cut at any threshold, by enumeration."""
    n, alpha, mu = 15, 0.2, 1.0
    table = np.array(
        [[gdp_mu(Counts(t, f, n - t, n - f), alpha=alpha).lower for f in range(n + 1)]
         for t in range(n + 1)]
    )  # fmt: skip
    points = np.array(
        [[gdp_mu(Counts(t, f, n - t, n - f), alpha=alpha).value for f in range(n + 1)]
         for t in range(n + 1)]
    )  # fmt: skip
    for threshold in np.linspace(-2, 3, 26):
        weights = np.outer(
            stats.binom.pmf(np.arange(n + 1), n, stats.norm.sf(threshold - mu)),
            stats.binom.pmf(np.arange(n + 1), n, stats.norm.sf(threshold)),
        )
        assert weights[table > mu].sum() <= alpha
        if threshold == 0.5:
            assert weights[points > mu].sum() > alpha


# Scores.


def test_rank_test_with_equal_laws_is_hypergeometric() -> None:
    """The t-th score of D' precedes the k-th of D: t or more among the k + t − 1 largest."""
    for n, m in ((1, 1), (5, 7), (1000, 10), (10, 1000), (100_000, 100_000)):
        for k, _ in ranks(n):
            for t in {1, math.ceil(m * k / (n + 1)), min(m, math.ceil(1.3 * m * k / n)), m}:
                expected = float(stats.hypergeom.sf(t - 1, n + m, m, k + t - 1))
                p_value = RankTest(k, n, t, m).p_value(0.0)
                assert p_value == pytest.approx(expected, rel=1e-6, abs=1e-18)


@pytest.mark.long
def test_rank_test_of_gaussians() -> None:
    for mu in (0.0, 0.5, 3.0):
        # One score each: P(Y > X).
        assert RankTest(1, 1, 1, 1).p_value(mu) == pytest.approx(float(ndtr(mu / math.sqrt(2))))

    def integrand(z: float) -> float:
        density = stats.beta.pdf(ndtr(z), 25, 76) * stats.norm.pdf(z)
        return float(density * stats.binom.sf(98, 400, ndtr(z + 0.4)))

    expected = sum(
        integrate.quad(integrand, a, a + 0.25, epsabs=1e-13)[0] for a in np.arange(-4, 4, 0.25)
    )
    assert RankTest(25, 100, 99, 400).p_value(0.4) == pytest.approx(expected, rel=1e-8)


def test_ranks_share_alpha_among_distinct_ranks() -> None:
    for n in (1, 2, 3, 10, 1000, 10**6):
        shares = ranks(n)
        assert sum(share for _, share in shares) == pytest.approx(1)
        assert len({rank for rank, _ in shares}) == len(shares)
        assert all(1 <= rank <= n for rank, _ in shares)


@cache
def p_value(rank: int, above: int) -> float:
    return RankTest(rank, 5, above, 7).p_value(0.0)


@pytest.mark.long
@pytest.mark.parametrize("alpha", [0.05, 0.2])
def test_no_false_claim_with_equal_laws(alpha: float) -> None:
    """Exact: all orders of 5 and 7 scores are equally likely."""
    claims, unsplit, orders = 0, 0, list(combinations(range(12), 7))
    for chosen in orders:
        present = np.array(chosen, dtype=float)
        absent = np.setdiff1d(np.arange(12.0), present)
        claims += gdp_roc_mu(absent, present, alpha=alpha).lower > 0
        above = [int((present > threshold).sum()) for threshold in absent[::-1]]
        unsplit += any(p_value(rank, above[rank - 1]) <= alpha for rank in range(1, 6))
    assert 0 < claims <= alpha * len(orders)
    # Ranks that each had the whole of α would be caught.
    assert unsplit > 1.5 * alpha * len(orders)


@pytest.mark.long
@pytest.mark.parametrize("grid", [0.0, 0.7])
@pytest.mark.parametrize("mu", [0.0, 1.0, 2.5])
def test_false_claims_of_gaussian_scores(mu: float, grid: float) -> None:
    """Bounds above the true μ, also when rounding makes ties; runs of 40 and 60 trials."""
    n, m, alpha, runs = 40, 60, 0.1, 40_000
    rng = np.random.default_rng(5)
    absent, present = rng.normal(size=(runs, n)), mu + rng.normal(size=(runs, m))
    if grid:
        absent, present = np.round(absent / grid), np.round(present / grid)
    absent.sort(axis=1)
    false, unsplit = np.zeros((2, runs), dtype=bool)
    for k, share in ranks(n):
        above = (present > absent[:, [-k]]).sum(axis=1)
        p_values = np.array([RankTest(k, n, t, m).p_value(mu) for t in range(m + 1)])
        false |= p_values[above] <= alpha * share
        unsplit |= p_values[above] <= alpha
    # Rate 1e-6 at a true rate of α: 4.8 standard errors.
    limit = alpha + 4.8 * math.sqrt(alpha * (1 - alpha) / runs)
    assert false.mean() <= limit
    if not grid and mu < 2:
        assert false.mean() > 0.04  # no more conservative than counts of this size have to be
        assert unsplit.mean() > limit
    # The bound itself is above μ in just these runs.
    for run in range(0, 40):
        estimate = gdp_roc_mu(absent[run], present[run], alpha=alpha)
        assert (estimate.lower > mu) == false[run]


@pytest.mark.cases("row", ORACLES["tightness"])
def test_tighter_than_public_tools(row: dict[str, Any]) -> None:
    """Median bound on ε of 25 runs against the best published median."""
    n, rng = row["n_per_class"], np.random.default_rng(11)
    lowers = [
        gdp_roc_epsilon(
            rng.normal(size=n), row["mu"] + rng.normal(size=n), delta=row["delta"]
        ).lower
        for _ in range(25)
    ]
    # Rate 1e-6 and less: the median's deviation is below a sixth of the gap to either side.
    assert max(row["median"].values()) < np.median(lowers) < row["true_eps"]


def test_scores_count_by_their_order_alone() -> None:
    rng = np.random.default_rng(2)
    absent, present = rng.normal(size=90), 1.5 + rng.normal(size=110)
    estimate = gdp_roc_mu(absent, present)
    assert estimate.kind == "assumes-gdp"
    assert estimate.n == 200
    assert estimate.value > estimate.lower > 0
    assert gdp_roc_mu(np.exp(absent), np.exp(present)) == estimate
    assert gdp_roc_mu(-absent, -present).lower == 0
    as_epsilon = gdp_roc_epsilon(absent, present, delta=1e-3, alpha=0.05)
    assert as_epsilon.lower == gaussian_epsilon(estimate.lower, 1e-3)
    assert as_epsilon.value == gaussian_epsilon(estimate.value, 1e-3)
    assert as_epsilon.confidence == 0.95


def test_ties_speak_for_no_class() -> None:
    assert gdp_roc_mu(np.zeros(500), np.zeros(500)).lower == 0
    assert gdp_roc_mu(np.zeros(500), np.zeros(500)).value == 0


def test_separated_scores() -> None:
    lowers = [gdp_roc_mu(np.zeros(n), np.ones(n)).lower for n in (1, 10, 100, 10_000)]
    assert lowers[0] == 0
    assert lowers == sorted(set(lowers))
    # One of each: the claim is P(Y > X) <= α.
    one = gdp_roc_mu(np.zeros(1), np.ones(1), alpha=0.8).lower
    assert one == pytest.approx(math.sqrt(2) * stats.norm.ppf(0.8))
    # No more than both rates' limits of one pre-chosen threshold would say at the whole of α each.
    assert 5 < lowers[-1] < 2 * stats.norm.isf(1 - 0.05 ** (1 / 10_000)) + 0.1
    assert math.isfinite(gdp_roc_mu(np.zeros(1), np.ones(1), alpha=1 - 1e-15).lower)


@pytest.mark.cases("bad", [math.nan, math.inf, -math.inf])
def test_bad_scores_are_refused(bad: float) -> None:
    good = np.zeros(3)
    with pytest.raises(InputError, match=r"^absent\[1\]"):
        gdp_roc_mu(np.array([0, bad, 1.0]), good)
    with pytest.raises(InputError, match=r"^present\[0\]"):
        gdp_roc_epsilon(good, np.array([bad]), delta=1e-5)
    with pytest.raises(InputError, match=r"^present are empty"):
        gdp_roc_mu(good, np.array([]))


@pytest.mark.cases("delta", [0.0, 1.0, -1e-5, math.nan])
def test_bad_delta_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match=r"^delta = "):
        gdp_epsilon(Counts(9, 1, 1, 9), delta=delta)
    with pytest.raises(InputError, match=r"^delta = "):
        gdp_roc_epsilon(np.zeros(3), np.ones(3), delta=delta)


@pytest.mark.cases("alpha", [0.0, 1.0, math.nan])
def test_bad_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match=r"^alpha = "):
        gdp_mu(Counts(9, 1, 1, 9), alpha=alpha)
    with pytest.raises(InputError, match=r"^alpha = "):
        gdp_roc_mu(np.zeros(3), np.ones(3), alpha=alpha)
