"""Fisher's discriminant, against scikit-learn's and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from dpaudit.attacks.membership.features import direction

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]


def features(seed: int = 0, count: int = 4) -> tuple[Numbers, Mask]:
    rng = np.random.default_rng(seed)
    present = rng.random((30, 40)) < 0.5
    mixed = rng.normal(size=(count, count))
    noise = rng.normal(size=(30, 40, count)) @ mixed
    return noise + present[:, :, None] * rng.normal(size=count), present


def one_training(seed: int, count: int = 4) -> tuple[Numbers, Mask]:
    """All pairs of target and training as the targets of one training."""
    x, present = features(seed, count)
    return x.reshape(1, -1, count), present.reshape(1, -1)


def cosine(x: Numbers, y: Numbers) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


@pytest.mark.cases("seed", range(5))
def test_the_direction_of_one_training_is_that_of_scikit_learn(seed: int) -> None:
    x, present = one_training(seed)
    lda = LinearDiscriminantAnalysis().fit(x[0], present[0])
    assert cosine(direction(x, present), lda.coef_[0]) == pytest.approx(1, abs=1e-6)


@pytest.mark.cases("seed", range(5))
def test_targets_that_are_alike_are_compared_with_each_other(seed: int) -> None:
    """In few trainings that is more than each target by itself shows."""
    rng = np.random.default_rng(seed)
    change, present = rng.normal(size=4), rng.random((2, 400)) < 0.5
    x = rng.normal(size=(2, 400, 4)) + present[:, :, None] * change
    lda = LinearDiscriminantAnalysis().fit(x.reshape(-1, 4), present.reshape(-1))
    assert cosine(direction(x, present), lda.coef_[0]) > 0.999


def test_coins_that_are_the_same_in_all_trainings_tell_nothing_of_targets_that_differ() -> None:
    present = np.tile([True, False], (3, 10))
    counts = np.tile(np.arange(20.0), (3, 1))
    assert direction(counts[:, :, None], present) == pytest.approx([0.0])


@pytest.mark.cases("seed", range(20))
def test_popular_items_do_not_turn_the_sign(seed: int) -> None:
    """An interaction moves a count by 1, and items differ by hundreds: two trainings show it."""
    rng = np.random.default_rng(seed)
    present = rng.random((2, 200)) < 0.5
    counts = rng.pareto(1, 200) * 100 + present + 0.5 * rng.normal(size=(2, 200))
    assert direction(counts[:, :, None], present)[0] > 0


def test_one_feature_gives_the_gap_over_the_variance() -> None:
    x, present = one_training(1, 1)
    within, without = x[present][:, 0], x[~present][:, 0]
    away = np.concatenate((within - within.mean(), without - without.mean()))
    expected = (within.mean() - without.mean()) / away.var()
    assert direction(x, present) == pytest.approx([expected], rel=1e-5)


def test_present_targets_have_the_larger_fit_whatever_the_sign_of_the_feature() -> None:
    x, present = features(2)
    for sign in (1, -1):
        fit = (sign * x) @ direction(sign * x, present)
        assert fit[present].mean() > fit[~present].mean()


def test_units_and_offsets_of_features_change_no_order() -> None:
    x, present = features(3)
    scales, shifts = np.array([1e-30, 1e-3, 1e5, 1e30]), np.array([0.0, 1, -1e5, 0])
    moved = x * scales + shifts
    fit, other = (values @ direction(values, present) for values in (x, moved))
    assert np.corrcoef(fit.reshape(-1), other.reshape(-1))[0, 1] == pytest.approx(1, abs=1e-4)


@pytest.mark.cases("constant", [0.0, 0.1, 1e20, 1 / 3])
def test_a_constant_feature_gets_0_and_hides_no_other(constant: float) -> None:
    x, present = features(4)
    with_it = np.concatenate((x, np.full((30, 40, 1), constant)), axis=2)
    weights = direction(with_it, present)
    assert weights[4] == 0
    assert weights[:4] == pytest.approx(direction(x, present), rel=1e-9)


def test_a_feature_that_is_the_coin_decides() -> None:
    x, present = features(5)
    with_coin = np.concatenate((x, present[:, :, None].astype(float)), axis=2)
    fit = with_coin @ direction(with_coin, present)
    assert fit[present].min() > fit[~present].max()


def test_two_equal_features_share_the_weight() -> None:
    x, present = features(6, 1)
    weights = direction(np.concatenate((x, x), axis=2), present)
    assert np.isfinite(weights).all()
    assert weights[0] == pytest.approx(weights[1], rel=1e-6)


@pytest.mark.parametrize("every", [False, True])
def test_without_both_classes_there_is_no_direction(every: bool) -> None:
    x, present = features(7)
    assert direction(x, np.full_like(present, every)).tolist() == [0] * 4


@pytest.mark.cases("scale", [1e-45, 1e-38, 1e38])
def test_extreme_features_give_finite_fits(scale: float) -> None:
    x, present = features(8)
    toward = direction(x * scale, present)
    assert np.isfinite(toward).all()
    fit = (x * scale) @ toward
    assert np.isfinite(fit).all()
    assert fit[present].mean() > fit[~present].mean()
