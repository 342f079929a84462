from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest, ttest_1samp

from dpaudit.bounds.frequentist.intervals import clustered_mean, clustered_share, student_mean

RATE = 1e-6


def test_the_mean_of_values_is_students() -> None:
    values = [0.91, 0.93, 0.90, 0.97]
    estimate = student_mean(values, 0.05, "folds")
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    assert (estimate.lower, estimate.upper) == pytest.approx((low, high))
    assert estimate.kind == "assumes-law"


def test_one_value_has_no_interval() -> None:
    estimate = student_mean([0.5], 0.05, "trainings")
    assert (estimate.lower, estimate.value, estimate.upper) == (-np.inf, 0.5, np.inf)
    alone = clustered_mean(np.array([1.0, 2.0]), np.zeros(2, int), alpha=0.05)
    assert (alone.lower, alone.upper) == (-np.inf, np.inf)
    assert clustered_share(np.ones(3, bool), np.zeros(3, int), alpha=0.05).lower == 0


def test_with_one_pair_a_user_a_mean_is_students_and_a_share_is_clopper_pearsons() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=40)
    low, high = ttest_1samp(values, 0).confidence_interval(0.95)
    mean = clustered_mean(values, np.arange(40), alpha=0.05)
    assert (mean.lower, mean.upper) == pytest.approx((low, high))
    flags = np.zeros(40, bool)
    share = clustered_share(flags, np.arange(40), alpha=0.05)
    exact = binomtest(0, 40).proportion_ci(0.95)
    assert (share.lower, share.upper) == pytest.approx((exact.low, exact.high))


@pytest.mark.parametrize("alike", [0.0, 1.0])
def test_intervals_cover_however_alike_a_users_pairs_are(alike: float) -> None:
    users, pairs, trials, alpha = 60, 8, 600, 0.05
    rng = np.random.default_rng(1)
    owner = np.repeat(np.arange(users), pairs)
    covered = {"mean": 0, "share": 0, "pairs as independent": 0}
    for _ in range(trials):
        effects = rng.normal(size=users)[owner]
        values = np.where(rng.random(len(owner)) < alike, effects, rng.normal(size=len(owner)))
        mean = clustered_mean(values, owner, alpha=alpha)
        share = clustered_share(values > 0.5244005, owner, alpha=alpha)  # P = 0.3
        naive = clustered_mean(values, np.arange(len(owner)), alpha=alpha)
        covered["mean"] += mean.lower <= 0 <= mean.upper
        covered["share"] += share.lower <= 0.3 <= share.upper
        covered["pairs as independent"] += naive.lower <= 0 <= naive.upper
    # 93 % at least, where 95 % is stated: asymptotic.
    least = binom.ppf(RATE, trials, 0.93)
    assert covered["mean"] >= least
    assert covered["share"] >= least
    # Pairs that are all alike make the interval of independent ones √8 too narrow: it is noticed.
    assert (covered["pairs as independent"] >= least) == (alike == 0)
