"""ROC limits of one model: calls by hand and by exchangeability, and coverage of known laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, norm

from dpaudit.bounds.frequentist.roc import (
    advantage_limits,
    area_limits,
    calls,
    present_above,
    subset_share,
)

Numbers = NDArray[np.float64]
Rng = np.random.Generator
LIMIT = 1e-6


def slow_calls(scores: Numbers, absent: Numbers, rate: float) -> Numbers:
    """Count by hand how likely a score is among the wanted ranks of all, in random order."""
    place = (len(absent) + 1) * rate
    rank = math.floor(place + 1e-9)

    def at(wanted: int) -> Numbers:
        over = np.array([(absent > score).sum() for score in scores])
        equal = np.array([(absent == score).sum() for score in scores])
        clipped: Numbers = np.clip((wanted - over) / (equal + 1), 0, 1)
        return clipped

    return (1 - place + rank) * at(rank) + (place - rank) * at(rank + 1)


@pytest.mark.cases("rate", [0.001, 0.01, 1 / 26, 0.1, 0.25, 0.5, 0.9, 0.99])
@pytest.mark.cases("values", [None, 1, 4])
def test_calls_are_the_share_of_random_orders(rate: float, values: int | None) -> None:
    rng = np.random.default_rng(5)
    scores, absent = rng.normal(size=40), rng.normal(size=25)
    if values:
        scores, absent = np.round(scores * values), np.round(absent * values)
    assert calls(scores, absent, rate) == pytest.approx(slow_calls(scores, absent, rate))


@pytest.mark.cases("rate", [0.004, 0.01, 0.05, 0.19])
@pytest.mark.cases("count", [20, 150])
@pytest.mark.cases("values", [None, 3])
def test_another_absent_target_is_called_with_the_stated_rate(
    rate: float, count: int, values: int | None
) -> None:
    """Absent targets share a number, and scores may be tied."""
    rng, runs = np.random.default_rng(7), 4000
    scores = rng.normal(size=(runs, count + 1)) + 3 * rng.normal(size=(runs, 1))
    if values:
        scores = np.round(scores % values)
    called = np.array([calls(row[:1], row[1:], rate)[0] for row in scores])
    assert abs(called.mean() - rate) < 5 * called.std() / math.sqrt(runs)


def test_without_absent_targets_a_call_is_a_guess() -> None:
    assert calls(np.arange(3.0), np.empty(0), 0.2).tolist() == [0.2] * 3


def null(rng: Rng, n: int) -> Numbers:
    return rng.normal(size=n)


def shifted(rng: Rng, n: int) -> Numbers:
    return rng.normal(size=n) + 1


def memorised(rng: Rng, n: int) -> Numbers:
    return np.where(rng.random(n) < 0.05, 10.0, 0.0) + rng.normal(size=n)


# True-positive rate at 1 %, area, largest advantage and a false-positive rate near it, of each law.
TRUTHS = {
    null: (0.01, 0.5, 0.0, 0.5),
    shifted: (
        norm.sf(norm.isf(0.01) - 1),
        norm.cdf(1 / math.sqrt(2)),
        2 * norm.cdf(0.5) - 1,
        norm.sf(0.5),
    ),
    memorised: (0.05 + 0.95 * 0.01, 0.05 + 0.95 / 2, 0.05, 1e-3),
}


@pytest.mark.long
@pytest.mark.cases("law", list(TRUTHS))
@pytest.mark.cases("targets", [300, 1000])
@pytest.mark.cases("ties", [False, True])
def test_limits_miss_the_truth_on_either_side_at_most_with_half_of_the_level(
    law: object, targets: int, ties: bool
) -> None:
    """Coarse scores tie, and their random order has the truth of scores between the ties."""
    rng, alpha, runs = np.random.default_rng(3), 0.1, 400
    rate, area, gain, near = TRUTHS[law]  # type: ignore[index]
    missed = np.zeros((3, 2), int)
    for _ in range(runs):
        n = int(rng.binomial(targets, 0.5))
        present, absent = law(rng, n), rng.normal(size=targets - n)  # type: ignore[operator]
        if ties:  # one value for all beyond a threshold far from where the numbers are read
            present, absent = (np.where(s < -1.5, -1.5, s) for s in (present, absent))
        least, most = present_above(present, absent, 0.01, rng, alpha=alpha / 2)
        ends = (
            subset_share(least, most, n, 10**6, alpha=alpha / 2),
            area_limits(present, absent, rng, alpha=alpha),
            advantage_limits(present, absent, near, rng, alpha=alpha),
        )
        for index, ((low, high), truth) in enumerate(zip(ends, (rate, area, gain), strict=True)):
            missed[index] += [truth < low, truth > high]
    assert missed.max() <= binom.isf(LIMIT, runs, alpha / 2), missed


def test_ends_of_the_threshold_enclose_it() -> None:
    rng = np.random.default_rng(0)
    absent = np.arange(1000.0)
    least, most = present_above(absent + 0.5, absent, 0.05, rng, alpha=0.02)
    # P(Bin(1000, .05) ≤ 34) ≤ 1 % < P(… ≤ 35), and P(Bin ≥ 67) ≤ 1 % < P(… ≥ 66).
    assert (least, most) == (binom.ppf(0.01, 1000, 0.05) + 0, binom.isf(0.01, 1000, 0.05) + 1)
    few = present_above(absent[:100] + 0.5, absent[:100], 0.01, rng, alpha=0.02)
    assert few[0] == 0  # no number of absent targets is surely above such a threshold


def test_the_largest_advantage_is_bounded_in_either_direction() -> None:
    rng = np.random.default_rng(1)
    present, absent = rng.normal(size=800) + 3, rng.normal(size=800)
    low, high = advantage_limits(present, absent, 0.07, rng, alpha=0.05)
    assert low > 0.7
    assert high > 2 * norm.cdf(1.5) - 1
    reverse = advantage_limits(absent, present, 0.93, rng, alpha=0.05)
    assert reverse[0] < -0.8
    assert reverse[1] > 2 * norm.cdf(1.5) - 1


def test_a_rate_far_from_the_best_still_bounds_all_thresholds_from_above() -> None:
    rng = np.random.default_rng(2)
    present, absent = rng.normal(size=2000) + 3, rng.normal(size=2000)
    low, high = advantage_limits(present, absent, 0.95, rng, alpha=0.05)
    assert low < 0.1
    assert high > 0.86
