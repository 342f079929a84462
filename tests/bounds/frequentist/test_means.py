"""Betting bounds for means: validity, order, width against exact intervals, small cases."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import count

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.bounds.frequentist.means import (
    LOSS,
    betting_mean,
    block_starts,
    grows,
    lower_mean,
    stakes,
)
from dpaudit.core.errors import InputError

Values = NDArray[np.float64]


def upper_mean(values: Values) -> float:
    """The upper end of the interval, at a level of 5 %."""
    return betting_mean(values, 0.1, 0.95).upper


Draw = Callable[[np.random.Generator, int], Values]


def coin(share: float) -> Draw:
    return lambda rng, n: (rng.random(n) < share).astype(np.float64)


LAWS: dict[str, tuple[Draw, float]] = {
    "coin": (coin(0.3), 0.3),
    "rare": (coin(0.05), 0.05),
    "beta": (lambda rng, n: rng.beta(0.2, 1.8, n), 0.1),
    # Independent, of one mean, and no two of one law.
    "mixed": (lambda rng, n: 0.5 + (rng.random(n) - 0.5) * np.linspace(0.01, 1, n) ** 2, 0.5),
}


@pytest.mark.cases("law", LAWS)
def test_coverage(law: str) -> None:
    # At a rate of 1e-6 / 8 a case though at most 5 % of the claims are false; 9 % are noticed.
    draw, mean = LAWS[law]
    rng = np.random.default_rng(7)
    lower = (lower_mean(draw(rng, 40), alpha=0.05) > mean for _ in count())
    upper = (upper_mean(draw(rng, 40)) < mean for _ in count())
    assert not claims_too_much(lower, 1e-6 / 8)
    assert not claims_too_much(upper, 1e-6 / 8)


@pytest.mark.long
def test_coverage_is_used_up() -> None:
    """The level is not wasted: fair coins are excluded about as often as stated."""
    # 2000 audits; were the true rate 2.5 %, more than the limit would occur at rate 1e-6.
    runs, n, alpha = 2000, 100, 0.05
    rng = np.random.default_rng(8)
    false = sum(lower_mean(coin(0.5)(rng, n), alpha=alpha) > 0.5 for _ in range(runs))
    assert stats.binom.isf(1e-6, runs, alpha / 3) < false <= stats.binom.isf(1e-6, runs, alpha)


@pytest.mark.cases(
    ("share", "n", "low", "high"),
    [
        (0.5, 10_000, 1.15, 1.15),
        (0.01, 10_000, 1.2, 1.2),
        (1e-3, 10_000, 1.45, 1.45),
        (1e-4, 100_000, 1.45, 1.45),
    ],
)
def test_width_against_clopper_pearson(share: float, n: int, low: float, high: float) -> None:
    """Little wider than the exact interval for 0/1 values, which knows more of the law."""
    rng = np.random.default_rng(9)
    widths = np.zeros(4)
    for _ in range(12):
        values = coin(share)(rng, n)
        ones, mean = int(values.sum()), values.mean()
        widths += (
            mean - lower_mean(values, alpha=0.05),
            upper_mean(values) - mean,
            mean - stats.beta.ppf(0.05, ones, n - ones + 1),
            stats.beta.isf(0.05, ones + 1, n - ones) - mean,
        )
    assert 0.9 < widths[0] / widths[2] < low
    assert 0.9 < widths[1] / widths[3] < high


def test_width_against_the_normal_limit() -> None:
    rng = np.random.default_rng(10)
    values = rng.random(20_000)
    half = stats.norm.isf(0.05) * values.std() / math.sqrt(len(values))
    assert 0.9 < (values.mean() - lower_mean(values, alpha=0.05)) / half < 1.25
    # One fixed stake cannot do better than sqrt(2 ln(1/α)) standard errors, 1.49 times the normal.
    assert math.sqrt(2 * math.log(20)) / stats.norm.isf(0.05) > 1.45


def test_a_hypothesis_once_kept_stays_kept() -> None:
    """The rejected means form an interval: on a grid no kept mean lies below a rejected one."""
    rng = np.random.default_rng(11)
    checked = 0
    for n in (5, 40, 300):
        for _ in range(8):
            values = rng.random(n) ** rng.integers(1, 9)
            starts = block_starts(n)
            # Far too bold stakes, which break the order of wealths where the proof has a gap.
            plan = stakes(starts, rng.exponential(0.02, len(starts)), n)
            rejected = []
            for mean in np.linspace(1e-3, 1, 250):
                shares = np.minimum(plan.shares, LOSS / mean)
                factors = 1 + plan.per_value(shares) * (values - mean)
                assert factors.min() >= 0
                rejected.append(grows(factors, shares, plan, 0.1))
            ends = np.diff(np.array(rejected).astype(int))
            assert (ends <= 0).all()
            checked += bool((ends < 0).any())
    assert checked > 10  # an end was there to be seen


def test_larger_values_give_no_smaller_wealth() -> None:
    rng = np.random.default_rng(12)
    outcomes = set()
    for _ in range(200):
        n = 60
        starts = block_starts(n)
        plan = stakes(starts, rng.exponential(0.1, len(starts)), n)
        shares = np.minimum(plan.shares, LOSS / 0.3)
        values = rng.random(n)
        more = np.maximum(values, rng.random(n) * 0.6)
        lesser, larger = (
            grows(1 + plan.per_value(shares) * (v - 0.42), shares, plan, 0.05)
            for v in (values, more)
        )
        assert larger or not lesser
        outcomes.add((lesser, larger))
    assert len(outcomes) == 3


def test_wealth_by_hand() -> None:
    """One block of two values, and a stake that the share caps."""
    plan = stakes(np.array([0]), np.array([1.0]), 2)
    assert plan.roots == pytest.approx([math.sqrt(2)])
    # Capped by share 0.5: the wealth itself becomes the portfolio, 0.2 · 5 = 1 or just less.
    share = np.array([0.05])
    assert grows(np.array([2.5, 2.0]), share, plan, 0.2)
    assert not grows(np.array([2.5, 1.99]), share, plan, 0.2)
    # Not capped: y + φ(Φ⁻¹(0.95 y))/(0.95 √2) · (p − 1)/λ reaches 1 at this p.
    stake = stats.norm.pdf(stats.norm.ppf(0.95 * 0.2)) / (0.95 * math.sqrt(2))
    needed = 1 + 0.8 / stake * 2.0
    assert grows(np.array([needed * 1.0001, 1.0]), np.array([2.0]), plan, 0.2)
    assert not grows(np.array([needed * 0.9999, 1.0]), np.array([2.0]), plan, 0.2)


def test_no_bet_without_a_plan() -> None:
    plan = stakes(np.array([0]), np.array([math.inf]), 3)
    assert plan.shares == [0]
    assert not grows(np.full(3, 100.0), plan.shares, plan, 0.5)


def test_reflection_and_level() -> None:
    values = np.random.default_rng(13).beta(1, 3, 500)
    lower = lower_mean(values, alpha=0.05)
    assert upper_mean(1 - values) == pytest.approx(1 - lower)
    assert lower < values.mean() < upper_mean(values)
    assert lower_mean(values, alpha=0.01) < lower


@pytest.mark.cases("n", [1, 2, 3, 50, 5000])
def test_constant_values(n: int) -> None:
    assert lower_mean(np.zeros(n), alpha=0.05) == 0
    assert upper_mean(np.ones(n)) == 1
    assert 0 <= lower_mean(np.full(n, 0.7), alpha=0.05) <= 0.7
    # No hit in n: the exact limit is 1 − α^(1/n).
    zero = upper_mean(np.zeros(n))
    assert zero >= 1 - 0.05 ** (1 / n)
    if n >= 50:
        assert zero < 3 * (1 - 0.05 ** (1 / n))


def test_two_sided_estimate_is_narrower_than_empirical_bernstein() -> None:
    values = (np.random.default_rng(14).random(3000) < 0.1).astype(np.float64)
    estimate = betting_mean(values, 0.1, 0.95)
    assert estimate.lower == lower_mean(values, alpha=0.05)
    assert estimate.upper == pytest.approx(1 - lower_mean(1 - values, alpha=0.05))
    assert (estimate.value, estimate.n, estimate.alpha) == (values.mean(), 3000, 0.1)
    assert (estimate.confidence, estimate.kind, estimate.method) == (0.95, "frequentist", "betting")
    # Maurer & Pontil 2009, Theorem 4, arXiv:0907.3740, on either side.
    log = math.log(4 / 0.1)
    half = math.sqrt(2 * values.var(ddof=1) * log / 3000) + 7 * log / (3 * 2999)
    assert estimate.upper - estimate.lower < 0.75 * 2 * half


# The means of the values of one group.
GROUP = np.array([0.05, 0.1, 0.5, 0.75, 0.95])


def grouped(rng: np.random.Generator, groups: int) -> Values:
    return (rng.random((groups, len(GROUP))) < GROUP).astype(np.float64).reshape(-1)


def test_coverage_of_the_mean_of_groups() -> None:
    rng = np.random.default_rng(15)

    def missed() -> bool:
        estimate = betting_mean(grouped(rng, 12), 0.05, 0.95, together=len(GROUP))
        return not estimate.lower <= GROUP.mean() <= estimate.upper

    assert not claims_too_much((missed() for _ in count()), 1e-6)


@pytest.mark.long
def test_the_level_of_groups_holds_in_many_audits() -> None:
    rng, runs, alpha = np.random.default_rng(16), 4000, 0.4
    missed = 0
    for _ in range(runs):
        estimate = betting_mean(grouped(rng, 12), alpha, 0.95, together=len(GROUP))
        missed += not estimate.lower <= GROUP.mean() <= estimate.upper
    assert missed <= stats.binom.isf(1e-6, runs, alpha)


def test_blocks_that_divide_groups_bound_another_mean() -> None:
    """A bettor who sees ones for a while rejects a mean that is true of the whole group."""
    rng, shares = np.random.default_rng(18), np.repeat([0.98, 0.02], 40)
    assert set(block_starts(320, 80)) == {0, 80, 160, 240}
    false = np.zeros(2)
    for _ in range(40):
        values = (rng.random((4, 80)) < shares).astype(np.float64).reshape(-1)
        lower = [betting_mean(values, 0.05, 0.95, together=size).lower for size in (1, 80)]
        false += np.array(lower) > shares.mean()
    assert false[0] > 8
    assert false[1] == 0


def test_groups_of_values_of_one_mean_cost_little() -> None:
    values = np.random.default_rng(17).random(500)
    one, five = (betting_mean(values, 0.05, 0.95, together=size) for size in (1, 5))
    assert five.upper - five.lower < 1.5 * (one.upper - one.lower)


@pytest.mark.cases(
    ("values", "alpha", "message"),
    [
        ([], 0.05, "values are empty"),
        ([0.5, math.nan], 0.05, r"values\[1\] = nan"),
        ([0.5, 1.5], 0.05, r"values\[1\] = 1.5"),
        ([-0.5], 0.05, r"values\[0\] = -0.5"),
        ([[0.5]], 0.05, "shape"),
        ([0.5], 0.0, "alpha = 0.0"),
        ([0.5], math.nan, "alpha = nan"),
    ],
)
def test_bad_input(values: list[float], alpha: float, message: str) -> None:
    with pytest.raises(InputError, match=message):
        lower_mean(values, alpha=alpha)
    with pytest.raises(InputError, match=message):
        betting_mean(values, alpha, 0.95)
