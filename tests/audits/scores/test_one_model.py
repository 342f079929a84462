"""Scores of one trained model: rates with intervals, and whether the groups are alike."""

from __future__ import annotations

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

from dpaudit.audits.scores.observational import FeatureKind
from dpaudit.audits.scores.one_model import audit_scores
from dpaudit.bounds.frequentist.roc import rate_of
from dpaudit.core.errors import InputError


def shifted(seed: int, shift: float, n: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(shift, 1, n), rng.normal(0, 1, n + 301)


def test_the_area_is_that_of_scikit_learn() -> None:
    present, absent = shifted(0, 1)
    real = np.arange(len(present) + len(absent)) < len(present)
    expected = roc_auc_score(real, np.concatenate((present, absent)))
    assert audit_scores(present, absent).auc.value == pytest.approx(expected)


@pytest.mark.long
def test_intervals_cover_the_truth_of_normal_scores() -> None:
    law = NormalDist()
    truth = {
        "auc": law.cdf(1 / 2**0.5),
        "tpr": 1 - law.cdf(law.inv_cdf(0.99) - 1),
        "advantage": 2 * law.cdf(0.5) - 1,
    }
    missed = dict.fromkeys(truth, 0)
    for seed in range(100):
        audit = audit_scores(*shifted(seed, 1, 500), rates=(0.01,), seed=seed)
        shown = {"auc": audit.auc, "advantage": audit.advantage, "tpr": audit.tpr[0.01]}
        for name, estimate in shown.items():
            assert estimate is not None
            missed[name] += not estimate.lower <= truth[name] <= estimate.upper
    assert missed["auc"] <= 11
    # The threshold is chosen on half of the scores, so the advantage may be a little below.
    assert missed["advantage"] <= 11
    assert missed["tpr"] <= 11


def test_nothing_is_found_where_nothing_is() -> None:
    audit = audit_scores(*shifted(3, 0))
    assert audit.auc.lower < 0.5 < audit.auc.upper
    assert audit.advantage.lower < 0 < audit.advantage.upper
    assert audit.exchangeable is None
    assert not audit.doubted


def test_a_rate_that_so_few_scores_cannot_show_says_what_it_needs() -> None:
    present, absent = shifted(1, 1, 300)
    audit = audit_scores(present, absent)
    assert list(audit.tpr) == [0.001, 0.01]
    assert audit.tpr[0.001] is None
    assert audit.lacking == {0.001: "needs 1998 non-members, 601 were given"}
    assert audit_scores(present, np.arange(1998.0)).lacking == {}
    assert 0.001 in audit_scores(present, np.arange(1997.0)).lacking


def test_a_tie_at_the_top_hides_no_leak() -> None:
    """0.9 of the members and 0.012 of the others share the largest score: the rate is near 0.75."""
    present = np.where(np.arange(3000) < 2700, 10.0, np.random.default_rng(1).random(3000))
    absent = np.where(np.arange(4000) < 48, 10.0, np.random.default_rng(2).random(4000))
    audit = audit_scores(present, absent, rates=(0.01, 0.02))
    rate, other = audit.tpr[0.01], audit.tpr[0.02]
    assert rate is not None
    assert other is not None
    # 40.01 of 4001 places are called, and 49 of them are at the top.
    assert rate.value == pytest.approx(0.9 * 40.01 / 49)
    assert rate.lower < 0.75 < rate.upper
    assert other.value == pytest.approx(0.9, abs=0.01)


@pytest.mark.cases("levels", [2, 3, 40])
def test_the_rate_between_two_vertices_is_covered(levels: int) -> None:
    """The truth is on the line between the vertices of the law's ROC curve."""
    rng, missed, grid = np.random.default_rng(levels), 0, np.linspace(0, 1, levels)
    laws = [weights / weights.sum() for weights in (np.exp(2 * grid), np.exp(-2 * grid))]
    vertices = [np.concatenate(([0], np.cumsum(law[::-1]))) for law in laws]
    truth = float(np.interp(0.05, vertices[1], vertices[0]))
    for seed in range(60):
        scores = [rng.choice(levels, 150, p=law).astype(float) for law in laws]
        present = np.arange(300) < 150
        estimate = rate_of(np.concatenate(scores), present, 0.05, 0.05, seed)
        missed += not estimate.lower <= truth <= estimate.upper
    # At a rate of 1e-4 false though 5 % miss.
    assert missed <= binom.isf(1e-4, 60, 0.05)


@pytest.mark.long
@pytest.mark.parametrize(("gap", "doubted"), [(0.0, False), (0.5, True)])
def test_a_classifier_finds_groups_that_differ_by_more_than_training(
    gap: float, doubted: bool
) -> None:
    rng = np.random.default_rng(5)
    present, absent = shifted(2, 1, 800)
    features = rng.normal(gap, 1, (800, 3)), rng.normal(0, 1, (1101, 3))
    assert audit_scores(present, absent, features=features).doubted is doubted


@pytest.mark.long
def test_features_without_a_difference_are_rarely_doubted() -> None:
    doubted = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        features = rng.normal(size=(100, 3)), rng.normal(size=(100, 3))
        scores = rng.normal(size=100), rng.normal(size=100)
        doubted += audit_scores(*scores, rates=(), features=features, seed=seed).doubted
    # The lower end has the level 0.025: of 60, more than 6 have a probability of 0.1 %.
    assert doubted <= 6


@pytest.mark.long
def test_rows_that_are_members_only_together_count_once() -> None:
    """Each user has a coin and a score, and twenty rows with both."""

    def false(kinds: dict[int, FeatureKind]) -> int:
        found = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            user = np.repeat(np.arange(300), 20)
            member, score = rng.random(300)[user] < 0.5, rng.normal(0, 1, 300)[user]
            x = np.column_stack((rng.integers(0, 3, len(user)), user)).astype(float)
            if not kinds:
                x = x[:, :1]
            audit = audit_scores(
                score[member], score[~member], rates=(), features=(x[member], x[~member]),
                kinds=kinds, gamma=1.0, seed=seed,
            )  # fmt: skip
            assert audit.corrected is not None
            assert audit.corrected.epsilon is not None
            found += audit.corrected.epsilon.lower > 0
        return found

    assert false({}) >= 6
    assert false({1: "group"}) <= 3


def test_sorted_files_give_the_same_kind_of_answer() -> None:
    present, absent = shifted(4, 1)
    plain, ordered = audit_scores(present, absent), audit_scores(np.sort(present), np.sort(absent))
    assert ordered.auc.value == pytest.approx(plain.auc.value)
    assert ordered.tpr == plain.tpr


def test_wrong_input_is_refused() -> None:
    present, absent = shifted(0, 1, 10)
    with pytest.raises(InputError, match="give at least 4"):
        audit_scores(present[:3], absent)
    with pytest.raises(InputError, match="one row for each of 10"):
        audit_scores(present, absent, features=(np.zeros((9, 2)), np.zeros((311, 2))))
    with pytest.raises(InputError, match="NaN or infinity"):
        audit_scores(present, absent, features=(np.full((10, 1), np.nan), np.zeros((311, 1))))
    tables = np.zeros((10, 2)), np.zeros((311, 2))
    with pytest.raises(InputError, match="groups of members and"):
        audit_scores(present, absent, features=tables, kinds={0: "group"})


@pytest.mark.cases(
    ("arguments", "words"),
    [
        *(({"rates": (rate,)}, "rates holds") for rate in (0, 1, 2, -1, np.nan, 1e-300, "a", None)),
        ({"rates": 0.1}, "rates = 0.1 is no sequence"),
        ({"seed": -1}, "the seed -1 is negative"),
        *(({"gamma": value}, "gamma = ") for value in (0.9, 0, np.nan, np.inf, "2", True)),
        ({"features": ([[1]] * 20, [[1]] * 20), "kinds": {1: "time"}}, "kinds holds 1: 'time'"),
        ({"features": ([[1j]] * 20, [[1]] * 20)}, "features are not numbers"),
        ({"present": ["1_0"] * 20}, "present are not numbers"),
        ({"present": [1, 2, 3, "1_0"]}, "present are not numbers"),
        ({"present": [1, 2, np.nan, 3]}, r"present\[2\] = nan is not a finite number"),
    ],
)
def test_wrong_arguments_are_one_sentence(arguments: dict[str, Any], words: str) -> None:
    values = {"present": np.arange(20.0), "absent": np.arange(20.0)} | arguments
    with pytest.raises(InputError, match=words):
        audit_scores(values.pop("present"), values.pop("absent"), **values)
