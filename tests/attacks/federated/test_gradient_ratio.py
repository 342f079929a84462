"""Likelihood ratios: their normal law, their validity under the null, and what learning gains."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from submission_cases import p_values_of, verdicts_of  # type: ignore[import-not-found]

from dpaudit.attacks.federated.gradient_ratio import GradientRatio
from dpaudit.attacks.federated.residuals import ZeroMean
from dpaudit.core.releases import Round, UserItemPairs

Numbers = NDArray[Any]
Attack = GradientRatio | ZeroMean
KNOWN, MODEL = GradientRatio(), GradientRatio(knows="model")


def observed(
    users: int, held: int, items: int, size: int, sigma: float, level: float | None = None
) -> UserItemPairs:
    """The same number of pairs of every user."""
    source = np.random.default_rng(0)
    chosen = [np.sort(source.choice(items, held, replace=False)) for _ in range(users)]
    owner = np.repeat(np.arange(users), held).astype(np.int32)
    shares = np.full(items, 0.5)
    return UserItemPairs(
        owner,
        np.concatenate(chosen).astype(np.int32),
        size,
        sigma,
        level,
        shares,
        np.full(len(shares), 9),
    )


def training(
    pairs: UserItemPairs,
    real: Numbers,
    count: int,
    seed: int,
    *,
    drift: float = 0.0,
    fake_noise: float = 0.3,
) -> list[Round]:
    """Real submissions are `a_ij u_i`, fakes the items' mean gradients, each with fresh noise.

    `fake_noise` is the noise of the broadcast means, `drift` the share of a redrawn per round.
    """
    source = np.random.default_rng(seed)
    d, users = pairs.dimensions, int(pairs.users[-1]) + 1
    u = source.normal(size=(users, d)) + 0.7
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    a = source.normal(size=len(pairs))
    rounds = []
    for _ in range(count):
        a = np.sqrt(1 - drift) * a + np.sqrt(drift) * source.normal(size=len(pairs))
        gradients = a[:, None] * u[pairs.users]
        mean = np.zeros((len(pairs.shares), d))
        np.add.at(mean, pairs.items, gradients)
        mean /= np.maximum(np.bincount(pairs.items, minlength=len(mean)), 1)[:, None]
        fakes = mean + fake_noise * source.normal(size=mean.shape)
        place = np.flatnonzero(source.random(len(pairs)) < 0.7).astype(np.int32)
        centre = np.where(real[place, None], gradients[place], fakes[pairs.items[place]])
        shown = centre + pairs.sigma * source.normal(size=centre.shape)
        rounds.append(
            Round(place, *(x.astype(np.float32) for x in (shown, mean, fakes, gradients[place])))
        )
    return rounds


def auc(scores: Numbers, real: Numbers) -> float:
    statistic = stats.mannwhitneyu(scores[real], scores[~real]).statistic
    return float(statistic / (real.sum() * (~real).sum()))


def test_the_known_ratio_has_its_normal_law() -> None:
    # Every pair has one item of its own and the same gradients: Λ ~ N(±μ²/2, μ²).
    count, size, sigma = 4000, 3, 2.0
    pairs = observed(count, 1, 1, size, sigma)
    source = np.random.default_rng(1)
    noise = source.normal(size=(20, count, size)) * sigma
    gradients, fakes = source.normal(size=(20, size)) * 0.8, source.normal(size=(20, size))
    mu = math.sqrt(((gradients - fakes) ** 2).sum()) / sigma
    real = np.arange(count) % 2 == 0
    rounds = []
    for t in range(20):
        shown = np.where(real[:, None], gradients[t], fakes[t]) + noise[t]
        known = np.tile(gradients[t], (count, 1))
        fake = fakes[t][None]
        arrays = (x.astype(np.float32) for x in (shown, fake, fake, known))
        rounds.append(Round(np.arange(count, dtype=np.int32), *arrays))
    verdicts = verdicts_of(KNOWN, pairs, rounds)
    for sign, scores in ((1, verdicts.scores[real]), (-1, verdicts.scores[~real])):
        # Rate 1e-6; an energy twice as large is noticed.
        assert stats.kstest(scores, stats.norm(sign * mu**2 / 2, mu).cdf).pvalue > 5e-7
        assert stats.kstest(scores, stats.norm(sign * mu**2, mu).cdf).pvalue < 5e-7
    assert stats.kstest(p_values_of(verdicts)[~real], "uniform").pvalue > 5e-7
    expected = stats.norm.cdf(-stats.norm.isf(0.01) + mu)
    low, high = (f(5e-7, real.sum(), expected) for f in (stats.binom.ppf, stats.binom.isf))
    assert low <= (p_values_of(verdicts)[real] <= 0.01).sum() <= high


def test_of_made_up_ratings_only_who_knows_them_has_p_values() -> None:
    pairs = observed(1500, 2, 6, 3, 1.0)
    real = np.arange(len(pairs)) % 2 == 0
    source = np.random.default_rng(13)
    rounds = []
    for r in training(pairs, np.ones(len(pairs), bool), 12, seed=14, fake_noise=0.0):
        made_up = source.normal(size=r.shown.shape).astype(np.float32)
        fake = ~real[r.place]
        r.shown[fake] += made_up[fake] - r.gradients[fake]
        rounds.append(replace(r, fakes=0 * r.fakes, made_up=made_up))
    ideal = p_values_of(verdicts_of(KNOWN, pairs, rounds))
    assert stats.kstest(ideal[~real], "uniform").pvalue > 1e-6
    assert np.median(ideal[real]) < 0.01
    # With F instead of the made-up gradients, fakes look real.
    wrong = p_values_of(verdicts_of(KNOWN, pairs, [replace(r, made_up=None) for r in rounds]))
    assert stats.kstest(wrong[~real], "uniform").pvalue < 1e-6
    for attack in (MODEL, ZeroMean(statistic="z"), ZeroMean(statistic="sign")):
        assert verdicts_of(attack, pairs, rounds).p_values is None
        assert (
            verdicts_of(attack, pairs, [replace(r, made_up=None) for r in rounds]).p_values
            is not None
        )


def test_nothing_seen_is_no_evidence() -> None:
    pairs = observed(3, 2, 4, 2, 1.0)
    for attack in (KNOWN, MODEL):
        verdicts = verdicts_of(attack, pairs, [])
        assert verdicts.scores.tolist() == [0] * 6
        assert p_values_of(verdicts).tolist() == [1] * 6


def two_valued(signs: Numbers, sent: Numbers, size: int, level: float) -> Numbers:
    shown = np.zeros((len(signs), size), np.float32)
    shown[np.arange(len(signs)), sent] = signs * level
    return shown


@pytest.mark.parametrize("attack", [KNOWN, MODEL])
def test_two_valued_ratios_have_mean_one_over_all_signs(attack: GradientRatio) -> None:
    # One pair for every sequence of signs of 8 rounds; the coordinates sent are the same.
    size, level, rounds = 3, 4.5, 8
    signs = np.array(list(itertools.product((-1, 1), repeat=rounds)))
    n = len(signs)
    pairs = observed(n, 1, 1, size, 0.0, level)
    source = np.random.default_rng(2)
    zeros, seen = np.zeros((1, size), np.float32), []
    for t in range(rounds):
        sent = np.full(n, source.integers(0, size))
        gradients = np.tile(source.normal(size=size), (n, 1)).astype(np.float32)
        shown = two_valued(signs[:, t], sent, size, level)
        seen.append(Round(np.arange(n, dtype=np.int32), shown, zeros, zeros, gradients))
    verdicts = verdicts_of(attack, pairs, seen)
    assert np.exp(verdicts.scores).mean() == pytest.approx(1, abs=1e-4)
    assert verdicts.scores.std() > 0.05
    p_values = p_values_of(verdicts)
    for level_ in np.unique(p_values):
        assert (p_values <= level_).mean() <= level_ + 1e-4


def test_fakes_that_never_change_are_not_accused_by_rounding() -> None:
    # The prediction is close to the fake and both are a thousand times the noise. Rate 1e-6.
    pairs = observed(200, 9, 40, 8, 1e-3)
    fakes = np.zeros(len(pairs), bool)
    p_values = p_values_of(
        verdicts_of(MODEL, pairs, training(pairs, fakes, 150, seed=3, fake_noise=0.0))
    )
    for level in (0.01, 0.1, 0.5):
        assert (p_values <= level).sum() <= stats.binom.isf(1e-6 / 3, len(pairs), level)


@pytest.mark.cases("drift", [0.0, 0.1])
@pytest.mark.cases("sigma", [0.3, 1.0, 3.0])
def test_learned_p_values_of_fakes_are_valid(sigma: float, drift: float) -> None:
    # Rate 1e-6 over 3 binomial counts. Two of a user's nine pairs are fake.
    pairs = observed(400, 9, 40, 8, sigma)
    real = np.arange(len(pairs)) % 9 > 1
    for among in (real, np.zeros_like(real)):
        p_values = p_values_of(
            verdicts_of(MODEL, pairs, training(pairs, among, 40, seed=4, drift=drift))
        )
        fakes = p_values[~among]
        for level in (0.01, 0.1, 0.5):
            high = stats.binom.isf(1e-6 / 3, len(fakes), level)
            assert (fakes <= level).sum() <= high
            # A wrong centre for the fakes would be noticed.
            if among.any() and sigma < 3:
                assert (p_values[among] <= level).sum() > high


def test_the_learned_ratio_has_mean_one_where_it_varies_little() -> None:
    # With much noise e^Λ hardly has a tail: its mean is normal. Rate 1e-6.
    pairs = observed(1500, 4, 30, 4, 6.0)
    rounds = training(pairs, np.zeros(len(pairs), bool), 25, seed=5, fake_noise=2.0)
    ratio = np.exp(verdicts_of(MODEL, pairs, rounds).scores)
    error = ratio.std() / math.sqrt(len(ratio))
    away = stats.norm.isf(5e-7)
    assert abs(ratio.mean() - 1) < away * error
    # Without the half of ‖m‖², about half the variance of Λ, it would be larger.
    scores = np.log(ratio)
    assert np.exp(scores + scores.var() / 2).mean() - 1 > away * error


def test_a_pair_is_judged_by_earlier_rounds_alone() -> None:
    pairs = observed(20, 6, 15, 4, 1.0)
    real = np.arange(len(pairs)) % 2 == 0
    *past, last = training(pairs, real, 15, seed=6)
    mine = last.place[3]
    others = last.shown + 5 * (last.place != mine)[:, None].astype(np.float32)
    changed = Round(last.place, others, last.factors, last.fakes, last.gradients)
    before, after = (verdicts_of(MODEL, pairs, [*past, end]).scores for end in (last, changed))
    assert before[mine] == after[mine]
    assert before[last.place[0]] != after[last.place[0]]
    # In the next round, the submissions of others have moved the direction.
    again = [verdicts_of(MODEL, pairs, [*past, end, last]).scores[mine] for end in (last, changed)]
    assert again[0] != again[1]


@pytest.mark.cases(("drift", "fake_noise"), [(0.0, 0.0), (0.05, 0.0), (0.0, 0.5)])
def test_learning_the_direction_beats_the_mean_of_the_residuals(
    drift: float, fake_noise: float
) -> None:
    pairs = observed(60, 30, 80, 16, 3.0)
    real = np.random.default_rng(7).random(len(pairs)) < 0.5
    rounds = training(pairs, real, 120, seed=8, drift=drift, fake_noise=fake_noise)
    learned, mean, known = (
        auc(verdicts_of(attack, pairs, rounds).scores, real)
        for attack in (MODEL, ZeroMean(statistic="z"), KNOWN)
    )
    assert mean + 0.03 < learned < known


def test_the_order_of_submissions_in_a_round_does_not_matter() -> None:
    pairs = observed(10, 5, 12, 4, 1.0)
    rounds = training(pairs, np.arange(len(pairs)) % 2 == 0, 20, seed=9)
    turned = [
        Round(r.place[::-1].copy(), r.shown[::-1].copy(), r.factors, r.fakes, r.gradients[::-1])
        for r in rounds
    ]
    one, two = (verdicts_of(MODEL, pairs, order).scores for order in (rounds, turned))
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("attack", [KNOWN, MODEL])
def test_without_noise_real_submissions_stand_above_fakes(attack: GradientRatio) -> None:
    pairs = observed(20, 10, 25, 6, 0.0)
    real = np.arange(len(pairs)) % 2 == 0
    verdicts = verdicts_of(attack, pairs, training(pairs, real, 30, seed=10))
    assert verdicts.p_values is None
    assert auc(verdicts.scores, real) > (0.999 if attack is KNOWN else 0.95)


def test_two_valued_submissions_are_told_apart() -> None:
    size, e = 4, math.exp(2.0)
    level = size * (e + 1) / (e - 1)
    pairs = observed(80, 20, 40, size, 0.0, level)
    real = np.arange(len(pairs)) % 2 == 0
    source = np.random.default_rng(11)
    zeros, rounds = np.zeros((40, size), np.float32), []
    for r in training(pairs, real, 150, seed=12):
        n, x = len(r.place), np.clip(r.gradients, -1, 1)
        sent = source.integers(0, size, n)
        up = 0.5 + np.where(real[r.place], x[np.arange(n), sent], 0) * size / (2 * level)
        shown = two_valued(np.where(source.random(n) < up, 1, -1), sent, size, level)
        rounds.append(Round(r.place, shown, zeros, zeros, r.gradients))
    learned, mean, known = (
        verdicts_of(attack, pairs, rounds) for attack in (MODEL, ZeroMean(statistic="z"), KNOWN)
    )
    # The gain in area over the mean is small: one coordinate per round says little about u.
    assert auc(mean.scores, real) - 0.02 < auc(learned.scores, real) < auc(known.scores, real)
    for verdicts in (learned, known):
        # Rate 1e-6 a count.
        fakes = p_values_of(verdicts)[~real]
        assert (fakes <= 0.05).sum() <= stats.binom.isf(1e-6, len(fakes), 0.05)
        assert (p_values_of(verdicts)[real] <= 0.05).mean() > 0.2
