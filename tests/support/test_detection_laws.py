"""Closed forms of distinguishing real from fake sequences: simulation, other forms, limits."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from detection_laws import (  # type: ignore[import-not-found]
    energy_auc,
    energy_power,
    ratio_auc,
    sequence_mu,
    total_variation,
    type_two_error,
)
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betainc, ndtr, ndtri

from dpaudit.bounds.gdp import gaussian_delta

Values = NDArray[np.float64]
TRIALS, D, MU, SIGMA, LEVEL = 30_000, 2, 3.0, 0.7, 0.1
ROUNDS = (10, 100, 400)


@cache
def outcome(k: int) -> tuple[Values, Values, Values, Values]:
    """Ratio and energy scores of fakes, then of reals, each in trials of their own."""
    rng = np.random.default_rng(k)
    fakes = rng.standard_normal((k, D))
    gradients = fakes + rng.standard_normal((k, D))
    gradients = fakes + (gradients - fakes) * (MU / float(sequence_mu(gradients, fakes, SIGMA)))
    apart = (gradients - fakes).ravel()
    outcomes: list[list[Values]] = [[], [], [], []]
    for _ in range(TRIALS // 1000):
        for i, mean in enumerate((fakes, gradients)):
            away = (mean - fakes).ravel() + SIGMA * rng.standard_normal((1000, k * D))
            outcomes[2 * i].append(away @ apart / (SIGMA * math.sqrt(float(apart @ apart))))
            outcomes[2 * i + 1].append(np.sum(away**2, axis=1) / SIGMA**2)
    ratio_fake, energy_fake, ratio_real, energy_real = (np.concatenate(f) for f in outcomes)
    return ratio_fake, energy_fake, ratio_real, energy_real


def assert_rate(count: int, rate: float, wrong: float) -> None:
    """Fails at 1e-6 at this rate, and passes with less than that at the wrong one."""
    law = stats.binom(TRIALS, rate)
    low, high = law.ppf(5e-7), law.isf(5e-7)
    assert low <= count <= high
    other = stats.binom(TRIALS, wrong)
    assert other.cdf(high) - other.cdf(low - 1) < 1e-6


# A factor of 2 lost from μ², or put in.
WRONG = (MU * math.sqrt(2), MU / math.sqrt(2))


@pytest.mark.cases("wrong", WRONG)
@pytest.mark.cases("k", ROUNDS)
def test_likelihood_ratio_in_simulated_trials(k: int, wrong: float) -> None:
    fake, _, real, _ = outcome(k)
    # One coin for both rates: of a real and a fake, one each is tested at the threshold μ/2.
    half = TRIALS // 2
    right = int(np.sum(real[:half] > MU / 2) + np.sum(fake[half:] <= MU / 2))
    assert_rate(right, *((1 + float(total_variation(mu))) / 2 for mu in (MU, wrong)))
    missed = int(np.sum(real <= ndtri(1 - LEVEL)))
    assert_rate(missed, *(float(type_two_error(mu, LEVEL)) for mu in (MU, wrong)))
    assert_rate(int(np.sum(real > fake)), *(float(ratio_auc(mu)) for mu in (MU, wrong)))


@pytest.mark.cases("wrong", WRONG)
@pytest.mark.cases("k", ROUNDS)
def test_energy_detector_in_simulated_trials(k: int, wrong: float) -> None:
    _, fake, _, real = outcome(k)
    critical = stats.chi2.isf(LEVEL, k * D)
    hits = int(np.sum(real > critical))
    assert_rate(hits, *(float(energy_power(mu, k * D, LEVEL)) for mu in (MU, wrong)))
    assert_rate(int(np.sum(real > fake)), *(float(energy_auc(mu, k * D)) for mu in (MU, wrong)))


MUS = np.array([0.0, 1e-6, 0.1, 1.0, 4.0, 30.0])


def test_total_variation_is_delta_at_epsilon_zero() -> None:
    expected = [gaussian_delta(0.0, mu) for mu in MUS]
    assert total_variation(MUS) == pytest.approx(expected, rel=1e-12)


def test_no_difference_is_no_detection() -> None:
    assert float(total_variation(0.0)) == 0
    assert float(type_two_error(0.0, 0.001)) == pytest.approx(0.999, rel=1e-12)
    assert float(ratio_auc(0.0)) == 0.5
    assert float(energy_power(0.0, 40, 0.001)) == pytest.approx(0.001, rel=1e-9)
    assert float(energy_auc(0.0, 40)) == pytest.approx(0.5, rel=1e-12)


def test_type_two_error_at_levels_too_small_to_complement() -> None:
    # 1 − level rounds to 1.
    expected = stats.norm.cdf(stats.norm.isf(1e-20) - 12.0)
    assert float(type_two_error(12.0, 1e-20)) == pytest.approx(float(expected), rel=1e-9)


def test_energy_power_of_one_coordinate() -> None:
    z = ndtri(1 - LEVEL / 2)
    expected = ndtr(-z - MUS) + ndtr(-z + MUS)
    assert energy_power(MUS, 1, LEVEL) == pytest.approx(expected, rel=1e-9)


def test_energy_auc_of_two_coordinates() -> None:
    # A fake's energy is exponential: 1 − E exp(−χ²₂(μ²)/2) = 1 − exp(−μ²/4)/2.
    assert energy_auc(MUS, 2) == pytest.approx(1 - np.exp(-(MUS**2) / 4) / 2, rel=1e-9)


@pytest.mark.cases("degrees", [1, 10, 800, 100_000])
@pytest.mark.cases("mu", [0.3, 3.0, 20.0])
def test_energy_auc_as_a_poisson_mixture(degrees: int, mu: float) -> None:
    # χ²_ν(μ²) is χ² with ν + 2J degrees, J Poisson of mean μ²/2, and the ratio is then Beta.
    j = np.arange(2000)
    mass = stats.poisson.pmf(j, mu**2 / 2)
    expected = float(mass @ betainc(degrees / 2, degrees / 2 + j, 0.5))
    assert float(energy_auc(mu, degrees)) == pytest.approx(expected, rel=1e-9)


def test_the_energy_detector_never_beats_the_likelihood_ratio() -> None:
    for degrees in (1, 20, 800):
        assert (energy_power(MUS, degrees, 0.01) <= 1 - type_two_error(MUS, 0.01) + 1e-12).all()
        assert (energy_auc(MUS, degrees) <= ratio_auc(MUS) + 1e-12).all()


def test_sequence_mu_by_hand_and_shapes() -> None:
    gradients = np.array([[[3.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]]])
    assert sequence_mu(gradients, np.zeros((2, 2)), 2.0).tolist() == [2.5, 0.5]
    assert float(sequence_mu(gradients[0], gradients[0], 1.0)) == 0
    assert float(sequence_mu([[1e200]], [[0.0]], 1e200)) == 1
