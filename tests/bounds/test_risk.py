"""Limits of attacks against brute force: mechanisms as matrices, attacks as the best guesses."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dpaudit.bounds.risk import advantage_limit, belief, group_claim, success_limit
from dpaudit.core.errors import InputError

Laws = NDArray[np.float64]


def delta_of(p: Laws, q: Laws, epsilon: float) -> float:
    """The least δ at ε of two laws, in either order."""
    return max(float(np.maximum(a - math.exp(epsilon) * b, 0).sum()) for a, b in ((p, q), (q, p)))


def laws(seed: int, data_sets: int, outputs: int = 5) -> Laws:
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(outputs, 0.7), size=data_sets)


@given(st.integers(0, 10_000), st.floats(0, 3), st.floats(0.01, 1))
def test_no_mechanism_lets_an_attack_beat_the_limit(
    seed: int, epsilon: float, least: float
) -> None:
    rows = laws(seed, 5)
    reference, secret = rows[0], rows[1:]
    prior = np.random.default_rng(seed).dirichlet(np.full(4, least))
    delta = max(delta_of(law, reference, epsilon) for law in secret)
    success = float((prior[:, None] * secret).max(axis=0).sum())
    assert success <= success_limit(float(prior.max()), epsilon, min(delta, 0.999)) + 1e-9


@pytest.mark.cases("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.cases("secrets", [2, 10, 1000])
def test_a_mechanism_reaches_the_limit(epsilon: float, secrets: int) -> None:
    """D* gives uniform outputs; D_z gives z as often as the claim allows."""
    limit = success_limit(1 / secrets, epsilon)
    other = (1 - limit) / (secrets - 1)
    ratios = [limit * secrets, other * secrets]
    assert max(ratios) <= math.exp(epsilon) * (1 + 1e-12)
    assert min(ratios) >= math.exp(-epsilon) * (1 - 1e-12)
    tight = (max(ratios) / math.exp(epsilon), math.exp(-epsilon) / min(ratios))
    assert max(tight) == pytest.approx(1)


@given(st.integers(0, 10_000), st.floats(0, 3))
def test_advantage_is_the_total_variation_at_most(seed: int, epsilon: float) -> None:
    p, q = laws(seed, 2)
    variation = float(np.abs(p - q).sum()) / 2
    assert variation <= advantage_limit(epsilon, min(delta_of(p, q, epsilon), 0.999)) + 1e-9


@pytest.mark.cases(("epsilon", "delta"), [(0.5, 0.0), (1.0, 1e-5), (2.0, 0.1), (50.0, 0.0)])
def test_advantage_is_the_largest_gain_of_the_curve(epsilon: float, delta: float) -> None:
    gains = [success_limit(p, epsilon, delta) - p for p in np.linspace(0, 1, 4001)]
    corner = (1 - delta) / (1 + math.exp(epsilon))
    gains.append(success_limit(corner, epsilon, delta) - corner)
    assert max(gains) == pytest.approx(advantage_limit(epsilon, delta), abs=1e-12)


def test_published_figures() -> None:
    assert advantage_limit(1.0) == pytest.approx(math.tanh(0.5))
    assert advantage_limit(0.0, 0.001) == pytest.approx(0.001)
    # Dong, Roth, Su 2019, equation (5), by hand.
    assert success_limit(0.1, 1.0) == pytest.approx(0.1 * math.e)
    assert success_limit(0.9, 1.0) == pytest.approx(1 - 0.1 / math.e)
    assert success_limit(0.8, 1.0, 0.001) == pytest.approx(1 - 0.199 / math.e)


def test_ends() -> None:
    assert success_limit(0.0, 1.0, 0.01) == 0.01
    assert success_limit(0.0, 800.0) == 0.0
    assert success_limit(0.25, 0.0) == 0.25
    assert success_limit(1.0, 2.0) == 1.0
    assert success_limit(1e-300, 5000.0) == 1.0
    assert advantage_limit(5000.0, 0.5) == 1.0
    assert (success_limit(0.1, 1.0, 1.0), advantage_limit(1.0, 1.0)) == (1.0, 1.0)
    assert (belief(0.0, 5.0), belief(1.0, 5.0), belief(0.5, 5000.0)) == (0.0, 1.0, 1.0)
    assert group_claim(5000.0, 1e-5, 100) == (500_000.0, 1.0)


@given(st.integers(0, 10_000), st.floats(0.01, 0.99))
def test_belief_of_the_likeliest_output(seed: int, prior: float) -> None:
    p, q = laws(seed, 2)
    ratio = float(np.max(p / q))
    at = int(np.argmax(p / q))
    posterior = prior * p[at] / (prior * p[at] + (1 - prior) * q[at])
    assert posterior == pytest.approx(belief(prior, max(0.0, math.log(ratio))))


@given(st.integers(0, 10_000), st.floats(0, 2), st.integers(1, 6))
def test_a_chain_of_neighbours_keeps_the_group_claim(seed: int, epsilon: float, size: int) -> None:
    chain = laws(seed, size + 1)
    delta = max(delta_of(p, q, epsilon) for p, q in pairwise(chain))
    many, several = group_claim(epsilon, min(delta, 0.999), size)
    assert delta_of(chain[0], chain[-1], many) <= several + 1e-9


def test_group_claim_by_hand() -> None:
    assert group_claim(0.5, 0.0, 20) == (10.0, 0.0)
    assert group_claim(1.0, 1e-6, 3)[1] == pytest.approx(1e-6 * (1 + math.e + math.e**2))
    assert group_claim(0.0, 1e-6, 3)[1] == pytest.approx(3e-6)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="not a probability"):
        success_limit(1.5, 1.0)
    with pytest.raises(InputError, match="epsilon = inf"):
        advantage_limit(math.inf)
    with pytest.raises(InputError, match=r"1\.1 is not a probability"):
        success_limit(0.5, 1.0, 1.1)
    with pytest.raises(InputError, match="size = 0"):
        group_claim(1.0, 0.0, 0)
