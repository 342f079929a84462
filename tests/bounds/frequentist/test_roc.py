"""ROC with clustered intervals: references, brute force, coverage, extremes, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betaincinv, ndtr, ndtri
from sklearn.metrics import roc_auc_score

from dpaudit.bounds.frequentist.intervals import clopper_pearson
from dpaudit.bounds.frequentist.roc import auc_in_folds, calls, clustered_auc, rate_at
from dpaudit.core.errors import InputError

Values = NDArray[np.float64]
Pairs = tuple[Values, NDArray[np.bool_], NDArray[np.int64]]


def simulated(
    rng: np.random.Generator, users: int, reals: int, fakes: int, gap: float, shared: float
) -> Pairs:
    """Normal scores; a user's reals share a normal effect of this size, and their fakes another."""
    pairs = reals + fakes
    user = np.repeat(np.arange(users), pairs)
    real = np.tile(np.arange(pairs) < reals, users)
    effect = np.where(real, *(rng.standard_normal(users)[user] for _ in range(2)))
    return gap * real + shared * effect + rng.standard_normal(len(user)), real, user


def true_auc(gap: float, shared: float) -> float:
    return float(ndtr(gap / math.sqrt(2 * (1 + shared**2))))


# The area.


@pytest.mark.cases("grid", [None, 0.5, 3.0])
def test_area_is_that_of_sklearn(grid: float | None) -> None:
    score, real, user = simulated(np.random.default_rng(1), 40, 3, 7, 0.8, 1.0)
    score = score if grid is None else np.round(score / grid)
    estimate = clustered_auc(score, real, user)
    assert estimate.value == pytest.approx(roc_auc_score(real, score), rel=1e-12)
    assert estimate.lower < estimate.value < estimate.upper
    assert (estimate.n, estimate.kind) == (40, "assumes-law")


def obuchowski(
    score: Values, real: NDArray[np.bool_], user: NDArray[np.int64]
) -> tuple[float, float]:
    """Obuchowski's variance, pair by pair, and its cross term; all users have both kinds."""
    m, n = int(real.sum()), int((~real).sum())
    reals, fakes = [(score[kind], user[kind]) for kind in (real, ~real)]

    def wins(x: float, y: float) -> float:
        return 1.0 if x > y else 0.5 if x == y else 0.0

    area = sum(wins(x, y) for x in reals[0] for y in fakes[0]) / (m * n)
    of_real, of_fake = [], []
    for who in np.unique(user):
        mine = [x for x, u in zip(*reals, strict=True) if u == who]
        scores = [y for y, u in zip(*fakes, strict=True) if u == who]
        of_real.append(sum(wins(x, y) for x in mine for y in fakes[0]) / n - len(mine) * area)
        of_fake.append(sum(wins(x, y) for x in reals[0] for y in scores) / m - len(scores) * area)
    a, b = np.array(of_real), np.array(of_fake)
    factor = len(a) / (len(a) - 1)
    s10, s01, s11 = factor * np.sum(a**2) / m, factor * np.sum(b**2) / n, factor * np.sum(a * b)
    cross = 2 * s11 / (m * n)
    return float(s10 / m + s01 / n + cross), float(cross)


