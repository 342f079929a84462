"""ε of a scale that changes, of a mechanism that runs seldom, and of users with several rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dpaudit.bounds.accounting import gaussian_mechanism_epsilon
from dpaudit.bounds.training import sampled_epsilon, scale_epsilon, user_epsilon
from dpaudit.core.errors import InputError

DELTA = 1e-5


@pytest.mark.long
@pytest.mark.cases(
    ("coordinates", "ratio", "epsilon"),
    [
        (512, 64 / 63, 2.20),
        (10_000, 64 / 63, 11.77),
        (168_000, 64 / 63, 81.02),
        (168_000, 256 / 255, 11.78),
        (50_000, 1024 / 1023, 1.18),
    ],
)
def test_epsilon_of_a_scale_is_that_of_the_tails_of_chi_square(
    coordinates: int, ratio: float, epsilon: float
) -> None:
    assert scale_epsilon(coordinates, ratio, delta=DELTA) == pytest.approx(epsilon, abs=0.01)
    other_order = scale_epsilon(coordinates, 1 / ratio, delta=DELTA)
    assert other_order == pytest.approx(epsilon, abs=0.01)


def test_delta_at_the_epsilon_of_a_scale_is_that_of_a_simulation() -> None:
    k, ratio, delta = 50, 1.3, 0.05
    epsilon = scale_epsilon(k, ratio, delta=delta)
    squares = np.random.default_rng(1).chisquare(k, 400_000)

    def losses(x: np.ndarray, sign: int) -> np.ndarray:
        return sign * (x * (1 - ratio**-2) / 2 - k * math.log(ratio))

    wide = losses(squares * ratio**2, 1)
    narrow = losses(squares, -1)
    deltas = [np.maximum(0, 1 - np.exp(epsilon - law)).mean() for law in (wide, narrow)]
    assert max(deltas) == pytest.approx(delta, rel=0.02)


def test_equal_scales_tell_nothing_and_large_ones_more_than_a_float_holds() -> None:
    assert scale_epsilon(1000, 1.0, delta=DELTA) == 0
    assert scale_epsilon(0, 2.0, delta=DELTA) == 0
    assert scale_epsilon(10**7, 2.0, delta=DELTA) == 650
    with pytest.raises(InputError, match="ratio = 0"):
        scale_epsilon(10, 0.0, delta=DELTA)
    with pytest.raises(InputError, match="delta = 0"):
        scale_epsilon(10, 2.0, delta=0.0)


def test_a_mechanism_that_runs_seldom_has_a_smaller_epsilon() -> None:
    assert sampled_epsilon(1.0, 0.1) == pytest.approx(math.log1p(0.1 * (math.e - 1)))
    assert sampled_epsilon(1000.0, 0.5) == pytest.approx(1000 + math.log(0.5))


@pytest.mark.long
def test_epsilon_of_a_user_with_one_row_is_the_accountants() -> None:
    of_row = gaussian_mechanism_epsilon(0.68, delta=DELTA, compositions=488, sampling=0.0102)
    known = {"delta": DELTA, "compositions": 488, "sampling": 0.0102}
    of_user = user_epsilon(1, 0.68, delta=DELTA, compositions=488, sampling=0.0102)
    assert of_user == pytest.approx(of_row.value, rel=0.01)
    more = [user_epsilon(k, 0.68, delta=DELTA, compositions=488, sampling=0.0102) for k in (5, 20)]
    assert more == pytest.approx([21.1, 113], rel=0.05)
    with pytest.raises(InputError, match="rows = 0"):
        user_epsilon(0, 0.68, **known)  # type: ignore[arg-type]
