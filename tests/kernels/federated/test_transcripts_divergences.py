"""Test a round's divergences against numpy, and two-valued ones against an enumeration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.kernels.federated.transcripts import add_normal, add_two_valued

Exact = NDArray[np.float64]
PAIRS, ITEMS = 12, 4


def drawn(seed: int, size: int) -> dict[str, Any]:
    """The pairs that submit, gradients and fakes."""
    source = np.random.default_rng(seed)
    place = np.sort(source.choice(PAIRS, 7, replace=False)).astype(np.int32)
    return {
        "place": place,
        "gradients": source.normal(size=(len(place), size)).astype(np.float32),
        "fakes": source.normal(size=(ITEMS, size)).astype(np.float32),
        "items": source.integers(0, ITEMS, PAIRS).astype(np.int32),
        "sums": source.random(PAIRS),
    }


@pytest.mark.cases("size", [1, 3, 17])
@pytest.mark.cases("sigma", [0.2, 30.0])
def test_normal_divergences_are_halved_squares_over_the_variance(size: int, sigma: float) -> None:
    given = drawn(size, size)
    place, sums = given["place"], given["sums"]
    expected = sums.astype(np.float64)
    apart = given["gradients"].astype(np.float64) - given["fakes"][given["items"][place]]
    expected[place] += (apart**2).sum(1) / (2 * sigma**2)
    before = sums.copy()
    add_normal(place, given["gradients"], given["fakes"], given["items"], sigma, sums)
    np.testing.assert_allclose(sums, expected, rtol=1e-6)
    others = np.setdiff1d(np.arange(PAIRS), place)
    np.testing.assert_array_equal(sums[others], before[others])
    assert (sums[place] > before[place]).all() or sigma == 30


def of_all_outcomes(gradient: Exact, level: float) -> float:
    """Σ P ln P/Q over the coordinates that may be sent and their signs."""
    d, total = len(gradient), 0.0
    for x in gradient.tolist():
        # P(+) as the mechanism is stated: (x(e^ε − 1) + e^ε + 1)/(2(e^ε + 1)).
        slope = d / level  # (e^ε − 1)/(e^ε + 1)
        odds = (1 + slope) / (1 - slope) if slope < 1 else math.inf
        cut = min(1.0, max(-1.0, x))
        up = (1 + cut) / 2 if math.isinf(odds) else (cut * (odds - 1) + odds + 1) / (2 * (odds + 1))
        for sign in (up, 1 - up):
            p, q = sign / d, 0.5 / d
            total += p * math.log(p / q) if p > 0 else 0.0
    return total


@pytest.mark.cases("size", [1, 3, 5])
@pytest.mark.cases("epsilon", [0.05, 2.0, 9.0, math.inf])
def test_two_valued_divergences_are_those_of_all_outcomes(size: int, epsilon: float) -> None:
    given = drawn(10 + size, size)
    gradients, place = 1.5 * given["gradients"], given["place"]
    gradients[0], gradients[1, 0] = 0, 4.0
    level = size / math.tanh(epsilon / 2)
    sums = np.zeros(PAIRS)
    add_two_valued(place, gradients, level, sums)
    divergences = [of_all_outcomes(row.astype(np.float64), level) for row in gradients]
    np.testing.assert_allclose(sums[place], divergences, rtol=2e-5, atol=1e-9)
    assert sums[place[0]] == 0  # a gradient of zero is a fair coin
    assert sums[place[1]] > 0
    # One round tells at most what ε bounds: Σ_± P ln 2P at P = e^ε/(1 + e^ε).
    top = 1 / (1 + math.exp(-epsilon)) if epsilon < math.inf else 1.0
    most = sum(p * math.log(2 * p) for p in (top, 1 - top) if p > 0)
    assert sums.max() <= most * (1 + 1e-5)
    # A second submission adds the same amount.
    add_two_valued(place, gradients, level, sums)
    np.testing.assert_allclose(sums[place], 2 * np.array(divergences), rtol=2e-5, atol=1e-9)
    assert not sums[np.setdiff1d(np.arange(PAIRS), place)].any()


def test_a_round_in_which_nobody_submits_adds_nothing() -> None:
    given, nobody = drawn(0, 2), np.zeros(0, np.int32)
    nothing, sums = np.zeros((0, 2), np.float32), given["sums"].copy()
    add_normal(nobody, nothing, given["fakes"], given["items"], 1.0, sums)
    add_two_valued(nobody, nothing, 4.0, sums)
    np.testing.assert_array_equal(sums, given["sums"])
