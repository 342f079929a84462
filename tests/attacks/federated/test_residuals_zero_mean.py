"""Mean tests on submissions against scipy and statsmodels, and their p-values under the null."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from statsmodels.stats.multivariate import test_mvmean as mean_test
from submission_cases import ITEMS, observed_pairs, p_values_of, verdicts_of  # type: ignore[import-not-found]

from dpaudit.attacks.federated.residuals import ZeroMean
from dpaudit.core.releases import Round, UserItemPairs

Numbers = NDArray[Any]
STATISTICS = ["t", "sign", "hotelling", "z"]


def rounds_of(
    pairs: UserItemPairs, count: int, seed: int, shift: float = 0.0, share: float = 0.7
) -> list[Round]:
    """Rounds in which each pair submits with a probability: the fake, a shift, and noise."""
    source = np.random.default_rng(seed)
    rounds = []
    for _ in range(count):
        place = np.flatnonzero(source.random(len(pairs)) < share).astype(np.int32)
        fakes = source.normal(size=(ITEMS, pairs.dimensions)).astype(np.float32)
        shown = fakes[pairs.items[place]] + shift
        shown = shown + pairs.sigma * source.normal(size=shown.shape)
        rounds.append(Round(place, shown.astype(np.float32), fakes, fakes, fakes))
    return rounds


def residuals(pairs: UserItemPairs, rounds: list[Round], pair: int) -> Numbers:
    residuals = [
        r.shown[r.place == pair][0].astype(float) - r.fakes[pairs.items[pair]]
        for r in rounds
        if pair in r.place
    ]
    return np.array(residuals).reshape(-1, pairs.dimensions)


def reference(statistic: str, r: Numbers, sigma: float) -> float:
    if statistic == "hotelling":
        return float(mean_test(r, np.zeros(r.shape[1])).pvalue)
    if statistic == "z":
        return float(stats.chi2.sf(len(r) * (r.mean(0) ** 2).sum() / sigma**2, r.shape[1]))
    if statistic == "t":
        single = [stats.ttest_1samp(column, 0).pvalue for column in r.T]
    else:
        single = [stats.binomtest(int((column > 0).sum()), len(r)).pvalue for column in r.T]
    return float(stats.combine_pvalues(single).pvalue)


@pytest.mark.cases("statistic", STATISTICS)
def test_p_values_are_those_of_the_references(statistic: Any) -> None:
    pairs = observed_pairs(12, 4, 1.7)
    rounds = rounds_of(pairs, 25, seed=3, shift=0.4)
    verdicts = verdicts_of(ZeroMean(statistic=statistic), pairs, rounds)
    expected = [reference(statistic, residuals(pairs, rounds, p), 1.7) for p in range(12)]
    np.testing.assert_allclose(p_values_of(verdicts), expected, rtol=1e-3)
    assert (np.argsort(-verdicts.scores) == np.argsort(expected)).all()


@pytest.mark.cases("statistic", STATISTICS)
def test_asking_in_between_changes_nothing(statistic: Any) -> None:
    pairs = observed_pairs(5, 3, 1.0)
    rounds = rounds_of(pairs, 20, seed=1)
    reader = ZeroMean(statistic=statistic).reader(pairs)
    for round_ in rounds[:11]:
        reader.see(round_)
    half = reader.verdicts()
    reader.verdicts()
    for round_ in rounds[11:]:
        reader.see(round_)
    attack = ZeroMean(statistic=statistic)
    np.testing.assert_array_equal(half.scores, verdicts_of(attack, pairs, rounds[:11]).scores)
    np.testing.assert_array_equal(
        reader.verdicts().scores, verdicts_of(attack, pairs, rounds).scores
    )


@pytest.mark.cases("statistic", STATISTICS)
def test_p_values_of_fakes_are_uniform_or_conservative(statistic: Any) -> None:
    # Rate 1e-6 over 3 binomial counts; a shift of a quarter of σ is noticed.
    pairs, attack = observed_pairs(8000, 3, 2.0), ZeroMean(statistic=statistic)
    null = p_values_of(verdicts_of(attack, pairs, rounds_of(pairs, 30, seed=7)))
    moved = p_values_of(verdicts_of(attack, pairs, rounds_of(pairs, 30, seed=7, shift=0.5)))
    caught = False
    for level in (0.01, 0.1, 0.5):
        low, high = (f(1e-6 / 6, len(pairs), level) for f in (stats.binom.ppf, stats.binom.isf))
        assert (null <= level).sum() <= high
        if statistic != "sign":
            assert (null <= level).sum() >= low
        caught |= bool((moved <= level).sum() > high)
    assert caught


def test_a_pair_that_submits_too_little_says_nothing() -> None:
    pairs = observed_pairs(4, 3, 1.0)
    rounds = rounds_of(pairs, 3, seed=0, shift=9.0, share=1.0)
    verdicts = verdicts_of(ZeroMean(statistic="hotelling"), pairs, rounds)
    assert verdicts.scores.tolist() == [0] * 4
    assert p_values_of(verdicts).tolist() == [1] * 4
    for statistic in STATISTICS:
        none = verdicts_of(ZeroMean(statistic=statistic), pairs, [])  # type: ignore[arg-type]
        assert none.scores.tolist() == [0] * 4
        assert p_values_of(none).tolist() == [1] * 4
    single = verdicts_of(ZeroMean(statistic="t"), pairs, rounds[:1])
    assert p_values_of(single).tolist() == [1] * 4


@pytest.mark.cases("statistic", STATISTICS)
def test_without_noise_what_is_not_the_fake_stands_above_it(statistic: Any) -> None:
    pairs = observed_pairs(20, 4, 0.0)
    rounds = rounds_of(pairs, 30, seed=2)
    for round_ in rounds:
        real = round_.place % 2 == 1
        # All on one line, as the gradients of one user are.
        round_.shown[real] += 0.1 * np.random.default_rng(0).random((real.sum(), 1))
    verdicts = verdicts_of(ZeroMean(statistic=statistic), pairs, rounds)
    assert verdicts.p_values is None
    assert np.isfinite(verdicts.scores).all()
    assert verdicts.scores[1::2].min() > verdicts.scores[::2].max()


def test_about_zero_has_p_values_only_while_fakes_are_zero() -> None:
    pairs, attack = observed_pairs(6, 2, 1.0), ZeroMean(about="zero", statistic="z")
    rounds = rounds_of(pairs, 12, seed=4)
    silent = [Round(r.place, r.shown, r.factors, 0 * r.fakes, r.gradients) for r in rounds]
    alike = verdicts_of(ZeroMean(statistic="z"), pairs, silent)
    np.testing.assert_array_equal(
        p_values_of(verdicts_of(attack, pairs, silent)), p_values_of(alike)
    )
    nonzero = verdicts_of(attack, pairs, [*silent[:-1], rounds[-1]])
    assert nonzero.p_values is None
    # The scores are still those of x itself.
    np.testing.assert_array_equal(nonzero.scores, alike.scores)


def test_of_two_valued_submissions_signs_alone_have_a_law() -> None:
    pairs = observed_pairs(6000, 3, 0.0, level=7.0)
    source = np.random.default_rng(11)
    rounds = []
    for _ in range(40):
        shown = np.zeros((len(pairs), 3), np.float32)
        sent = np.arange(len(pairs)), source.integers(0, 3, len(pairs))
        shown[sent] = source.choice([-7.0, 7.0], len(pairs))
        zeros = np.zeros((ITEMS, 3), np.float32)
        rounds.append(Round(np.arange(len(pairs), dtype=np.int32), shown, zeros, zeros, shown))
    p_values = p_values_of(verdicts_of(ZeroMean(statistic="sign"), pairs, rounds))
    for level in (0.01, 0.1, 0.5):
        assert (p_values <= level).sum() <= stats.binom.isf(1e-6 / 3, len(pairs), level)
    assert (p_values <= 0.5).sum() > 1000
    for statistic in ("t", "hotelling", "z"):
        attack = ZeroMean(statistic=statistic)
        assert verdicts_of(attack, pairs, rounds[:5]).p_values is None


def test_only_hotelling_asks_for_some_pairs() -> None:
    most = {s: ZeroMean(statistic=s).most_pairs for s in STATISTICS}  # type: ignore[arg-type]
    assert most == {"t": None, "sign": None, "hotelling": 2000, "z": None}
