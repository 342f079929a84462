"""KL divergence: closed forms, bias and coverage of estimates, brute force, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from detection_laws import sequence_kl  # type: ignore[import-not-found]
from numpy.typing import ArrayLike, NDArray
from scipy import integrate, stats
from scipy.optimize import brentq
from threadpoolctl import threadpool_limits

from dpaudit.bounds.divergence import log_ratio_kl, neighbour_kl, plugin_kl
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Values = NDArray[np.float64]
Rng = np.random.Generator


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    # Matrices are small: threads of several workers would only wait for each other.
    with threadpool_limits(1):
        yield


def shifted(rng: Rng, n: int, d: int, kl: float) -> tuple[Values, Values]:
    """Unit normals whose means differ by the same in each coordinate."""
    return rng.standard_normal((n, d)) + math.sqrt(2 * kl / d), rng.standard_normal((n, d))


def narrowing(d: int, kl: float) -> float:
    """The standard deviation of a P of this divergence from the unit normal of the same mean."""
    return float(brentq(lambda s: d * (s * s - 1 - 2 * math.log(s)) / 2 - kl, 1e-6, 1))


# Closed forms.


def gaussian_kl(mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike) -> float:
    """KL of two normal laws: ½[tr(Σ_q⁻¹Σ_p) + (μ_p − μ_q)ᵀΣ_q⁻¹(μ_p − μ_q) − d + ln(|Σ_q|/|Σ_p|)].

    Kullback 1959, Information Theory and Statistics, chapter 9, section 1.
    """
    shift = np.atleast_1d(np.subtract(mean_p, mean_q))
    p, q = np.atleast_2d(cov_p), np.atleast_2d(cov_q)
    spread = np.trace(np.linalg.solve(q, p)) + shift @ np.linalg.solve(q, shift) - len(shift)
    return float(spread + np.linalg.slogdet(q)[1] - np.linalg.slogdet(p)[1]) / 2


def test_gaussian_kl_is_the_integral() -> None:
    p, q = stats.norm(0.3, 1.7), stats.norm(-1.0, 0.8)
    expected, _ = integrate.quad(lambda x: p.pdf(x) * (p.logpdf(x) - q.logpdf(x)), -20, 20)
    assert gaussian_kl(0.3, 1.7**2, -1.0, 0.8**2) == pytest.approx(expected, rel=1e-9)


def test_gaussian_kl_of_transformed_independent_coordinates_adds_up() -> None:
    rng = np.random.default_rng(1)
    scales, shift, turn = (
        rng.uniform(0.5, 2, 10),
        rng.standard_normal(10),
        rng.normal(size=(10, 10)),
    )
    expected = sum(gaussian_kl(m, s, 0.0, 1.0) for m, s in zip(shift, scales, strict=True))
    cov_p, cov_q = turn @ np.diag(scales) @ turn.T, turn @ turn.T
    divergence = gaussian_kl(turn @ shift + 3, cov_p, np.full(10, 3.0), cov_q)
    assert divergence == pytest.approx(expected, rel=1e-7)
    assert gaussian_kl(shift, cov_p, shift, cov_p) == pytest.approx(0, abs=1e-10)


def test_sequence_kl_is_that_of_one_long_vector() -> None:
    rng = np.random.default_rng(2)
    real, fake, sigma = rng.normal(size=(3, 4, 5)), rng.normal(size=(4, 5)), 0.6
    divergence = sequence_kl(real, fake, sigma)
    noise = sigma**2 * np.eye(20)
    expected = [gaussian_kl(g.ravel(), noise, fake.ravel(), noise) for g in real]
    assert divergence == pytest.approx(expected, rel=1e-12)


# The plug-in estimate.


@pytest.mark.long
def test_plugin_is_unbiased_where_the_naive_one_is_not() -> None:
    # z-tests over 1500 samples; false failure 1e-6 up to the normal law of a mean.
    rng = np.random.default_rng(3)
    d, n, m, scale = 5, 20, 25, np.array([0.5, 1.0, 1.0, 1.5, 2.0])
    shift = np.array([2.0, 0.0, 1.0, 0.0, 0.0])
    truth = gaussian_kl(shift, np.diag(scale**2), np.zeros(d), np.eye(d))
    unbiased, naive = [], []
    for _ in range(1500):
        x, y = shift + scale * rng.standard_normal((n, d)), rng.standard_normal((m, d))
        unbiased.append(plugin_kl(x, y).value)
        naive.append(gaussian_kl(x.mean(0), np.cov(x.T), y.mean(0), np.cov(y.T)))
    limit = float(stats.norm.isf(5e-7)) / math.sqrt(1500)
    assert min(unbiased) > 0  # or the bound of 0 would bias it
    assert abs(np.mean(unbiased) - truth) < limit * np.std(unbiased)
    assert abs(np.mean(naive) - truth) > 3 * limit * np.std(naive)


def misses(estimates: list[Estimate], truth: float, width: float = 1.0) -> int:
    """How many intervals of this share of their width do not hold the truth."""
    return sum(abs(e.value - truth) > width * (e.upper - e.value) for e in estimates)


def assert_covers(estimates: list[Estimate], truth: float) -> None:
    """At a rate of 1e-6 false though 5 % miss; intervals half as wide are noticed."""
    limit = stats.binom.isf(1e-6, len(estimates), 0.05)
    assert misses(estimates, truth) <= limit < misses(estimates, truth, 0.5)


@pytest.mark.long
@pytest.mark.parametrize(("d", "n"), [(1, 1000), (10, 800), (50, 800)])
@pytest.mark.parametrize("kl", [0.5, 2.0])
def test_plugin_covers(d: int, n: int, kl: float) -> None:
    rng = np.random.default_rng(4)
    assert_covers([plugin_kl(*shifted(rng, n, d, kl)) for _ in range(160)], kl)


@pytest.mark.long
def test_plugin_covers_where_scales_differ() -> None:
    rng, scale = np.random.default_rng(5), narrowing(10, 2.0)
    estimates = [
        plugin_kl(scale * rng.standard_normal((800, 10)), rng.standard_normal((1200, 10)))
        for _ in range(300)
    ]
    assert_covers(estimates, 2.0)


def test_plugin_sees_that_nothing_differs() -> None:
    # Exceeding the interval has a rate below 2.5 %; at 1e-6 false though it were 5 %.
    rng = np.random.default_rng(6)
    estimates = [plugin_kl(*shifted(rng, 500, 10, 0.0)) for _ in range(200)]
    assert sum(e.lower > 0 for e in estimates) <= stats.binom.isf(1e-6, 200, 0.05)
    assert all(e.upper > 0 and e.lower >= 0 and e.value >= 0 for e in estimates)
    assert all(plugin_kl(*shifted(rng, 500, 10, 0.5)).lower > 0 for _ in range(20))


def test_plugin_does_not_change_with_the_units() -> None:
    rng = np.random.default_rng(7)
    x, y = shifted(rng, 60, 3, 1.0)
    turn = rng.normal(size=(3, 3)) @ np.diag([1e-6, 1.0, 1e6])
    here, there = plugin_kl(x, y), plugin_kl(x @ turn + 5, y @ turn + 5)
    assert there.value == pytest.approx(here.value, rel=1e-6)
    assert there.upper == pytest.approx(here.upper, rel=1e-6)


# The neighbours' estimate.


@pytest.mark.long
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("kl", [0.5, 2.0])
def test_neighbours_cover_in_few_dimensions(d: int, kl: float) -> None:
    rng = np.random.default_rng(8)
    samples = [shifted(rng, 1000, d, kl) for _ in range(110)]
    estimates = [neighbour_kl(x, y) for x, y in samples]
    limit = stats.binom.isf(1e-6, 110, 0.05)
    assert misses(estimates, kl) <= limit
    if kl == 2:
        # Noticed: half the width, and in three dimensions the bias of one neighbour alone.
        assert misses(estimates, kl, 0.5) > limit
        plain = [neighbour_kl(x, y, neighbours=1) for x, y in samples]
        assert d < 3 or misses(plain, kl) > limit


@pytest.mark.long
def test_neighbours_cover_where_scales_differ() -> None:
    rng, scale = np.random.default_rng(9), narrowing(2, 0.5)
    estimates = [
        neighbour_kl(scale * rng.standard_normal((1000, 2)), rng.standard_normal((1500, 2)))
        for _ in range(110)
    ]
    limit = stats.binom.isf(1e-6, 110, 0.05)
    assert misses(estimates, 0.5) <= limit < misses(estimates, 0.5, 0.25)


def test_one_neighbour_by_brute_force() -> None:
    rng = np.random.default_rng(10)
    x, y = shifted(rng, 30, 3, 4.0)
    y = np.concatenate((y, y + 0.3))
    among = np.linalg.norm(x[:, None] - x, axis=2)
    np.fill_diagonal(among, np.inf)
    across = np.linalg.norm(x[:, None] - y, axis=2)
    expected = 3 * np.mean(np.log(across.min(1) / among.min(1))) + math.log(60 / 29)
    assert neighbour_kl(x, y, neighbours=1).value == pytest.approx(expected, rel=1e-12)


@pytest.mark.cases("neighbours", [1, 3, 6])
def test_the_interval_is_the_jackknife_by_brute_force(neighbours: int) -> None:
    rng = np.random.default_rng(11)
    x, y = shifted(rng, 25, 2, 8.0)
    y = np.concatenate((y, y + 0.1))

    def without(rows: Values) -> list[Values]:
        return [np.delete(rows, i, axis=0) for i in range(len(rows))]

    def value(x: Values, y: Values) -> float:
        estimate = neighbour_kl(x, y, neighbours=neighbours).value
        assert estimate > 0  # or the bound of 0 would be seen
        return estimate

    left_x = [value(rest, y) for rest in without(x)]
    left_y = [value(x, rest) for rest in without(y)]
    variance = sum((len(left) - 1) * np.var(left) for left in (left_x, left_y))
    estimate = neighbour_kl(x, y, neighbours=neighbours, alpha=0.1)
    half = float(stats.t.isf(0.05, 24)) * math.sqrt(variance)
    assert estimate.upper - estimate.value == pytest.approx(half, rel=1e-9)


@pytest.mark.long
def test_in_ten_dimensions_the_log_ratio_is_a_bound_and_the_rows_are_not() -> None:
    # P narrower than Q: the rows' estimate is far too large, that of the log-ratio is not. A lower
    # end above the truth has a rate of 2.5 %; false failure 1e-6.
    rng, runs, scale = np.random.default_rng(12), 40, narrowing(10, 0.5)
    of_rows = of_ratio = of_shift = 0
    for _ in range(runs):
        x, y = scale * rng.standard_normal((1000, 10)), rng.standard_normal((1000, 10))
        of_rows += neighbour_kl(x, y).lower > 0.5
        # ln p/q is this times a number, plus another; the divergence is that of squared lengths.
        of_ratio += neighbour_kl(np.sum(x**2, axis=1), np.sum(y**2, axis=1)).lower > 0.5
        x, y = shifted(rng, 1000, 10, 2.0)
        of_shift += neighbour_kl(x.sum(axis=1), y.sum(axis=1)).lower > 2.0
    limit = stats.binom.isf(1e-6, runs, 0.025)
    assert max(of_ratio, of_shift) <= limit < of_rows


# The mean log-ratio.


def test_log_ratio_covers_exactly() -> None:
    # Normal ratios of 8 trials: 5 % miss, false failure 1e-6 on either side.
    rng, kl = np.random.default_rng(13), 2.0
    estimates = [log_ratio_kl(kl + 2 * rng.standard_normal(8)) for _ in range(3000)]
    law = stats.binom(3000, 0.05)
    assert law.ppf(5e-7) <= misses(estimates, kl) <= law.isf(5e-7)
    normal = float(stats.norm.isf(0.025) / stats.t.isf(0.025, 7))
    assert misses(estimates, kl, normal) > law.isf(5e-7)


def test_log_ratio_by_hand() -> None:
    estimate = log_ratio_kl([1.0, 2.0, 6.0], alpha=0.1)
    half = float(stats.t.isf(0.05, 2)) * math.sqrt(7 / 3)
    assert (estimate.value, estimate.n, estimate.kind) == (3.0, 3, "assumes-law")
    assert (estimate.alpha, estimate.confidence, estimate.lower) == (0.1, 0.9, 0.0)
    assert estimate.upper == pytest.approx(3 + half, rel=1e-12)
    assert log_ratio_kl([-1.0, -2.0]).value == 0


ROWS = np.arange(30.0).reshape(15, 2) ** 1.5
TWICE = np.concatenate((ROWS, ROWS[:1]))


@pytest.mark.cases(
    ("call", "words"),
    [
        (lambda: plugin_kl(ROWS, ROWS[:, :1]), "2 columns and y 1"),
        (lambda: plugin_kl(ROWS[:2], ROWS), "x has 2 rows: give at least 3"),
        (lambda: plugin_kl(ROWS, ROWS[:4]), "y has 4 rows: give at least 5"),
        (lambda: plugin_kl(ROWS * [1, 0], ROWS), "columns of x"),
        (lambda: plugin_kl(ROWS, ROWS[:, [0, 0]]), "columns of y"),
        (lambda: plugin_kl(ROWS, ROWS[:, :1] + ROWS * [0, 1e-9]), "columns of y"),
        (lambda: plugin_kl(ROWS, np.full((5, 2), math.inf)), "y holds NaN"),
        (lambda: plugin_kl(np.ones((2, 2, 2)), ROWS), "x has shape"),
        (lambda: plugin_kl(ROWS, ROWS, alpha=1.0), "alpha = 1"),
        (lambda: neighbour_kl(ROWS[:11], ROWS), "x has 11 rows: give at least 12"),
        (lambda: neighbour_kl(ROWS, ROWS[:10] + 0.1), "y has 10 rows: give at least 11"),
        (lambda: neighbour_kl(TWICE, ROWS + 0.1), "occurs again in x"),
        (lambda: neighbour_kl(ROWS, ROWS), "occurs again in y"),
        (lambda: neighbour_kl(ROWS * 1e300, ROWS + 0.1), "overflow"),
        (lambda: neighbour_kl(ROWS, ROWS + 0.1, neighbours=2), "neighbours = 2"),
        (lambda: neighbour_kl(ROWS, ROWS + 0.1, neighbours=0), "neighbours = 0"),
        (lambda: log_ratio_kl([1.0]), "at least 2"),
        (lambda: log_ratio_kl([1.0, math.inf]), "not a finite number"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()
