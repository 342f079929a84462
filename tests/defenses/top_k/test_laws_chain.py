"""The published chain of top-k sets: its sets, its laws, its time step."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.defenses.base import ExactScores
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.defenses.top_k.laws import SetChain, meant_swaps, printed_swaps, ranked

Vector = NDArray[np.float64]
RATE = 1e-6  # false-failure rate of every stochastic test here
U_R = 5.0


def row(scores: list[float] | Vector) -> ExactScores:
    return ExactScores(np.array(scores, np.float32), U_R)


def spread(items: int) -> ExactScores:
    """Distinct scores from 5 down to 1, in a shuffled order, with two items that are rated."""
    scores = np.random.default_rng(items).permutation(np.linspace(5, 1, items + 2))
    scores[[1, 4]] = -np.inf
    return row(scores)


def small(epsilon: float = 1.0, **parameters: object) -> TopK:
    return TopK(**{"epsilon": epsilon, "top_k": 3, "iterations": 200, **parameters})  # type: ignore[arg-type]


def test_ranks_are_by_score_and_then_by_item() -> None:
    exact = row([2.0, 5.0, -np.inf, 2.0, 5.0, 1.0])
    assert ranked(exact).tolist() == [1, 4, 0, 3, 5]


@pytest.mark.cases(("items", "k", "left", "right"), [(40, 10, 2, 3), (14, 3, 3, 4), (7, 2, 1, 1)])
def test_the_meant_sets_fill_their_windows(items: int, k: int, left: int, right: int) -> None:
    expected = [(k, k)]
    for block in range((items - k) // right):
        for one in range(left):
            for other in range(right):
                expected.append((k - one, k + 1 + block * right + other))
    swaps = list(zip(*(x.tolist() for x in meant_swaps(items, k, left, right)), strict=True))
    assert swaps == expected
    assert len(set(swaps)) == len(swaps)
    if items > k:
        assert swaps[1] == (k, k + 1)  # S_1 of the text
    # The formula of the docstring.
    for j, (out, into) in enumerate(swaps[1:], 1):
        j1 = (((j - 1) // right) % left) + 1
        j2 = (j - 1) // (left * right) * right + (j - 1) % right + 1
        assert (out, into) == (k - j1 + 1, k + j2)


@pytest.mark.cases(
    ("items", "k", "left", "right"),
    [(1682, 10, 2, 3), (40, 10, 2, 3), (30, 4, 3, 2), (9, 3, 2, 1), (9, 3, 1, 3), (9, 3, 2, 50)],
)
def test_the_printed_sets_are_those_of_the_formula(
    items: int, k: int, left: int, right: int
) -> None:
    expected = [(k, k), (k, k + 1)]
    for j in range(1, 10**6):
        j1 = (math.floor((j - 1) / right) + 1) - math.floor(
            (math.floor((j - 1) / right) + 1) / left
        )
        j2 = math.floor((j - 1) / (left * right)) * right + (j - math.floor(j / right))
        if not (1 <= k - j1 + 1 <= k and k + 1 <= k + j2 <= items):
            break
        expected.append((k - j1 + 1, k + j2))
    out, into = printed_swaps(items, k, left, right)
    assert list(zip(out.tolist(), into.tolist(), strict=True)) == expected


def test_the_printed_formula_repeats_sets_and_leaves_its_windows() -> None:
    k, left, right = 10, 2, 3
    out, into = printed_swaps(1682, k, left, right)
    swaps = list(zip(out.tolist(), into.tolist(), strict=True))
    assert swaps[1] == swaps[2] == (10, 11)  # S_2 = S_1
    assert max(Counter(swaps).values()) == 2
    assert swaps[6] == (10, 14)  # S_6: j2 = 4 in the first window of three
    assert into[: left * right + 1].max() > k + right
    assert out.min() < k - left + 1  # j1 grows beyond N1
    meant_out, meant_into = meant_swaps(1682, k, left, right)
    assert meant_out.min() == k - left + 1
    assert meant_into[: left * right + 1].max() == k + right
    assert meant_into.max() == k + (1682 - k) // right * right


def chain(exact: ExactScores, defense: TopK) -> SetChain:
    walk = defense.chain(exact)
    assert (walk.up >= 0).all()
    assert (walk.down >= 0).all()
    assert (walk.up + walk.down <= 1 + 1e-12).all()
    assert walk.up[-1] == walk.down[0] == 0
    return walk


def transition(walk: SetChain) -> Vector:
    stay = np.diag(1 - walk.up - walk.down)
    return np.asarray(stay + np.diag(walk.up[:-1], 1) + np.diag(walk.down[1:], -1), np.float64)


@pytest.mark.cases("enumeration", ["meant", "printed"])
@pytest.mark.cases(("rates", "power"), [("printed", 1.0), ("halved", 0.5)])
@pytest.mark.cases("epsilon", [0.1, 1.0, 4.0])
def test_the_stationary_law_is_phi_to_epsilon_or_half_of_it(
    enumeration: str, rates: str, power: float, epsilon: float
) -> None:
    exact = spread(15)
    walk = chain(exact, small(epsilon, enumeration=enumeration, rates=rates))
    sets = walk.sets.items(np.arange(len(walk.up)))
    assert (np.diff(sets, axis=1) > 0).all()
    # φ^ε, eq. (32), of the printed rates; φ^{ε/2}, eq. (28), of the halved ones.
    phi = np.exp(exact.scores[sets].sum(axis=1, dtype=np.float64) / U_R)
    expected = phi ** (power * epsilon)
    np.testing.assert_allclose(walk.stationary, expected / expected.sum(), rtol=1e-6)
    assert not np.allclose(walk.stationary, phi ** (1.5 - power) / (phi ** (1.5 - power)).sum())
    np.testing.assert_allclose(walk.stationary @ transition(walk), walk.stationary, rtol=1e-12)
    # λ_j = (φ_{j+1}/φ_j)^{ε/2} and μ_{j+1} its inverse, over U_s = 20.
    rate = (phi[1:] / phi[:-1]) ** (power * epsilon / 2)
    np.testing.assert_allclose(walk.up[:-1], rate / 20, rtol=1e-6)
    np.testing.assert_allclose(walk.down[1:], 1 / rate / 20, rtol=1e-6)


def test_the_law_tends_to_the_stationary_one() -> None:
    # 15 candidates, k = 3, N1 = 2, N2 = 3: 25 sets. Total variation by the exact law.
    walk = chain(spread(15), small())
    assert len(walk.up) == 25
    tv = {t: 0.5 * np.abs(walk.law(t) - walk.stationary).sum() for t in (0, 1000, 10_000, 20_000)}
    assert tv[0] > 0.8
    assert tv[1000] > 0.2
    assert tv[10_000] < 0.01
    assert tv[20_000] < 1e-4
    faster = chain(spread(15), small(u_s="largest-rate"))
    assert 0.5 * np.abs(faster.law(1200) - faster.stationary).sum() < 0.01


@pytest.mark.cases("steps", [0, 1, 7, 300])
def test_the_law_after_some_steps_is_the_matrix_power(steps: int) -> None:
    walk = chain(spread(12), small(2.0))
    expected = np.linalg.matrix_power(transition(walk), steps)[0]
    np.testing.assert_allclose(walk.law(steps), expected, atol=1e-14)


def test_divergence_is_that_of_the_laws_and_falls() -> None:
    walk = chain(spread(12), small(2.0))
    steps = [0, 5, 5, 100, 1000, 20_000]
    divergences = walk.divergence_of(walk.laws(steps))
    for value, t in zip(divergences, steps, strict=True):
        law = np.linalg.matrix_power(transition(walk), t)[0]
        expected = stats.entropy(np.maximum(law, 0), walk.stationary)
        assert value == pytest.approx(expected, abs=1e-12)
    assert divergences[0] == pytest.approx(-math.log(walk.stationary[0]))
    assert (np.diff(divergences) <= 1e-12).all()  # a chain never moves away from its law
    assert divergences[-1] < 1e-6
    law = walk.law(100)[:4]
    expected = stats.entropy(law / law.sum(), walk.stationary[:4] / walk.stationary[:4].sum())
    assert walk.divergence_of(walk.laws([100]), top=4)[0] == pytest.approx(expected)
    assert walk.divergence_of(walk.laws(steps)).tolist() == divergences.tolist()


@pytest.mark.cases("steps", [0, 1, 6, 40])
def test_explored_states_are_those_that_a_walk_has_reached(steps: int) -> None:
    walk = chain(spread(12), small(2.0))
    move = transition(walk)
    # The law of the state and of the largest state so far.
    both = {(0, 0): 1.0}
    for _ in range(steps):
        after: dict[tuple[int, int], float] = {}
        for (state, most), mass in both.items():
            for to in np.flatnonzero(move[state]).tolist():
                key = (to, max(most, to))
                after[key] = after.get(key, 0.0) + mass * move[state, to]
        both = after
    for top in (1, 4, 10, 1000):
        expected = np.zeros(min(top, len(walk.up)))
        for (_, most), mass in both.items():
            expected[min(most, len(expected) - 1)] += mass
        np.testing.assert_allclose(walk.explored(steps, top), expected, atol=1e-12)


@pytest.mark.cases("epsilon", [1e-6, 1.0, 1e3, 1e6])
def test_divergence_is_finite_where_probabilities_leave_the_doubles(epsilon: float) -> None:
    for exact in (spread(40), row([5.0] * 12 + [1.0] * 30)):
        walk = TopK(epsilon=epsilon, u_s="largest-rate").chain(exact)
        for top in (None, 10):
            with np.errstate(all="raise", under="ignore"):
                divergences = walk.divergence_of(walk.laws([0, 1, 30]), top=top)
            assert (np.isfinite(divergences) & (divergences >= 0)).all()


def counts(exact: ExactScores, defense: TopK, trials: int) -> dict[tuple[int, ...], int]:
    shown = defense.release_list(exact, Streams.first(1, "chain", trials)).items
    rows, number = np.unique(shown, axis=0, return_counts=True)
    return dict(zip(map(tuple, rows.tolist()), number.tolist(), strict=True))


def set_law(exact: ExactScores, defense: TopK, law: Vector) -> dict[tuple[int, ...], float]:
    """The law of the set, states with the same set together."""
    walk = defense.chain(exact)
    total: dict[tuple[int, ...], float] = {}
    for items, p in zip(walk.sets.items(np.arange(len(law))).tolist(), law, strict=True):
        total[tuple(items)] = total.get(tuple(items), 0.0) + float(p)
    return total


def fits(numbers: dict[tuple[int, ...], int], law: dict[tuple[int, ...], float]) -> bool:
    """Pearson's test at level RATE, cells expected less than fifty times pooled."""
    n = sum(numbers.values())
    assert set(numbers) <= set(law)
    table = np.array([(numbers.get(key, 0), n * p) for key, p in law.items()])
    rare = table[:, 1] < 50
    table = np.vstack((table[~rare], table[rare].sum(axis=0)))
    table = table[table[:, 1] > 0]
    statistic = ((table[:, 0] - table[:, 1]) ** 2 / table[:, 1]).sum()
    return bool(statistic < stats.chi2.isf(RATE, len(table) - 1))


