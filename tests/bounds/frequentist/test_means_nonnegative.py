"""Means of numbers of at least 0: with and without a largest number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpaudit.bounds.frequentist.means import betting_mean, lower_mean, nonnegative_mean
from dpaudit.core.errors import InputError


def test_a_largest_number_makes_it_the_betting_interval() -> None:
    values = np.random.default_rng(1).random(30)
    estimate = nonnegative_mean(5 * values, 0.1, 0.9, most=5.0)
    plain = betting_mean(values, 0.1, 0.9)
    assert estimate.lower == pytest.approx(5 * plain.lower)
    assert estimate.upper == pytest.approx(5 * plain.upper)
    assert estimate.value == pytest.approx(5 * plain.value)


def test_without_a_largest_number_there_is_no_upper_end() -> None:
    values = [2.0, 1.0, 3.0, 900.0]
    estimate = nonnegative_mean(values, 0.1, 0.9)
    assert estimate.upper == math.inf
    # Others are cut at four times the first.
    assert estimate.lower == pytest.approx(8 * lower_mean([1 / 8, 3 / 8, 1.0], alpha=0.1))
    assert estimate.value == np.mean(values)
    for few in ([3.0], [0.0, 5.0], [0.0]):
        alone = nonnegative_mean(few, 0.1, 0.9)
        assert (alone.lower, alone.upper) == (0, math.inf)


def test_a_largest_number_that_does_not_hold_bounds_nothing() -> None:
    assert nonnegative_mean([1.0, 2.0], 0.1, 0.9, most=1.999).upper == math.inf
    # Rounding is none.
    assert nonnegative_mean([1.0, 2.0], 0.1, 0.9, most=1.9999).upper == pytest.approx(1.9999)


@pytest.mark.cases("values", [[], [-0.1], [math.inf], [math.nan]])
def test_other_values_are_refused(values: list[float]) -> None:
    with pytest.raises(InputError):
        nonnegative_mean(values, 0.1, 0.9)


@pytest.mark.long
@pytest.mark.parametrize("n", [2, 5, 40])
@pytest.mark.parametrize("law", ["exponential", "lognormal", "rare"])
def test_it_covers_the_mean(n: int, law: str) -> None:
    runs, source = 400, np.random.default_rng(n)
    missed = 0
    for _ in range(runs):
        if law == "exponential":
            values, mean = source.exponential(1, n), 1.0
        elif law == "lognormal":
            values, mean = source.lognormal(0, 1.5, n), math.exp(1.5**2 / 2)
        else:  # seldom large, which few values do not show
            values, mean = np.where(source.random(n) < 0.02, 50.0, 1.0), 0.98 + 1.0
        missed += nonnegative_mean(values, 0.1, 0.9).lower > mean
    # P(more) < 1e-6 if the level holds.
    assert missed <= stats.binom.isf(1e-6, runs, 0.1)
