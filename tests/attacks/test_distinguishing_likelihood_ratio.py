"""The likelihood-ratio distinguisher against the naive log-density ratio."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from dpaudit.attacks.distinguishing import LikelihoodRatio
from dpaudit.core.releases import LaplacePair, NoisedSteps, Predictions, StepsPair


def release(values: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> Predictions:
    shown = values.astype(np.float32)
    return Predictions(np.zeros(shown.shape, np.int32), shown)


@pytest.mark.cases("k", [1, 2, 5])
@pytest.mark.cases("scale", [0.05, 1.0, 20.0])
def test_score_is_the_log_density_ratio_on_its_grid(k: int, scale: float) -> None:
    rng = np.random.default_rng(k)
    absent, present = rng.normal(3, 1, k), rng.normal(3, 1, k)
    shown = release(rng.normal(3, 2, (5000, k)))
    values = shown.values.astype(np.float64)
    naive = (
        stats.laplace.logpdf(values, present, scale) - stats.laplace.logpdf(values, absent, scale)
    ).sum(1)
    attack = LikelihoodRatio()
    score = attack.score(shown, LaplacePair(absent, present, scale))
    assert abs(score - naive).max() <= attack.grid / 2 + 1e-9
    np.testing.assert_array_equal(score, np.rint(score / attack.grid) * attack.grid)
    # The order of D and D' decides the sign.
    back = attack.score(shown, LaplacePair(present, absent, scale))
    np.testing.assert_array_equal(back, -score)
    # A finer grid reduces the error, so the grid is its only source.
    fine = LikelihoodRatio(grid=2.0**-16).score(shown, LaplacePair(absent, present, scale))
    assert abs(fine - naive).max() <= 2.0**-17 + 1e-9


@pytest.mark.parametrize("sign", [1, -1])
def test_atoms_are_one_number_each(sign: int) -> None:
    rng = np.random.default_rng(0)
    absent = np.array([1.3, 2.7])
    present = absent + sign * np.array([1.0, 0.37])
    outside = rng.uniform(4, 3000, (20_000, 2))
    knowledge = LaplacePair(absent, present, 0.7)
    attack = LikelihoodRatio()
    expected = sign * (1 + 0.37) / 0.7
    for values, atom in ((outside, expected), (-outside, -expected)):
        score = attack.score(release(values), knowledge)
        assert len(np.unique(score)) == 1
        assert score[0] == pytest.approx(atom, abs=attack.grid / 2)
        # Plain single-precision distances tell these outputs apart (trap 1 of the auditor).
        single = values.astype(np.float32)
        near, far = abs(single - np.float32(absent)), abs(single - np.float32(present))
        assert len(np.unique((near - far).sum(1))) > 10


def test_without_noise_a_difference_is_certain() -> None:
    attack = LikelihoodRatio()
    pair = LaplacePair(np.array([2.0]), np.array([3.0]), 0.0)
    score = attack.score(release(np.array([[2.0], [3.0]])), pair)
    assert score.tolist() == [-np.inf, np.inf]
    same = LaplacePair(np.array([2.0]), np.array([2.0]), 0.0)
    assert attack.score(release(np.array([[2.0]])), same).tolist() == [0.0]


@pytest.mark.cases("shift", [1.0, 1e-3, 2.0**-22])
def test_without_noise_any_difference_is_certain(shift: float) -> None:
    # The last is one unit of the last place of 2 in single precision, far below the grid.
    before = np.array([2.0, 2.0, 3.0, 2.0])
    for change in ([1, 0, 0, 0], [1, -1, 0, 0], [-1, 1, 0, -1], [0, 0, 0, -1]):
        after = (before + shift * np.array(change)).astype(np.float32).astype(np.float64)
        assert (after != before).any()
        for grid in (2.0**-8, 1.0):
            score = LikelihoodRatio(grid=grid).score(
                release(np.stack([before, after])), LaplacePair(before, after, 0.0)
            )
            assert score.tolist() == [-np.inf, np.inf]
    equal = LaplacePair(before, before, 0.0)
    assert LikelihoodRatio().score(release(before[None]), equal).tolist() == [0.0]


def test_equal_predictions_score_zero() -> None:
    knowledge = LaplacePair(np.array([2.0]), np.array([2.0]), 0.5)
    score = LikelihoodRatio().score(release(np.linspace(-9, 9, 50)[:, None]), knowledge)
    assert (score == 0).all()


# Steps of a training.


def steps(
    seed: int, *, gaussian: bool = False, bound: float = np.inf, trials: int = 4000
) -> tuple[NoisedSteps, StepsPair]:
    """Four numbers per trial with different centres and scales; noised, then clamped."""
    rng = np.random.default_rng(seed)
    scale = np.array([0.3, 1.0, 2.0, 7.0])
    absent, present = rng.normal(0, 1, (2, trials, 4))
    present[:, 2] = absent[:, 2]  # of one number the trials are alike
    draws = rng.normal(0, 1, (trials, 4)) if gaussian else rng.laplace(0, 1, (trials, 4))
    shown = np.clip(absent + scale * draws, -bound, bound)
    return NoisedSteps(shown), StepsPair(absent, present, scale, gaussian, bound)


FINE = LikelihoodRatio(grid=2.0**-24)


@pytest.mark.parametrize("gaussian", [False, True])
def test_steps_are_scored_by_the_density_ratio_of_all_numbers(gaussian: bool) -> None:
    release, pair = steps(1, gaussian=gaussian)
    law = stats.norm if gaussian else stats.laplace
    naive = law.logpdf(release.shown, pair.present, pair.scale) - law.logpdf(
        release.shown, pair.absent, pair.scale
    )
    assert abs(FINE.score(release, pair) - naive.sum(1)).max() < 1e-6
    coarse = LikelihoodRatio().score(release, pair)
    assert abs(coarse - naive.sum(1)).max() <= 2.0**-9 + 1e-9
    back = replace(pair, absent=pair.present, present=pair.absent)
    np.testing.assert_array_equal(LikelihoodRatio().score(release, back), -coarse)


@pytest.mark.cases("bound", [0.5, 0.7, 2.0])
def test_clamped_steps_have_the_ratio_of_the_tails(bound: float) -> None:
    release, pair = steps(2, bound=bound)
    laws = [stats.laplace(mean, pair.scale) for mean in (pair.absent, pair.present)]
    logs = []
    for law in laws:
        log = law.logpdf(release.shown)
        log = np.where(release.shown >= bound, law.logsf(bound), log)
        logs.append(np.where(release.shown <= -bound, law.logcdf(-bound), log))
    naive = (logs[1] - logs[0]).sum(1)
    assert abs(FINE.score(release, pair) - naive).max() < 1e-6
    # Clamped in single precision, the numbers end at the bound's own rounding.
    single = NoisedSteps(release.shown.astype(np.float32).astype(np.float64))
    assert abs(FINE.score(single, pair) - naive).max() < 1e-4
    # Clamping loses information: the ratio of densities would differ.
    plain = FINE.score(release, replace(pair, bound=np.inf))
    assert (abs(plain - naive) > 0.1).mean() > 0.02


def test_steps_without_noise_are_certain() -> None:
    shift = np.array([[0.0, 1e-3, 2.0], [0.0, -1.0, 1.0], [0.0, 0.0, 0.0]])
    base = np.random.default_rng(0).normal(size=(3, 3))
    pair = StepsPair(base, base + shift, np.zeros(3), gaussian=False, bound=0.1)
    for grid in (2.0**-8, 1.0):
        attack = LikelihoodRatio(grid=grid)
        assert attack.score(NoisedSteps(base), pair).tolist() == [-np.inf, -np.inf, 0]
        assert attack.score(NoisedSteps(base + shift), pair).tolist() == [np.inf, np.inf, 0]


def test_what_has_no_law_of_that_kind_is_refused() -> None:
    release, pair = steps(0, trials=2)
    with pytest.raises(TypeError, match="NoisedSteps has no law of the kind LaplacePair"):
        LikelihoodRatio().score(release, LaplacePair(np.zeros(4), np.ones(4), 1.0))
    shown = Predictions(np.zeros((2, 4), np.int32), np.zeros((2, 4), np.float32))
    with pytest.raises(TypeError, match="Predictions has no law of the kind StepsPair"):
        LikelihoodRatio().score(shown, pair)
