"""Exact draws of the law of posterior sampling, against quadrature and plain evaluation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy.stats import binom, chi2, kstest, norm

from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.streams import Streams
from dpaudit.data import Ratings, Scale
from dpaudit.data.ratings import from_profiles
from dpaudit.defenses.neighborhood import sampled as module
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity

# The probability that a stochastic test of correct code fails.
RARE = 1e-6
Exact = NDArray[np.float64]
# Rows with two neighbours, of which some users have rated only one.
THREE = from_profiles(
    [
        [(0, 5), (1, 1), (2, 4)],
        [(0, 5), (1, 1)],
        [(0, 5), (1, 1)],
        [(1, 2), (2, 5)],
        [(0, 2), (2, 1)],
    ],
    3,
    Scale(),
)
# Rows with one neighbour.
TWO = from_profiles([[(0, 5), (1, 4)], [(0, 5), (1, 4)], [(0, 1), (1, 2)]], 2, Scale())
# Rows with three neighbours, and an item that nobody has rated.
FOUR = from_profiles(
    [[(0, 5), (1, 1), (2, 4), (3, 2)], [(0, 1), (1, 2), (2, 5)], [(2, 3), (3, 5)]], 5, Scale()
)


def model(variant: Any = "published", **params: Any) -> SampledSimilarity:
    set_ = {"epsilon": 40.0, "cap": 4, "more_than": 0} | params
    return SampledSimilarity(variant=variant, **set_)


MODELS = {
    "halves": model(),
    "squares": model(likelihood="squares"),
    "temperature": model(temperature=0.3),
    "raw": model(centred=False),
    "corrected": model("corrected"),
    "corrected squares": model("corrected", likelihood="squares", epsilon=60.0),
}
each_model = pytest.mark.cases("defense", MODELS.values(), ids=MODELS.keys())


def streams(count: int, seed: int = 3) -> Streams:
    return Streams.first(seed, "test", count)


def means(defense: SampledSimilarity, ratings: Ratings) -> Exact:
    if not defense.centred:
        return np.zeros(ratings.n_items)
    if defense.variant == "corrected":
        return np.full(ratings.n_items, 3.0)
    return np.array(
        [
            ratings.value[ratings.item == i].mean() if (ratings.item == i).any() else 0.0
            for i in range(ratings.n_items)
        ],
        float,
    )


def exponent(defense: SampledSimilarity, ratings: Ratings, item: int, rows: Exact) -> Exact:
    """The exponent that the row's raters put on `rows` `(W, M)`, by eq. (2)."""
    # (ε/4B) ½ Σ e², B = 4² τ, or (ε/4B) Σ e²; to the power 1/ϱ
    weight = defense.epsilon / (4 * 16 * defense.cap) / defense.temperature
    weight *= 1.0 if defense.likelihood == "squares" else 0.5
    known, total = means(defense, ratings), np.zeros(len(rows))
    for user in range(ratings.n_users):
        mine = ratings.profile(user)
        rated = dict(zip(mine.items.tolist(), mine.values.tolist(), strict=True))
        others = [j for j in rated if j != item]
        if item in rated and others:
            x = np.array([rated[j] for j in others]) - known[others]
            shown = known[item] + rows[:, others] @ x / abs(rows[:, others]).sum(1)
            if defense.variant == "corrected":
                shown = np.clip(shown, 1, 5)
            total -= weight * (shown - rated[item]) ** 2
    return total


def bins_of(angle: Exact, count: int) -> NDArray[np.int64]:
    return np.floor((angle % (2 * np.pi)) / (2 * np.pi) * count).astype(np.int64)


def by_quadrature(defense: SampledSimilarity, item: int, bins: int, power: float = 1.0) -> Exact:
    """The probability of each bin of the row's angle."""
    near = [j for j in range(3) if j != item]
    angle = (np.arange(bins * 500) + 0.5) / (bins * 500) * 2 * np.pi
    rows = np.zeros((len(angle), 3))
    rows[:, near[0]], rows[:, near[1]] = np.cos(angle), np.sin(angle)
    density = np.exp(power * exponent(defense, THREE, item, rows)).reshape(bins, -1).sum(1)
    return np.asarray(density / density.sum())


