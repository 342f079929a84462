"""The census of judged trainings: its intervals are for all that a training had."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpaudit.audits.membership.calibration import Judged, ranks
from dpaudit.audits.membership.inference import Number, TargetSampling, numbers
from dpaudit.bounds.frequentist.roc import present_above
from dpaudit.record.values import Census

Numbers = NDArray[np.float64]
Rng = np.random.Generator
EVERY, TARGETS = 1200, 160
BEST = 0.3


def judged(scores: Numbers, present: NDArray[np.bool_], lacking: Numbers | None = None) -> Judged:
    return Judged(scores, present, np.arange(scores.shape[1]), BEST, (0.25, 0.25), {}, lacking)


def null(rng: Rng, isin: NDArray[np.bool_]) -> Numbers:
    return rng.normal(size=len(isin))


def memoriser(rng: Rng, isin: NDArray[np.bool_]) -> Numbers:
    scores: Numbers = isin + rng.normal(size=len(isin))
    return scores


def cluster(rng: Rng, isin: NDArray[np.bool_]) -> Numbers:
    """A tenth of the data, all alike, is remembered, or none of it."""
    near = rng.random(len(isin)) < 0.1
    scores: Numbers = rng.normal(size=len(isin)) + 3 * (near & isin) * (rng.random() < 0.5)
    return scores


def parity(rng: Rng, isin: NDArray[np.bool_]) -> Numbers:
    """All data together decide the scores of all."""
    odd = int(isin.sum()) % 2
    scores: Numbers = rng.normal(size=len(isin)) * (1 + odd) + isin * odd
    return scores


@pytest.mark.long
@pytest.mark.parametrize("law", [null, memoriser, cluster, parity])
def test_the_intervals_cover_what_the_attack_reaches_on_all_data(
    law: Callable[[Rng, NDArray[np.bool_]], Numbers],
) -> None:
    """The present ones are all that the training had; of the absent ones many more are drawn."""
    rng, alpha, audits, more = np.random.default_rng(5), 0.2, 300, 20_000
    kinds = numbers([0.05])
    missed = dict.fromkeys(kinds, np.zeros(2, int))
    for audit in range(audits):
        isin = np.ones(EVERY + more, np.bool_)
        isin[EVERY:] = False
        targets = rng.choice(EVERY, TARGETS, replace=False)
        isin[targets] = rng.random(TARGETS) < 0.5
        scores = law(rng, isin)
        one = judged(ranks(scores[None, targets]), isin[None, targets])
        every, absent = scores[:EVERY][isin[:EVERY]], np.sort(scores[~isin])
        subsets = TargetSampling(EVERY - TARGETS, alpha, audit)
        below = np.searchsorted(absent, np.sort(every)) / len(absent)
        truths = {
            Number("attack.auc"): below.mean(),
            Number("attack.advantage"): np.max(
                1 - np.arange(len(every)) / len(every) - (1 - below), initial=0
            ),
            Number("attack.tpr", 0.05): (every > np.quantile(absent, 0.95)).mean(),
        }
        for number in kinds:
            census = subsets.census(one, number)
            ends = (truths[number] < census.lower[0], truths[number] > census.upper[0])
            missed[number] = missed[number] + np.array(ends)
    assert max(ends.max() for ends in missed.values()) <= binom.isf(1e-6, audits, alpha / 2), missed


def small(present: list[bool]) -> Census:
    scores = ranks(np.arange(float(len(present)))[None])
    return TargetSampling(100, 0.05, 1).census(
        judged(scores, np.array([present])), Number("attack.auc")
    )


@pytest.mark.parametrize("present", [[True] * 4, [False] * 4])
def test_a_training_with_all_targets_or_none_says_nothing(present: list[bool]) -> None:
    census = small(present)
    assert (census.values, census.lower, census.upper) == ((0.5,), (0.0,), (1.0,))


def test_missing_answers_raise_the_upper_ends_alone() -> None:
    rng = np.random.default_rng(0)
    scores, present = ranks(rng.normal(size=(3, 200))), rng.random((3, 200)) < 0.5
    lacking = np.zeros((3, 200))
    lacking[1, :40] = 1
    subsets = TargetSampling(500, 0.05, 1)
    for number in numbers([0.05]):
        whole = subsets.census(judged(scores, present), number)
        some = subsets.census(judged(scores, present, lacking), number)
        assert (some.values, some.lower) == (whole.values, whole.lower)
        assert some.upper[1] > whole.upper[1]
        assert some.most[1] > some.values[1]
        assert not whole.most


def test_targets_that_are_all_there_could_be_leave_the_threshold_open_alone() -> None:
    rng = np.random.default_rng(1)
    scores, present = ranks(rng.normal(size=(1, 600))), rng.random((1, 600)) < 0.5
    number = Number("attack.tpr", 0.1)
    one = judged(scores, present)
    whole, some = (TargetSampling(others, 0.05, 1).census(one, number) for others in (0, 5000))
    least, most = present_above(
        scores[0][present[0]], scores[0][~present[0]], 0.1, np.random.default_rng(0), alpha=0.025
    )
    count = present.sum()
    assert (whole.lower[0], whole.upper[0]) == (least / count, most / count)
    assert some.lower < whole.lower
    assert some.upper > whole.upper


def test_a_rate_at_the_threshold_of_its_training_has_narrower_limits() -> None:
    """About the next training, whose number has a threshold of its own too."""
    rng = np.random.default_rng(4)
    present = rng.random((1, 1300)) < 0.5
    one, number = (
        judged(ranks(rng.normal(size=(1, 1300)) + 2 * present), present),
        Number("attack.tpr", 0.01),
    )
    own, given = (
        TargetSampling(5000, 1e-3, 1, given).census(one, number) for given in (False, True)
    )
    assert own.lower[0] < given.lower[0] < given.upper[0] < own.upper[0]
    assert own.lower[0] < 0.1 < given.lower[0]
