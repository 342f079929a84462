"""Draws of lists, sets and chains against their closed forms and full enumerations."""

from __future__ import annotations

import itertools
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.kernels import top_k as lists

KEY = np.array([77, 5], np.uint32)
RATE = 1e-6  # false-failure rate of every stochastic test here
Vector = NDArray[np.float64]
Places = NDArray[np.int32]

UP = np.array([0.3, 0.2, 0.5, 0.05, 0.0])
DOWN = np.array([0.0, 0.6, 0.1, 0.25, 0.9])
STATES = [(j,) for j in range(5)]


def peeled(weights: Vector, k: int, trials: NDArray[np.int64]) -> Places:
    places = np.empty((len(trials), k), np.int32)
    lists.peeling(places, lists.sum_tree(weights), trials, 0, KEY)
    return places


def sets(weights: Vector, k: int, trials: NDArray[np.int64]) -> Places:
    places = np.empty((len(trials), k), np.int32)
    lists.weighted_sets(places, lists.symmetric_sums(np.log(weights), k), trials, 0, KEY)
    return places


def walked(count: int, trials: NDArray[np.int64]) -> Places:
    states = np.empty(len(trials), np.int32)
    lists.chain_states(states, UP, DOWN, count, trials, 0, KEY)
    return states


def list_law(weights: Vector, k: int) -> dict[tuple[int, ...], float]:
    law = {}
    for row in itertools.permutations(range(len(weights)), k):
        left, p = math.fsum(weights), 1.0
        for i in row:
            p *= weights[i] / left
            left -= weights[i]
        law[row] = p
    return law


def set_law(weights: Vector, k: int) -> dict[tuple[int, ...], float]:
    rows = list(itertools.combinations(range(len(weights)), k))
    mass = [math.prod(weights[i] for i in row) for row in rows]
    return {row: m / math.fsum(mass) for row, m in zip(rows, mass, strict=True)}


def fits(rows: Places, law: dict[tuple[int, ...], float]) -> bool:
    """Pearson's test at level RATE; cells that are expected less than fifty times are pooled."""
    # Encode rows as integers; no row may be impossible under the expected distribution.
    base = 1 + max(max(row) for row in law)
    assert rows.max() < base
    digits = base ** np.arange(rows.shape[1])
    cells, numbers = (np.asarray(part, np.int64) @ digits for part in ([*law], rows))
    counts = np.bincount(numbers, minlength=base ** rows.shape[1])[cells]
    assert counts.sum() == len(rows)
    expected = len(rows) * np.array(list(law.values()))
    rare = expected < 50
    counts = np.append(counts[~rare], counts[rare].sum())
    expected = np.append(expected[~rare], expected[rare].sum())
    used = expected > 0
    statistic = ((counts - expected)[used] ** 2 / expected[used]).sum()
    return bool(statistic < stats.chi2.isf(RATE, used.sum() - 1))


WEIGHTS = [
    np.ones(6),
    np.array([5.0, 1.0, 0.2, 3.0, 0.7, 1.0, 0.01]),
    np.array([1.0, 1e-3, 1.0, 0.9, 1e-3]),
    np.exp(-np.arange(8) / 2),
]


@pytest.mark.cases("weights", WEIGHTS)
@pytest.mark.cases("k", [1, 2, 3])
def test_peeling_has_the_closed_form_of_successive_draws(weights: Vector, k: int) -> None:
    rows = peeled(weights, k, np.arange(100_000))
    assert fits(rows, list_law(weights, k))
    tilted = weights * np.where(np.arange(len(weights)) < 2, 1.1, 1.0)
    assert not fits(rows, list_law(tilted, k))


@pytest.mark.cases("weights", WEIGHTS)
@pytest.mark.cases("k", [1, 2, 4])
def test_sets_have_the_law_of_the_full_enumeration(weights: Vector, k: int) -> None:
    rows = sets(weights, k, np.arange(100_000))
    assert (np.diff(rows, axis=1) > 0).all()
    assert fits(rows, set_law(weights, k))
    tilted = weights * np.where(np.arange(len(weights)) < 2, 1.1, 1.0)
    assert not fits(rows, set_law(tilted, k))


def test_a_list_of_everything_is_a_permutation_and_a_set_of_everything_is_all() -> None:
    weights = WEIGHTS[1]
    rows = peeled(weights, 7, np.arange(50_000))
    assert (np.sort(rows, axis=1) == np.arange(7)).all()
    assert fits(rows[:, :2], list_law(weights, 2))
    assert (sets(weights, 7, np.arange(1000)) == np.arange(7)).all()


def test_weights_far_apart_are_drawn_in_their_order() -> None:
    weights = np.exp(-600 * np.arange(7) / 6)
    assert (peeled(weights, 7, np.arange(2000)) == np.arange(7)).all()
    assert (sets(weights, 3, np.arange(2000)) == np.arange(3)).all()


def test_peeling_is_the_exponential_race() -> None:
    # The k smallest of E_i / w_i; first places and last places of k = 3 of 30 items.
    rng, n = np.random.default_rng(3), 60_000
    weights = np.exp(rng.normal(size=30))
    race = np.argsort(rng.exponential(size=(n, 30)) / weights, axis=1)[:, :3]
    rows = peeled(weights, 3, np.arange(n))
    for column, other, same in ((0, 0, True), (2, 2, True), (0, 2, False)):
        table = [np.bincount(x, minlength=30) for x in (rows[:, column], race[:, other])]
        p = stats.chi2_contingency(np.array(table)).pvalue
        assert bool(p > RATE / 2) is same


