"""The census of judged trainings: its intervals are for all that a training had."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from dpaudit.audits.membership.calibration import Judged
from dpaudit.audits.membership.census import Subsets
from dpaudit.audits.membership.numbers import Number, numbers
from dpaudit.record.result import Census

Numbers = NDArray[np.float64]
Rng = np.random.Generator
EVERY, TARGETS = 1200, 160
THRESHOLD = 0.5


def judged(scores: Numbers, present: NDArray[np.bool_], lacking: Numbers | None = None) -> Judged:
    return Judged(scores, present, np.arange(scores.shape[1]), THRESHOLD, (0.25, 0.25), {}, lacking)


def null(rng: Rng, isin: NDArray[np.bool_]) -> Numbers:
    return rng.normal(size=EVERY)


def memoriser(rng: Rng, isin: NDArray[np.bool_]) -> Numbers:
    scores: Numbers = isin + rng.normal(size=EVERY) * 0.3
    return scores


def cluster(rng: Rng, isin: NDArray[np.bool_]) -> Numbers:
    """A tenth of the data, all alike, is remembered, or none of it."""
    near = np.arange(EVERY) < EVERY // 10
    scores: Numbers = rng.normal(size=EVERY) * ~near + 3 * (near & isin) * (rng.random() < 0.5)
    return scores


def parity(rng: Rng, isin: NDArray[np.bool_]) -> Numbers:
    """All data together decide the scores of all."""
    odd = int(isin.sum()) % 2
    scores: Numbers = rng.normal(size=EVERY) * (1 + odd) + isin * odd
    return scores


@pytest.mark.long
@pytest.mark.parametrize("law", [null, memoriser, cluster, parity])
def test_the_intervals_cover_what_the_attack_reaches_on_all_data(
    law: Callable[[Rng, NDArray[np.bool_]], Numbers],
) -> None:
    rng, alpha, audits = np.random.default_rng(5), 0.2, 300
    kinds = numbers([0.05])
    missed = dict.fromkeys(kinds, 0)
    for audit in range(audits):
        targets = rng.choice(EVERY, TARGETS, replace=False)
        isin = np.ones(EVERY, np.bool_)
        isin[targets] = rng.random(TARGETS) < 0.5
        scores = law(rng, isin)
        one = judged(scores[None, targets], isin[None, targets])
        every, absent = scores[isin], np.sort(scores[~isin])
        subsets = Subsets(EVERY - TARGETS, alpha, audit)
        rank = int((len(absent) + 1) * 0.05 * (1 + 1e-12))
        tied = {
            Number("attack.auc"): (
                (np.searchsorted(absent, every, "left") + np.searchsorted(absent, every, "right"))
                / (2 * len(absent))
            ).mean(),
            Number("attack.advantage"): (every > THRESHOLD).mean() - (absent > THRESHOLD).mean(),
            Number("attack.tpr", 0.05): (every > absent[-rank]).mean(),
        }
        for number in kinds:
            census = subsets.census(one, number)
            missed[number] += not (
                census.lower[0] - 1e-12 <= tied[number] <= census.upper[0] + 1e-12
            )
    # Ties, if there are any, only widen the rate's interval.
    assert max(missed.values()) <= binom.isf(1e-6, audits, alpha), missed


def small(present: list[bool]) -> Census:
    scores = np.arange(float(len(present)))[None]
    return Subsets(100, 0.05, 1).census(judged(scores, np.array([present])), Number("attack.auc"))


@pytest.mark.parametrize("present", [[True] * 4, [False] * 4])
def test_a_training_with_all_targets_or_none_says_nothing(present: list[bool]) -> None:
    census = small(present)
    assert (census.values, census.lower, census.upper) == ((0.5,), (0.0,), (1.0,))


def test_missing_answers_raise_the_upper_ends_alone() -> None:
    rng = np.random.default_rng(0)
    scores, present = rng.normal(size=(3, 200)), rng.random((3, 200)) < 0.5
    lacking = np.zeros((3, 200))
    lacking[1, :40] = 1
    subsets = Subsets(500, 0.05, 1)
    for number in numbers([0.05]):
        whole = subsets.census(judged(scores, present), number)
        some = subsets.census(judged(scores, present, lacking), number)
        assert (some.values, some.lower) == (whole.values, whole.lower)
        assert some.upper[1] > whole.upper[1]
        assert some.most[1] > some.values[1]
        assert not whole.most


def test_targets_that_are_all_there_could_be_leave_nothing_open() -> None:
    rng = np.random.default_rng(1)
    scores, present = rng.normal(size=(1, 60)), rng.random((1, 60)) < 0.5
    census = Subsets(0, 0.05, 1).census(judged(scores, present), Number("attack.advantage"))
    assert census.lower == census.values == census.upper
