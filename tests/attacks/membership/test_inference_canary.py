"""The canary's features and laws against plain references."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal
from sklearn.covariance import LedoitWolf

from dpaudit.attacks.membership.inference import Canary, NormalRatio
from dpaudit.core.errors import InputError
from dpaudit.core.releases import ItemFactors, Predictions, Profile, SimilarityRows, TargetUser

Exact = NDArray[np.float64]
W, M, D = 6, 9, 3
BEFORE = Profile(np.array([1, 4, 5, 8], np.int32), np.array([5, 1, 3, 2], np.float32))
AFTER = Profile(np.array([1, 4, 6, 8], np.int32), np.array([1, 1, 4, 2], np.float32))
NOBODY = Profile(np.empty(0, np.int32), np.empty(0, np.float32))


def target(before: Profile = BEFORE, after: Profile = AFTER) -> TargetUser:
    return TargetUser(0, before, after)


@pytest.mark.parametrize("ridge", [0.01, 3.0])
def test_a_factorisation_leaves_the_loss_of_the_users_ridge_fit(ridge: float) -> None:
    factors = np.random.default_rng(1).normal(size=(W, M, D + 1)).astype(np.float32)
    features = Canary(ridge=ridge).features(ItemFactors(factors, 3.2), target())
    assert features.shape == (W, 2)
    for w in range(W):
        for column, version in enumerate((BEFORE, AFTER)):
            v = factors[w, version.items].astype(float)
            x = np.column_stack([v[:, :D], np.ones(len(version))])
            y = version.values - 3.2 - v[:, D]
            # Ridge regression is least squares with a row √λ e_f to be fitted to 0.
            longer = np.vstack([x, np.sqrt(ridge) * np.eye(D + 1)])
            fitted = np.linalg.lstsq(longer, np.concatenate([y, np.zeros(D + 1)]), rcond=None)[0]
            assert features[w, column] == pytest.approx(np.mean((y - x @ fitted) ** 2), rel=1e-6)


def test_a_neighbourhood_model_predicts_each_rating_from_the_others() -> None:
    source = np.random.default_rng(2)
    knowledge = target()
    items = knowledge.items.astype(np.int32)
    rows = source.normal(size=(W, len(items), M)).astype(np.float32)
    means = source.uniform(2, 4, M).astype(np.float32)
    features = Canary().features(SimilarityRows(items, rows, means), knowledge)
    for w in range(W):
        for column, version in enumerate((BEFORE, AFTER)):
            losses = []
            for k, i in enumerate(version.items):
                others = [q for q in range(len(version)) if q != k]
                j = version.items[others]
                s = rows[w, list(items).index(i), j].astype(float)
                shown = means[i] + s @ (version.values[others] - means[j]) / abs(s).sum()
                losses.append((shown - version.values[k]) ** 2)
            assert features[w, column] == pytest.approx(np.mean(losses), rel=1e-5)


def test_a_version_that_is_not_there_has_no_loss() -> None:
    factors = np.random.default_rng(1).normal(size=(W, M, D + 1)).astype(np.float32)
    release, both = (
        ItemFactors(factors, 3.0),
        Canary().features(ItemFactors(factors, 3.0), target()),
    )
    gone = Canary().features(release, target(after=NOBODY))
    come = Canary().features(release, target(before=NOBODY))
    np.testing.assert_array_equal(gone, both[:, :1])
    np.testing.assert_array_equal(come, both[:, 1:])


def test_predictions_are_what_they_are() -> None:
    values = np.random.default_rng(3).uniform(1, 5, (W, 4)).astype(np.float32)
    shown = Predictions(np.zeros((W, 4), np.int32), values)
    np.testing.assert_array_equal(Canary().features(shown, target()), values)


@pytest.mark.cases("count", [1, 2, 5])
def test_the_score_is_the_ratio_of_two_normal_densities(count: int) -> None:
    source = np.random.default_rng(count)
    mix = source.normal(size=(2, count, count))
    absent, present = (
        source.normal(size=(400, count)) @ m + source.normal(size=count) for m in mix
    )
    ratio = Canary().fit(absent, present)
    seen = source.normal(size=(50, count)) * 2
    logs = []
    for features in (absent, present):
        law = LedoitWolf().fit(features)
        logs.append(multivariate_normal.logpdf(seen, features.mean(0), law.covariance_))
    np.testing.assert_allclose(ratio.score(seen), logs[1] - logs[0], rtol=1e-6, atol=1e-6)
    back = Canary().fit(present, absent)
    np.testing.assert_allclose(back.score(seen), -ratio.score(seen), atol=1e-9)
    assert ratio.score(present).mean() > 0 > ratio.score(absent).mean()


def test_features_that_do_not_vary_have_a_law_too() -> None:
    one, other = np.full((20, 2), 3.0), np.full((20, 2), 3.001)
    ratio = NormalRatio.fit(one, other)
    scores = ratio.score(np.stack([one[0], other[0]]))
    assert np.isfinite(scores).all()
    assert scores[0] < -1000 < 1000 < scores[1]
    np.testing.assert_array_equal(NormalRatio.fit(one, one).score(one), 0)
    # A feature that varies in only one data set.
    varied = one + np.random.default_rng(0).normal(size=one.shape)
    for scores in (
        NormalRatio.fit(one, varied).score(varied),
        NormalRatio.fit(varied, one).score(one),
    ):
        assert np.isfinite(scores).all()
        assert (abs(scores) > 5).all()


def test_features_that_cannot_be_fitted_are_refused() -> None:
    good = np.random.default_rng(0).normal(size=(20, 2))
    bad = good.copy()
    bad[3, 1] = np.nan
    with pytest.raises(InputError, match=r"present .* not finite"):
        Canary().fit(good, bad)
    with pytest.raises(InputError, match="absent has 1 trials"):
        Canary().fit(good[:1], good)


@pytest.mark.cases(("count", "size"), [(5, 2), (40, 3), (10, 1), (8, 20)])
def test_covariances_are_those_of_ledoit_and_wolf(count: int, size: int) -> None:
    rows = np.random.default_rng(size).normal(3, np.arange(1, size + 1), (count, size))
    law = NormalRatio.fit(rows, rows + 1)
    expected = LedoitWolf().fit(rows).covariance_ + 1e-12 * np.eye(size)
    np.testing.assert_allclose(law.precisions[0] @ expected, np.eye(size), atol=1e-9)
