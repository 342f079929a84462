"""The derivations about PrivSR, against brute force and other formulas."""

from __future__ import annotations

import math
import re
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from dpaudit.claims import meng_2018 as algebra

PAGE = (Path(__file__).parents[2] / "docs" / "claims" / "privsr.md").read_text(encoding="utf-8")


def test_the_ranking_form_costs_more_than_is_claimed() -> None:
    counterexample = algebra.pairs_of_an_iteration(0)
    assert counterexample is not None
    assert "4975 triples" in counterexample
    assert "1000 vectors are submitted" in counterexample


# Theorem 1, independent noises.


def independent(x: float, b: float, c: float) -> float:
    """The density of Lap(b) + Lap(c), by convolution."""
    law = stats.laplace

    def at(y: float) -> float:
        return float(law.pdf(y, scale=b) * law.pdf(x - y, scale=c))

    marks = sorted({-80.0, 0.0, x, 80.0 + x})
    return math.fsum(
        integrate.quad(at, *ends, epsabs=0, epsrel=1e-10)[0] for ends in pairwise(marks)
    )


@pytest.mark.long
def test_independent_noises_have_the_tail_of_the_larger() -> None:
    # β = 1, units of b: a rating moves by 2b.
    tail = integrate.quad(lambda x: independent(x, 1, 1), 8, 40, epsrel=1e-6)[0]
    further = integrate.quad(lambda x: independent(x, 1, 1), 10, 40, epsrel=1e-6)[0]
    words = algebra.sums_of_both(0)
    assert words is not None
    assert f"{math.log(tail / further):.3f}" in words
    assert tail == pytest.approx(10 * math.exp(-8) / 4, rel=1e-5)
    # β = 0.1: scales 1/1.1 and 1/11 of 2Δ/ε; ε_s = 1.1 in the limit.
    ratio = math.log(independent(12, 1 / 1.1, 1 / 11) / independent(13, 1 / 1.1, 1 / 11))
    assert ratio == pytest.approx(1.1, rel=1e-6)


# Theorem 3.


def brute_delta(raters: int, spent: float, epsilon: float) -> float:
    """∫∫ (p − e^ε q)_+ over the submission and √h."""
    r = np.linspace(0, 6, 2401)[1:]
    mu = spent * math.sqrt(raters / 2) / r
    z = np.linspace(-9, 9, 3601)
    p = stats.norm.pdf(z)
    q = stats.norm.pdf(z[None] + mu[:, None])
    inner = np.trapezoid(np.maximum(0, p - math.exp(epsilon) * q), z, axis=1)
    return float(np.trapezoid(2 * r * np.exp(-(r**2)) * inner, r))


@pytest.mark.long
@pytest.mark.parametrize(("raters", "delta"), [(1, 0.216), (10, 0.730), (100, 0.993)])
def test_delta_of_a_submission_averages_over_what_the_recommender_drew(
    raters: int, delta: float
) -> None:
    average = algebra.delta_of_submission(raters, 1.1, 1.0)
    assert average == pytest.approx(brute_delta(raters, 1.1, 1.0), abs=2e-4)
    assert average == pytest.approx(delta, abs=5e-4)
    assert f".{round(average * 1000)}" in PAGE
    assert average != pytest.approx(algebra.delta_of_submission(raters, 1.0, 1.0), abs=2e-3)


# Section 5.3, time slots.


def test_slots_that_share_a_factor_cost_more_than_the_largest() -> None:
    words = algebra.new_ratings(0)
    assert words is not None

    def log_density(ratings: float, first: float, second: float) -> float:
        """Log-density of both slots' sums: u = v = 1 at first; then V changes, and u by V."""
        law, v = stats.laplace, 1 - 0.045 * first
        u = 1 - 0.045 * 2 * (1 * v - ratings) * v
        assert abs(u) <= 1
        means = 2 * (1 - ratings), 2 * (u * 1 - 5) * u
        return float(
            sum(law.logpdf(x, m, 8.0) for x, m in zip((first, second), means, strict=True))
        )

    ratios = [
        log_density(5, first, second) - log_density(1, first, second)
        for first, second in product((-90.0, -89.5, -90.5), (-40.0, -60.0))
    ]
    stated = float(re.findall(r"ε = ([\d.]+)", words)[0])
    assert ratios[0] == pytest.approx(stated, abs=0.01)
    # On an open set of outputs, and beyond Σ ε_t = 2.
    assert min(ratios) > 3


# Theorem 4.


def psi(x: float) -> float:
    return 1 / (1 + math.exp(x))


def submissions(
    u: NDArray[np.float64], items: NDArray[np.float64], held: set[int], friends: set[int]
) -> NDArray[np.float64]:
    """Equation (13): a user's submission for each item."""
    others = set(range(len(items))) - held - friends
    sums = np.zeros_like(items)
    for better, worse in ((held, friends), (friends, others)):
        for j, k in product(better, worse):
            weight = psi(float(u @ (items[j] - items[k])))
            sums[j] += weight * u
            sums[k] -= weight * u
    return sums


@pytest.mark.parametrize("count", [1, 5])
def test_an_added_item_changes_the_submissions_by_twice_the_number_of_friends_items(
    count: int,
) -> None:
    rng = np.random.default_rng(count)
    for _ in range(20):
        u, items = rng.normal(size=3), rng.normal(size=(count + 6, 3))
        u /= np.linalg.norm(u)
        friends = set(range(1, count + 1))
        held = {count + 1, count + 2}
        before, after = (submissions(u, items, mine, friends) for mine in (held, held | {0}))
        moved = np.linalg.norm(after - before, axis=1)
        assert moved[0] == pytest.approx(count)
        assert moved[1 : count + 1] == pytest.approx(1.0)
        assert moved[count + 1 :] == pytest.approx(0.0, abs=1e-12)
        assert moved.sum() == pytest.approx(2 * count)
