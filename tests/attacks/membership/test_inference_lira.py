"""The likelihood-ratio attack against scipy's normal densities, target by target."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dpaudit.attacks.base import Signals
from dpaudit.attacks.membership.inference import Lira

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
T, R, M, F = 5, 20, 7, 2


def signals(seed: int = 0) -> tuple[Signals, Signals, Mask]:
    rng = np.random.default_rng(seed)
    present = rng.random((R, M)) < 0.5
    parts = [
        Signals(features, features.sum(2), np.zeros((len(features), 0)))
        for features in (
            rng.normal(size=(T, M, F)) * 2,
            rng.normal(size=(R, M, F)) * rng.uniform(1, 3, (M, F)) + present[:, :, None],
        )
    ]
    return parts[0], parts[1], present


def pooled(features: Numbers, which: Mask) -> Numbers:
    """Each feature's variance within targets, with one degree of freedom less for each."""
    squares, free = np.zeros(features.shape[2]), 0
    for target in range(M):
        x = features[which[:, target], target]
        squares += ((x - x.mean(0)) ** 2).sum(0)
        free += len(x) - 1
    variances: Numbers = squares / free
    return variances


def test_online_is_the_log_ratio_of_normal_densities_with_shared_variances() -> None:
    seen, reference, present = signals()
    scores = Lira().score(seen, reference, present)
    spread = {flag: np.sqrt(pooled(reference.features, present == flag)) for flag in (True, False)}
    for t in range(T):
        for target in range(M):
            logs = {}
            for flag in (True, False):
                x = reference.features[present[:, target] == flag, target]
                logs[flag] = norm.logpdf(seen.features[t, target], x.mean(0), spread[flag]).sum()
            assert scores[t, target] == pytest.approx(logs[True] - logs[False])


def test_own_variances_lean_on_the_shared_one_as_one_more_observation() -> None:
    seen, reference, present = signals(1)
    scores = Lira(own_variance=True).score(seen, reference, present)
    for target in range(M):
        logs = {}
        for flag in (True, False):
            x = reference.features[present[:, target] == flag, target]
            shared = pooled(reference.features, present == flag)
            variance = (((x - x.mean(0)) ** 2).sum(0) + shared) / len(x)
            logs[flag] = norm.logpdf(seen.features[:, target], x.mean(0), variance**0.5).sum(1)
        assert scores[:, target] == pytest.approx(logs[True] - logs[False])


def test_offline_is_the_log_of_a_p_value_and_uses_no_model_with_the_target() -> None:
    seen, reference, present = signals(2)
    scores = Lira(online=False).score(seen, reference, present)
    spread = np.sqrt(pooled(reference.fit[:, :, None], ~present))[0]
    for target in range(M):
        mean = reference.fit[~present[:, target], target].mean()
        assert scores[:, target] == pytest.approx(norm.logcdf(seen.fit[:, target], mean, spread))
    other = reference.fit + 100 * present
    moved = Signals(reference.features, other, reference.population)
    # Only the least standard deviation, far below, depends on the models with the target.
    np.testing.assert_allclose(Lira(online=False).score(seen, moved, present), scores)


def test_the_score_is_larger_where_presence_is_likelier() -> None:
    rng = np.random.default_rng(3)
    present, coins = (rng.random((200, M)) < 0.5 for _ in range(2))
    for individual in (False, True):
        for online in (False, True):
            results = []
            for labels in (coins, present):
                x = rng.normal(size=(200, M, 1)) + 2 * labels[:, :, None]
                results.append(Signals(x, x[:, :, 0], np.zeros((200, 0))))
            score = Lira(online=online, own_variance=individual).score(
                results[0], results[1], present
            )
            assert score[coins].mean() > score[~coins].mean() + 0.5


@pytest.mark.cases("online", [False, True])
@pytest.mark.cases("every", [False, True])
def test_targets_that_all_or_no_trainings_have_get_finite_scores(online: bool, every: bool) -> None:
    seen, reference, present = signals(4)
    present[:, 0] = every
    for individual in (False, True):
        scores = Lira(online=online, own_variance=individual).score(seen, reference, present)
        assert np.isfinite(scores).all()
    nothing = Lira(online=online).score(seen, reference, np.full_like(present, every))
    assert np.isfinite(nothing).all()


@pytest.mark.cases("value", [0.0, 0.1, 1 / 3, 1e20])
def test_a_constant_feature_says_nothing(value: float) -> None:
    seen, reference, present = signals(5)

    def added(of: Signals) -> Signals:
        column = np.full((*of.fit.shape, 1), value)
        return Signals(np.concatenate((of.features, column), axis=2), of.fit, of.population)

    scores = Lira().score(added(seen), added(reference), present)
    np.testing.assert_allclose(scores, Lira().score(seen, reference, present), atol=1e-6)


@pytest.mark.cases("online", [False, True])
@pytest.mark.cases("individual", [False, True])
@pytest.mark.cases("before", [0.0, 5.0])
@pytest.mark.cases("then", [3e38, -3e38, 1e-30])
def test_a_feature_that_changes_for_the_first_time_gives_finite_scores(
    online: bool, individual: bool, before: float, then: float
) -> None:
    seen, reference, present = signals(6)
    for signal in reference[:3]:
        signal[:] = before
    seen.features[:], seen.fit[:] = before, before
    seen.features[2, 3], seen.fit[2, 3] = then, then
    scores = Lira(online=online, own_variance=individual).score(seen, reference, present)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("online", [False, True])
def test_units_and_offsets_of_features_change_nothing(online: bool) -> None:
    seen, reference, present = signals(7)
    moved = [
        Signals(of.features * 1e20 + 3e19, of.fit * 1e20 + 3e19, of.population * 1e20 + 3e19)
        for of in (seen, reference)
    ]
    scores = Lira(online=online).score(moved[0], moved[1], present)
    np.testing.assert_allclose(
        scores, Lira(online=online).score(seen, reference, present), rtol=1e-6, atol=1e-9
    )
