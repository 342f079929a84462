"""Top-k lists under Laplace noise, and their density."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from dpaudit.kernels import exact_noise
from dpaudit.kernels.top_k import laplace_top_k

KEY = np.array([77, 5], np.uint32)
Floats = NDArray[np.float32]


def top(
    scores: Floats, k: int, scale: float, trials: NDArray[np.int64], grid: float
) -> tuple[NDArray[np.int32], Floats]:
    items, values = np.empty((len(trials), k), np.int32), np.empty((len(trials), k), np.float32)
    laplace_top_k(items, values, scores, scale, grid, trials, 0, KEY)
    return items, values


def naive_top(
    scores: Floats, k: int, scale: float, trials: NDArray[np.int64], grid: float
) -> tuple[NDArray[np.int64], Floats]:
    draws = np.empty((len(trials), len(scores)))
    exact_noise.laplace(draws, trials, 0, KEY)
    noised = (scores + scale * draws).astype(np.float32)
    if grid:
        noised = (np.rint((scores + scale * draws) / grid) * grid).astype(np.float32)
    order = np.argsort(-noised, axis=1, kind="stable")[:, :k]
    return order, np.take_along_axis(noised, order, 1)


@pytest.mark.cases("size", [5, 1023, 1024, 1025, 3000])
@pytest.mark.cases("k", [1, 3, 5])
@pytest.mark.cases(
    ("scale", "grid"), [(0.0, 0.0), (0.3, 2**-30), (10.0, 2**-30), (0.3, 0.25), (10.0, 2**-6)]
)
def test_top_k_is_the_sorted_noise(size: int, k: int, scale: float, grid: float) -> None:
    rng = np.random.default_rng(size)
    scores = (rng.integers(0, 9, size) / 2).astype(np.float32)  # many ties without noise
    if size > 5:
        scores[rng.random(size) < 0.3] = -np.inf
    trials = np.array([4, 2**32 + 4, 0, 9], np.int64)
    items, values = top(scores, k, scale, trials, grid)
    expected_items, expected_values = naive_top(scores, k, scale, trials, grid)
    np.testing.assert_array_equal(items, expected_items)
    np.testing.assert_array_equal(values, expected_values)


def test_items_that_are_never_shown_do_not_fill_the_list() -> None:
    scores = np.full(2000, -np.inf, np.float32)
    scores[[7, 1500]] = 1.0, 2.0
    items, values = top(scores, 4, 0.01, np.arange(3), 2.0**-10)
    assert items.tolist() == [[1500, 7, -1, -1]] * 3
    assert np.isneginf(values[:, 2:]).all()


def test_first_place_has_its_closed_form_probability() -> None:
    # P(X1 + d > X2) of standard Laplace draws is 1 − ½ e^-d (1 + d/2).
    # Rate 1e-6 over 4 binomial counts.
    n, rate = 400_000, 1e-6 / 4
    for d in (0.0, 0.5, 1.0, 3.0):
        scores = np.array([0.5 * d, 0.0], np.float32)
        wins = int((top(scores, 1, 0.5, np.arange(n), 2.0**-10)[0][:, 0] == 0).sum())
        p = 1 - 0.5 * np.exp(-d) * (1 + d / 2)
        for value, holds in ((p, True), (p - 0.02, False), (min(p + 0.02, 1 - 1e-9), False)):
            low, high = stats.binom.ppf(rate / 2, n, value), stats.binom.isf(rate / 2, n, value)
            assert bool(low <= wins <= high) is holds


def test_log_laplace_cdf() -> None:
    points = np.concatenate((np.linspace(-700, 700, 2801), np.linspace(-2, 2, 401)))
    logs = [exact_noise.log_laplace_cdf(z) for z in points]
    np.testing.assert_allclose(logs, stats.laplace.logcdf(points), rtol=1e-12, atol=1e-300)


def density(
    items: NDArray[np.int32],
    values: NDArray[np.float64],
    exact: NDArray[np.float64],
    shown: NDArray[np.bool_],
    scale: float,
) -> NDArray[np.float64]:
    out = np.empty(exact.shape[1])
    exact_noise.top_list_log_likelihood(items, values, exact, shown, scale, out)
    # The kernel leaves out the constant (2b)^-k.
    result: NDArray[np.float64] = out - len(items) * np.log(2 * scale)
    return result


@pytest.mark.cases("scale", [0.02, 0.5, 30.0])
def test_list_likelihood_is_the_naive_density(scale: float) -> None:
    rng = np.random.default_rng(3)
    seen = [0, 0]  # candidates under which the list is impossible, and possible
    for _ in range(50):
        size, k, candidates = int(rng.integers(4, 40)), int(rng.integers(1, 4)), 5
        exact = rng.normal(3, 1, (size, candidates))
        # Most items can be shown under every candidate, some never, some under a few.
        shown = np.repeat(rng.random((size, 1)) < 0.8, candidates, axis=1)
        shown ^= rng.random(shown.shape) < 0.05
        shown[:k, 0] = True
        items = rng.permutation(np.flatnonzero(shown[:, 0]))[:k].astype(np.int32)
        values = np.sort(rng.normal(3, 1, k))[::-1].copy()
        log = density(items, values, exact, shown, scale)
        for c in range(candidates):
            possible = bool(shown[items, c].all())
            seen[possible] += 1
            rest = np.setdiff1d(np.flatnonzero(shown[:, c]), items)
            expected = stats.laplace.logpdf(values, exact[items, c], scale).sum()
            expected += stats.laplace.logcdf(values[-1], exact[rest, c], scale).sum()
            assert log[c] == pytest.approx(expected if possible else -np.inf, rel=1e-12, abs=1e-10)
    assert min(seen) > 10


@pytest.mark.long
def test_list_density_integrates_to_one() -> None:
    # The fourth item can be shown under the second candidate only, the fifth under neither.
    exact = np.array([[3.0, 3.0], [3.4, 3.4], [2.1, 2.1], [3.2, 3.2], [9.9, 9.9]])
    shown = np.ones((5, 2), bool)
    shown[3, 0] = shown[4] = False
    scale = 0.6
    for c in range(2):
        single = []
        for item in range(5):
            chosen = np.array([item], np.int32)

            def at(value: float, chosen: NDArray[np.int32] = chosen, c: int = c) -> float:
                return float(np.exp(density(chosen, np.array([value]), exact, shown, scale)[c]))

            single.append(integrate.quad(at, -25, 35, points=[2.1, 3, 3.2, 3.4], limit=200)[0])
        assert sum(single) == pytest.approx(1, abs=1e-7)
        assert [mass > 0 for mass in single] == [True, True, True, c == 1, False]

    # Lists of two, on a grid: both values in decreasing order.
    grid = np.linspace(-6, 12, 361)
    step, double = grid[1] - grid[0], 0.0
    for first in range(3):
        for second in range(3):
            if first == second:
                continue
            pair = np.array([first, second], np.int32)
            for i, high in enumerate(grid):
                for low in grid[: i + 1 : 6]:
                    weight = 6 * step * step * (0.5 if low == high else 1)
                    log = density(pair, np.array([high, low]), exact, shown, scale)[0]
                    double += weight * float(np.exp(log))
    assert double == pytest.approx(1, abs=0.02)
