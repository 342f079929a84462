"""The blind baseline: at chance whatever a model does, off where coins are told without it."""

from __future__ import annotations

import numpy as np
import pytest
from membership_cases import small_ratings, small_table  # type: ignore[import-not-found]
from scipy.stats import binom, rankdata

from dpaudit.audits.membership.calibration import Trials
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.probes import (
    ALPHA,
    level_of,
    of_data,
    of_foreign_coins,
    of_lists,
    of_other_trainings,
)
from dpaudit.core.estimate import Estimate
from dpaudit.core.membership import OBSERVERS, Unit

TRAININGS, TARGETS = 12, 300


def trials(seed: int, kept: float = 0.0, leak: float = 1.0) -> Trials:
    """A model that leaks its own coins, and `kept` of those of the training before."""
    rng = np.random.default_rng(seed)
    present = rng.random((TRAININGS, TARGETS)) < 0.5
    shown = 3 * rng.normal(0, 1, TARGETS) + rng.normal(0, 1, present.shape) + leak * present
    shown[1:] += kept * present[:-1]
    return Trials(shown[:, :, None], np.zeros((TRAININGS, 0, 1)), present)


@pytest.mark.cases("trainings", [2, 3, 5])
def test_the_coins_of_another_training_are_compared_with_what_they_do_not_decide(
    trainings: int,
) -> None:
    some = trials(0).of(np.arange(trainings))
    ranks = rankdata(some.features[:, :, 0], axis=1) - (TARGETS + 1) / 2
    signs = np.where(some.present, 1.0, -1.0)
    correlations = []
    for t in range(trainings):
        for s in range(trainings):
            rest = [ranks[r] for r in range(trainings) if r not in (t, s)]
            shown = ranks[t] - np.mean(rest, axis=0) if rest else ranks[t]
            if s != t:
                correlations.append(shown @ signs[s] / np.sqrt(TARGETS * (shown @ shown)))
    baseline = of_other_trainings(some, "interaction", "scores", 0.01)
    assert baseline is not None
    most = np.abs(correlations).max() / np.sqrt(3)
    assert abs(baseline.area.value - 0.5) == pytest.approx(most)


def test_an_honest_audit_is_seldom_held_up() -> None:
    """At a level of 20 %, so that few audits show it."""
    off = 0
    for seed in range(200):
        baseline = of_other_trainings(trials(seed), "interaction", "scores", 0.2)
        off += baseline is not None and baseline.finding is not None
    assert off <= binom.isf(1e-4, 200, 0.2)


def test_a_training_that_starts_from_an_earlier_one_is_found() -> None:
    baseline = of_other_trainings(trials(1, kept=2.0), "interaction", "scores", ALPHA)
    assert baseline is not None
    assert baseline.finding is not None
    assert baseline.finding.undecided
    assert "which interactions are in training" in baseline.finding.text


def test_trainings_that_end_without_a_model_or_show_the_same_tell_nothing() -> None:
    some = trials(2)
    some.features[2:] = np.nan
    baseline = of_other_trainings(some, "user", "scores", ALPHA)
    assert baseline is not None
    assert baseline.finding is None
    some.features[1] = np.nan
    assert of_other_trainings(some, "user", "scores", ALPHA) is None
    some.features[:] = np.arange(TARGETS)[None, :, None]
    same = of_other_trainings(some, "user", "scores", ALPHA)
    assert same is not None
    assert same.area.value == 0.5


@pytest.mark.parametrize("unit", ["interaction", "user"])
def test_popularity_and_activity_tell_coins_that_depend_on_them_alone(unit: Unit) -> None:
    design = Design.of(small_ratings(), small_table(), 3)
    fair = design.present(200, unit)
    assert [b.finding for b in of_data(design, unit, fair, ALPHA)] == [None, None]
    data = design.ratings
    sizes = np.bincount(data.user, minlength=data.n_users)
    of_target = sizes[data.user[design.rows] if unit == "interaction" else design.users]
    unfair = np.random.default_rng(0).random(fair.shape) < np.where(of_target > 12, 0.6, 0.4)
    baselines = {b.name: b for b in of_data(design, unit, unfair, ALPHA)}
    finding = baselines["user activity"].finding
    assert finding is not None
    assert finding.undecided
    assert "User activity tells" in finding.text
    assert baselines["user activity"].area.lower > 0.5


def test_scores_tell_the_coins_of_other_trainings_only_by_a_fault() -> None:
    off = 0
    for seed in range(100):
        some = trials(seed)
        scores, foreign = some.features[:6, :, 0], some.present[6:]
        off += of_foreign_coins(scores, foreign, "user", "scores", 0.2).finding is not None
    assert off <= binom.isf(1e-4, 100, 0.2)
    kept = of_foreign_coins(scores + foreign, foreign, "user", "scores", ALPHA)
    assert kept.area.lower > 0.5
    assert kept.finding is not None
    assert kept.finding.undecided


def test_the_area_of_scores_that_are_the_coins_is_one() -> None:
    coins = np.arange(40) % 2 == 0
    told = of_foreign_coins(coins[None].astype(float), coins[None], "user", "scores", 0.5)
    # Equal scores have no evenly spaced ranks, distinct ones have.
    assert told.area.value == 1
    distinct = np.arange(40)[None] + 100.0 * coins
    assert of_foreign_coins(
        distinct, coins[None], "user", "scores", 0.5
    ).area.value == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("strongest", "popular", "explained"), [
    (0.99, 5.0, True), (0.99, -5.0, True), (0.7, 0.0, False), (0.99, 0.2, False)
])  # fmt: skip
def test_lists_that_are_popular_for_whom_a_model_does_not_know_explain_an_attack(
    strongest: float, popular: float, explained: bool
) -> None:
    rng = np.random.default_rng(0)
    present = rng.random((6, 100)) < 0.5
    features = rng.normal(size=(6, 100, 3))
    features[:, :, 2] -= popular * present
    some = Trials(features, np.zeros((6, 0, 3)), present)
    attack = Estimate.exact(strongest, "given")
    baseline = of_lists(some, attack, 1e-3)
    assert (baseline.finding is not None) == explained
    if baseline.finding:
        assert baseline.finding.about == "explained"
        assert not baseline.finding.undecided
        assert abs(baseline.area.value - 0.5) > 0.45
        assert (baseline.area.value > 0.5) == (popular > 0)


def test_the_baselines_of_an_audit_share_one_level() -> None:
    assert level_of(3, 2) * 3 * 2 * (2 + 2 * len(OBSERVERS)) == pytest.approx(ALPHA)
