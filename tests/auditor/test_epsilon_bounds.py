"""Certified lower bounds on ε: known values, their error rate, and the two traps of theory §4."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.attacks.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.bounds import (
    Event,
    choose_event,
    detectable_epsilon,
    held_out_epsilon,
    log_ratio_bound,
)
from dpaudit.releases import LaplacePair, Predictions

Scores = NDArray[np.float64]

# Reference bounds by thresholds, Clopper-Pearson: n = 1000 a class,
# α = 0.05, one-sided limits at α/2 each: true positives, false positives, ε at δ = 0 and at 1e-5.
ORACLE = [
    (500, 500, 0.0, 0.0),
    (550, 450, 0.07426024088852702, 0.07424095640211338),
    (600, 400, 0.27727670552478423, 0.2772591269225991),
    (700, 300, 0.7106208086055588, 0.7106058951036008),
    (800, 200, 1.230126004131698, 1.2301130814907018),
    (900, 100, 1.9897063137037165, 1.9896949462833384),
    (990, 10, 3.9816478103443456, 3.9816376237437194),
    (1000, 0, 5.600587531298923, 5.6005774942916355),
    (500, 10, 3.2420165921458506, 3.2419952494409845),
    (100, 10, 1.5003785258855813, 1.5002567237018165),
    (50, 0, 2.316463005851296, 2.3161951276420774),
    (500, 0, 4.846162186259231, 4.846140843554365),
    # 900 and 500: the complement, 500 true negatives to 100 false ones, gives the larger bound.
    (500, 100, 1.3597527148510107, 1.3597313721461448),
    (400, 600, 0.0, 0.0),
]


@pytest.mark.parametrize(("hits", "others", "pure", "approximate"), ORACLE)
def test_log_ratio_bound_oracle(hits: int, others: int, pure: float, approximate: float) -> None:
    assert log_ratio_bound(hits, others, 1000, 0.0, 0.05) == pytest.approx(pure, abs=1e-9)
    assert log_ratio_bound(hits, others, 1000, 1e-5, 0.05) == pytest.approx(approximate, abs=1e-9)


def test_log_ratio_bound_by_hand() -> None:
    # All of n against none: limits (α/2)^(1/n) and 1 − (α/2)^(1/n).
    edge = 0.025 ** (1 / 50)
    expected = math.log((edge - 0.1) / (1 - edge))
    assert log_ratio_bound(50, 0, 50, 0.1, 0.05) == pytest.approx(expected)
    assert log_ratio_bound(5, 5, 50, 0.0, 0.05) == 0
    assert log_ratio_bound(0, 50, 50, 0.0, 0.05) == 0


def coin(share: float, n: int) -> Scores:
    """n scores 0 or 1, in halves of the same share of ones, in a fixed order."""
    half = n // 2
    one = round(share * half)
    return np.tile(np.r_[np.ones(one), np.zeros(half - one)], 2)


@pytest.mark.parametrize(("hits", "others", "pure", "approximate"), ORACLE[3:12])
def test_held_out_epsilon_certifies_the_second_half(
    hits: int, others: int, pure: float, approximate: float
) -> None:
    absent, present = coin(others / 1000, 2000), coin(hits / 1000, 2000)
    for delta, expected in ((0.0, pure), (1e-5, approximate)):
        for swapped in (False, True):
            pair = (present, absent) if swapped else (absent, present)
            found, event = held_out_epsilon(*pair, delta, 0.05, 0.95)
            assert found.n == 1000
            # The event or its complement, whichever is more telling.
            other = log_ratio_bound(1000 - others, 1000 - hits, 1000, delta, 0.05)
            assert found.lower == pytest.approx(max(expected, other), abs=1e-9)
            assert (event.likelier_present != event.above) == swapped
            if others and expected > other:
                exact = math.log((hits / 1000 - delta) / (others / 1000))
                assert found.value == pytest.approx(exact)
            assert found.kind == "frequentist"
            assert found.upper == math.inf


def test_the_second_half_decides() -> None:
    """Scores that differ in the first half alone certify nothing."""
    n = 400
    first = np.r_[np.ones(n), np.zeros(n)]
    found, _ = held_out_epsilon(np.r_[np.zeros(n), np.zeros(n)], first, 0.0, 0.05, 0.95)
    assert found.lower == 0
    # Where the second half speaks for the opposite event, the first half's choice still stands.
    reversed_, event = held_out_epsilon(
        np.r_[np.zeros(n), np.ones(n)], np.r_[np.ones(n), np.zeros(n)], 0.0, 0.05, 0.95
    )
    assert (reversed_.lower, reversed_.value) == (0, 0)
    assert event.likelier_present == event.above
    again, event = held_out_epsilon(np.zeros(2 * n), np.ones(2 * n), 0.0, 0.05, 0.95)
    assert again.lower == pytest.approx(log_ratio_bound(n, 0, n, 0.0, 0.05))
    assert event.counts(np.zeros(3), np.ones(5)) in {(5, 0), (3, 0)}


def test_event_counts_and_words() -> None:
    absent, present = np.array([0.0, 1, 2, 3]), np.array([1.0, 2, 3, 3, 3])
    assert Event(1.0, True, True).counts(absent, present) == (4, 2)
    assert Event(1.0, True, False).counts(absent, present) == (2, 4)
    assert Event(1.0, False, True).counts(absent, present) == (1, 2)
    assert Event(1.0, False, False).counts(absent, present) == (2, 1)
    assert str(Event(1.5, False, True)) == "score <= 1.5, likelier in D' than in D"


def test_infinite_scores_and_too_few() -> None:
    absent, present = np.full(200, -np.inf), np.full(200, np.inf)
    found, _ = held_out_epsilon(absent, present, 0.0, 0.05, 0.95)
    assert found.lower == pytest.approx(log_ratio_bound(100, 0, 100, 0.0, 0.05))
    assert found.value == math.inf
    for wrong in ((np.zeros(3), np.zeros(3)), (np.zeros(8), np.zeros(6))):
        with pytest.raises(ValueError, match="at least 4"):
            held_out_epsilon(*wrong, 0.0, 0.05, 0.95)


# Trap 1: atoms.


def laplace_pair(seed: int, n: int, epsilon: float) -> tuple[LaplacePair, Predictions, Predictions]:
    """Single-precision outputs of a Laplace mechanism of scale 1 whose true ε is `epsilon`."""
    rng = np.random.default_rng(seed)
    f = np.array([np.float32(1.3), np.float32(1.3) + np.float32(epsilon)], np.float32)
    shown = [(at + rng.laplace(size=(n, 1)).astype(np.float32)).astype(np.float32) for at in f]
    exact = f.astype(np.float64)
    items = np.zeros((n, 1), np.int32)
    return (
        LaplacePair(exact[:1], exact[1:], 1.0),
        Predictions(items, shown[0]),
        Predictions(items, shown[1]),
    )


def test_trap_atoms_split_by_rounding_certify_a_fiction() -> None:
    """The naive score of a mechanism with ε = 1 certifies twice that; the gridded one does not."""
    # Rate 1e-6: the gridded bound errs with probability <= α = 1e-6.
    knowledge, absent, present = laplace_pair(0, 20_000, 1.0)
    scores = []
    for release in (absent, present):
        near = abs(release.values - knowledge.absent.astype(np.float32))
        far = abs(release.values - knowledge.present.astype(np.float32))
        scores.append((near - far)[:, 0].astype(np.float64))
    naive, _ = held_out_epsilon(scores[0], scores[1], 0.0, 0.05, 0.95)
    assert naive.lower > 2
    attack = LikelihoodRatio()
    gridded = [attack.score(release, knowledge) for release in (absent, present)]
    sound, _ = held_out_epsilon(gridded[0], gridded[1], 0.0, 1e-6, 0.95)
    assert 0.8 < sound.lower <= 1


def test_the_gridded_score_certifies_too_much_no_more_often_than_stated() -> None:
    # 300 games at α = 0.2; claims of more than the true 1 are at most Binomial(300, 0.2).
    # Rate 1e-6.
    runs, alpha = 300, 0.2
    limit = stats.binom.isf(1e-6, runs, alpha)
    attack = LikelihoodRatio(grid=0.25)  # nine scores: fast, and coarse scores are valid too
    false, weaker = 0, 0
    for run in range(runs):
        knowledge, absent, present = laplace_pair(1000 + run, 600, 1.0)
        scores = [attack.score(release, knowledge) for release in (absent, present)]
        found, _ = held_out_epsilon(scores[0], scores[1], 0.0, alpha, 0.8)
        false += found.lower > 1
        weaker += found.lower > 0.7
    assert false <= limit
    assert weaker > limit  # a claim that is too small by 0.3 would be caught


# Trap 2: the winner's curse.


def test_trap_threshold_chosen_where_it_certifies() -> None:
    """On two equal laws any certified ε > 0 is false."""
    # α = 0.2, 400 runs of 16 distinct scores; false claims of the held-out bound are at most
    # Binomial(400, α), rate 1e-6. The same limit catches the bound at the sample's best event.
    runs, n, alpha = 400, 200, 0.2
    limit = stats.binom.isf(1e-6, runs, alpha)
    rng = np.random.default_rng(5)
    counts = np.arange(n + 1)
    lower = np.where(
        counts > 0, stats.beta.ppf(alpha / 2, np.maximum(counts, 0.5), n - counts + 1), 0
    )
    upper = np.where(
        counts < n, stats.beta.isf(alpha / 2, counts + 1, np.maximum(n - counts, 0.5)), 1
    )
    held_out = cursed = 0
    for _ in range(runs):
        absent, present = (np.floor(16 * rng.random(2 * n)) for _ in range(2))
        found, _ = held_out_epsilon(absent, present, 0.0, alpha, 0.8)
        held_out += found.lower > 0
        below = [(s[:n, None] <= np.arange(16)).sum(0) for s in (absent, present)]
        cursed += any(
            (lower[a] > upper[b]).any()
            for x, y in (below, below[::-1])
            for a, b in ((x, y), (n - x, n - y))
        )
    assert held_out <= limit
    assert cursed > limit


def test_the_chosen_event_is_the_best_on_its_sample() -> None:
    rng = np.random.default_rng(6)
    absent, present = (np.floor(6 * rng.beta(1, b, 300)) for b in (3, 1))
    event = choose_event(absent, present, 0.0, 0.05)
    best = max(
        log_ratio_bound(*Event(t, above, first).counts(absent, present), 300, 0.0, 0.005)
        for t in range(6)
        for above in (True, False)
        for first in (True, False)
    )
    assert log_ratio_bound(*event.counts(absent, present), 300, 0.0, 0.005) == pytest.approx(best)
    assert best > 0


# Power.


def certified(epsilon: float, claimed: float, runs: int, n: int, alpha: float) -> int:
    """How many of the games on a Laplace pair of this true ε certify more than the claim."""
    attack = LikelihoodRatio(grid=epsilon / 4)
    count = 0
    for run in range(runs):
        knowledge, absent, present = laplace_pair(50_000 + run, 2 * n, epsilon)
        scores = [attack.score(release, knowledge) for release in (absent, present)]
        found, _ = held_out_epsilon(scores[0], scores[1], 0.0, alpha, 1 - alpha)
        count += found.lower > claimed
    return count


@pytest.mark.parametrize(("claimed", "n", "alpha"), [(1.0, 1000, 0.05), (2.0, 3000, 0.001)])
def test_detectable_epsilon_is_detected(claimed: float, n: int, alpha: float) -> None:
    # 200 games at the returned ε: at least Binomial(200, 0.95) detections, rate 1e-6 / 2 a case;
    # midway to the claim that many do not occur.
    runs = 200
    limit = stats.binom.ppf(1e-6 / 2, runs, 0.95)
    least = detectable_epsilon(claimed, n, alpha)
    assert claimed < least < claimed + 1
    assert certified(least, claimed, runs, n, alpha) >= limit
    assert certified((claimed + least) / 2, claimed, runs, n, alpha) < limit


def test_detectable_epsilon_by_its_definition() -> None:
    claimed, n, alpha = 1.0, 5000, 0.01
    least = detectable_epsilon(claimed, n, alpha)

    def worst(epsilon: float) -> float:
        hits = int(stats.binom.ppf(0.025, n, 0.5))
        others = int(stats.binom.ppf(0.975, n, 0.5 * math.exp(-epsilon)))
        return log_ratio_bound(hits, others, n, 0.0, alpha)

    assert worst(least) > claimed
    assert worst(least - 0.01) <= claimed
    # More trials find less; too few find nothing.
    assert detectable_epsilon(claimed, 50_000, alpha) < least
    assert detectable_epsilon(claimed, 4, alpha) == math.inf
    assert detectable_epsilon(0.001, n, alpha) < least
