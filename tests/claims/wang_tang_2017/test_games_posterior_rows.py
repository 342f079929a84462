"""Exact draws of rows of a similarity posterior, against quadrature, brute force, closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.audits.trained.pairs import DataPair
from dpaudit.claims.real_data import canary_pair
from dpaudit.claims.wang_tang_2017.games import RaterLoss, RowsGame, SeenRow, draw_errors, seen_rows
from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.streams import Streams
from dpaudit.data.neighbors import UserReplaced, apply
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity
from dpaudit.defenses.neighborhood.similarity import item_means

Exact = NDArray[np.float64]
DRAWS = 20_000
# Dvoretzky, Kiefer & Wolfowitz 1956 with Massart's constant, at 1e-6.
FAR = math.sqrt(math.log(2 / 1e-6) / (2 * DRAWS))


def pair() -> DataPair:
    """Replace user 0 by one who rates items 2, 3 and 4, some of which two others rate."""
    profiles = [
        [(0, 5.0), (1, 2.0)],
        [(2, 5.0), (3, 1.0), (4, 4.0)],
        [(2, 2.0), (3, 5.0)],
        [(0, 1.0), (1, 4.0)],
    ]
    before = from_profiles(profiles, 5, Scale())
    items = np.array([2, 3, 4], np.int32)
    after = apply(before, UserReplaced(0, items, np.array([1, 5, 1], np.float32)))
    return DataPair(before, after, before, "two items are replaced by three")


def game(defense: SampledSimilarity | None = None, trials: int = DRAWS) -> RowsGame:
    mine = defense or SampledSimilarity(epsilon=20.0, cap=3, more_than=0)
    return RowsGame("any", mine, pair(), user=0, trials=trials)


def rows_of(game: RowsGame) -> tuple[list[SeenRow], float]:
    before, after = (
        game.defense.prepare(ratings, game.data.public)
        for ratings in (game.data.before, game.data.after)
    )
    weight = game.defense.factor(Scale()) / (2 * game.defense.temperature)
    return seen_rows(before, after, game.defense.slope(before), game.user), weight


def test_a_raters_range_is_reached_and_never_left() -> None:
    rng = np.random.default_rng(0)
    for low, high in [(-math.inf, math.inf), (-1.0, 1.5)]:
        for _ in range(20):
            values = rng.uniform(-4, 4, 4)
            rater = RaterLoss(np.arange(4), values, float(rng.uniform(-4, 4)), low, high)
            least, most = rater.range()
            # Mixing the largest |x| with another value, with both signs, gives y every value.
            ends = rng.normal(size=(4000, 4))
            top = int(abs(values).argmax())
            second = (top + 1) % 4
            w = np.linspace(0, 1, 2001)
            near = np.full((4, 2001, 4), 1e-12)
            for place, (p, q) in enumerate([(1, 1), (1, -1), (-1, 1), (-1, -1)]):
                near[place, :, top] = p * w
                near[place, :, second] = q * (1 - w)
            losses = np.concatenate((rater.of(ends), rater.of(near.reshape(-1, 4))))
            assert losses.min() >= least - 1e-9
            assert losses.max() <= most + 1e-9
            assert losses.max() == pytest.approx(most, abs=1e-6)
            assert losses.min() == pytest.approx(least, abs=1e-3)


def predicted(ratings: Ratings, public: Ratings, user: int, item: int, s: Exact) -> float:
    """Eq. (2)."""
    means, profile = item_means(public).astype(float), ratings.profile(user)
    others = [(j, r) for j, r in zip(profile.items, profile.values, strict=True) if j != item]
    top = sum(s[j] * (float(r) - means[j]) for j, r in others)
    return float(means[item] + top / sum(abs(s[j]) for j, _ in others))


def test_a_rows_loss_is_that_of_its_raters() -> None:
    mine = game()
    rows, _ = rows_of(mine)
    assert [row.size for row in rows] == [2, 2, 2]
    assert [len(row.others) for row in rows] == [2, 2, 1]
    rng = np.random.default_rng(3)
    # Neighbours are in the order of the raters' profiles.
    for item, known, row in zip((2, 3, 4), ([3, 4], [2, 4], [2, 3]), rows, strict=True):
        s = rng.normal(size=(1, 2))
        whole = np.zeros(5)
        whole[known] = s[0]
        for ratings, present in ((mine.data.before, False), (mine.data.after, True)):
            assert mine.data.public is not None
            total = 0.0
            for user in ratings.user[ratings.item == item]:
                shown = predicted(ratings, mine.data.public, int(user), item, whole)
                profile = ratings.profile(int(user))
                total += (shown - float(profile.values[profile.items == item][0])) ** 2
            assert row.loss(s, present=present)[0] == pytest.approx(total, rel=1e-5)


def angles(row: SeenRow, weight: float, *, present: bool) -> tuple[Exact, Exact]:
    """The target user's squared error and its probability, by quadrature of a row of two."""
    angle = (np.arange(40_000) + 0.5) / 40_000 * 2 * np.pi
    s = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    law = np.exp(-weight * row.loss(s, present=present))
    return row.target.of(s), law / law.sum()