def test_variance_is_obuchowskis() -> None:
    # The interval's size s has θ(1 − θ)/s = variance · (t/z)², and t is about z for many users.
    base_score, base_real, base_user = simulated(np.random.default_rng(2), 30, 2, 3, 0.6, 0.0)
    base_score = np.round(2 * (base_score + np.random.default_rng(3).normal(size=30)[base_user]))
    copies = 32
    score, real = np.tile(base_score, copies), np.tile(base_real, copies)
    estimate = clustered_auc(score, real, np.arange(len(score)) // 5)
    users, half = 30 * copies, estimate.value - estimate.lower

    def lower(variance: float) -> float:
        # As many times the users have that part of the variance, and nearly no factor I/(I − 1).
        all_users = variance * 29 / 30 / copies * users / (users - 1)
        size = estimate.value * (1 - estimate.value) / all_users
        return float(betaincinv(estimate.value * size, (1 - estimate.value) * size + 1, 0.025))

    variance, cross = obuchowski(base_score, base_real, base_user)
    assert estimate.lower == pytest.approx(lower(variance), abs=5e-3 * half)
    assert abs(estimate.lower - lower(variance - cross)) > 0.1 * half


def test_small_areas_by_brute_force() -> None:
    rng = np.random.default_rng(4)
    for _ in range(50):
        score, user = rng.integers(0, 4, 9).astype(float), np.arange(9) % 4
        real = np.array([True, True, False, False, *(rng.random(5) < 0.5)])
        beaten = [np.sign(x - y) / 2 + 0.5 for x in score[real] for y in score[~real]]
        assert clustered_auc(score, real, user).value == pytest.approx(np.mean(beaten), rel=1e-12)


@pytest.mark.cases(("gap", "users"), [(0.0, 60), (1.5, 60), (6.0, 300)])
def test_area_covers_where_pairs_taken_as_independent_do_not(gap: float, users: int) -> None:
    # At a rate of 1e-6 false though 5 % miss.
    rng, runs, truth = np.random.default_rng(5), 200, true_auc(gap, 1.5)
    missed = naive = 0
    for _ in range(runs):
        score, real, user = simulated(rng, users, 6, 6, gap, 1.5)
        clustered, alone = (clustered_auc(score, real, u) for u in (user, np.arange(len(user))))
        missed += not clustered.lower <= truth <= clustered.upper
        naive += not alone.lower <= truth <= alone.upper
    assert missed <= stats.binom.isf(1e-6, runs, 0.05) < naive


def test_users_whose_pairs_move_together_are_not_taken_for_more_than_they_say() -> None:
    # An effect shared by all pairs of a user cancels: the interval is narrower, and covers.
    rng, runs = np.random.default_rng(6), 200
    # Within a user the effect is gone, which is one of `users` comparisons.
    truth = 59 / 60 * true_auc(1.0, 2.0) + true_auc(1.0, 0.0) / 60
    missed, narrower = 0, 0
    for _ in range(runs):
        score, real, user = simulated(rng, 60, 4, 4, 1.0, 0.0)
        score = score + 2 * rng.standard_normal(60)[user]
        clustered, alone = (clustered_auc(score, real, u) for u in (user, np.arange(len(user))))
        missed += not clustered.lower <= truth <= clustered.upper
        narrower += clustered.upper - clustered.lower < alone.upper - alone.lower
    assert missed <= stats.binom.isf(1e-6, runs, 0.05)
    assert narrower == runs


def test_no_certainty_from_finitely_many_users() -> None:
    real, user = np.tile([True, False], 12), np.repeat(np.arange(12), 2)
    perfect = clustered_auc(real * 1.0, real, user)
    # Six disjoint pairs of users, all in the right order.
    assert (perfect.value, perfect.upper) == (1.0, 1.0)
    assert perfect.lower == pytest.approx(0.025 ** (1 / 6), rel=1e-9)
    none = clustered_auc(-1.0 * real, real, user)
    assert (none.value, none.lower) == (0.0, 0.0)
    assert none.upper == pytest.approx(1 - 0.025 ** (1 / 6), rel=1e-9)
    tied = clustered_auc(np.zeros(24), real, user)
    assert tied.value == 0.5
    assert (tied.lower, tied.upper) == pytest.approx(clopper_pearson(3, 6, 0.05), rel=1e-9)
    # All users alike, with an area that is no binary fraction: rounding is no variance either.
    score, real = np.tile([1.0, 3.0, 4.0, 2.0], 12), np.tile([True, True, True, False], 12)
    alike = clustered_auc(score, real, np.repeat(np.arange(12), 4))
    assert alike.value == pytest.approx(2 / 3, rel=1e-12)
    assert alike.upper - alike.lower > 0.6


def test_area_does_not_see_names_order_or_monotone_maps() -> None:
    rng = np.random.default_rng(7)
    score, real, user = simulated(rng, 50, 3, 5, 1.0, 1.0)
    here = clustered_auc(score, real, user)
    turn = rng.permutation(len(user))
    there = clustered_auc(np.exp(score)[turn], real[turn], (user * 7 + 3).astype(str)[turn])
    assert there.lower == pytest.approx(here.lower, rel=1e-9)
    assert there.value == pytest.approx(here.value, rel=1e-12)
    swapped = clustered_auc(-score, real, user)
    assert swapped.upper == pytest.approx(1 - here.lower, rel=1e-9)


# The rate at few false positives.


def test_rate_by_hand() -> None:
    # Even users: fakes 0 … 98. Of 99 the largest is the threshold at 1 %, the fifth at 5 %.
    fakes = [(float(i), False, 0) for i in range(99)]
    reals = [(98.0, True, 1), (98.5, True, 1), (97.0, True, 3), (99.0, True, 3)]
    others = [(1e9, False, 1), (1e9, True, 2), (0.0, True, 5), (0.0, False, 6)]
    # Users 0, 1, 2, 3, 5, 6 have ranks 0 to 5: user 5 is even, user 6 odd.
    score, real, user = map(np.array, zip(*fakes, *reals, *others, strict=True))
    one = rate_at(score, real, user, 0.01)
    assert (one.value, one.n, one.kind) == (0.625, 2, "assumes-law")  # 98 itself counts a half
    assert rate_at(score, real, user, 0.05).value == 1.0  # above 94
    assert rate_at(score, real, user, 0.05).lower == pytest.approx(math.sqrt(0.025), rel=1e-9)
    with pytest.raises(InputError, match=r"99 fake pairs .* 0.001: give at least 999"):
        rate_at(score, real, user, 0.001)


def test_a_threshold_among_ties_lets_through_a_share_of_them() -> None:
    score = np.concatenate((np.zeros(150), np.ones(50), np.ones(10)))
    real, user = np.arange(210) >= 200, np.tile([0, 2], 105)
    user[200:] = np.tile([1, 3], 5)
    # Of 201 places the first 20.1 and 50.25 are called. The 51 at the top, 50 fakes and the real
    # one, are in random order.
    assert rate_at(score, real, user, 0.1).value == pytest.approx(20.1 / 51)
    assert rate_at(score, real, user, 0.25).value == pytest.approx(50.25 / 51)
    assert rate_at(score, real, user, 0.26).value == 1.0  # the 52nd is 0


@pytest.mark.parametrize("levels", [2, 4])
def test_the_rate_within_ties_is_covered(levels: int) -> None:
    """Given the threshold of the even half, it is a mean over reals of 0, a share, and 1."""
    rng, missed = np.random.default_rng(levels), 0
    law, other = np.linspace(1, 2, levels) / 1.5 / levels, np.linspace(2, 1, levels) / 1.5 / levels
    for _ in range(100):
        score = np.r_[rng.choice(levels, 100, p=law), rng.choice(levels, 100, p=other)] * 1.0
        real, user = np.arange(200) < 100, rng.permutation(200)
        fakes = score[~real & (user % 2 == 0)]
        truth = float(np.dot(law, calls(np.arange(float(levels)), fakes, 0.1)))
        estimate = rate_at(score, real, user, 0.1)
        missed += not estimate.lower <= truth <= estimate.upper
    # At a rate of 1e-6 false though 5 % miss.
    assert missed <= stats.binom.isf(1e-6, 100, 0.05)


@pytest.mark.long
@pytest.mark.parametrize("wanted", [0.01, 0.1])
def test_false_positives_are_as_many_as_wanted_on_average(wanted: float) -> None:
    # Of N independent fakes the r-th largest lets through r/(N + 1) on average, here as wanted.
    # Reals of the same law show how many. Two-sided z-test at 1e-6.
    rng, runs, n = np.random.default_rng(8), 2000, 199
    user = np.concatenate((np.arange(n) % 2 * 2, np.tile([1, 3], 50)))
    real = np.arange(n + 100) >= n
    rates = [rate_at(rng.random(n + 100), real, user, wanted).value for _ in range(runs)]
    error = float(stats.norm.isf(5e-7)) * np.std(rates) / math.sqrt(runs)
    assert abs(np.mean(rates) - wanted) < error
    # The next larger rank, whose empirical rate is about what is wanted, would be noticed.
    assert error < 1 / (n + 1)


@pytest.mark.cases(("gap", "wanted"), [(2.0, 0.01), (5.0, 0.01), (2.0, 0.1)])
def test_rate_covers_where_pairs_taken_as_independent_do_not(gap: float, wanted: float) -> None:
    # At a rate of 1e-6 false though 5 % miss.
    rng, runs, shared = np.random.default_rng(9), 200, 1.5
    missed = naive = 0
    for _ in range(runs):
        score, real, user = simulated(rng, 200, 8, 8, gap, shared)
        fakes = np.sort(score[~real & (user % 2 == 0)])
        threshold = fakes[-math.floor(801 * wanted)]
        truth = ndtr((gap - threshold) / math.sqrt(1 + shared**2))
        estimate = rate_at(score, real, user, wanted)
        missed += not estimate.lower <= truth <= estimate.upper
        low, high = clopper_pearson(round(estimate.value * 800), 800, 0.05)
        naive += not low <= truth <= high
    assert missed <= stats.binom.isf(1e-6, runs, 0.05) < naive


def test_independent_pairs_have_nearly_the_exact_interval() -> None:
    rng = np.random.default_rng(10)
    score, real, user = simulated(rng, 2000, 2, 2, ndtri(0.9) + ndtri(0.3), 0.0)
    estimate = rate_at(score, real, user, 0.1)
    exact = clopper_pearson(round(estimate.value * 2000), 2000, 0.05)
    assert (estimate.lower, estimate.upper) == pytest.approx(exact, abs=0.003)
    assert exact[1] - exact[0] > 0.03


SCORE, REAL, USER = np.arange(6.0), np.arange(6) % 2 > 0, np.arange(6) // 2


@pytest.mark.cases(
    ("call", "words"),
    [
        (lambda: clustered_auc(SCORE, REAL[:3], USER), "real has type bool"),
        (lambda: clustered_auc(SCORE, REAL * 1, USER), "real has type int"),
        (lambda: clustered_auc(SCORE, REAL, USER[:2]), "users have shape"),
        (lambda: clustered_auc(SCORE + math.inf, REAL, USER), r"scores\[0\] = inf"),
        (lambda: clustered_auc(SCORE, REAL, USER, alpha=0.0), "alpha = 0"),
        (lambda: clustered_auc(SCORE, REAL, USER * 0), "1 users have real pairs"),
        (lambda: clustered_auc(SCORE, SCORE < 9, USER), "0 users have fake pairs"),
        (lambda: rate_at(SCORE, REAL, USER, 0.0), "false_positives = 0"),
        (lambda: rate_at(SCORE, REAL, USER, 0.9), "1 users have real"),
        (lambda: rate_at(SCORE, SCORE < 9, USER, 0.9), "0 fake pairs"),
    ],
)
def test_bad_input_is_refused(call: Callable[[], object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


# Folds.


def test_an_area_in_one_fold_is_that_of_all_pairs_with_the_variance_of_placements() -> None:
    scores, real, user = simulated(np.random.default_rng(3), 200, 1, 0, 1.0, 0.0)
    real = np.arange(200) < 80
    area = auc_in_folds(scores[None], real, np.zeros(200, int), alpha=0.05)
    reference = clustered_auc(scores, real, user, alpha=0.05)
    assert area.value == pytest.approx(roc_auc_score(real, scores))
    assert area.lower == pytest.approx(reference.lower, abs=2e-3)
    assert area.upper == pytest.approx(reference.upper, abs=2e-3)


def test_scores_of_different_folds_are_not_compared() -> None:
    rng = np.random.default_rng(4)
    scores, real, folds = rng.normal(size=300), rng.random(300) < 0.4, np.arange(300) % 3
    moved = auc_in_folds((scores + 100 * folds)[None], real, folds, alpha=0.05)
    assert moved == auc_in_folds(scores[None], real, folds, alpha=0.05)
    areas = [roc_auc_score(real[folds == fold], scores[folds == fold]) for fold in range(3)]
    assert moved.value == pytest.approx(np.mean(areas))


def test_rows_of_scores_are_one_sample_of_units() -> None:
    rng = np.random.default_rng(5)
    scores, real, folds = rng.normal(size=(1, 90)), rng.random(90) < 0.5, np.zeros(90, int)
    single = auc_in_folds(scores, real, folds, alpha=0.05)
    double = auc_in_folds(np.repeat(scores, 2, axis=0), real, folds, alpha=0.05)
    assert [double.lower, double.value, double.upper] == pytest.approx(
        [single.lower, single.value, single.upper]
    )