@pytest.mark.cases("enumeration", ["meant", "printed"])
@pytest.mark.cases("steps", [3, 40])
def test_released_sets_have_the_law_of_so_many_steps(enumeration: str, steps: int) -> None:
    exact = spread(14)
    defense = small(3.0, enumeration=enumeration, iterations=steps, u_s="largest-rate")
    walk, numbers = defense.chain(exact), counts(exact, defense, 40_000)
    assert fits(numbers, set_law(exact, defense, walk.law(steps)))
    assert not fits(numbers, set_law(exact, defense, walk.law(2 * steps)))
    law = defense.law(exact)
    for items, p in set_law(exact, defense, walk.law(steps)).items():
        log = law.log_probability(np.array([items], np.int32))[0]
        assert np.exp(log) == pytest.approx(p, rel=1e-12)


@pytest.mark.long
def test_the_exact_mechanism_draws_from_the_stationary_law() -> None:
    exact = spread(14)
    for enumeration in ("meant", "printed"):
        defense = small(3.0, mechanism="exact", enumeration=enumeration)
        numbers = counts(exact, defense, 100_000)
        stationary = defense.chain(exact).stationary
        assert fits(numbers, set_law(exact, defense, stationary))
        other = small(3.0, mechanism="exact", enumeration=enumeration, rates="halved")
        assert not fits(numbers, set_law(exact, other, other.chain(exact).stationary))