def distance(drawn: Exact, values: Exact, law: Exact) -> float:
    """The largest difference of the two distribution functions."""
    order = np.argsort(values)
    marks = np.sort(drawn)
    exact = np.concatenate(([0.0], np.cumsum(law[order])))
    at = exact[np.searchsorted(values[order], marks, side="right")]
    below = exact[np.searchsorted(values[order], marks, side="left")]
    steps = np.arange(1, len(marks) + 1) / len(marks)
    return float(max((steps - at).max(), (below - steps + 1 / len(marks)).max()))


@pytest.mark.parametrize("present", [False, True])
def test_draws_have_the_rows_law(present: bool) -> None:
    rows, weight = rows_of(game())
    streams = Streams.first(5, "rows/x", DRAWS)
    errors = draw_errors(rows, weight, streams, present=present)
    moved = 0.0
    for r, row in enumerate(rows):
        assert distance(errors[:, r], *angles(row, weight, present=present)) < FAR + 1e-3
        moved = max(moved, distance(errors[:, r], *angles(row, weight, present=not present)))
        moved = max(moved, distance(errors[:, r], *angles(row, 0.0, present=present)))
    # The test can detect another law.
    assert moved > 3 * FAR


def test_a_trials_draw_is_its_own() -> None:
    rows, weight = rows_of(game())
    many = draw_errors(rows, weight, Streams.first(5, "rows/x", 200), present=True)
    few = draw_errors(rows, weight, Streams.first(5, "rows/x", 7), present=True)
    assert np.array_equal(many[:7], few)
    assert len(np.unique(many)) == many.size


@pytest.mark.long
@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_the_truth_is_that_of_a_quadrature(temperature: float) -> None:
    mine = game(SampledSimilarity(epsilon=8.0, cap=3, more_than=0, temperature=temperature))
    rows, weight = rows_of(mine)
    up = down = 0.0
    for row in rows:
        values, law = angles(row, weight, present=False)
        ratio = -weight * values - math.log(float((law * np.exp(-weight * values)).sum()))
        up, down = up + float(ratio.max()), down - float(ratio.min())
    seen = mine.run(DRAWS, 2)
    truth = seen.truth
    assert truth is not None
    assert truth.kind == "assumes-law"
    # The grid of angles does not quite reach the suprema.
    assert truth.lower - 1e-3 <= max(up, down) <= truth.upper + 1e-3
    assert truth.upper - truth.lower < 0.25 * truth.value
    # Errors are smaller on D'.
    assert seen.present.mean() > seen.absent.mean() + 0.1


@pytest.mark.long
def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"2 neighbours .* = 1 would leave"):
        game(SampledSimilarity(epsilon=1.0, cap=3, more_than=0, neighbors=1)).run(2, 0)
    rows, _ = rows_of(game())
    with pytest.raises(RunError, match="not accepted"):
        draw_errors(rows, 1e6, Streams.first(0, "x", 2), present=True)


@pytest.mark.parametrize("size", [21, 40])
def test_a_canary_rates_what_is_rare_far_from_its_mean(size: int) -> None:
    ratings = generate(SyntheticParams(n_users=80, n_items=150, mean_per_user=30, seed=6))
    pair, user = canary_pair(ratings, size)
    assert pair.public is pair.before is ratings
    profile = pair.after.profile(user)
    assert len(profile) == size
    assert not np.isin(profile.items, ratings.profile(user).items).any()
    assert set(profile.values.tolist()) <= {1.0, 5.0}
    means = item_means(ratings)[profile.items]
    assert (abs(profile.values - means) >= 2).all()
    raters = np.bincount(ratings.item, minlength=150)
    left = np.setdiff1d(np.flatnonzero(raters), [*profile.items, *ratings.profile(user).items])
    assert raters[profile.items].min() > 0
    assert raters[profile.items].max() <= raters[left].min()
    others = [u for u in range(80) if u != user]
    for other in others:
        assert np.array_equal(pair.after.profile(other).items, ratings.profile(other).items)
    assert f"{size} items" in pair.summary
