"""Means over trainings against the bounds that they scale, and their coverage."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from wald import claims_too_much  # type: ignore[import-not-found]

from dpaudit.auditor.trainings import joint_mean
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.core.errors import RunError
from dpaudit.record.result import Family

JOINT = Family(confidence=0.95, size=10, alpha=0.005)


@pytest.mark.parametrize("least", [0.0, -1.0])
def test_the_joint_mean_bets_on_the_values_scaled_to_the_unit_interval(least: float) -> None:
    values = np.random.default_rng(1).uniform(least, 1, 40)
    estimate = joint_mean(values, JOINT, least)
    unit = betting_mean((values - least) / (1 - least), 0.005, 0.95)
    assert estimate.value == pytest.approx(values.mean())
    for side in ("lower", "upper"):
        expected = least + (1 - least) * getattr(unit, side)
        assert getattr(estimate, side) == pytest.approx(expected)
    assert (estimate.alpha, estimate.confidence, estimate.kind) == (0.005, 0.95, "frequentist")


@pytest.mark.cases("value", [-1.0, 0.0, 1.0])
def test_equal_values_at_an_end_of_the_range_have_no_certain_mean(value: float) -> None:
    estimate = joint_mean(np.full(4, value), JOINT, -1.0)
    assert estimate.lower <= value <= estimate.upper
    assert estimate.upper - estimate.lower > 0.5


@pytest.mark.parametrize("folds", [2, 5])
def test_the_mean_over_folds_samples_every_training(folds: int) -> None:
    values = np.random.default_rng(4).normal(np.linspace(0.7, 1.3, folds), 0.02, (30, folds))
    estimate = joint_mean(values, JOINT, most=3.0)
    unit = betting_mean(values.reshape(-1) / 3, 0.005, 0.95, together=folds)
    ends = (estimate.value, estimate.lower, estimate.upper)
    assert ends == pytest.approx((3 * unit.value, 3 * unit.lower, 3 * unit.upper))
    assert estimate.value == pytest.approx(1.0, abs=0.02)
    assert (estimate.n, estimate.kind) == (30 * folds, "frequentist")
    assert estimate.method.endswith(f" {folds} folds")
    # Means over folds alone would be as many values as there are trials.
    few = joint_mean(values.mean(1), JOINT, most=3.0)
    assert estimate.upper - estimate.lower < 0.8 * (few.upper - few.lower)


def test_the_mean_over_folds_is_covered() -> None:
    """A rare training is useless, and folds differ; few trials, all laws bounded."""
    rng, shares = np.random.default_rng(5), np.array([0.02, 0.1, 0.3])
    family = Family(confidence=0.95, size=1, alpha=0.05)

    def missed() -> bool:
        useless = (rng.random((12, 3)) < shares).astype(np.float64)
        estimate = joint_mean(2 * useless, family, most=2.0)
        return not estimate.lower <= 2 * shares.mean() <= estimate.upper

    assert not claims_too_much((missed() for _ in count()), 1e-6)


def test_one_trial_says_nothing() -> None:
    estimate = joint_mean(np.array([[0.3, 0.4]]), JOINT, most=2.0)
    assert (estimate.lower, estimate.upper) == (0, 2)


def test_a_number_beyond_the_largest_possible_is_refused() -> None:
    with pytest.raises(RunError, match=r"up to 2\.5, and 2 "):
        joint_mean(np.array([0.5, 2.5]), JOINT, most=2.0)
    rounded = joint_mean(np.full(4, 2 * (1 + 1e-7)), JOINT, most=2.0)
    assert rounded.upper == 2


def test_a_number_that_can_only_be_0_is_0() -> None:
    estimate = joint_mean(np.zeros((200, 2)), JOINT, most=0.0)
    assert estimate.lower == estimate.value == 0
