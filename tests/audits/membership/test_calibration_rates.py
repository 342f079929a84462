"""Rates of one training against scikit-learn, counting by hand, and simulated exchangeability."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from dpaudit.audits.membership.calibration import Curve, best_threshold, ranks
from dpaudit.bounds.frequentist.roc import calls

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


def drawn(seed: int, ties: bool, trainings: int = 6, targets: int = 25) -> tuple[Numbers, Mask]:
    rng = np.random.default_rng(seed)
    present = rng.random((trainings, targets)) < 0.5
    scores = rng.normal(size=present.shape) + present
    return (np.round(scores) if ties else scores), present


@pytest.mark.cases("ties", [False, True])
@pytest.mark.cases("seed", range(3))
def test_areas_are_those_of_scikit_learn(seed: int, ties: bool) -> None:
    scores, present = drawn(seed, ties)
    expected = [roc_auc_score(coins, score) for coins, score in zip(present, scores, strict=True)]
    assert Curve(scores, present).areas() == pytest.approx(expected)


def test_a_training_whose_targets_are_all_alike_counts_as_chance() -> None:
    scores, present = drawn(0, False)
    present[0], present[1] = True, False
    curve = Curve(scores, present)
    assert curve.areas()[:2].tolist() == [0.5, 0.5]
    assert curve.rates(0.2)[1] == 0
    assert curve.rates(0.2)[0] == pytest.approx(0.2)  # without an absent target, a guess
    assert np.isfinite(curve.advantages(0.5)).all()


@pytest.mark.cases("ties", [False, True])
@pytest.mark.cases("rate", [0.01, 0.1, 0.5])
def test_each_training_has_the_threshold_of_its_own_absent_targets(ties: bool, rate: float) -> None:
    scores, present = drawn(5, ties, 40)
    expected = [calls(row, row[~coins], rate) for row, coins in zip(scores, present, strict=True)]
    curve = Curve(scores, present)
    np.testing.assert_array_equal(curve.above(rate), expected)
    shares = [above[coins].mean() for above, coins in zip(expected, present, strict=True)]
    assert curve.rates(rate) == pytest.approx(shares)


@pytest.mark.cases("absent", [100, 150, 300])
def test_rates_are_those_of_their_false_positives(absent: int) -> None:
    """A uniform score lets members of the same law through with the stated rate, at every size."""
    rng, runs = np.random.default_rng(3), 4000
    present = np.zeros((runs, 2 * absent), np.bool_)
    present[:, :absent] = True
    rates = Curve(rng.random(present.shape), present).rates(0.01)
    assert abs(rates.mean() - 0.01) < 5 * rates.std() / math.sqrt(runs)


def test_ties_are_ordered_at_random() -> None:
    """The mean over orders of what stands above the threshold without ties."""
    rng = np.random.default_rng(3)
    scores, present = drawn(8, True, 1, 40)
    orders = np.repeat(scores, 20_000, 0) + 1e-6 * rng.random((20_000, 40))
    for rate in (0.05, 0.2, 0.5):
        rates = Curve(orders, np.repeat(present, 20_000, 0)).rates(rate)
        expected = Curve(scores, present).rates(rate)[0]
        # 5 standard errors.
        assert abs(rates.mean() - expected) < 5 * rates.std() / math.sqrt(20_000) + 1e-12


def test_a_tie_hides_no_leak() -> None:
    """A bit that is right for half of the members and wrong for 2 % of the others."""
    rng = np.random.default_rng(4)
    present = rng.random((40, 2000)) < 0.5
    shown = rng.random(present.shape) < np.where(present, 0.5, 0.02)
    curve = Curve(shown.astype(float), present)
    assert curve.rates(0.01).mean() == pytest.approx(0.25, abs=0.02)
    # Where more than 2 % of the absent happen to share the bit, fewer are found.
    assert curve.rates(0.02).mean() == pytest.approx(0.45, abs=0.04)


def test_constant_scores_find_what_a_guess_finds() -> None:
    present = drawn(1, False, 4, 20)[1]
    curve = Curve(np.ones((4, 20)), present)
    assert curve.rates(0.5) == pytest.approx(0.5)
    assert curve.exposed(0.5) == pytest.approx(0)
    assert curve.areas().tolist() == [0.5] * 4
    assert curve.advantages(0.3) == pytest.approx(0)


def test_advantages_are_differences_of_rates() -> None:
    curve = Curve(*drawn(2, True))
    assert curve.advantages(0.2) == pytest.approx(curve.rates(0.2) - 0.2)


def test_the_best_rate_has_the_largest_advantage() -> None:
    for seed in range(5):
        curve = Curve(*drawn(seed, False, 6, 400))
        gains = [curve.advantages(rate).mean() for rate in np.linspace(0.01, 0.99, 197)]
        assert curve.advantages(curve.best_rate()).mean() >= max(gains) - 0.01


def test_without_any_gain_the_rate_is_a_half() -> None:
    assert (
        Curve(np.array([[0.0, 0, 1, 1]]), np.array([[True, True, False, False]])).best_rate() == 0.5
    )
    assert Curve(np.zeros((2, 3)), np.ones((2, 3), np.bool_)).best_rate() == 0.5
    assert Curve(np.zeros((1, 3)), np.zeros((1, 3), np.bool_)).best_rate() == 0.5


def test_what_a_training_adds_to_all_its_scores_changes_no_rate() -> None:
    scores, present = drawn(4, False, 8, 400)
    moved = np.exp(scores) + 100.0 * np.arange(len(scores))[:, None]
    one, other = Curve(scores, present), Curve(moved, present)
    assert one.best_rate() == other.best_rate()
    np.testing.assert_array_equal(one.advantages(0.3), other.advantages(0.3))
    np.testing.assert_array_equal(one.rates(0.01), other.rates(0.01))


def test_shares_of_a_group_count_its_present_targets() -> None:
    present = np.array([[True, True, False, True], [False, False, True, True]])
    above = np.array([[True, False, True, True], [True, True, True, False]])
    group = np.array([[True, True, True, False]])
    curve = Curve(np.zeros((2, 4)), present)
    assert curve.share(above, group).tolist() == [0.5, 1]
    assert curve.share(above, np.zeros((1, 4), np.bool_)).tolist() == [0, 0]


def test_a_group_that_scores_high_anyway_gains_nothing() -> None:
    present = np.array([[True, True, False, False], [True, False, True, False]])
    curve = Curve(np.zeros((2, 4)), present)
    every = np.ones((1, 4), np.bool_)
    assert curve.gain(np.ones((2, 4), np.bool_), every).tolist() == [0, 0]
    above = np.array([[True, False, False, False], [True, False, True, True]])
    assert curve.gain(above, every).tolist() == [0.5, 0.5]


def test_exposure_compares_the_trainings_with_and_without_a_target() -> None:
    scores = np.array([[3.0, 1, 2, 0], [3, 1, 2, 0], [0, 1, 2, 3]])
    present = np.array(
        [[True, False, True, False], [True, False, False, False], [True] * 3 + [False]]
    )
    above = Curve(scores, present).above(0.5)
    expected = [
        above[present[:, target], target].mean() - above[~present[:, target], target].mean()
        for target in (1, 2)  # the first is always present, and the last never
    ]
    assert Curve(scores, present).exposed(0.5) == pytest.approx(expected)


def slow_threshold(scores: Numbers, present: Mask) -> float:
    def gain(threshold: float) -> float:
        above = scores > threshold
        return float(above[present].mean() - above[~present].mean())

    values = np.unique(scores)
    return max(gain(each) for each in [-math.inf, *(values[1:] + values[:-1]) / 2, math.inf])


@pytest.mark.cases("ties", [False, True])
@pytest.mark.cases("seed", range(4))
def test_the_best_threshold_has_the_largest_advantage(seed: int, ties: bool) -> None:
    scores, present = drawn(seed, ties)
    threshold = best_threshold(scores, present)
    above = scores > threshold
    gain = above[present].mean() - above[~present].mean()
    assert gain == pytest.approx(slow_threshold(scores, present))
    assert threshold not in scores


def test_without_any_gain_nothing_is_above_the_threshold() -> None:
    scores = np.array([[0.0, 0, 1, 1]])
    assert best_threshold(scores, scores < 0.5) == math.inf
    assert best_threshold(np.zeros((2, 3)), np.array([[True, False, True]] * 2)) == math.inf
    assert best_threshold(np.arange(4.0)[None], np.zeros((1, 4), np.bool_)) == math.inf


def test_ranks_forget_what_a_training_adds_to_all_its_scores() -> None:
    scores, _ = drawn(4, True)
    moved = np.exp(scores * 3) + 100.0 * np.arange(len(scores))[:, None]
    np.testing.assert_array_equal(ranks(scores), ranks(moved))
    assert ranks(np.array([[5.0, 7, 7, 9]])).tolist() == [[0.25, 0.625, 0.625, 1]]


def test_the_best_threshold_divides_neighbouring_and_huge_scores() -> None:
    for low in (1.0, np.nextafter(1.0, 2), 1.7e308):
        scores = np.array([[low, np.nextafter(low, np.inf)] * 3])
        present = scores > low
        above = scores > best_threshold(scores, present)
        np.testing.assert_array_equal(above, present)
