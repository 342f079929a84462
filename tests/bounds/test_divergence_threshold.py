"""A lower bound on a divergence by one threshold: values by hand, and coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.special import rel_entr

from dpaudit.bounds.divergence import threshold_kl
from dpaudit.core.errors import InputError

LEVEL = {"alpha": 0.1, "confidence": 0.9}


def test_the_bound_is_that_of_two_exact_limits() -> None:
    # Only one threshold tells the classes apart; 50 scores of each are counted.
    present, absent = np.repeat([1.0, 0.0], [80, 20]), np.repeat([1.0, 0.0], [20, 80])
    shuffled = np.random.default_rng(1)
    present, absent = shuffled.permutation(present), shuffled.permutation(absent)
    estimate = threshold_kl(present, absent, **LEVEL)
    hits = [int(sample[1::2].sum()) for sample in (present, absent)]
    low = stats.beta.ppf(0.05, hits[0], 51 - hits[0])
    high = stats.beta.ppf(0.95, hits[1] + 1, 50 - hits[1])
    wanted = rel_entr(low, high) + rel_entr(1 - low, 1 - high)
    assert estimate.lower == pytest.approx(wanted)
    assert (estimate.upper, estimate.kind, estimate.n) == (math.inf, "frequentist", 200)
    assert estimate.lower < estimate.value < 2
    # Scores in the other order bound as much.
    assert threshold_kl(-present, -absent, **LEVEL) == estimate


def test_equal_scores_and_equal_laws_show_nothing() -> None:
    for present, absent in ((np.ones(20), np.ones(20)), (np.arange(20.0), np.arange(20.0))):
        assert threshold_kl(present, absent, **LEVEL).lower == 0


def test_separate_scores_show_as_much_as_their_number_allows() -> None:
    lower = [threshold_kl(np.ones(n), np.zeros(n), **LEVEL).lower for n in (4, 40, 400, 4000)]
    assert lower == sorted(lower)
    assert 4 < lower[-1] < math.log(4000)


@pytest.mark.cases(
    ("present", "absent"), [([1.0], [1.0, 2.0]), ([1.0, math.nan], [1.0, 2.0]), ([], [1.0])]
)
def test_scores_that_cannot_be_tested_are_refused(
    present: list[float], absent: list[float]
) -> None:
    with pytest.raises(InputError):
        threshold_kl(present, absent, **LEVEL)


@pytest.mark.long
@pytest.mark.parametrize("mu", [0.0, 0.3, 1.0, 3.0])
def test_it_covers_the_divergence_of_normal_scores(mu: float) -> None:
    runs, source = 300, np.random.default_rng(3)
    missed = 0
    for _ in range(runs):
        estimate = threshold_kl(source.normal(mu, 1, 60), source.normal(0, 1, 60), **LEVEL)
        missed += estimate.lower > mu**2 / 2
    # P(more) < 1e-6 if the level holds.
    assert missed <= stats.binom.isf(1e-6, runs, 0.1)


@pytest.mark.long
@pytest.mark.parametrize("p", [0.2, 0.5, 0.95])
def test_it_covers_the_divergence_of_two_coins(p: float) -> None:
    runs, source, q = 400, np.random.default_rng(4), 0.2
    true = float(rel_entr(p, q) + rel_entr(1 - p, 1 - q))
    missed = 0
    for _ in range(runs):
        present, absent = ((source.random(200) < share).astype(float) for share in (p, q))
        missed += threshold_kl(present, absent, **LEVEL).lower > true
    assert missed <= stats.binom.isf(1e-6, runs, 0.1)
