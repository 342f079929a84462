"""Statements that Luo et al. 2020 quote: true, and false once an error is planted."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dpaudit.bounds.model_based.gdp import gaussian_delta
from dpaudit.claims.luo_2020 import quoted as fg_quoted


@pytest.mark.parametrize(
    "check", [fg_quoted.laplace_noise, fg_quoted.normal_noise, fg_quoted.delayed_descent]
)
def test_what_is_quoted_holds(check: Callable[[int], str | None]) -> None:
    assert check(0) is None


def test_laplace_noise_of_a_tenth_less_is_too_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fg_quoted, "_laplace_scale", lambda most, epsilon: 0.9 * most / epsilon)
    assert fg_quoted.laplace_noise(0) is not None


def test_normal_noise_of_a_tenth_less_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fg_quoted, "gaussian_delta", lambda e, mu: gaussian_delta(e, mu / 0.8))
    assert fg_quoted.normal_noise(0) is not None


def test_a_delay_that_the_condition_forbids_breaks_the_bound() -> None:
    # Lγ = 1 with 8 steps of delay, where 0.084 is allowed: descent diverges.
    slow = fg_quoted._mean_square(1.0, 0.08, 0.0, 1.0, 8, 400)
    fast = fg_quoted._mean_square(1.0, 1.0, 0.0, 1.0, 8, 400)
    assert slow < 2 * 0.5 / (0.08 * 400)
    assert fast > 1e6 * 2 * 0.5 / 400


def test_moments_are_those_of_simulated_descent() -> None:
    rng = np.random.default_rng(3)
    rate, lag, steps, trials = 0.2, 3, 40, 20_000
    past = np.ones((lag + 1, trials))
    squares = []
    for _ in range(steps):
        squares.append(float((past[0] ** 2).mean()))
        following = past[0] - rate * (past[lag] + rng.normal(size=trials))
        past = np.concatenate([following[None], past[:-1]])
    found = fg_quoted._mean_square(1.0, rate, 1.0, 1.0, lag, steps)
    assert found == pytest.approx(np.mean(squares), rel=0.02)