def pearson(seen: NDArray[np.int64], law: Exact) -> float:
    expected = seen.sum() * law
    return float(((seen - expected) ** 2 / expected).sum())


@each_model
def test_angles_of_rows_follow_the_posterior(defense: SampledSimilarity) -> None:
    trials, bins = 60_000, 32
    draws = defense.law(defense.prepare(THREE)).draw(streams(trials))
    noticed = 0
    for item in range(3):
        near = [j for j in range(3) if j != item]
        angle = np.arctan2(draws[:, item, near[1]], draws[:, item, near[0]])
        seen = np.bincount(bins_of(angle, bins), minlength=bins)
        limit = chi2.isf(RARE / 3, bins - 1)
        assert pearson(seen, by_quadrature(defense, item, bins)) < limit
        # An exponent that is off by a fifth, or the prior alone, would be seen.
        noticed += pearson(seen, by_quadrature(defense, item, bins, 1.2)) > limit
        assert pearson(seen, np.full(bins, 1 / bins)) > limit
    assert noticed


@each_model
def test_signs_of_single_neighbours_have_their_odds(defense: SampledSimilarity) -> None:
    trials = 60_000
    draws = defense.law(defense.prepare(TWO)).draw(streams(trials))
    for item in (0, 1):
        ends = np.zeros((2, 2))
        ends[:, 1 - item] = -1, 1
        low, high = exponent(defense, TWO, item, ends)
        share = 1 / (1 + math.exp(low - high))
        count = int((draws[:, item, 1 - item] > 0).sum())
        assert min(binom.cdf(count, trials, share), binom.sf(count - 1, trials, share)) > RARE / 4
        assert (
            share == 0.5 or min(binom.cdf(count, trials, 0.5), binom.sf(count, trials, 0.5)) < RARE
        )


def test_lengths_and_what_nobody_has_rated_have_the_prior() -> None:
    defense = model(decay=0.5, temperature=0.3)
    law = defense.law(defense.prepare(FOUR))
    draws = law.draw(streams(20_000))
    # exp(−(ε/4Bϱ) ½ λ s²)
    spread = math.sqrt(0.3 / (40.0 / (4 * 16 * 4) * 0.5))
    assert law.spread == pytest.approx(spread)
    for numbers in (draws[:, 4, 0], draws[:, 0, 4], draws[:, 4, 3], draws[:, 2, 2]):
        assert kstest(numbers, norm(scale=spread).cdf).pvalue > RARE / 4
        assert kstest(numbers, norm(scale=1.1 * spread).cdf).pvalue < RARE
    # The loss is of the direction alone.
    assert kstest((draws[:, 3, :3] ** 2).sum(1) / spread**2, chi2(3).cdf).pvalue > RARE
    assert abs(np.corrcoef(draws.reshape(len(draws), -1).T) - np.eye(25))[4].max() < 0.05


@pytest.mark.long
def test_rows_with_three_neighbours_agree_with_weighted_draws_of_the_prior() -> None:
    defense = model(epsilon=20.0)
    draws = defense.law(defense.prepare(FOUR)).draw(streams(40_000))
    prior = np.random.default_rng(1).standard_normal((400_000, 5))
    for item in (0, 2):
        weight = np.exp(exponent(defense, FOUR, item, prior))
        loss = -exponent(defense, FOUR, item, prior)
        known = float((weight * loss).sum() / weight.sum())
        error = np.sqrt((weight**2 * (loss - known) ** 2).sum()) / weight.sum()
        mine = -exponent(defense, FOUR, item, draws[:, item])
        sd = math.hypot(float(error), float(mine.std()) / math.sqrt(len(mine)))
        assert abs(float(mine.mean()) - known) < norm.isf(RARE / 4) * sd
        assert abs(float(loss.mean()) - known) > 5 * norm.isf(RARE / 4) * sd


