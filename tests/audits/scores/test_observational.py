"""Attacks on one model, corrected for features: what features tell certifies nothing, leaks do."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from dpaudit.audits.scores.observational import (
    LEAST_PAIRS,
    Corrected,
    FeatureKind,
    Features,
    Observed,
    paired,
)

# Features and the log-odds of being a member by them.
Law = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def weekday(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.integers(0, 364, n)
    return x[:, None], np.where(x % 7 >= 5, 1.7, -1.0)


def month_day(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.integers(0, 31, n)
    return x[:, None], np.where(x < 2, 2.0, -0.5)


def two_codes(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.integers(0, 12, (n, 2))
    return x, np.random.default_rng(5).normal(0, 1.4, (12, 12))[x[:, 0], x[:, 1]]


def parity(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.integers(0, 8, (n, 2))
    return x, np.where(x.sum(1) % 2, 1.5, -1.5)


def hashed(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A hash of a category with 200 values."""
    secret = np.random.default_rng(6)
    codes, odds = secret.integers(0, 2**31, 200), secret.normal(0, 1.5, 200)
    x = rng.integers(0, 200, n)
    return codes[x][:, None], odds[x]


def linear(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(0, 1, (n, 2))
    return x, x[:, 0]


def hour(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    x = rng.uniform(0, 24 * 28, n)
    return x[:, None], 1.5 * np.sin(2 * np.pi * x / 24)


CODED = [weekday, month_day, two_codes, parity, hashed]


def audit(
    law: Law,
    seed: int,
    *,
    rows: int = 2000,
    leak: float = 0.0,
    kinds: Mapping[int, FeatureKind] | None = None,
    gamma: float | None = None,
    at_most: float | None = None,
) -> Corrected:
    """Audit scores that are the log-odds by the features, or noise and a leak."""
    rng = np.random.default_rng(seed)
    x, odds = law(rng, rows)
    member = rng.random(rows) < expit(odds)
    scores = rng.normal(leak * member, 1) if leak else odds + rng.normal(0, 0.1, rows)
    features = Features(x.astype(np.float64), kinds or {})
    return Observed(scores, member, features, seed, 0.05, gamma).corrected((0.1,), at_most)


@pytest.mark.long
@pytest.mark.cases("law", CODED)
@pytest.mark.cases("rows", [2000, 8000])
def test_codes_and_periods_without_a_leak_certify_nothing(law: Law, rows: int) -> None:
    audits = [audit(law, seed, rows=rows) for seed in range(20)]
    assert all(one.equal for one in audits)
    # At a rate of 1e-3 false though 5 % are.
    most = binom.isf(1e-3, len(audits), 0.05)
    assert sum(one.epsilon.lower > 0 for one in audits if one.epsilon) <= most
    assert sum(one.auc.lower > 0.5 for one in audits if one.auc) <= most


@pytest.mark.cases("law", CODED)
@pytest.mark.cases(("leak", "least"), [(1.0, 0.4), (2.0, 0.95)])
def test_a_leak_is_certified_in_equal_pairs(law: Law, leak: float, least: float) -> None:
    audits = [audit(law, seed, leak=leak) for seed in range(5)]
    bounds = [one.epsilon for one in audits if one.epsilon]
    assert np.median([bound.lower for bound in bounds]) > least
    assert {bound.kind for bound in bounds} == {"frequentist"}
    for one in audits:
        assert one.auc is not None
        assert one.auc.lower > 0.6
        assert one.tpr is not None
        assert (rate := one.tpr[0.1]) is not None
        assert rate.lower > 0.1


@pytest.mark.long
@pytest.mark.cases("law", [linear, hour])
def test_near_pairs_correct_nothing_unless_gamma_is_named(law: Law) -> None:
    for leak in (0.0, 2.0):
        one = audit(law, 1, leak=leak, at_most=1.0)
        assert not one.equal
        assert one.refused is not None
        assert (one.auc, one.tpr, one.epsilon, one.planted) == (None, None, None, None)


@pytest.mark.long
def test_near_pairs_say_what_explains_the_scores() -> None:
    plain, leaky = audit(linear, 2), audit(linear, 2, leak=2.0)
    assert plain.explains is None or plain.explains < 1.3
    assert leaky.explains is not None
    assert leaky.explains > 4
    named = audit(linear, 2, leak=2.0, gamma=2.0)
    assert named.epsilon is not None
    assert named.epsilon.kind == "assumes-law"
    assert named.epsilon.lower == pytest.approx(np.log(leaky.explains / 2) / 2)
    # At the factor that explains the scores, nothing is left.
    rest = audit(linear, 2, leak=2.0, gamma=leaky.explains * 1.001).epsilon
    assert rest is not None
    assert rest.lower == 0


@pytest.mark.long
def test_near_pairs_in_which_another_learner_tells_the_member_are_refused() -> None:
    for seed in range(3):
        refused = audit(hour, seed, gamma=1.1).refused
        assert refused is not None
        assert "a learner of another kind" in refused
    # A factor that covers what it tells is not refuted by it.
    assert audit(hour, 0, gamma=20.0).refused is None


def test_the_kind_of_codes_is_asked_where_no_features_are_equal() -> None:
    def law(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x = np.column_stack((rng.integers(0, 12, n), rng.normal(0, 1, n)))
        return x, np.where(x[:, 0] % 2, 1.0, -1.0)

    refused = audit(law, 0).refused
    assert refused is not None
    assert "column 0 (counted from 0) of the features holds 12 " in refused


@pytest.mark.long
def test_rounding_that_makes_equal_features_unequal_certifies_nothing() -> None:
    def law(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        x, odds = weekday(rng, n)
        return x + rng.normal(0, 1e-9, x.shape), odds

    one = audit(law, 0, leak=2.0)
    assert one.epsilon is None
    assert one.refused is not None
    assert one.refused.startswith("0 pairs ")
    assert f" {LEAST_PAIRS} are needed" in one.refused


@pytest.mark.long
def test_groups_without_overlap_are_refused_with_the_number() -> None:
    def law(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        late = rng.random(n) < 0.5
        return (rng.random(n) + 2 * late)[:, None], np.where(late, -50.0, 50.0)

    one = audit(law, 0, kinds={0: "time"}, gamma=2.0)
    assert one.refused is not None
    assert "nearly equal propensities: give members" in one.refused


def test_too_many_features_are_refused_with_the_rows_they_need() -> None:
    refused = audit(lambda rng, n: (rng.random((n, 6)), np.zeros(n)), 0, rows=200).refused
    assert refused is not None
    assert "200 rows are too few for the 46 coefficients of propensities: give 920" in refused


def test_too_few_of_a_kind_are_refused() -> None:
    refused = audit(lambda rng, n: (rng.random((n, 1)), np.full(n, -4.0)), 0).refused
    assert refused is not None
    assert f"give {LEAST_PAIRS} members and others" in refused


def test_the_same_rows_among_members_and_others_certify_nothing() -> None:
    rng = np.random.default_rng(0)
    x, scores = np.repeat(rng.integers(0, 9, 500), 2), np.repeat(rng.normal(0, 1, 500), 2)
    member = np.arange(1000) % 2 == 0
    order = rng.permutation(1000)
    observed = Observed(
        scores[order], member[order], Features(x[order, None].astype(np.float64), {}), 0, 0.05
    )
    one = observed.corrected((0.1,), at_most=1.0)
    assert one.epsilon is not None
    assert one.epsilon.lower == 0


def test_equal_scores_certify_nothing() -> None:
    member = np.arange(1000) % 2 == 0
    one = Observed(np.zeros(1000), member, Features(np.zeros((1000, 1)), {}), 0, 0.05)
    corrected = one.corrected((0.1,))
    assert corrected.epsilon is not None
    assert corrected.epsilon.lower == 0


@pytest.mark.cases("limit", [0.5, 1.0])
def test_a_planted_leak_is_found_in_equal_pairs(limit: float) -> None:
    one = audit(parity, 0, rows=8000, at_most=limit)
    assert one.planted is not None
    assert one.planted.runs == 20
    assert one.planted.certified <= 2 * limit + 0.1
    assert one.planted.found == (one.planted.hits >= 19)


def test_pairs_have_one_stratum_a_member_and_no_row_twice() -> None:
    rng = np.random.default_rng(0)
    strata, member = rng.integers(-3, 40, 500), rng.random(500) < 0.3
    pairs = paired(strata, member)
    assert len(np.unique(pairs)) == 2 * len(pairs)
    assert member[pairs[:, 0]].all()
    assert not member[pairs[:, 1]].any()
    assert (strata[pairs[:, 0]] == strata[pairs[:, 1]]).all()
    most = sum(min((member & (strata == s)).sum(), (~member & (strata == s)).sum())
               for s in np.unique(strata))  # fmt: skip
    assert len(pairs) == most
