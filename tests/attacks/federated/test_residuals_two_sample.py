"""Two-sample tests against scipy and brute force, and their p-values under the null."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from submission_cases import ITEMS, observed_pairs, p_values_of, verdicts_of  # type: ignore[import-not-found]

from dpaudit.attacks.federated.residuals import (
    TwoSample,
    _EnergyDistance,
    _kolmogorov_tail,
    _StoredResiduals,
)
from dpaudit.core.releases import Round, UserItemPairs

Numbers = NDArray[Any]


def rounds_of(
    pairs: UserItemPairs, count: int, seed: int, *, wide: float = 1.0, share: float = 0.7
) -> list[Round]:
    """Rounds in which each pair submits with a probability: the fake plus noise of any width."""
    source = np.random.default_rng(seed)
    rounds = []
    for _ in range(count):
        place = np.flatnonzero(source.random(len(pairs)) < share).astype(np.int32)
        fakes = source.normal(size=(ITEMS, pairs.dimensions)).astype(np.float32)
        noise = wide * pairs.sigma * source.normal(size=(len(place), pairs.dimensions))
        shown = (fakes[pairs.items[place]] + noise).astype(np.float32)
        rounds.append(Round(place, shown, fakes, fakes, fakes))
    return rounds


def paths_within(k: int, c: int) -> int:
    """Number of orders of k + k sample values in which neither sample is ever c ahead."""
    row = [int(j < c) for j in range(k + 1)]
    for i in range(1, k + 1):
        for j in range(k + 1):
            before = row[j - 1] if j else 0
            row[j] = row[j] + before if abs(i - j) < c else 0
    return row[k]


@pytest.mark.cases("k", [1, 2, 5, 40, 200])
def test_the_tail_of_equal_samples_is_exact(k: int) -> None:
    tail = _kolmogorov_tail(k)
    assert tail[0] == 1
    for c in {1, 2, k // 4, k // 2, k} & set(range(1, k + 1)):
        expected = 1 - Fraction(paths_within(k, c), math.comb(2 * k, k))
        assert tail[c] == pytest.approx(float(expected), rel=1e-9, abs=1e-12)
    assert tail[k] == pytest.approx(2 / math.comb(2 * k, k), rel=1e-9)


def test_kolmogorov_joins_exact_tests_of_the_coordinates() -> None:
    pairs = observed_pairs(6, 3, 1.3)
    rounds = rounds_of(pairs, 30, seed=1, wide=1.4)
    reader = TwoSample(seed=5).reader(pairs)
    assert isinstance(reader, _StoredResiduals)
    for round_ in rounds:
        reader.see(round_)
    verdicts = p_values_of(reader.verdicts())
    for pair, shown, drawn in reader.sequences():
        expected = [
            r.shown[r.place == pair][0] - r.fakes[pairs.items[pair]]
            for r in rounds
            if pair in r.place
        ]
        np.testing.assert_allclose(shown, expected)
        assert shown.shape == drawn.shape
        single = [
            stats.ks_2samp(a, b, method="exact").pvalue
            for a, b in zip(shown.T, drawn.T, strict=True)
        ]
        assert verdicts[pair] == pytest.approx(stats.combine_pvalues(single).pvalue, rel=1e-6)


def test_energy_ranks_among_simulated_fakes_of_the_same_count() -> None:
    pairs = observed_pairs(5, 3, 1.3)
    rounds = rounds_of(pairs, 12, seed=2, wide=1.2)
    attack = TwoSample(statistic="energy", simulated=19)
    reader = attack.reader(pairs)
    assert isinstance(reader, _EnergyDistance)
    for round_ in rounds:
        reader.see(round_)
    verdicts = reader.verdicts()

    def distance(x: Numbers, y: Numbers) -> float:
        def mean(a: Numbers, b: Numbers) -> float:
            return float(np.linalg.norm(a[:, None].astype(float) - b[None], axis=2).mean())

        return len(x) / 2 * (2 * mean(x, y) - mean(x, x) - mean(y, y))

    for pair, shown, drawn in reader.sequences():
        k = len(shown)
        null = np.array(
            [distance(reader.draw("left", w, k), reader.draw("right", w, k)) for w in range(19)]
        )
        statistic = distance(shown, drawn)
        assert p_values_of(verdicts)[pair] == (1 + (null >= statistic).sum()) / 20
        score = (statistic - null.mean()) / null.std()
        assert verdicts.scores[pair] == pytest.approx(score, rel=1e-3, abs=1e-3)


@pytest.mark.long
def test_kolmogorov_p_values_of_fakes_are_conservative() -> None:
    # Rate 1e-6 over 3 binomial counts; noise wider by half is noticed.
    pairs, attack = observed_pairs(1500, 2, 2.0), TwoSample()
    null = p_values_of(verdicts_of(attack, pairs, rounds_of(pairs, 40, seed=7)))
    wide = p_values_of(verdicts_of(attack, pairs, rounds_of(pairs, 40, seed=7, wide=1.5)))
    highs = {level: stats.binom.isf(1e-6 / 3, 1500, level) for level in (0.01, 0.1, 0.5)}
    assert all((null <= level).sum() <= high for level, high in highs.items())
    assert any((wide <= level).sum() > high for level, high in highs.items())


@pytest.mark.parametrize("level", [None, 5.0])
def test_energy_p_values_of_fakes_are_exact(level: float | None) -> None:
    # All pairs share n simulated ones: P(p ≤ c/(n + 1)) given these is Beta(c, n + 1 − c), so the
    # count is beta-binomial. Rate 1e-6 over 2 of them, two-sided.
    count, simulated = 600, 399
    pairs = observed_pairs(count, 3, 0.0 if level else 2.0, level)
    source = np.random.default_rng(3)

    def rounds(bias: float) -> list[Round]:
        rounds = rounds_of(pairs, 16, seed=3, wide=1 + bias, share=0.6)
        if level is None:
            return rounds
        for round_ in rounds:
            round_.fakes[:] = 0
            n = len(round_.place)
            round_.shown[:] = 0
            sign = np.where(source.random(n) < 0.5 + bias / 2, level, -level)
            round_.shown[np.arange(n), source.integers(0, 3, n)] = sign
        return rounds

    attack = TwoSample(statistic="energy", simulated=simulated)
    null, other = (p_values_of(verdicts_of(attack, pairs, rounds(bias))) for bias in (0.0, 0.8))
    caught = False
    for c in (20, 100):
        law = stats.betabinom(count, c, simulated + 1 - c)
        low, high = law.ppf(1e-6 / 4), law.ppf(1 - 1e-6 / 4)
        at = c / (simulated + 1) + 1e-12
        assert (null <= at).sum() <= high
        # Two-valued samples of few submissions are often equally far apart.
        assert level is not None or (null <= at).sum() >= low
        caught |= bool((other <= at).sum() > high)
    assert caught


def test_a_pair_has_its_own_draws_whatever_else_is_observed() -> None:
    pairs = observed_pairs(8, 2, 1.0)
    rounds = rounds_of(pairs, 10, seed=4)
    few = observed_pairs(3, 2, 1.0)
    part = [
        Round(r.place[r.place < 3], r.shown[r.place < 3], r.factors, r.fakes, r.gradients)
        for r in rounds
    ]
    for statistic in ("ks", "energy"):
        attack = TwoSample(statistic=statistic, simulated=19)
        whole = verdicts_of(attack, pairs, rounds).scores
        if statistic == "ks":
            np.testing.assert_array_equal(whole[:3], verdicts_of(attack, few, part).scores)
        np.testing.assert_array_equal(whole, verdicts_of(attack, pairs, rounds).scores)
        other = TwoSample(statistic=statistic, simulated=19, seed=1)
        assert (whole != verdicts_of(other, pairs, rounds).scores).any()


@pytest.mark.parametrize("statistic", ["ks", "energy"])
def test_asking_in_between_changes_nothing(statistic: Any) -> None:
    pairs = observed_pairs(4, 2, 1.0)
    rounds = rounds_of(pairs, 12, seed=5)
    reader = TwoSample(statistic=statistic, simulated=19).reader(pairs)
    none = reader.verdicts()
    assert none.scores.tolist() == [0] * 4
    assert p_values_of(none).tolist() == [1] * 4
    for round_ in rounds:
        reader.see(round_)
        reader.verdicts()
    whole = verdicts_of(TwoSample(statistic=statistic, simulated=19), pairs, rounds)
    np.testing.assert_array_equal(reader.verdicts().scores, whole.scores)


@pytest.mark.parametrize("statistic", ["ks", "energy"])
def test_without_noise_what_is_not_the_fake_stands_above_it(statistic: Any) -> None:
    pairs = observed_pairs(20, 2, 0.0)
    rounds = rounds_of(pairs, 25, seed=6)
    for round_ in rounds:
        round_.shown[round_.place % 2 == 1] += 0.01
    verdicts = verdicts_of(TwoSample(statistic=statistic, simulated=19), pairs, rounds)
    assert verdicts.p_values is None
    assert verdicts.scores[1::2].min() > verdicts.scores[::2].max()


def test_two_valued_fakes_are_one_coordinate_of_either_sign() -> None:
    # Rate 1e-6 over 6 binomial counts.
    pairs = observed_pairs(1, 3, 0.0, level=4.0)
    reader = TwoSample().reader(pairs)
    assert isinstance(reader, _StoredResiduals)
    drawn = reader.draw("own", 0, 30_000)
    assert ((drawn != 0).sum(1) == 1).all()
    for value in (-4.0, 4.0):
        for count in (drawn == value).sum(0):
            low, high = (f(1e-6 / 12, 30_000, 1 / 6) for f in (stats.binom.ppf, stats.binom.isf))
            assert low <= count <= high
    assert verdicts_of(TwoSample(), pairs, []).p_values is None