@each_model
@pytest.mark.cases("ratings", [TWO, THREE, FOUR], ids=["two", "three", "four"])
def test_the_density_is_that_of_the_equation(defense: SampledSimilarity, ratings: Ratings) -> None:
    law = defense.law(defense.prepare(ratings))
    rows = np.random.default_rng(2).standard_normal((50, ratings.n_items, ratings.n_items))
    prior = -(rows**2).sum((1, 2)) / (2 * law.spread**2)
    plain = prior.copy()
    for item in range(ratings.n_items):
        plain += exponent(defense, ratings, item, rows[:, item])
    logs = law.log_density(rows)
    # Means and deviations are in single precision.
    assert np.allclose(logs - logs[0], plain - plain[0], atol=1e-4)
    assert np.ptp(logs - prior) > 0.1


@each_model
@pytest.mark.cases("ratings", [TWO, THREE, FOUR], ids=["two", "three", "four"])
def test_no_row_has_less_than_its_floor(defense: SampledSimilarity, ratings: Ratings) -> None:
    law = defense.law(defense.prepare(ratings))
    angle = np.arange(20_000) / 20_000 * 2 * np.pi + 1e-7
    for loss in law.losses:
        count = len(loss.neighbors)
        rows = np.random.default_rng(3).standard_normal((count, 20_000))
        if count == 2:
            rows = np.stack((np.cos(angle), np.sin(angle)))
        signs, floors = loss.floors()
        losses = loss.of(rows)
        if signs is None:
            assert count > 2
            assert floors[0] <= losses.min()
            continue
        assert len(signs) == 2**count
        for sign, floor in zip(signs, floors, strict=True):
            lowest = float(losses[(sign == np.sign(rows).T).all(1)].min())
            assert floor <= lowest
            assert floor == pytest.approx(lowest, rel=1e-3, abs=1e-5)


def test_hundreds_of_raters_are_drawn_as_fast_as_few() -> None:
    crowd = from_profiles([[(0, a), (1, b)] for a in (1, 5) for b in (1, 5)] * 150, 2, Scale())
    defense = model(epsilon=4.0, cap=2, likelihood="squares")
    law = defense.law(defense.prepare(crowd))
    # Without the lower bounds almost no proposal would be accepted.
    assert law.losses[0].floors()[1].min() > 50
    assert np.isfinite(law.draw(streams(2000))).all()


def test_a_trial_is_drawn_by_its_index_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    law = model().law(model().prepare(THREE))
    whole = law.draw(streams(300))
    assert np.array_equal(law.draw(streams(200)), whole[:200])
    picked = Streams(streams(1).key, np.array([250, 3, 77]))
    assert np.array_equal(law.draw(picked), whole[[250, 3, 77]])
    monkeypatch.setattr(module, "_BLOCK", 64)
    assert np.array_equal(law.draw(streams(300)), whole)
    assert not np.array_equal(law.draw(streams(300, seed=4)), whole)
    assert len(np.unique(whole)) == whole.size


def test_too_few_acceptances_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_ATTEMPTS", 3)
    law = model(epsilon=5000.0).law(model(epsilon=5000.0).prepare(FOUR))
    with pytest.raises(NoModelError, match=r"row 0 .* of 3000 proposals"):
        law.draw(streams(1000))


def test_what_the_law_does_not_cover_is_refused() -> None:
    few = model(neighbors=2)
    with pytest.raises(ConfigError, match=r"3 neighbours .* params\.neighbors = 2.*raise it"):
        few.law(few.prepare(FOUR))
    assert model(neighbors=3).law(model().prepare(FOUR)) is not None
    many = from_profiles([[(0, 5), (64, 1)]], 65, Scale())
    with pytest.raises(ConfigError, match="65 items are too many"):
        model().law(model().prepare(many))
    plain = model("nonprivate")
    with pytest.raises(ConfigError, match="no law to draw from"):
        plain.law(plain.prepare(TWO))


def test_means_may_be_left_out_of_the_published_form_alone() -> None:
    raw = model(centred=False).prepare(THREE)
    assert (raw.means == 0).all()
    assert np.array_equal(raw.centred, THREE.value)
    with pytest.raises(ValidationError, match="remove centred"):
        model("corrected", centred=False)