# The time step.


def bound_of_proposition(u_s: float, exponent: float) -> float:
    """The largest `λ_j + μ_j` that the hypotheses of Proposition 4.1 allow."""
    return 1 + math.pow(u_s / 2, exponent)


def test_proposition_4_1_fails_beyond_epsilon_2() -> None:
    # Scores 5, 1, 1, k = N1 = N2 = 1: φ_0/φ_1 = e^{4/5} = U_s/2 and φ_2 = φ_1. Both hypotheses
    # hold, and state 1 has λ + μ = 1 + e^{0.4 ε} > U_s from ε = 2 ln(U_s − 1)/ln(U_s/2) = 3.097 on.
    exact = row([5.0, 1.0, 1.0])
    u_s = 2 * math.exp(0.8)
    edge = 2 * math.log(u_s - 1) / math.log(u_s / 2)
    assert edge == pytest.approx(3.097, abs=5e-4)

    def proposed(epsilon: float) -> TopK:
        return TopK(epsilon=epsilon, top_k=1, left_window=1, right_window=1, u_s=u_s)

    phi = np.exp(np.array([5.0, 1.0, 1.0]) / U_R)
    assert (phi[:-1] / phi[1:] <= u_s / 2 + 1e-12).all()
    assert (np.diff(phi) <= 0).all()
    for epsilon in (0.5, 1.0, 2.0, edge - 1e-6):
        chain(exact, proposed(epsilon))
    for epsilon in (edge + 1e-6, 3.2, 4.0):
        with pytest.raises(ConfigError, match="negative probability"):
            proposed(epsilon).chain(exact)
    # Over all U_s ≥ 2 the hypotheses suffice up to ε = 2 and not beyond.
    grid = 2 * np.exp(np.linspace(0, 300, 3001))
    assert all(bound_of_proposition(u, 1.0) <= u * (1 + 1e-12) for u in grid)
    assert any(bound_of_proposition(u, 1.005) > u for u in grid)
    assert 2 * math.log(19) / math.log(10) == pytest.approx(2.5575, abs=5e-5)


