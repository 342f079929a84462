"""The least Gaussian noise that keeps a privacy budget."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest

from dpaudit.bounds import accounting
from dpaudit.bounds.accounting import gaussian_mechanism_epsilon, noise_multiplier
from dpaudit.core.errors import InputError

CASES: list[dict[str, Any]] = [
    {"epsilon": 1.0, "delta": 1e-5},
    {"epsilon": 1.0, "delta": 1e-5, "neighbors": "replace"},
    {"epsilon": 0.01, "delta": 1e-6, "compositions": 20},
    {"epsilon": 8.0, "delta": 1e-5, "compositions": 1000, "neighbors": "replace"},
    {"epsilon": 200.0, "delta": 1e-5},
    {"epsilon": 1e-3, "delta": 0.3},
]


def spent(sigma: float, **rest: Any) -> float:
    upper = gaussian_mechanism_epsilon(sigma, **rest).upper
    return float(upper)


@pytest.mark.cases("case", CASES)
def test_the_budget_is_kept_and_less_noise_would_break_it(case: dict[str, Any]) -> None:
    rest = {key: value for key, value in case.items() if key != "epsilon"}
    sigma = noise_multiplier(**case)
    assert spent(sigma, **rest) <= case["epsilon"]
    assert spent(sigma * (1 - 1.5e-4), **rest) > case["epsilon"]


def test_closed_form_of_a_single_round() -> None:
    # δ(0) = 2 Φ(μ/2) − 1 bounds μ: at ε → 0 and δ = .3 the mean shift is 2 Φ^{-1}(.65) = .77064.
    assert noise_multiplier(1e-9, delta=0.3) == pytest.approx(1 / 0.7706409, rel=2e-4)
    # T rounds are one of √T/σ, a replacement moves the sum twice as far.
    one = noise_multiplier(1.0, delta=1e-5)
    assert noise_multiplier(1.0, delta=1e-5, compositions=16) == pytest.approx(4 * one, rel=2e-4)
    double = noise_multiplier(1.0, delta=1e-5, neighbors="replace")
    assert double == pytest.approx(2 * one, rel=2e-4)


@pytest.mark.long
def test_with_sampling_it_is_within_a_percent_of_the_least() -> None:
    rest: dict[str, Any] = {"delta": 1e-5, "compositions": 2, "sampling": 0.2}
    sigma = noise_multiplier(2.0, **rest)
    assert spent(sigma, **rest) <= 2.0
    assert spent(sigma * 0.985, **rest) > 2.0
    assert sigma < 0.5 * noise_multiplier(2.0, delta=1e-5, compositions=2)


@pytest.mark.long
def test_a_coarse_grid_that_misleads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounting, "_STEPS", 1000)
    case: dict[str, Any] = {
        "delta": 1e-5, "compositions": 2, "sampling": 0.2, "neighbors": "add-remove",
    }  # fmt: skip
    search = noise_multiplier.__wrapped__
    multipliers, coarser = [], (1.0, 200.0)
    for at in coarser:
        monkeypatch.setattr(accounting, "_COARSER", at)
        multipliers.append(search(2.0, **case))
    assert multipliers[0] == multipliers[1]
    monkeypatch.setattr(accounting, "_STEPS", 1000 / coarser[1])
    assert search(2.0, **case) > 1.02 * multipliers[0]


@pytest.mark.long
@pytest.mark.parametrize("neighbors", ["add-remove", "replace"])
def test_noise_grows_slowly_as_delta_becomes_tiny(
    neighbors: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(accounting, "_STEPS", 5e3)
    # 10 times fewer failures need a few percent more noise; without sampling it would be 20 times.
    rest: dict[str, Any] = {"compositions": 30, "sampling": 0.05, "neighbors": neighbors}
    search = noise_multiplier.__wrapped__
    multipliers = [search(4.0, delta=delta, **rest) for delta in (1e-10, 1e-11, 1e-12, 1e-13)]
    steps = [after / before for before, after in pairwise(multipliers)]
    assert all(1 < step < 1.15 for step in steps), steps
    for delta in (1e-12, 1e-60):
        sigma = search(4.0, delta=delta, **rest)
        assert spent(sigma, delta=delta, **rest) <= 4 < spent(sigma * 0.985, delta=delta, **rest)


def test_a_budget_that_needs_almost_no_noise_is_kept() -> None:
    sigma = noise_multiplier(1e6, delta=1e-5)
    assert 5e-3 <= sigma <= 1e-2
    assert spent(sigma, delta=1e-5) <= 1e6


@pytest.mark.cases(
    ("wrong", "named"),
    [
        ({"epsilon": 0.0}, "epsilon = 0"),
        ({"epsilon": -1.0}, "epsilon = -1"),
        ({"epsilon": math.inf}, "epsilon = inf"),
        ({"epsilon": math.nan}, "epsilon = nan"),
        ({"delta": 0.0}, "delta = 0 cannot be reached"),
        ({"delta": -0.1}, "delta = -0.1"),
        ({"delta": 1.0}, "delta = 1"),
        ({"delta": math.nan}, "delta = nan"),
        ({"compositions": 0}, "compositions = 0"),
        ({"sampling": 0.0}, "sampling = 0"),
        ({"sampling": 1.5}, "sampling = 1.5"),
        ({"neighbors": "user"}, "neighbors = 'user'"),
        ({"epsilon": 1e-5, "delta": 1e-10, "compositions": 10**9}, "above 1e\\+06"),
    ],
)
def test_wrong_arguments_are_named(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        noise_multiplier(**{"epsilon": 1.0, "delta": 1e-5} | wrong)
