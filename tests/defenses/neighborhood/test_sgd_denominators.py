"""Denominators of Algorithm 1, counted: by brute force, in closed form, and step by step."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity, denominators, shortfalls
from dpaudit.kernels.lanes import LANES


def some() -> Ratings:
    return generate(
        SyntheticParams(n_users=40, n_items=30, mean_per_user=9, minimum_per_user=2, seed=2)
    )


def by_hand(
    defense: SgdSimilarity, ratings: Ratings, item: int, row: np.ndarray, neighbors: int
) -> list[list[float]]:
    """Return `Σ |s_j|` over the largest, with ties, for each rater with another rating."""
    sums = []
    counts = np.diff(ratings.by_user.start)
    for user in ratings.user[ratings.item == item].tolist():
        others = [int(j) for j in ratings.profile(user).items if j != item]
        if counts[user] > defense.more_than and others:
            sizes = [sorted(abs(row[others, w]), reverse=True) for w in range(row.shape[1])]
            least = [row_sizes[min(neighbors, len(row_sizes)) - 1] for row_sizes in sizes]
            sums.append(
                [
                    float(sum(s for s in row_sizes if s >= low))
                    for row_sizes, low in zip(sizes, least, strict=True)
                ]
            )
    return sums


@pytest.mark.cases("neighbors", [1, 3, 500])
def test_denominators_are_sums_over_the_largest_and_all_that_tie(neighbors: int) -> None:
    ratings, rng = some(), np.random.default_rng(1)
    defense = SgdSimilarity(epsilon=1.0, more_than=4)
    data = defense.prepare(ratings)
    row = rng.normal(size=(ratings.n_items, LANES)).astype(np.float32)
    row[::3] = np.sign(row[::3]) * 1.25
    for item in range(ratings.n_items):
        sums = denominators(data, item, row, neighbors)
        expected = np.array(by_hand(defense, ratings, item, row, neighbors)).reshape(-1, LANES)
        assert sums == pytest.approx(expected, rel=1e-5)


@pytest.mark.cases(("weight", "short"), [(1.0, 0), (2.9, 0), (3.0, 0), (3.1, 1), (50.0, 2)])
def test_in_the_first_step_those_with_few_ratings_are_short(weight: float, short: int) -> None:
    # Users with 4 and 7 ratings, and one whose only rating predicts nothing, at s = 1.
    profiles = [[(j, 3.0) for j in range(n)] for n in (4, 7, 1)]
    ratings = from_profiles(profiles, 8, Scale())
    defense = SgdSimilarity(
        epsilon=1.0, steps=1, start=0.1, rescale=10.0, weight=weight, more_than=0
    )
    first, last = shortfalls(defense, defense.prepare(ratings), Streams.first(0, "x", 3))
    assert first.of == 11
    assert first.below.tolist() == [(0, 4, 11)[short]] * 3
    assert first.share == pytest.approx((0, 4, 11)[short] / 11)
    assert first.least.tolist() == pytest.approx([3.0] * 3)
    assert (first.step, last.step) == (1, 1)
    assert last.below.tolist() == first.below.tolist()


def test_rounding_is_no_shortfall() -> None:
    # Thirty times a thirtieth, in single precision.
    ratings = from_profiles([[(j, 3.0) for j in range(31)]], 31, Scale())
    defense = SgdSimilarity(epsilon=1.0, steps=1, start=1 / 300, weight=1.0)
    first, _ = shortfalls(defense, defense.prepare(ratings), Streams.first(0, "x", 1))
    assert first.of == 31
    assert first.below.tolist() == [0]


def test_the_last_step_is_counted_from_the_iterate_before_it() -> None:
    ratings = some()
    defense = SgdSimilarity(epsilon=40.0, steps=4, start=0.2, weight=10.0, more_than=4)
    data = defense.prepare(ratings)
    streams = Streams.first(3, "x", LANES + 4)
    first, last = shortfalls(defense, data, streams)
    below = np.zeros(LANES, np.int64)
    least = np.full(LANES, np.inf)
    for item in range(ratings.n_items):
        *_, row = islice(defense.iterates(data, item, Streams.first(3, "x", LANES)), 4)
        sums = np.array(by_hand(defense, ratings, item, row, 500)).reshape(-1, LANES)
        below += (sums < 10.0).sum(0)
        least = np.minimum(least, sums.min(0, initial=np.inf))
    assert (first.step, last.step) == (1, 4)
    assert last.below[:LANES].tolist() == below.tolist()
    assert last.least[:LANES] == pytest.approx(least, rel=1e-5)
    # Trials differ once there is noise, and begin alike.
    assert len(set(last.below.tolist())) > 3
    assert len(set(first.below.tolist())) == 1
    assert len(last.below) == LANES + 4
    assert not np.array_equal(first.below, last.below)


def test_only_the_rows_that_are_asked_for_are_counted() -> None:
    ratings = some()
    defense = SgdSimilarity(epsilon=1.0, steps=2, weight=70.0, more_than=4)
    data, streams = defense.prepare(ratings), Streams.first(0, "x", 2)
    whole = shortfalls(defense, data, streams)
    halves = [
        shortfalls(defense, data, streams, items) for items in (range(10), list(range(10, 30)))
    ]
    for k in (0, 1):
        assert sum(half[k].of for half in halves) == whole[k].of
        together = halves[0][k].below + halves[1][k].below
        assert together.tolist() == whole[k].below.tolist()
        assert 0 < whole[k].share < 1
