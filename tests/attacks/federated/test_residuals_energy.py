"""Test the energy detector against central and noncentral χ² distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from submission_cases import ITEMS, observed_pairs, p_values_of, verdicts_of  # type: ignore[import-not-found]

from dpaudit.attacks.federated.residuals import Energy
from dpaudit.core.releases import Round, UserItemPairs

Numbers = NDArray[Any]
SIZE, SIGMA = 4, 1.5


def observed(count: int, sigma: float = SIGMA, level: float | None = None) -> UserItemPairs:
    pairs: UserItemPairs = observed_pairs(count, SIZE, sigma, level)
    return pairs


def rounds_of(pairs: UserItemPairs, away: Numbers, seed: int, share: float = 1.0) -> list[Round]:
    """In round t each pair submits with a probability: the fake, `away[t]` and noise."""
    source = np.random.default_rng(seed)
    rounds = []
    for shift in away:
        place = np.flatnonzero(source.random(len(pairs)) < share).astype(np.int32)
        fakes = source.normal(size=(ITEMS, SIZE)).astype(np.float32)
        noise = pairs.sigma * source.normal(size=(len(place), SIZE))
        shown = (fakes[pairs.items[place]] + shift + noise).astype(np.float32)
        rounds.append(Round(place, shown, fakes, fakes, fakes))
    return rounds


@pytest.mark.parametrize("kind", ["each", "difference"])
def test_p_values_are_those_of_the_sums(kind: Any) -> None:
    pairs = observed(10)
    rounds = rounds_of(pairs, np.full((21, SIZE), 0.2), seed=0, share=0.6)
    p_values = p_values_of(verdicts_of(Energy(rounds=kind), pairs, rounds))
    for p in range(10):
        r = np.array(
            [
                t.shown[t.place == p][0].astype(float) - t.fakes[pairs.items[p]]
                for t in rounds
                if p in t.place
            ]
        )
        if kind == "difference":
            r = (r[1::2] - r[: 2 * (len(r) // 2) : 2]) / np.sqrt(2)
        expected = stats.chi2.sf((r**2).sum() / SIGMA**2, r.size)
        assert p_values[p] == pytest.approx(expected, rel=1e-4)


@pytest.mark.cases("kind", ["each", "difference"])
@pytest.mark.cases("size", [0.0, 0.35])
def test_power_is_that_of_the_noncentral_law(kind: Any, size: float) -> None:
    # Size 0 are fakes. Rate 1e-6 over 3 binomial counts.
    rounds, pairs, caught = 15, observed(6000), False
    away = np.random.default_rng(5).normal(size=(rounds, SIZE)) * size * SIGMA
    p_values = p_values_of(verdicts_of(Energy(rounds=kind), pairs, rounds_of(pairs, away, seed=1)))
    degrees, moved = rounds * SIZE, float((away**2).sum()) / SIGMA**2
    if kind == "difference":
        degrees = rounds // 2 * SIZE
        moved = float(((away[1::2] - away[:-1:2]) ** 2).sum()) / (2 * SIGMA**2)
    for level in (0.01, 0.1, 0.5):
        cut = stats.chi2.isf(level, degrees)
        for law, holds in ((moved, True), (2 * moved + 1, False)):
            power = stats.ncx2.sf(cut, degrees, law) if law else level
            low, high = (f(1e-6 / 6, len(pairs), power) for f in (stats.binom.ppf, stats.binom.isf))
            inside = bool(low <= (p_values <= level).sum() <= high)
            assert inside or not holds
            caught |= not inside
    assert caught


def test_scores_order_pairs_of_unlike_counts_as_p_values_do() -> None:
    pairs = observed(400)
    source = np.random.default_rng(2)
    rounds = []
    for t in range(60):
        place = np.flatnonzero(np.arange(400) % 60 >= t).astype(np.int32)
        zeros = np.zeros((ITEMS, SIZE), np.float32)
        shown = (SIGMA * 1.1 * source.normal(size=(len(place), SIZE))).astype(np.float32)
        rounds.append(Round(place, shown, zeros, zeros, zeros))
    verdicts = verdicts_of(Energy(), pairs, rounds)
    # The cube root is normal to about a hundredth, so neighbours may swap.
    expected = stats.norm.isf(p_values_of(verdicts))
    np.testing.assert_allclose(verdicts.scores, expected, atol=0.05)
    assert verdicts.scores.max() > 2


def test_about_zero_takes_the_submission_itself() -> None:
    pairs = observed(5)
    rounds = rounds_of(pairs, np.zeros((9, SIZE)), seed=3)
    bare = [Round(r.place, r.shown, r.factors, 0 * r.fakes, r.gradients) for r in rounds]
    about = verdicts_of(Energy(about="zero"), pairs, rounds)
    np.testing.assert_array_equal(about.scores, verdicts_of(Energy(), pairs, bare).scores)
    assert about.p_values is None
    assert verdicts_of(Energy(about="zero"), pairs, bare).p_values is not None


def test_differences_do_not_see_what_rounds_share() -> None:
    pairs = observed(50)
    rounds = rounds_of(pairs, np.full((40, SIZE), 5.0), seed=4)
    assert p_values_of(verdicts_of(Energy(rounds="each"), pairs, rounds)).max() < 1e-30
    assert p_values_of(verdicts_of(Energy(rounds="difference"), pairs, rounds)).min() > 1e-6


@pytest.mark.parametrize("kind", ["each", "difference"])
def test_nothing_seen_is_no_evidence(kind: Any) -> None:
    pairs = observed(3)
    first = rounds_of(pairs, np.full((1, SIZE), 9.0), seed=0)
    none = verdicts_of(Energy(rounds=kind), pairs, first if kind == "difference" else [])
    assert none.scores.tolist() == [0] * 3
    assert p_values_of(none).tolist() == [1] * 3


def test_without_noise_what_is_not_the_fake_stands_above_it() -> None:
    pairs = observed(30, sigma=0.0)
    rounds = rounds_of(pairs, np.zeros((12, SIZE)), seed=6, share=0.5)
    for round_ in rounds:
        round_.shown[round_.place % 2 == 1] += 0.01
    for kind in ("each", "difference"):
        verdicts = verdicts_of(Energy(rounds=kind), pairs, rounds)
        assert verdicts.p_values is None
        assert kind == "difference" or verdicts.scores[1::2].min() > verdicts.scores[::2].max()


def test_two_valued_submissions_have_no_p_values() -> None:
    pairs = observed(4, sigma=0.0, level=3.0)
    assert Energy().reader(pairs).verdicts().p_values is None
