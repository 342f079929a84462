"""Rényi bounds on ε against sums, integrals and dp-accounting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from dpaudit.bounds.accounting import (
    _gaussian_moment,
    renyi_gaussian_epsilon,
    renyi_laplace_epsilon,
)
from dpaudit.bounds.gdp import gaussian_epsilon

DELTAS = (1e-3, 1e-6, 1e-12, 1e-20, 1e-60)


@pytest.mark.cases(
    ("sigma", "q", "alpha"), [(1.0, 0.01, 5), (0.5, 0.2, 3), (4.0, 3e-4, 300), (20.0, 0.9, 40)]
)
def test_moments_of_whole_orders_are_binomial_sums(sigma: float, q: float, alpha: int) -> None:
    # Mironov, Talwar, Zhang 2019, section 3.3: (1 − q + q e^z)^α term by term.
    k = np.arange(alpha + 1)
    choices = special.gammaln(alpha + 1) - special.gammaln(k + 1) - special.gammaln(alpha - k + 1)
    parts = choices + k * math.log(q) + (alpha - k) * math.log1p(-q) + k * (k - 1) / 2 / sigma**2
    assert _gaussian_moment(sigma, q, alpha - 1, False) == pytest.approx(
        special.logsumexp(parts), rel=1e-12, abs=1e-12
    )


@pytest.mark.cases(
    ("sigma", "q", "alpha"), [(1.0, 0.2, 3.0), (0.5, 0.9, 1.5), (2.0, 0.01, 20.0), (30.0, 0.5, 9.0)]
)
def test_moments_of_a_replaced_record_are_integrals(sigma: float, q: float, alpha: float) -> None:
    x = np.linspace(-12 * sigma, 2 * alpha + 12 * sigma, 100_001)

    def mixture(shift: float) -> Any:
        normal = stats.norm(0, sigma).logpdf
        return np.logaddexp(math.log1p(-q) + normal(x), math.log(q) + normal(x - shift))

    parts = np.exp(alpha * mixture(1.0) + (1 - alpha) * mixture(-1.0))
    whole = integrate.simpson(parts, x=x)
    assert _gaussian_moment(sigma, q, alpha - 1, True) == pytest.approx(
        math.log(whole), rel=1e-8, abs=1e-9
    )


@pytest.mark.cases("delta", DELTAS)
@pytest.mark.cases(("sigma", "q", "rounds"), [(1.0, 0.01, 1000), (4.0, 0.01, 10), (0.7, 0.3, 1)])
def test_it_is_at_most_that_of_dp_accounting(
    sigma: float, q: float, rounds: int, delta: float
) -> None:
    reference = RdpAccountant()
    event = PoissonSampledDpEvent(q, GaussianDpEvent(sigma))
    reference.compose(SelfComposedDpEvent(event, rounds))
    mine = renyi_gaussian_epsilon(
        sigma, delta=delta, compositions=rounds, sampling=q, replaced=False
    )
    assert 0.5 * reference.get_epsilon(delta) < mine < 1.002 * reference.get_epsilon(delta)


@pytest.mark.cases("delta", DELTAS)
def test_of_laplace_noise_it_is_at_most_that_of_dp_accounting(delta: float) -> None:
    reference = RdpAccountant()
    reference.compose(SelfComposedDpEvent(LaplaceDpEvent(1 / 0.03), 300))
    mine = renyi_laplace_epsilon(np.full(300, 0.03), delta=delta)
    assert 0.5 * reference.get_epsilon(delta) < mine < 1.002 * reference.get_epsilon(delta)


@pytest.mark.cases("delta", DELTAS)
@pytest.mark.cases("replaced", [False, True])
def test_with_a_record_in_nearly_every_sample_it_is_above_the_exact_curve(
    delta: float, replaced: bool
) -> None:
    exact = gaussian_epsilon(math.sqrt(9) / 2 * (1 + replaced), delta)
    epsilon = renyi_gaussian_epsilon(
        2.0, delta=delta, compositions=9, sampling=1 - 1e-12, replaced=replaced
    )
    assert exact <= epsilon <= 1.3 * exact


@given(
    sigma=st.floats(0.05, 1e4), more=st.floats(1, 10),
    q=st.floats(1e-6, 0.999), rounds=st.integers(1, 10**6), replaced=st.booleans(),
    first=st.floats(-138, -0.1), second=st.floats(-138, -0.1),
)  # fmt: skip
@settings(deadline=None, max_examples=25)
def test_it_falls_with_delta_and_with_noise(
    sigma: float, more: float, q: float, rounds: int, replaced: bool, first: float, second: float
) -> None:
    def epsilon(noise: float, log_delta: float) -> float:
        return renyi_gaussian_epsilon(
            noise, delta=math.exp(log_delta), compositions=rounds, sampling=q, replaced=replaced
        )

    low, high = sorted((first, second))
    assert epsilon(sigma, high) <= epsilon(sigma, low) * (1 + 1e-9) + 1e-9
    assert epsilon(sigma * more, low) <= epsilon(sigma, low) * (1 + 1e-9) + 1e-9


def test_orders_that_take_too_many_steps_are_left_out() -> None:
    arguments = {"delta": 1e-9, "compositions": 1, "sampling": 0.5, "replaced": False}
    assert renyi_gaussian_epsilon(1e-3, **arguments) == math.inf  # type: ignore[arg-type]