def test_a_step_that_is_too_long_is_refused_with_one_that_works() -> None:
    exact = row([5.0, 1.0, 1.0])
    parameters = {"epsilon": 10.0, "top_k": 1, "left_window": 1, "right_window": 1}
    with pytest.raises(
        ConfigError, match=r"epsilon = 10 and u_s = 20 .* at least 55\.604"
    ) as error:
        TopK(**parameters).release_list(exact, Streams.first(1, "x", 2))  # type: ignore[arg-type]
    assert 1 + math.exp(4) == pytest.approx(55.598, abs=1e-3)
    assert "largest-rate" in str(error.value)
    chain(exact, TopK(**{**parameters, "u_s": 55.604}))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"u_s = 22\.255 "):  # 10 e^{4/5}
        TopK(**{**parameters, "u_s": "paper-rule"}).law(exact)  # type: ignore[arg-type]
    walk = chain(exact, TopK(**{**parameters, "u_s": "largest-rate"}))  # type: ignore[arg-type]
    assert (walk.up + walk.down).max() == pytest.approx(1)
    paper = chain(exact, TopK(**{**parameters, "epsilon": 1.0, "u_s": "paper-rule"}))  # type: ignore[arg-type]
    assert paper.up[0] == pytest.approx(math.exp(-0.4) / (10 * math.exp(0.8)))


def test_large_epsilon_neither_overflows_nor_moves() -> None:
    exact = row(np.linspace(5, 1, 40))
    for epsilon in (100.0, 1e6):
        walk = chain(exact, TopK(epsilon=epsilon, u_s="largest-rate"))
        assert np.isfinite(walk.law(50)).all()
        assert walk.stationary.sum() == pytest.approx(1)
    assert walk.stationary[0] == pytest.approx(1)
    with pytest.raises(ConfigError, match=r"at least e\^"):
        TopK(epsilon=1e6).chain(exact)
    paper = chain(exact, TopK(epsilon=100.0, u_s=1e8))  # section 4.5
    assert paper.divergence_of(paper.laws([1000]))[0] == pytest.approx(
        -math.log(paper.stationary[0]), rel=1e-3
    )


@pytest.mark.parametrize("enumeration", ["meant", "printed"])
def test_with_no_other_set_the_best_is_shown(enumeration: str) -> None:
    exact = row([3.0, 4.0, 5.0])
    for u_s in (20.0, "paper-rule", "largest-rate"):
        defense = small(enumeration=enumeration, u_s=u_s)
        assert counts(exact, defense, 50) == {(0, 1, 2): 50}
        assert defense.law(exact).log_probability(np.array([[0, 1, 2]], np.int32))[0] == 0
