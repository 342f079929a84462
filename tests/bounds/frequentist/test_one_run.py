"""One-run bounds: published figures, the exact optimum by linear programming, false claims."""

from __future__ import annotations

import itertools
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import linprog

from dpaudit.bounds.frequentist.one_run import (
    default_grid,
    one_run_epsilon,
    one_run_p_value,
    one_run_scores_epsilon,
)
from dpaudit.core.errors import InputError

ORACLES = Path(__file__).parents[2] / "oracles" / "epsilon_bounds.json"
ROWS = [
    row
    for row in json.loads(ORACLES.read_text())["one_run"]
    if row["method"] == "one_run_steinke23"
]

# False claims among AUDITS audits at level 5 %: more than LIMIT happen with probability 1e-6 where
# the rate is 5 %, and with probability above 99 % where it is 9 %.
AUDITS = 2000
LIMIT = int(stats.binom.isf(1e-6, AUDITS, 0.05))


def test_the_limit_has_power() -> None:
    assert stats.binom.sf(LIMIT, AUDITS, 0.05) <= 1e-6
    assert stats.binom.sf(LIMIT, AUDITS, 0.09) > 0.99


def published(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """Steinke et al.'s tail by its definition, term by term."""
    w = stats.binom(r, 1 / (1 + math.exp(-epsilon)))
    terms = [(w.sf(v - i - 1) - w.sf(v - 1)) / i for i in range(1, v + 1)]
    return float(w.sf(v - 1) + 2 * m * delta * max(terms, default=0.0))


def optimum(m: int, r: int, v: int, epsilon: float, delta: float) -> float:
    """The largest P[V ≥ v] of any (ε, δ)-DP output, by linear programming.

    By symmetry the best output depends on the number of right guesses alone, with probabilities
    p_0 … p_r; the divergence between adjacent inputs is then a sum over that number, here in either
    direction, its positive parts bounded by slacks.
    """
    n, grow = r + 1, math.exp(epsilon)
    rows, limits = [], []
    for direction in (0, 1):
        for i in range(1, n):
            row = np.zeros(n + 2 * r)
            right, wrong = i / m, (r - i + 1) / m
            row[i], row[i - 1] = (right, -grow * wrong) if direction else (-grow * right, wrong)
            row[n + direction * r + i - 1] = -1
            rows.append(row)
            limits.append(0.0)
        budget = np.zeros(n + 2 * r)
        budget[n + direction * r : n + direction * r + r] = 1
        rows.append(budget)
        limits.append(delta)
    total = np.r_[np.ones(n), np.zeros(2 * r)]
    goal = np.r_[-(np.arange(n) >= v).astype(float), np.zeros(2 * r)]
    solution = linprog(goal, A_ub=np.array(rows), b_ub=limits, A_eq=[total], b_eq=[1.0])
    assert solution.success
    return float(-solution.fun)


@pytest.mark.cases("row", ROWS, ids=lambda row: f"{row['r']}-{row['v']}-{row['delta']}")
def test_oracle(row: dict[str, Any]) -> None:
    m, r, v, delta, alpha = (row[key] for key in ("m", "r", "v", "delta", "alpha"))
    published = float(row["eps_lower"])
    exact = one_run_epsilon(m, r, v, delta=delta, alpha=alpha)
    if delta == 0:
        assert exact.lower == pytest.approx(published, abs=1e-5)
    elif published > 0:
        assert published < exact.lower < one_run_epsilon(m, r, v).lower
    assert exact.lower <= exact.value
    assert (exact.kind, exact.n, exact.confidence, exact.upper) == (
        "frequentist",
        m,
        1 - alpha,
        math.inf,
    )


@pytest.mark.cases(("m", "r"), [(1, 1), (2, 2), (5, 5), (8, 3), (12, 12), (40, 12)])
def test_exact_tail_is_the_optimum(m: int, r: int) -> None:
    grid = itertools.product(sorted({1, (r + 1) // 2, r}), (0.0, 0.4, 2.0), (0, 1e-4, 0.01, 0.2))
    for v, epsilon, delta in grid:
        p_value = one_run_p_value(m, r, v, epsilon=epsilon, delta=delta)
        assert p_value == pytest.approx(optimum(m, r, v, epsilon, delta), abs=2e-7)


def test_the_tail_is_below_the_published_one() -> None:
    for r, v, epsilon, delta in [(40, 30, 0.5, 1e-3), (90, 90, 2.0, 1e-4), (7, 5, 0.0, 1e-2)]:
        p_value = one_run_p_value(100, r, v, epsilon=epsilon, delta=delta)
        assert p_value < published(100, r, v, epsilon, delta)


def test_published_tail_alone_is_no_bound_near_one() -> None:
    """Three canaries, the output uniform on the answers with a right guess: V ≥ 1 always."""
    states = list(itertools.product((0, 1), repeat=3))

    def law(coins: tuple[int, ...]) -> NDArray[np.float64]:
        return np.array([any(a == b for a, b in zip(coins, s, strict=True)) / 7 for s in states])

    spent = max(
        np.maximum(law(a) - law(b), 0).sum()
        for a, b in itertools.product(states, states)
        if sum(x != y for x, y in zip(a, b, strict=True)) == 1
    )
    assert spent == pytest.approx(1 / 7)
    assert published(3, 3, 1, 0.0, 1 / 7) == pytest.approx(55 / 56)
    p_value = one_run_p_value(3, 3, 1, epsilon=0.0, delta=1 / 7)
    assert p_value == pytest.approx(1.0, abs=1e-12)


def test_pure_tail_is_binomial() -> None:
    for m, r, v, epsilon in [(50, 20, 15, 0.3), (20_000, 20_000, 14_100, 0.85), (9, 9, 0, 1.0)]:
        expected = stats.binom.sf(v - 1, r, 1 / (1 + math.exp(-epsilon)))
        assert one_run_p_value(m, r, v, epsilon=epsilon) == pytest.approx(expected, rel=1e-9)


def test_large_numbers() -> None:
    """Tails that underflow, far above the mean and far below it."""
    m = 200_000
    assert one_run_p_value(m, m, m, epsilon=0.0, delta=1e-9) == pytest.approx(1e-9, rel=1e-4)
    assert one_run_p_value(m, m, m // 2, epsilon=5.0, delta=1e-9) == 1.0
    # P[W ≥ v] ≈ 0 at v = 0.75 m: the second term alone, β/b = 1/(1 − 1/3) up to O(1/m).
    far = one_run_p_value(m, m, 3 * m // 4, epsilon=0.0, delta=1e-9)
    assert far == pytest.approx(1e-9 * 4 / 3 * 1.5, rel=1e-4)
    near = [one_run_epsilon(m, m, 120_000, delta=delta).lower for delta in (0.0, 1e-12)]
    assert near[0] == pytest.approx(near[1], abs=1e-6)
    assert 0.39 < near[0] < math.log(1.5)


def test_perfect_and_useless_audits() -> None:
    # All right: q^n = α.
    share = 0.05 ** (1 / 40)
    estimate = one_run_epsilon(100, 40, 40)
    assert estimate.lower == pytest.approx(math.log(share / (1 - share)), abs=1e-8)
    assert estimate.value == math.inf
    for r, v in ((0, 0), (40, 0), (40, 20)):
        useless = one_run_epsilon(100, r, v, delta=1e-5)
        assert (useless.lower, useless.value) == (0.0, 0.0)
    assert one_run_p_value(100, 0, 0, epsilon=1.0, delta=0.1) == 1.0
    stated = one_run_epsilon(100, 40, 40, alpha=0.01)
    assert (stated.alpha, stated.confidence) == (0.01, 0.99)
    assert stated.lower < estimate.lower


def test_the_bound_is_itself_rejected() -> None:
    """No rounding of the root to the side that is not rejected."""
    for v in range(65, 101):
        for delta in (0.0, 1e-4):
            bound = one_run_epsilon(200, 100, v, delta=delta).lower
            assert bound > 0
            p = one_run_p_value(200, 100, v, epsilon=bound, delta=delta)
            assert 0.05 * (1 - 1e-7) < p <= 0.05 + 1e-16


def test_point_estimates() -> None:
    assert one_run_epsilon(100, 100, 75).value == pytest.approx(math.log(3))
    estimate = one_run_epsilon(100, 100, 75, delta=0.05)
    assert estimate.value == pytest.approx(math.log(70 / 25))


def false_claims(correct: NDArray[np.int64], m: int, r: int, epsilon: float, delta: float) -> int:
    """How many of the audits claim more than the true ε."""
    bound = cache(lambda v: one_run_epsilon(m, r, v, delta=delta).lower)
    return sum(bound(int(v)) > epsilon for v in correct)


def test_false_claims_under_randomised_response() -> None:
    rng, m, epsilon = np.random.default_rng(1), 1000, 1.0
    correct = rng.binomial(m, 1 / (1 + math.exp(-epsilon)), AUDITS)
    assert false_claims(correct, m, m, epsilon, 0.0) <= LIMIT
    # Sharp: the level is used up but for the atoms of the binomial.
    least = next(v for v in range(m) if one_run_epsilon(m, m, v).lower > epsilon)
    w = stats.binom(m, 1 / (1 + math.exp(-epsilon)))
    assert 0.05 - w.pmf(least - 1) < w.sf(least - 1) <= 0.05


def test_false_claims_under_the_worst_approximate_output() -> None:
    """W mixed with W given W ≥ v, the optimum, at the smallest v that makes a claim."""
    rng, m, r, epsilon, delta = np.random.default_rng(2), 300, 100, 0.5, 1e-3
    least = next(v for v in range(r) if one_run_epsilon(m, r, v, delta=delta).lower > epsilon)
    w = stats.binom(r, 1 / (1 + math.exp(-epsilon)))
    share = delta * m * w.sf(least - 1) / (least * w.pmf(least))  # spends exactly δ
    tail = stats.binom(r, w.args[1]).ppf(1 - rng.random(AUDITS) * w.sf(least - 1))
    correct = np.where(rng.random(AUDITS) < share, tail, w.rvs(AUDITS, random_state=rng))
    claims = false_claims(correct.astype(np.int64), m, r, epsilon, delta)
    assert claims <= LIMIT
    # The bound is attained, and a claim at one right guess fewer would exceed the level.
    rates = [share + (1 - share) * w.sf(v - 1) for v in (least, least - 1)]
    p = one_run_p_value(m, r, least, epsilon=epsilon, delta=delta)
    assert rates[0] == pytest.approx(p, rel=1e-9)
    assert rates[0] <= 0.05 < rates[1]


@pytest.mark.long
def test_chosen_number_of_guesses_on_noise() -> None:
    rng, m = np.random.default_rng(3), 200
    values = rng.normal(size=(AUDITS, m))
    coins = rng.integers(0, 2, size=(AUDITS, m))
    claims = sum(
        one_run_scores_epsilon(s, c, delta=0.0).lower > 0
        for s, c in zip(values, coins, strict=True)
    )
    assert claims <= LIMIT
    # Without a correction the best number of guesses is picked for its luck.
    k = np.arange(1, m + 1)
    right = np.cumsum(np.take_along_axis(coins, np.argsort(-values, axis=1), axis=1), axis=1)
    searched = (stats.binom.sf(right - 1, k, 0.5) <= 0.05).any(axis=1).sum()
    assert searched > 0.2 * AUDITS > LIMIT


@pytest.mark.long
def test_chosen_number_of_guesses_under_randomised_response() -> None:
    """Scores with two values, the coins flipped with probability 1/(1 + e): ties everywhere."""
    rng, m = np.random.default_rng(4), 120
    coins = rng.integers(0, 2, size=(AUDITS, m))
    answers = np.where(rng.random((AUDITS, m)) < 1 / (1 + math.e), 1 - coins, coins)
    claims = [
        one_run_scores_epsilon(a, c, grid=[(60, 60)]).lower > 1
        for a, c in zip(answers, coins, strict=True)
    ]
    assert sum(claims) <= LIMIT
    # An auditor that also knows 40 more coins exceeds the 5 % by far.
    scores = answers.copy()
    scores[:, :40] = coins[:, :40]
    informed = [
        one_run_scores_epsilon(a, c, grid=[(60, 60)]).lower > 1
        for a, c in zip(scores[:300], coins[:300], strict=True)
    ]
    assert np.mean(informed) > 0.09


def test_ties_do_not_use_the_coins() -> None:
    """Equal scores, the canaries sorted by their coins: the order of the list knows everything."""
    coins, m = np.repeat([0, 1], 100), 200
    same = np.zeros(m)
    claims = sum(one_run_scores_epsilon(same, coins, seed=s).lower > 0 for s in range(400))
    assert claims <= stats.binom.isf(1e-6, 400, 0.05)
    # In the order of the list every guess would be right.
    assert one_run_scores_epsilon(np.arange(m), coins).lower > 3


def test_scores_by_rank_alone() -> None:
    rng = np.random.default_rng(5)
    coins = rng.integers(0, 2, 500)
    values = rng.normal(size=500) + 1.5 * coins
    estimate = one_run_scores_epsilon(values, coins, delta=1e-5)
    assert estimate.lower > 1
    assert estimate == one_run_scores_epsilon(np.exp(values), coins.astype(bool), delta=1e-5)
    # By hand: the bound of each pair at its share of the level.
    order, grid = np.argsort(values), default_grid(500)
    bounds = [
        one_run_epsilon(
            500,
            high + low,
            int(coins[order][500 - high :].sum() + (1 - coins[order][:low]).sum()),
            delta=1e-5,
            alpha=0.05 / len(grid),
        ).lower
        for high, low in grid
    ]
    assert estimate.lower == pytest.approx(max(bounds), abs=1e-12)
    one = one_run_scores_epsilon(values, coins, grid=[(125, 125)])
    top = coins[order][375:].sum() + (1 - coins[order][:125]).sum()
    assert one.lower == one_run_epsilon(500, 250, int(top)).lower
    assert one_run_scores_epsilon(coins, coins).lower > 3
    assert one_run_scores_epsilon(-coins, coins).lower == 0


def test_default_grid() -> None:
    assert default_grid(100) == [(50, 50), (25, 25), (12, 12), (50, 0), (25, 0), (12, 0)]
    assert default_grid(1) == [(1, 0)]
    for m in (2, 7, 15, 16, 20_000):
        assert 1 <= len(default_grid(m)) <= 10
        assert all(high >= 1 and high + low <= m for high, low in default_grid(m))


@pytest.mark.cases(
    ("arguments", "words"),
    [
        ((0, 0, 0), "m = 0"),
        ((10, 11, 5), "guesses = 11"),
        ((10, -1, 0), "guesses = -1"),
        ((10, 5, 6), "correct = 6"),
        ((10, 5, -1), "correct = -1"),
        ((10, 5, 2.5), "correct = 2.5"),
        ((10, True, 1), "guesses = True"),
        ((10, math.nan, 1), "guesses = nan"),
    ],
)
def test_bad_counts(arguments: tuple[int, int, int], words: str) -> None:
    for call in (
        lambda: one_run_epsilon(*arguments),
        lambda: one_run_p_value(*arguments, epsilon=1.0),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_bad_parameters() -> None:
    for value in (-0.1, 1.0, math.nan):
        with pytest.raises(InputError, match="delta"):
            one_run_epsilon(10, 5, 3, delta=value)
        with pytest.raises(InputError, match="delta"):
            one_run_scores_epsilon([0.0, 1.0], [0, 1], delta=value)
        with pytest.raises(InputError, match="delta"):
            one_run_p_value(10, 5, 3, epsilon=1.0, delta=value)
    for value in (0.0, 1.0, math.nan):
        with pytest.raises(InputError, match="alpha"):
            one_run_epsilon(10, 5, 3, alpha=value)
        with pytest.raises(InputError, match="alpha"):
            one_run_scores_epsilon([0.0, 1.0], [0, 1], alpha=value)
    for value in (-1.0, math.inf, math.nan):
        with pytest.raises(InputError, match="epsilon"):
            one_run_p_value(10, 5, 3, epsilon=value)


@pytest.mark.cases(
    ("values", "coins", "grid", "words"),
    [
        ([0.0, math.nan], [0, 1], None, r"canary_scores\[1\] = nan"),
        ([0.0, math.inf], [0, 1], None, r"canary_scores\[1\] = inf"),
        ([], [], None, "empty"),
        ([0.0, 1.0], [0, 1, 1], None, "included has shape"),
        ([0.0, 1.0], [0, 2], None, "other than 0 and 1"),
        ([0.0, 1.0], [0, math.nan], None, "other than 0 and 1"),
        ([0.0, 1.0], ["0", "1"], None, "other than 0 and 1"),
        ([0.0, 1.0], [0, 1], [], "grid is empty"),
        ([0.0, 1.0], [0, 1], [(2, 1)], r"grid has \(2, 1\)"),
        ([0.0, 1.0], [0, 1], [(-1, 1)], r"grid has \(-1, 1\)"),
        ([0.0, 1.0], [0, 1], [(0.5, 1)], r"grid has \(0.5, 1\)"),
    ],
)
def test_bad_scores(values: Any, coins: Any, grid: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        one_run_scores_epsilon(values, coins, grid=grid)
