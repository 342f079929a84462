"""Counting at a chosen threshold: known values, error rates, and the traps of atoms and of luck."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.bounds.frequentist.counting import best_split, clopper_pearson_epsilon
from dpaudit.bounds.frequentist.thresholds import ThresholdRule, choose_threshold, held_out_epsilon
from dpaudit.bounds.outcomes import Counts
from dpaudit.core.errors import InputError
from dpaudit.core.releases import LaplacePair, Predictions

Scores = NDArray[np.float64]

ROWS: list[dict[str, Any]] = [
    row
    for row in json.loads(
        (Path(__file__).parents[2] / "oracles" / "epsilon_bounds.json").read_text("utf-8")
    )["threshold"]
    if row["method"] == "clopper_pearson"
]


def bound(counts: Counts, delta: float, alpha: float, split: float = 0.5) -> float:
    return clopper_pearson_epsilon(counts, delta=delta, alpha=alpha, split=split).lower


def coin(share: float, n: int) -> Scores:
    """n scores 0 or 1, in halves of the same share of ones, in a fixed order."""
    one = round(share * n / 2)
    return np.tile(np.repeat((1.0, 0.0), (one, n // 2 - one)), 2)


# The rule.


def test_threshold_counts_and_words() -> None:
    absent, present = np.array([0.0, 1, 2, 3]), np.array([1.0, 2, 3, 3, 3])
    assert ThresholdRule(1.0).counts(absent, present) == Counts(tp=5, fp=3, fn=0, tn=1)
    assert ThresholdRule(1.5).counts(absent, present) == Counts(tp=4, fp=2, fn=1, tn=2)
    assert ThresholdRule(2.0, above=False).counts(absent, present) == Counts(tp=1, fp=2, fn=4, tn=2)
    assert str(ThresholdRule(1.5)) == "says D' at score >= 1.5"
    assert str(ThresholdRule(1.5, above=False)) == "says D' at score < 1.5"


def brute_force(absent: Scores, present: Scores, delta: float, alpha: float) -> float:
    """The largest bound, at the stricter level, over all thresholds and both directions."""
    return max(
        bound(ThresholdRule(float(value), above).counts(absent, present), delta, alpha / 10)
        for value in np.unique(np.concatenate((absent, present)))
        for above in (True, False)
    )


@pytest.mark.cases("delta", [0.0, 0.01])
@pytest.mark.cases("kind", ["atoms", "normal", "reversed", "narrow", "tail", "null"])
def test_the_chosen_threshold_is_the_best_of_all(kind: str, delta: float) -> None:
    rng = np.random.default_rng(6)
    # Up to 1300 thresholds: more than are looked at first.
    m, n = 600, 700
    absent, present = rng.normal(size=m), rng.normal(1, 1, n)
    if kind == "atoms":
        absent, present = np.floor(3 * absent), np.floor(3 * present)
    elif kind == "reversed":
        absent, present = present, absent
    elif kind == "narrow":  # the laws differ in a narrow range of scores only
        absent, present = rng.random(m), rng.random(n)
        present[:12], absent[:50] = 0.7 + 1e-6 * rng.random(12), 0.7 + 1e-6
    elif kind == "tail":
        absent, present = rng.random(m), np.r_[rng.random(n - 60), 1 + rng.random(60)]
    elif kind == "null":
        present = rng.normal(size=n)
    rule = choose_threshold(absent, present, delta=delta, alpha=0.05)
    best = brute_force(absent, present, delta, 0.05)
    assert bound(rule.counts(absent, present), delta, 0.005) == pytest.approx(best, abs=1e-12)
    assert (best > 0) == (kind not in {"narrow", "null"})
    if kind in {"atoms", "normal", "reversed"}:
        assert rule.above == (kind != "reversed")


def test_the_chosen_threshold_of_many_small_samples() -> None:
    rng = np.random.default_rng(7)
    for _ in range(40):
        absent, present = (np.floor(9 * rng.beta(1, b, int(rng.integers(1, 30)))) for b in (3, 1))
        rule = choose_threshold(absent, present, delta=0.0, alpha=0.5)
        best = brute_force(absent, present, 0.0, 0.5)
        assert bound(rule.counts(absent, present), 0.0, 0.05) == pytest.approx(best, abs=1e-12)


# One half chooses, the other certifies.


@pytest.mark.cases("row", ROWS)
def test_held_out_certifies_the_second_half(row: dict[str, Any]) -> None:
    """Halves with equal counts: the reference bound, or more by the split that they suggest."""
    delta, alpha = row["delta"], row["alpha"]
    n = row["TP"] + row["FN"]
    absent, present = coin(row["FP"] / n, 2 * n), coin(row["TP"] / n, 2 * n)
    for swapped in (False, True):
        estimate, rule = held_out_epsilon(
            *((present, absent) if swapped else (absent, present)), delta=delta, alpha=alpha
        )
        assert (estimate.n, estimate.kind, estimate.upper) == (2 * n, "frequentist", math.inf)
        assert (estimate.alpha, estimate.confidence) == (alpha, 1 - alpha)
        counts = rule.counts(*((present, absent) if swapped else (absent, present)))
        halves = Counts(*(count // 2 for count in (counts.tp, counts.fp, counts.fn, counts.tn)))
        split = best_split(
            (halves.tp + 0.5) / (n + 1),
            (halves.fp + 0.5) / (n + 1),
            n,
            n,
            delta=delta,
            alpha=alpha,
        )
        assert estimate.lower == pytest.approx(bound(halves, delta, alpha, split), abs=1e-12)
        # Near the split that is best for the rounded-off rates, so never much below an even one.
        if row["TP"] >= row["FP"]:
            assert estimate.lower >= row["eps_lower"] - 1e-3


def test_the_second_half_decides() -> None:
    """Scores that differ in the first half alone certify nothing."""
    n = 400
    first = np.repeat((1.0, 0.0), n)
    estimate, rule = held_out_epsilon(np.zeros(2 * n), first)
    assert (estimate.lower, rule) == (0, ThresholdRule(1.0))
    # Where the second half speaks for the opposite event, the first half's choice still stands.
    reversed_, rule = held_out_epsilon(1 - first, first)
    assert (reversed_.lower, reversed_.value, rule) == (0, 0, ThresholdRule(1.0))
    # Both halves differ.
    estimate, _ = held_out_epsilon(np.zeros(2 * n), np.ones(2 * n))
    assert estimate.lower >= bound(Counts(n, 0, 0, n), 0.0, 0.05)
    assert (estimate.value, estimate.confidence, estimate.alpha) == (math.inf, 0.95, 0.05)


def test_sizes_may_differ() -> None:
    estimate, _ = held_out_epsilon(np.zeros(41), np.ones(100), alpha=0.1)
    assert estimate.n == 21 + 50
    estimate, _ = held_out_epsilon(np.zeros(2), np.ones(2))
    assert (estimate.n, estimate.lower) == (2, 0)


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
    naive, _ = held_out_epsilon(scores[0], scores[1])
    assert naive.lower > 2
    attack = LikelihoodRatio()
    gridded = [attack.score(release, knowledge) for release in (absent, present)]
    sound, _ = held_out_epsilon(gridded[0], gridded[1], alpha=1e-6)
    assert 0.8 < sound.lower <= 1


@pytest.mark.long
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
        estimate, _ = held_out_epsilon(scores[0], scores[1], alpha=alpha)
        false += estimate.lower > 1
        weaker += estimate.lower > 0.7
    assert false <= limit
    assert weaker > limit  # a claim that is too small by 0.3 would be caught


# Trap 2: the winner's curse.


GRID = [float(value) for value in range(16)]


def any_above_zero(absent: Scores, present: Scores, alpha: float) -> bool:
    """Whether one of all thresholds certifies a violation at the level of one bound."""
    return any(
        bound(ThresholdRule(value, above).counts(absent, present), 0.0, alpha) > 0
        for value in GRID
        for above in (True, False)
    )


@pytest.mark.long
def test_trap_threshold_chosen_where_it_certifies() -> None:
    """On two equal laws any certified ε > 0 is false."""
    # α = 0.2, 400 runs of 16 distinct scores; false claims of the held-out bound are at most
    # Binomial(400, α), rate 1e-6. The same limit catches the bound at the sample's best threshold.
    runs, n, alpha = 400, 200, 0.2
    limit = stats.binom.isf(1e-6, runs, alpha)
    rng = np.random.default_rng(5)
    held_out = cursed = 0
    for _ in range(runs):
        absent, present = (np.floor(16 * rng.random(2 * n)) for _ in range(2))
        estimate, _ = held_out_epsilon(absent, present, alpha=alpha)
        held_out += estimate.lower > 0
        cursed += any_above_zero(absent, present, alpha)
    assert held_out <= limit
    assert cursed > limit


# Bad input.


@pytest.mark.cases(
    ("absent", "present", "options", "message"),
    [
        ([0.0, math.nan], [1.0, 1.0], {}, r"absent\[1\] = nan"),
        ([0.0, 0.0], [1.0, 2.0, math.inf], {}, r"present\[2\] = inf"),
        ([], [1.0, 1.0], {}, "absent are empty"),
        ([0.0, 0.0], [], {}, "present are empty"),
        ([[0.0, 1.0]], [1.0, 1.0], {}, "absent have shape"),
        ([0.0, 0.0], [1.0, 1.0], {"delta": 1.0}, "delta = 1.0"),
        ([0.0, 0.0], [1.0, 1.0], {"delta": -1e-9}, "delta = -1e-09"),
        ([0.0, 0.0], [1.0, 1.0], {"delta": math.nan}, "delta = nan"),
        ([0.0, 0.0], [1.0, 1.0], {"alpha": 0.0}, "alpha = 0.0"),
        ([0.0, 0.0], [1.0, 1.0], {"alpha": 1.0}, "alpha = 1.0"),
    ],
)
def test_bad_input(
    absent: list[float], present: list[float], options: dict[str, float], message: str
) -> None:
    first, second, extra = np.array(absent), np.array(present), dict[str, Any](options)
    with pytest.raises(InputError, match=message):
        held_out_epsilon(first, second, **extra)
    with pytest.raises(InputError, match=message):
        choose_threshold(first, second, **extra)


def test_too_few_scores() -> None:
    with pytest.raises(InputError, match="absent has 1 scores: give at least 2"):
        held_out_epsilon(np.zeros(1), np.zeros(5))
    with pytest.raises(InputError, match="present has 1 scores: give at least 2"):
        held_out_epsilon(np.zeros(5), np.zeros(1))