def test_log_law_of_lists() -> None:
    for weights in WEIGHTS:
        law = list_law(weights, 3)
        rows = np.array(list(law), np.int32)
        out = np.empty(len(rows))
        lists.peeling_log_law(out, rows, lists.sum_tree(weights))
        np.testing.assert_allclose(out, np.log(list(law.values())), rtol=1e-10, atol=1e-13)
    # The remaining sum keeps its precision after nearly all the mass has been drawn.
    out = np.empty(1)
    tree = lists.sum_tree(np.array([1.0, 1e-20, 3e-20]))
    lists.peeling_log_law(out, np.array([[0, 1]], np.int32), tree)
    assert out[0] == pytest.approx(math.log(1 / 4))


def test_symmetric_sums() -> None:
    weights = WEIGHTS[1]
    sums = lists.symmetric_sums(np.log(weights), 4)
    for r, n in itertools.product(range(5), range(8)):
        terms = [math.prod(c) for c in itertools.combinations(weights[n:].tolist(), r)]
        expected = math.log(math.fsum(terms)) if terms else -math.inf
        assert sums[r, n] == pytest.approx(expected, abs=1e-13)
    # e_10 of 1682 ones is a binomial coefficient.
    large = lists.symmetric_sums(np.zeros(1682), 10)
    assert large[10, 0] == pytest.approx(math.log(math.comb(1682, 10)), abs=1e-10)


def transition() -> Vector:
    matrix = np.diag(1 - UP - DOWN) + np.diag(UP[:-1], 1) + np.diag(DOWN[1:], -1)
    return np.asarray(matrix, dtype=np.float64)


def test_chain_law_is_the_matrix_power() -> None:
    for count in (0, 1, 2, 3, 50):
        law = np.array([0.5, 0.0, 0.25, 0.25, 0.0])
        expected = law @ np.linalg.matrix_power(transition(), count)
        lists.chain_law(law, UP, DOWN, count)
        np.testing.assert_allclose(law, expected, rtol=1e-13, atol=1e-16)


@pytest.mark.cases("count", [1, 3, 4, 1023, 1025])
def test_walks_have_the_chain_law(count: int) -> None:
    states = walked(count, np.arange(50_000))[:, None]
    exact = np.linalg.matrix_power(transition(), count)[0]
    assert fits(states, dict(zip(STATES, exact, strict=True)))
    if count < 10:
        one_more = exact @ transition()
        assert not fits(states, dict(zip(STATES, one_more, strict=True)))
    # A chain that goes up from every state more often, by 0.02.
    off = transition() + 0.02 * (np.eye(5, k=1) - np.diag([1.0, 1, 1, 1, 0]))
    law = np.linalg.matrix_power(off, count)[0]
    assert not fits(states, dict(zip(STATES, law, strict=True)))


def test_a_walk_goes_on_from_where_a_shorter_one_ended() -> None:
    trials = np.arange(500)
    path = np.array([walked(count, trials) for count in range(1, 40)])
    assert set(np.unique(np.diff(path, axis=0))) == {-1, 0, 1}
    assert (walked(0, trials) == 0).all()


def test_picks_have_their_law() -> None:
    law = np.array([0.2, 0.0, 0.5, 0.3 - 1e-4, 1e-4, 0.0])
    states = np.empty(200_000, np.int32)
    lists.pick(states, np.cumsum(law), np.arange(len(states)), 0, KEY)
    assert fits(states[:, None], {(j,): p for j, p in enumerate(law)})
    wrong = law + np.array([0.01, 0, -0.01, 0, 0, 0])
    assert not fits(states[:, None], {(j,): p for j, p in enumerate(wrong)})


@pytest.mark.long
def test_small_probabilities_are_drawn() -> None:
    # A uniform draw of 23 bits is never below 2^-24 = 6e-8; here 20 trials go up on average.
    n, count, p = 100_000, 4000, 5e-8
    states = np.empty(n, np.int32)
    lists.chain_states(states, np.array([p, 0.0]), np.zeros(2), count, np.arange(n), 0, KEY)
    low, high = (stats.poisson.ppf(q, n * count * p) for q in (RATE / 2, 1 - RATE / 2))
    assert 0 < low <= states.sum() <= high < 70


DRAWS: list[Any] = [
    lambda trials: peeled(np.exp(np.arange(100) / 20), 9, trials),
    lambda trials: sets(np.exp(np.arange(100) / 20), 9, trials),
    lambda trials: walked(1500, trials),
]


@pytest.mark.cases("draw", DRAWS)
def test_a_trial_is_a_function_of_its_index_alone(draw: Any) -> None:
    trials = np.concatenate((np.arange(2000), [2**32, 2**40 + 3]))
    whole = draw(trials)
    blocks = [trials[i : i + 123] for i in range(0, len(trials), 123)]
    for threads in (1, 4):
        with ThreadPoolExecutor(threads) as pool:
            np.testing.assert_array_equal(np.concatenate(list(pool.map(draw, blocks))), whole)
    np.testing.assert_array_equal(draw(trials[::-1])[::-1], whole)
    assert len(np.unique(draw(np.array([0, 2**32, 2**33])), axis=0)) > 1
