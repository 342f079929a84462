"""Rates of one training against scikit-learn, counting by hand, and simulated exchangeability."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from dpaudit.audits.membership.rates import Curve, best_threshold

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
    assert not curve.above(0.2)[0].any()  # without an absent target nothing is above
    assert np.isfinite(curve.advantages(0.0)).all()


def slow_above(scores: Numbers, present: Mask, rate: float) -> Numbers:
    calls = np.zeros(present.shape)
    for t, (row, coins) in enumerate(zip(scores, present, strict=True)):
        absent = sorted(row[~coins], reverse=True)
        rank = math.floor((len(absent) + 1) * rate + 1e-9)
        if rank:
            bar = absent[rank - 1]
            over = sum(score > bar for score in absent)
            calls[t] = np.where(row == bar, (rank - over) / (absent.count(bar) + 1), row > bar)
    return calls


@pytest.mark.cases("ties", [False, True])
@pytest.mark.cases("rate", [0.01, 0.1, 0.25, 0.5, 0.9])
def test_the_threshold_is_the_absent_score_of_its_rank(ties: bool, rate: float) -> None:
    scores, present = drawn(5, ties, 40)
    curve, expected = Curve(scores, present), slow_above(scores, present, rate)
    np.testing.assert_array_equal(curve.above(rate), expected)
    shares = [above[coins].mean() for above, coins in zip(expected, present, strict=True)]
    assert curve.rates(rate) == pytest.approx(shares)


def test_the_rank_of_a_rate_that_fits_exactly_is_not_lost_to_rounding() -> None:
    # 10 absent targets: (10 + 1) · 1/11 is 1 up to rounding.
    scores = np.arange(12.0)[None]
    present = np.arange(12)[None] >= 10
    for rank in range(1, 11):
        # The threshold itself counts a half.
        assert Curve(scores, present).above(rank / 11).sum() == 2 + rank - 1 + 0.5


@pytest.mark.cases("rate", [0.05, 0.1, 0.2])
@pytest.mark.cases("values", [None, 3])
def test_another_exchangeable_target_is_above_with_at_most_the_rate(
    rate: float, values: int | None
) -> None:
    """Targets of a training share a number, and scores may be tied."""
    rng = np.random.default_rng(7)
    runs, targets = 20_000, 30
    scores = rng.normal(size=(runs, targets)) + 3 * rng.normal(size=(runs, 1))
    if values:
        scores = np.round(scores % values)
    present = rng.random((runs, targets)) < 0.5
    present[:, 0] = True  # a fresh target, exchangeable with the absent ones
    above = Curve(scores, present).above(rate)[:, 0].mean()
    error = 3 * math.sqrt(rate / runs)
    assert above <= rate + error
    if rate * targets / 2 > 1:  # with ties too, at least the next smaller rank
        assert above >= rate - 2 / targets - error


def test_ties_are_ordered_at_random() -> None:
    """The mean over orders of what stands above the threshold without ties."""
    rng = np.random.default_rng(3)
    scores, present = drawn(8, True, 1, 40)
    orders = np.repeat(scores, 20_000, 0) + 1e-6 * rng.random((20_000, 40))
    for rate in (0.05, 0.2, 0.5):
        rates = Curve(orders, np.repeat(present, 20_000, 0)).rates(rate)
        expected = Curve(scores, present).rates(rate)[0]
        # Between a strict threshold and one that lets a tie pass; 5 standard errors.
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
    absent = (~present).sum(1)
    assert curve.rates(0.5) == pytest.approx(np.floor((absent + 1) / 2) / (absent + 1))
    assert curve.exposed(0.5) == pytest.approx(0, abs=0.1)
    assert curve.areas().tolist() == [0.5] * 4
    assert curve.advantages(1.0).tolist() == [0] * 4
    assert curve.advantages(0.0).tolist() == [0] * 4


def test_advantages_are_differences_of_rates() -> None:
    scores, present = drawn(2, True)
    expected = [
        (score[coins] > 0).mean() - (score[~coins] > 0).mean()
        for score, coins in zip(scores, present, strict=True)
    ]
    assert Curve(scores, present).advantages(0.0) == pytest.approx(expected)


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
    # At rate 1/2 the threshold is the first of two absent scores, or the first of three or one.
    above = slow_above(scores, present, 0.5)
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


def test_the_best_threshold_divides_neighbouring_and_huge_scores() -> None:
    for low in (1.0, np.nextafter(1.0, 2), 1.7e308):
        scores = np.array([[low, np.nextafter(low, np.inf)] * 3])
        present = scores > low
        assert Curve(scores, present).advantages(best_threshold(scores, present)) == 1
