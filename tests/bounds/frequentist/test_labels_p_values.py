"""The label test's p-value: the bound's twin, valid at every level, and not far from exact."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpaudit.bounds.frequentist.labels import LabelTest, label_epsilon

Scores = NDArray[np.float64]
# Of a stochastic test failing though all is right.
RARE = 1e-6
FLIPS = 1 / 50


def counted(hits: int, size: int, trials: int = 4000) -> LabelTest:
    return LabelTest(1.0, None, True, hits, size, trials, pilot=200)


def edge(
    rng: np.random.Generator, trials: int, epsilon: float, delta: float
) -> tuple[Scores, Scores]:
    """Randomised response at the edge of (ε, δ): labels revealed with rate δ, else answered."""
    labels = np.repeat([0, 1], trials)
    right = rng.random(2 * trials) < 1 / (1 + math.exp(-epsilon))
    guesses = np.where(right, labels, 1 - labels).astype(float)
    scores = np.where(rng.random(2 * trials) < delta, 9.0 * labels - 4, guesses)
    return scores[:trials], scores[trials:]


@pytest.mark.cases("delta", [0.0, 1e-5, 1e-3, 0.05])
@pytest.mark.cases("alpha", [0.2, 0.05, 0.05 / 35])
def test_the_p_value_is_at_most_the_level_where_the_bound_exceeds_the_claim(
    delta: float, alpha: float
) -> None:
    sides = set()
    for size, hits in [(30, 29), (200, 140), (900, 700), (900, 520), (3000, 1700), (3000, 2990)]:
        test = counted(hits, size)
        bound = test.epsilon(delta, alpha * (1 - FLIPS))
        for claim in [0.0, 0.1, 0.5, 1.0, 3.0, bound * (1 - 1e-9), bound * (1 + 1e-9)]:
            if bound == claim == 0:
                continue
            p = test.p_value(claim, delta, alpha)
            assert 0 < p <= 1
            assert (p <= alpha) == (bound > claim), (size, hits, claim)
            sides.add(p <= alpha)
    assert sides == {True, False}


def test_the_p_value_by_hand() -> None:
    # P(Binomial(10, 1/2) ≥ 9) = 11/1024, and a fiftieth of the level for the coin flips.
    assert counted(9, 10).p_value(0.0, 0.0, 0.05) == pytest.approx(11 / 1024 + 0.001)
    # e^ε = 3: θ = 3/4.
    tail = 10 * 0.75**9 * 0.25 + 0.75**10
    assert counted(9, 10).p_value(math.log(3), 0.0, 0.05) == pytest.approx(tail + 0.001)
    # With δ the revealed labels are taken off both, and what may be more is added.
    level = 0.05 * (1 - FLIPS)
    r = int(binom.isf(level / 5, 4000, 1e-3))
    more = float(binom.sf(r, 4000, 1e-3))
    tail = float(binom.sf(700 - r - 1, 900 - r, 0.75))
    p_value = counted(700, 900).p_value(math.log(3), 1e-3, 0.05)
    assert p_value == pytest.approx(tail + more + 0.001)


def test_what_tells_nothing_has_p_value_one() -> None:
    assert counted(0, 0).p_value(1.0, 0.0, 0.05) == 1
    assert counted(0, 10).p_value(0.0, 0.0, 0.05) == 1
    assert counted(4000, 4000).p_value(0.1, 0.0, 0.05) == 1  # no trial outside: coins alone
    assert counted(3, 5).p_value(1.0, 0.5, 0.05) == 1  # more may be revealed than were seen
    assert counted(900, 900).p_value(math.inf, 0.0, 0.05) == 1


def test_the_p_value_grows_with_the_claim_and_falls_with_the_hits() -> None:
    claims = [counted(700, 900).p_value(claim, 1e-4, 0.05) for claim in np.linspace(0, 3, 40)]
    assert claims == sorted(claims)
    hits = [counted(hits, 900).p_value(1.0, 1e-4, 0.05) for hits in range(0, 901, 20)]
    assert hits == sorted(hits, reverse=True)
    deltas = [counted(700, 900).p_value(1.0, delta, 0.05) for delta in (0.0, 1e-4, 1e-3, 1e-2)]
    assert deltas == sorted(deltas)


@pytest.mark.long
@pytest.mark.parametrize(
    ("trials", "epsilon", "delta"), [(60, 1.0, 0.0), (150, 0.2, 0.0), (150, 0.5, 0.03)]
)
def test_p_values_at_the_edge_are_not_smaller_than_uniform(
    trials: int, epsilon: float, delta: float
) -> None:
    repeats, rng = 300, np.random.default_rng(17)
    p_values = []
    for seed in range(repeats):
        absent, present = edge(rng, trials, epsilon, delta)
        _, test = label_epsilon(absent, present, delta=delta, alpha=0.05, seed=seed)
        p_values.append(test.p_value(epsilon, delta, 0.05))
    p = np.array(p_values)
    # Levels other than that for which the event was chosen too, as Holm's procedure needs them.
    levels = (0.002, 0.01, 0.05, 0.1, 0.3, 0.6)
    for level in levels:
        assert (p <= level).sum() <= binom.isf(RARE / len(levels), repeats, level)
    if delta == 0:
        # Nor hopelessly larger: the event's labels are used, all of them.
        for level in (0.1, 0.3, 0.6):
            assert (p <= level).sum() >= binom.ppf(RARE / 3, repeats, level / 2)


@pytest.mark.long
@pytest.mark.parametrize("level", [0.05, 0.3])
def test_the_rate_would_notice_a_claim_that_is_a_little_too_small(level: float) -> None:
    repeats, rng, beyond = 150, np.random.default_rng(19), 0
    for seed in range(repeats):
        absent, present = edge(rng, 400, 1.0, 0.0)
        _, test = label_epsilon(absent, present, alpha=0.05, seed=seed)
        beyond += test.p_value(0.6, 0.0, 0.05) <= level
    assert beyond > binom.isf(RARE, repeats, level)
