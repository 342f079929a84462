"""Scores of attacks, checked against scikit-learn, statsmodels, and users as the sample."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from sklearn.metrics import roc_auc_score
from statsmodels.stats.multitest import multipletests

from dpaudit.audits.federated.transcripts import (
    CORRECTIONS,
    LEVEL,
    MULTIPLE,
    QUARTERS,
    RATES,
    Checkpoint,
    Finding,
    Seen,
    Truth,
    averaged,
    benjamini_hochberg,
    gated_areas,
    holm,
)
from dpaudit.bounds.frequentist.means import betting_mean
from dpaudit.bounds.frequentist.roc import calls, clustered_auc
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import UserItemPairs, Verdicts
from dpaudit.core.streams import generator
from dpaudit.defenses.federated.fake_gradients import Distances

Exact = NDArray[np.float64]
Rows = NDArray[np.int64]
Key = tuple[str, Any, Any, Any]


def truth_of(seed: int, users: int = 60, items: int = 40, rated: int = 10) -> Truth:
    """Every user has some pairs, about half of them real; some items have many raters."""
    source = np.random.default_rng(seed)
    popular = 1 / (1.0 + np.arange(items))
    mine = [
        np.sort(source.choice(items, rated, replace=False, p=popular / popular.sum()))
        for _ in range(users)
    ]
    pairs = UserItemPairs(
        users=np.repeat(np.arange(users), rated).astype(np.int32),
        items=np.concatenate(mine).astype(np.int32),
        dimensions=2,
        sigma=1.0,
        level=None,
        shares=np.full(items, 0.5),
        candidates=np.full(items, users),
    )
    return Truth(pairs, source.random(len(pairs)) < 0.5, 0.95)


def checkpoint(
    truth: Truth,
    scores: Exact,
    p_values: Exact | None = None,
    rows: Rows | None = None,
    **changes: Any,
) -> Checkpoint:
    rows = np.arange(len(truth.pairs)) if rows is None else rows
    given: dict[str, Any] = {
        "step": 7,
        "seen": {"one": Seen(rows, Verdicts(scores, p_values))},
        "divergence": np.zeros(len(truth.pairs)),
        "parts": None,
    }
    return Checkpoint(**(given | changes))


def found_in(truth: Truth, given: Checkpoint, last: bool = False) -> dict[Key, Finding]:
    findings = list(truth.findings(given, last=last))
    named: dict[Key, Finding] = {
        (finding.metric, finding.attack, finding.detail, finding.at): finding
        for finding in findings
    }
    assert len(named) == len(findings)
    assert len({finding.key for finding in findings}) == len(findings)
    assert all(finding.step == given.step for finding in findings)
    return named


# What is found in one training.


@pytest.mark.cases("digits", [0, 1, 9])
def test_areas_are_those_of_scikit_learn_ties_or_not(digits: int) -> None:
    truth, source = truth_of(0), np.random.default_rng(1)
    scores = np.array(source.normal(size=len(truth.pairs)) + 0.8 * truth.real)
    scores = scores.round(digits)
    for rows in (np.arange(len(truth.pairs)), np.flatnonzero(source.random(len(scores)) < 0.3)):
        findings = found_in(truth, checkpoint(truth, scores[rows], rows=rows))
        area = findings["transcript.auc", "one", None, None].estimate
        assert area.value == pytest.approx(roc_auc_score(truth.real[rows], scores[rows]), rel=1e-12)
        assert area.lower < area.value < area.upper
        assert area.kind == "assumes-law"
        assert area.alpha == pytest.approx(0.05)
        assert area.n == len(set(truth.pairs.users[rows].tolist()))
        # The labels of other pairs would be noticed.
        wrong = float(roc_auc_score(truth.real[: len(rows)], scores[rows]))
        assert len(rows) == len(scores) or area.value != pytest.approx(wrong, rel=1e-3)


def test_rates_are_counted_on_users_who_did_not_choose_the_threshold() -> None:
    truth, source = truth_of(2, users=300), np.random.default_rng(3)
    scores = source.normal(size=len(truth.pairs)) + 2.0 * truth.real
    findings = found_in(truth, checkpoint(truth, scores))
    order = generator(truth.seed, "transcript halves").permutation(300)
    even, real = order[truth.pairs.users] % 2 == 0, truth.real
    fakes = scores[even & ~real]
    # With some 750 fakes 1 % is between the 7th and the 8th; a rate of 0.001 needs at least 999.
    expected = calls(scores[~even & real], fakes, 0.01).mean()
    assert findings["transcript.tpr", "one", None, 0.01].estimate.value == pytest.approx(expected)
    assert len(fakes) < 999
    assert ("transcript.tpr", "one", None, 0.001) not in findings
    many = truth_of(2, users=700)
    again = found_in(many, checkpoint(many, source.normal(size=len(many.pairs))))
    assert {key[3] for key in again if key[0] == "transcript.tpr"} == set(RATES)


def test_where_too_few_are_observed_there_are_no_rates() -> None:
    truth, source = truth_of(4, users=12), np.random.default_rng(5)
    findings = found_in(truth, checkpoint(truth, source.normal(size=len(truth.pairs))))
    assert not [key for key in findings if key[0] == "transcript.tpr"]
    assert ("transcript.auc", "one", None, None) in findings


CASES: dict[str, Callable[[np.random.Generator], Exact]] = {
    "uniform": lambda source: source.random(500),
    "small": lambda source: source.random(500) ** 6,
    "ties": lambda source: np.round(source.random(400) ** 4, 2) + 1e-4,
    "zeros": lambda source: np.where(source.random(60) < 0.3, 0.0, source.random(60)),
    "ones": lambda source: np.ones(30),
    "one": lambda source: np.array([0.04]),
    "one too large": lambda source: np.array([0.06]),
    "at the level": lambda source: np.full(4, 0.05 / 4),
    "all at the level": lambda source: np.full(7, 0.05),
    "a step down": lambda source: np.array([0.0124, 0.0167, 0.026, 0.01]),
}


@pytest.mark.cases("name", CASES)
def test_corrections_are_those_of_statsmodels(name: str) -> None:
    p_values = CASES[name](np.random.default_rng(6))
    for correct, method in ((benjamini_hochberg, "fdr_bh"), (holm, "holm")):
        before = p_values.copy()
        expected = multipletests(p_values, MULTIPLE, method=method)[0]
        np.testing.assert_array_equal(correct(p_values), expected)
        np.testing.assert_array_equal(p_values, before)
    # Every pair found by Holm is also found by Benjamini-Hochberg.
    assert (holm(p_values) <= benjamini_hochberg(p_values)).all()
    if name == "small":
        counts = [int(f(p_values).sum()) for f in (holm, benjamini_hochberg)]
        assert 0 < counts[0] < (p_values <= 0.05).sum()
        assert counts[0] < counts[1]


def test_holm_finds_a_fake_in_one_family_of_twenty_at_most() -> None:
    # Rate 1e-6; without a correction nearly all families have a false discovery.
    source, runs = np.random.default_rng(7), 3000
    families = source.random((runs, 40))
    wrong = sum(bool(holm(p_values).any()) for p_values in families)
    assert stats.binom.ppf(1e-6, runs, 0.045) <= wrong <= stats.binom.isf(1e-6, runs, MULTIPLE)
    assert (families.min(1) <= MULTIPLE).mean() > 0.8


def test_tests_are_counted_alone_and_together() -> None:
    truth, source = truth_of(8), np.random.default_rng(9)
    n, real = len(truth.pairs), truth.real
    p_values = np.where(real, source.random(n) ** 8, source.random(n))
    rows = np.flatnonzero(source.random(n) < 0.8)
    given = checkpoint(truth, -np.log(p_values[rows]), p_values[rows], rows)
    findings = found_in(truth, given)
    mine, shown = real[rows], p_values[rows]
    for name, these in (("real", mine), ("fake", ~mine)):
        share = findings["transcript.power", "one", name, LEVEL].estimate
        assert share.value == pytest.approx((shown[these] <= LEVEL).mean())
        assert 0 <= share.lower < share.value < share.upper <= 1
    for name, method in (("Benjamini-Hochberg", "fdr_bh"), ("Holm", "holm")):
        called = multipletests(shown, MULTIPLE, method=method)[0]
        exposed = findings["transcript.exposed", "one", name, MULTIPLE].estimate
        false = findings["transcript.false", "one", name, MULTIPLE].estimate
        assert exposed.value == pytest.approx(called[mine].mean())
        assert false.value == pytest.approx((~mine[called]).mean())
        assert (exposed.n, false.n) == tuple(
            len(set(truth.pairs.users[rows][of].tolist())) for of in (mine, called)
        )
    assert set(CORRECTIONS) == {"Benjamini-Hochberg", "Holm"}
    assert findings["transcript.exposed", "one", "Holm", MULTIPLE].estimate.value > 0.05


def test_attackers_without_p_values_are_scored_alone() -> None:
    truth = truth_of(8)
    scores = np.random.default_rng(0).normal(size=len(truth.pairs))
    metrics = {key[0] for key in found_in(truth, checkpoint(truth, scores, None))}
    assert metrics == {"transcript.kl", "transcript.auc", "transcript.tpr"}


def test_of_what_one_user_or_nobody_is_found_by_there_is_no_false_share() -> None:
    truth = truth_of(10)
    scores, p_values = np.zeros(len(truth.pairs)), np.ones(len(truth.pairs))
    for found_of in ([], [0], [0, 1]):  # the first two pairs are one user's
        p_values[found_of] = 0.0
        findings = found_in(truth, checkpoint(truth, scores, p_values))
        assert not [key for key in findings if key[0] == "transcript.false"]
        share = findings["transcript.exposed", "one", "Holm", MULTIPLE].estimate
        expected = truth.real[found_of].sum() / truth.real.sum()
        assert share.value == pytest.approx(expected)
    p_values[-1] = 0.0
    findings = found_in(truth, checkpoint(truth, scores, p_values))
    wrong = (~truth.real[[0, 1, -1]]).mean()
    assert findings["transcript.false", "one", "Holm", MULTIPLE].estimate.value == pytest.approx(
        wrong
    )


# By popularity.


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_quarters_part_the_pairs_by_how_often_their_item_is_rated(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    truth, source = truth_of(11, users=80, items=60), np.random.default_rng(12)
    rows = np.flatnonzero(source.random(len(truth.pairs)) < share)
    # Each score identifies its pair.
    scores = source.permutation(len(truth.pairs)).astype(float)
    seen: list[Exact] = []

    def noted(scores: Exact, *arguments: Any, **named: Any) -> Estimate:
        seen.append(scores.copy())
        return clustered_auc(scores, *arguments, **named)

    monkeypatch.setattr("dpaudit.audits.federated.transcripts.clustered_auc", noted)
    findings = found_in(truth, checkpoint(truth, scores[rows], rows=rows), last=True)
    whole, *quarters = seen
    assert len(whole) == len(rows)
    np.testing.assert_array_equal(np.sort(np.concatenate(quarters)), np.sort(scores[rows]))
    real_raters = [
        int((truth.pairs.items[truth.real] == item).sum()) for item in truth.pairs.items.tolist()
    ]
    np.testing.assert_array_equal(truth.raters, real_raters)
    pair_of = {float(score): pair for pair, score in enumerate(scores.tolist())}
    ends, counts = [], []
    for name, these in zip(QUARTERS, quarters, strict=True):
        mine = np.array([pair_of[score] for score in these.tolist()])
        ends.append((truth.raters[mine].min(), truth.raters[mine].max()))
        counts.append(truth.real[mine].sum() / truth.real[rows].sum())
        one = findings["transcript.auc", "one", name, None].estimate
        assert one.value == pytest.approx(roc_auc_score(truth.real[mine], these), rel=1e-12)
    # No item is in two groups; each has about a quarter of the real pairs, up to large items.
    assert all(before[1] < after[0] for before, after in pairwise(ends))
    assert all(0.1 < count < 0.4 for count in counts)
    monkeypatch.undo()
    names = {key[2] for key in found_in(truth, checkpoint(truth, scores[rows], rows=rows))}
    assert not names & set(QUARTERS)


def test_quarters_that_too_few_users_have_are_left_out() -> None:
    # Only one item is rated, so the other groups have no real pair.
    users = 10
    pairs = UserItemPairs(
        np.repeat(np.arange(users), 3).astype(np.int32),
        np.tile(np.arange(3), users).astype(np.int32),
        2,
        1.0,
        None,
        np.full(3, 0.5),
        np.full(3, users),
    )
    truth = Truth(pairs, (pairs.items == 2) & (pairs.users > 2), 0.95)
    scores = np.random.default_rng(0).random(len(pairs))
    findings = found_in(truth, checkpoint(truth, scores), last=True)
    # The first group, up to the one rated item, holds all pairs.
    quarters = {key[2]: finding for key, finding in findings.items() if key[2] in QUARTERS}
    assert list(quarters) == [QUARTERS[0]]
    whole = findings["transcript.auc", "one", None, None].estimate
    assert quarters[QUARTERS[0]].estimate == whole


# Divergences.


def test_the_divergence_is_a_mean_over_real_pairs_with_users_as_the_sample() -> None:
    # With one pair per user this is Student's interval. Fakes do not count.
    source, users = np.random.default_rng(13), 40
    pairs = UserItemPairs(
        np.arange(users, dtype=np.int32),
        np.zeros(users, np.int32),
        2,
        1.0,
        None,
        np.ones(1),
        np.full(1, users),
    )
    real = np.arange(users) % 4 > 0
    truth = Truth(pairs, real, 0.9)
    divergence = source.gamma(2.0, size=users)
    parts = Distances(0.5, 0.25, 0.125, 0.0625)
    given = Checkpoint(3, {}, divergence, parts)
    findings = found_in(truth, given)
    whole = findings["transcript.kl", None, "whole", None].estimate
    mine = divergence[real].astype(np.float64)
    low, high = stats.t.interval(0.9, len(mine) - 1, mine.mean(), stats.sem(mine))
    assert (whole.value, whole.lower, whole.upper) == pytest.approx((mine.mean(), low, high))
    assert (whole.n, whole.kind) == (30, "assumes-law")
    for name, value in (("scatter", 0.5), ("apart", 0.25), ("delay", 0.125), ("estimate", 0.0625)):
        part = findings["transcript.kl", None, name, None].estimate
        assert (part.value, part.lower, part.upper, part.kind) == (value, value, value, "exact")
    assert len(findings) == 5
    assert set(found_in(truth, Checkpoint(3, {}, divergence, None))) == {
        ("transcript.kl", None, "whole", None)
    }


def test_pairs_of_one_user_are_no_sample_of_their_own() -> None:
    truth = truth_of(14, users=20, rated=20)
    # All of a user's pairs have the same divergence.
    values = np.random.default_rng(15).random(20)
    given = Checkpoint(3, {}, values[truth.pairs.users], None)
    whole = found_in(truth, given)["transcript.kl", None, "whole", None].estimate
    counts = np.bincount(truth.pairs.users[truth.real], minlength=20)
    mean = (counts * values).sum() / counts.sum()
    error = math.sqrt(20 / 19 * ((counts * (values - mean)) ** 2).sum()) / counts.sum()
    assert whole.value == pytest.approx(mean, rel=1e-6)
    half = stats.t.isf(0.025, 19) * error
    assert whole.upper - whole.value == pytest.approx(half, rel=1e-4)
    # With pairs as the sample the standard error would be less than half as large.
    alone = stats.sem(given.divergence[truth.real])
    assert error > 2 * alone


# Coverage when a user's scores are correlated.


@pytest.mark.long
def test_areas_of_scores_that_say_nothing_hold_one_half() -> None:
    # All of a user's scores share a part. Rate 1e-6 where 6 % of such intervals miss.
    runs, source = 250, np.random.default_rng(16)
    misses = {0.0: 0, 0.6: 0}
    for run in range(runs):
        truth = truth_of(run, users=60, rated=6)
        users = source.normal(size=60)[truth.pairs.users]
        scores = users + source.normal(size=len(truth.pairs))
        for leak in misses:
            given = checkpoint(truth, scores + leak * truth.real)
            area = found_in(truth, given)["transcript.auc", "one", None, None].estimate
            misses[leak] += not area.lower <= 0.5 <= area.upper
    assert misses[0.0] <= stats.binom.isf(1e-6, runs, 0.06) < misses[0.6]


def test_uniform_p_values_have_the_level_of_each_test() -> None:
    truth, source = truth_of(17, users=2000), np.random.default_rng(18)
    p_values = source.random(len(truth.pairs))
    findings = found_in(truth, checkpoint(truth, -p_values, p_values))
    for name, of in (("real", truth.real), ("fake", ~truth.real)):
        share, n = findings["transcript.power", "one", name, LEVEL].estimate, int(of.sum())
        hits = round(share.value * n)
        # Rate 1e-6 for each.
        low, high = (law(5e-7, n, LEVEL) for law in (stats.binom.ppf, stats.binom.isf))
        assert low <= hits <= high < stats.binom.ppf(5e-7, n, 3 * LEVEL)
        assert share.upper - share.lower < 0.01
    # Of 20 000 each has a chance of about 0.05/20 000: four or more at 1e-6.
    exposed = findings["transcript.exposed", "one", "Holm", MULTIPLE].estimate
    assert exposed.value * truth.real.sum() < 3.5


# Several trainings.


def one(value: float, metric: str = "transcript.auc", **changes: Any) -> Finding:
    given: dict[str, Any] = {"step": 4, "attack": "one", "detail": None, "at": None}
    given |= changes
    estimate = Estimate(
        value=value, lower=value - 0.1, upper=value + 0.2, confidence=0.95, alpha=0.05, n=31,
        method="clustered auc", kind="assumes-law",
    )  # fmt: skip
    return Finding(metric, given["step"], estimate, given["attack"], given["detail"], given["at"])


def test_means_are_over_the_trainings_that_have_a_number() -> None:
    trials = [
        [one(0.5), one(0.9, attack="two"), one(0.2, "transcript.tpr", at=0.01)],
        [one(0.7), one(0.4, "transcript.tpr", at=0.001), one(0.1, detail=QUARTERS[1])],
        [one(0.9), one(0.3, step=8), one(0.6, "transcript.tpr", at=0.01)],
    ]
    findings = {finding.key: finding for finding in averaged(chain(*trials))}
    assert len(findings) == 6
    for key, value, times in (
        (("transcript.auc", 4, "one", None, None), 0.7, 3),
        (("transcript.auc", 4, "two", None, None), 0.9, 1),
        (("transcript.auc", 8, "one", None, None), 0.3, 1),
        (("transcript.auc", 4, "one", QUARTERS[1], None), 0.1, 1),
        (("transcript.tpr", 4, "one", None, 0.01), 0.4, 2),
        (("transcript.tpr", 4, "one", None, 0.001), 0.4, 1),
    ):
        estimate = findings[key].estimate
        limits = (estimate.value, estimate.lower, estimate.upper)
        assert limits == pytest.approx((value, value - 0.1, value + 0.2))
        assert (estimate.n, estimate.kind, estimate.alpha) == (31, "assumes-law", 0.05)
        assert (f"mean of {times} trainings" in estimate.method) is (times > 1)
    assert averaged(trials[0]) == trials[0]
    assert averaged([]) == []


def test_gates_are_about_the_area_after_the_last_round_alone() -> None:
    areas = [0.61, 0.58, 0.7, 0.66, 0.9, 0.55]
    others = [one(0.1, step=3), one(0.1, detail=QUARTERS[0]), one(0.1, "transcript.tpr", at=0.01)]
    trials = [[*others, one(area), one(1 - area, attack="two")] for area in areas]
    findings = {finding.attack: finding for finding in gated_areas(chain(*trials), 4, 0.01, 0.9)}
    assert set(findings) == {"one", "two"}
    for label, values in (("one", areas), ("two", [1 - area for area in areas])):
        finding = findings[label]
        assert (finding.metric, finding.step, finding.detail, finding.at) == (
            "attack.auc",
            4,
            None,
            None,
        )
        assert finding.estimate == betting_mean(values, 0.01, 0.9)
        assert finding.estimate.value == pytest.approx(np.mean(values))
        assert (finding.estimate.kind, finding.estimate.n) == ("frequentist", 6)
        assert (finding.estimate.alpha, finding.estimate.confidence) == (0.01, 0.9)
    assert list(gated_areas(chain(*trials), 5, 0.01, 0.9)) == []
    assert list(gated_areas([], 4, 0.01, 0.9)) == []


def test_one_training_bounds_nothing_worth_gating() -> None:
    [finding] = gated_areas([one(0.99)], 4, 0.05, 0.95)
    assert finding.estimate.lower < 0.5
    assert finding.estimate.upper == 1


@pytest.mark.long
def test_the_expected_area_is_covered_by_its_interval() -> None:
    # The law of areas is skewed, its mean 1/3. Rate 1e-6.
    source, runs = np.random.default_rng(19), 300
    missed = {0.0: 0, 0.1: 0}
    for _ in range(runs):
        areas = source.beta(0.5, 1.0, 60)
        [finding] = gated_areas([one(area) for area in areas.tolist()], 4, 0.1, 0.9)
        for off in missed:
            missed[off] += not finding.estimate.lower <= 1 / 3 + off <= finding.estimate.upper
    assert missed[0.0] <= stats.binom.isf(1e-6, runs, 0.1) < missed[0.1]


def test_the_curve_is_what_is_found_above_the_fakes() -> None:
    source, users = np.random.default_rng(17), 20
    count = 40 * users
    pairs = UserItemPairs(
        np.arange(count, dtype=np.int32) % users,
        np.zeros(count, np.int32),
        2,
        1.0,
        None,
        np.ones(1),
        np.full(1, users),
    )
    real = np.arange(count) % 3 == 0
    scores = np.round(source.normal(real * 1.0, 1), 1)  # with ties
    seen = Seen(np.arange(count), Verdicts(scores, None))
    findings = list(
        Truth(pairs, real, 0.95).findings(
            Checkpoint(3, {"a": seen}, np.ones(count), None), last=True
        )
    )
    points = {
        finding.at: finding.estimate.value
        for finding in findings
        if finding.metric == "transcript.roc"
    }
    assert points[1.0] == 1
    for rate, share in points.items():
        assert rate is not None
        # Within a tie it lies on the line between the vertices of the ROC curve.
        bars = np.append(np.unique(scores)[::-1], -np.inf)
        false, true = ([(scores[of] > bar).mean() for bar in bars] for of in (~real, real))
        within = np.interp(int(rate * (~real).sum()) / (~real).sum(), false, true)
        assert share == pytest.approx(within)
    rates = sorted(rate for rate in points if rate is not None)
    assert [points[rate] for rate in rates] == sorted(points[rate] for rate in rates)
    assert min(rates) > 1 / (~real).sum() / 2
