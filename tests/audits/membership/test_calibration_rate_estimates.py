"""Estimates of a membership game against scipy, counting by hand, and simulated laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from membership_cases import FAMILY  # type: ignore[import-not-found]
from numpy.typing import NDArray
from scipy import stats

from dpaudit.audits.membership.calibration import best_guesses, certified, quantile
from dpaudit.bounds.frequentist.one_run import one_run_epsilon
from dpaudit.record.result import Family

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
JOINT = Family(confidence=0.95, size=10, alpha=0.005)


def coins(seed: int, shape: tuple[int, int] = (8, 50)) -> Mask:
    return np.random.default_rng(seed).random(shape) < 0.5


@pytest.mark.cases("share", [0.5, 0.9])
@pytest.mark.cases("steps", [None, 4])
def test_the_quantile_is_covered(share: float, steps: int | None) -> None:
    rng = np.random.default_rng(3)
    missed, runs = 0, 400
    for _ in range(runs):
        values = rng.random(60)
        truth = share
        if steps:
            values, truth = (
                np.floor(values * steps) / steps,
                math.ceil(share * steps) / steps - 1 / steps,
            )
        estimate = quantile(values, share, JOINT)
        assert estimate.lower <= estimate.value <= estimate.upper
        missed += not estimate.lower <= truth <= estimate.upper
    assert stats.binomtest(missed, runs, 0.05, "greater").pvalue > 1e-3


def test_a_quantile_of_few_values_has_no_end() -> None:
    estimate = quantile(np.array([0.2, 0.4, 0.6]), 0.99, JOINT)
    assert (estimate.value, estimate.upper) == (0.6, 1)
    assert estimate.lower in {0.2, 0.4}


def counted(scores: Numbers, present: Mask, high: int, low: int) -> int:
    order = np.argsort(-scores.reshape(-1), kind="stable")
    guesses = present.reshape(-1)[order]
    return int(guesses[:high].sum() + (~guesses[len(guesses) - low :]).sum())


@pytest.mark.cases("delta", [0.0, 1e-3])
@pytest.mark.cases("shift", [0.0, 1.0, 3.0])
def test_the_best_guesses_certify_most_in_the_rehearsal(shift: float, delta: float) -> None:
    present = coins(4)
    scores = np.random.default_rng(5).normal(size=present.shape) + shift * present
    bound, (high, low) = best_guesses(scores, present, delta=delta, family=FAMILY)
    tried = {}
    sizes = [400 >> j for j in range(1, 5)]
    for pair in [*((k, k) for k in sizes), *((k, 0) for k in sizes), *((0, k) for k in sizes)]:
        right = counted(scores, present, *pair)
        tried[pair] = one_run_epsilon(400, sum(pair), right, delta=delta, alpha=0.05).lower
    assert bound == max(tried.values())
    assert tried[round(high * 400), round(low * 400)] == bound
    assert 0 < high + low <= 1


def test_without_evidence_all_coins_are_guessed() -> None:
    present = coins(6)
    bounds = best_guesses(
        np.zeros(present.shape), np.ones_like(present) & True, delta=0, family=FAMILY
    )
    assert best_guesses((~present).astype(float), present, delta=0, family=FAMILY) == (
        0,
        (0.5, 0.5),
    )
    assert bounds[0] >= 0


def test_the_fewest_trainings_and_targets_leave_guesses() -> None:
    for seed in range(20):
        present = coins(seed, (2, 20))
        scores = np.random.default_rng(seed).normal(size=present.shape)
        _, (high, low) = best_guesses(scores, present, delta=0, family=FAMILY)
        assert int(high * 80) + int(low * 80) >= 16


@pytest.mark.cases("guesses", [(0.5, 0.5), (0.25, 0.25), (0.1, 0), (0, 0.3)])
@pytest.mark.cases("delta", [0.0, 1e-4])
def test_the_certificate_is_the_bound_of_the_right_guesses(
    guesses: tuple[float, float], delta: float
) -> None:
    present = coins(7)
    scores = np.random.default_rng(8).normal(size=present.shape) + 2 * present
    estimate = certified(scores, present, guesses, delta=delta, family=JOINT, seed=1)
    high, low = (int(share * 400) for share in guesses)
    right = counted(scores, present, high, low)
    expected = one_run_epsilon(400, high + low, right, delta=delta, alpha=0.005)
    assert (estimate.lower, estimate.value) == (expected.lower, expected.value)
    assert (estimate.upper, estimate.n, estimate.alpha, estimate.confidence) == (
        math.inf,
        400,
        0.005,
        0.95,
    )
    assert estimate.method.startswith(f"one-run exact at δ = {delta:g}, {high + low} guesses")
    assert estimate.lower > 0


def test_certain_guesses_certify_what_their_number_allows() -> None:
    present = coins(9)
    certificate = certified(
        present.astype(float), present, (0.25, 0.25), delta=0, family=JOINT, seed=1
    )
    # (e^ε/(1 + e^ε))^200 = α
    share = 0.005 ** (1 / 200)
    assert certificate.lower == pytest.approx(math.log(share / (1 - share)), rel=1e-6)
    assert certificate.value == math.inf


@pytest.mark.parametrize("order", [1, -1])
def test_equal_scores_are_not_guessed_in_the_order_of_the_targets(order: int) -> None:
    """Even if targets are listed in the order of their coins, equal scores certify nothing."""
    present = np.sort(coins(10), axis=None)[::order].reshape(8, 50)
    bounds = [
        certified(np.zeros(present.shape), present, (0.5, 0.5), delta=0, family=FAMILY, seed=seed)
        for seed in range(200)
    ]
    false = sum(bound.lower > 0 for bound in bounds)
    assert stats.binomtest(false, 200, 0.05, "greater").pvalue > 1e-3


def test_the_order_of_equal_scores_is_that_of_the_seed() -> None:
    present = coins(11)
    one, again, *others = (
        certified(np.zeros(present.shape), present, (0.2, 0.1), delta=0, family=FAMILY, seed=seed)
        for seed in (1, 1, 2, 3, 4)
    )
    assert one == again
    assert any(other.value != one.value for other in others)
