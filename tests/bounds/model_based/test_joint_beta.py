"""The joint-Beta interval: reference figures, brute-force integration, and what it claims."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import betainc, betaincinv, ndtr

from dpaudit.bounds.frequentist.counting import clopper_pearson_epsilon
from dpaudit.bounds.model_based.joint_beta import joint_beta_epsilon
from dpaudit.bounds.outcomes import Counts
from dpaudit.core.errors import InputError

ORACLES = [
    row
    for row in json.loads(
        (Path(__file__).parents[2] / "oracles" / "epsilon_bounds.json").read_text("utf-8")
    )["threshold"]
    if row["method"] == "joint_beta_exact"
]


def test_oracle_is_whole() -> None:
    assert len(ORACLES) == 28


@pytest.mark.cases("row", ORACLES)
def test_oracle(row: dict[str, Any]) -> None:
    counts = Counts(row["TP"], row["FP"], row["FN"], row["TN"])
    estimate = joint_beta_epsilon(counts, delta=row["delta"], alpha=row["alpha"])
    # The reference is itself off by 1.1e-4 where no error was made, by 2e-6 where few were: see
    # the integration below.
    tolerance = 2e-4 if not (counts.fp or counts.fn) else 5e-6
    assert estimate.lower == pytest.approx(row["eps_lower"], abs=tolerance)
    assert (estimate.kind, estimate.upper, estimate.n) == ("credible", math.inf, 2000)
    assert estimate.value > estimate.lower


def mass(counts: Counts, epsilon: float, delta: float) -> float:
    """Posterior mass of the privacy region: 10^5 points, equally spaced in Φ⁻¹ of FPR's quantile.

    For a false positive rate x the region confines FNR to an interval, of known probability.
    """
    size, edge = 100_000, 8.5
    z = ((np.arange(size) + 0.5) / size * 2 - 1) * edge
    x = betaincinv(counts.fp + 0.5, counts.tn + 0.5, ndtr(z))
    rest = betaincinv(counts.tn + 0.5, counts.fp + 0.5, ndtr(-z))
    grow = math.exp(epsilon)
    low = np.maximum(1 - delta - grow * x, (rest - delta) / grow).clip(0, 1)
    high = np.maximum(1 - delta - grow * rest, (x - delta) / grow).clip(0, 1)
    outside = betainc(counts.fn + 0.5, counts.tp + 0.5, low)
    outside += betainc(counts.tp + 0.5, counts.fn + 0.5, high)
    return float(np.sum(stats.norm.pdf(z) * (1 - outside)) * 2 * edge / size)


@pytest.mark.long
@pytest.mark.parametrize(
    ("counts", "delta"),
    [
        (Counts(5, 5, 5, 5), 0.0),
        (Counts(10, 0, 0, 10), 0.01),
        (Counts(1000, 0, 0, 1000), 0.0),
        (Counts(990, 10, 10, 990), 0.0),
        (Counts(5_100, 4_900, 4_900, 5_100), 1e-3),
        (Counts(1_000_000, 0, 0, 1_000_000), 1e-6),
        (Counts(7, 300_000, 3, 700_000), 1e-3),
        (Counts(0, 0, 30, 300_000), 0.01),
    ],
)
def test_mass_at_the_bound(counts: Counts, delta: float) -> None:
    estimate = joint_beta_epsilon(counts, delta=delta, alpha=0.05)
    if estimate.lower == 0:
        assert mass(counts, 0.0, delta) >= 0.05
    else:
        # The points err most, by 4e-6, where rates of order 1e-6 meet an edge of the region.
        tolerance = 1e-5 if counts.absent == 1_000_000 else 1e-6
        assert mass(counts, estimate.lower, delta) == pytest.approx(0.05, abs=tolerance)
        # A bound that is off by 1 % would be seen.
        assert mass(counts, estimate.lower * 1.01, delta) > 0.05 + 2 * tolerance


def test_mass_of_the_definition_by_sampling() -> None:
    """Against the four inequalities themselves, all of them at work."""
    counts, delta, size = Counts(6, 5, 4, 6), 0.02, 1_000_000
    bound = joint_beta_epsilon(counts, delta=delta, alpha=0.2).lower
    rng = np.random.default_rng(1)
    x = rng.beta(counts.fp + 0.5, counts.tn + 0.5, size)
    y = rng.beta(counts.fn + 0.5, counts.tp + 0.5, size)

    def share(epsilon: float) -> float:
        grow = math.exp(epsilon)
        first = (x + grow * y >= 1 - delta) & (y + grow * x >= 1 - delta)
        swapped = (1 - x + grow * (1 - y) >= 1 - delta) & (1 - y + grow * (1 - x) >= 1 - delta)
        return float((first & swapped).mean())

    # Rate 1e-6: 4.9 standard errors.
    error = 4.9 * math.sqrt(0.2 * 0.8 / size)
    assert abs(share(bound) - 0.2) < error
    assert abs(share(bound + 0.02) - 0.2) > error


def test_a_known_trap_of_two_dimensional_quadrature() -> None:
    """At n = 10 000 a grid over both rates misses the peak and gives 0.875."""
    estimate = joint_beta_epsilon(Counts(7000, 3000, 3000, 7000))
    assert estimate.lower == pytest.approx(0.826, abs=5e-4)


def test_symmetries() -> None:
    base = joint_beta_epsilon(Counts(40, 3, 20, 97), delta=0.01).lower
    for other in (Counts(97, 20, 3, 40), Counts(20, 97, 40, 3), Counts(3, 40, 97, 20)):
        assert joint_beta_epsilon(other, delta=0.01).lower == pytest.approx(base, abs=1e-8)


@pytest.mark.long
def test_every_null_run_claims_something() -> None:
    """A posterior statement: whatever the counts, ε > 0; a confidence bound claims it rarely."""
    n = 9
    claims = {joint_beta_epsilon: 0.0, clopper_pearson_epsilon: 0.0}
    for tp in range(n + 1):
        for fp in range(n + 1):
            weight = stats.binom.pmf(tp, n, 0.5) * stats.binom.pmf(fp, n, 0.5)
            for bound in claims:
                claims[bound] += weight * (bound(Counts(tp, fp, n - tp, n - fp)).lower > 0)
    assert claims[joint_beta_epsilon] == pytest.approx(1)
    assert claims[clopper_pearson_epsilon] <= 0.05


def test_limits() -> None:
    counts = Counts(30, 10, 10, 30)
    lowers = [joint_beta_epsilon(counts, alpha=alpha).lower for alpha in (1e-6, 0.01, 0.5, 0.99)]
    assert lowers == sorted(set(lowers))
    assert joint_beta_epsilon(counts, delta=0.9).lower == 0
    assert joint_beta_epsilon(Counts(1, 0, 0, 1), alpha=math.nextafter(1, 0)).lower > 20
    one = joint_beta_epsilon(Counts(1, 0, 0, 1), alpha=0.1)
    assert (one.alpha, one.confidence, one.n) == (0.1, 0.9, 2)
    numpy_counts = Counts(*(np.int64(c) for c in (30, 10, 10, 30)))  # type: ignore[arg-type]
    assert joint_beta_epsilon(numpy_counts) == joint_beta_epsilon(counts)


@pytest.mark.cases("delta", [-0.1, 1.0, math.nan])
def test_bad_delta_is_refused(delta: float) -> None:
    with pytest.raises(InputError, match=r"^delta = "):
        joint_beta_epsilon(Counts(1, 1, 1, 1), delta=delta)


@pytest.mark.cases("alpha", [0.0, 1.0, math.nan, 1e-8])
def test_bad_alpha_is_refused(alpha: float) -> None:
    with pytest.raises(InputError, match=r"^alpha = "):
        joint_beta_epsilon(Counts(1, 1, 1, 1), alpha=alpha)
