from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audits.on_demand import search
from dpaudit.audits.on_demand.search import search_pair
from dpaudit.data.neighbors import RatingAdded
from dpaudit.data.ratings import Ratings, Scale, from_profiles
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.base import PredictionPair
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne

STARS = Scale(1, 5, 1)


def ratings_of(seed: int, purchases: bool = False) -> Ratings:
    ratings = generate(SyntheticParams(n_users=150, n_items=120, mean_per_user=30, seed=seed))
    if not purchases:
        return ratings
    ones = np.ones(len(ratings), np.float32)
    return Ratings.build(ratings.user, ratings.item, ones, 150, 120, Scale(1, 1, 1))


def shift(defense: ItemItem, pair: PredictionPair) -> float:
    model = defense.prepare(pair.ratings)
    before = defense.exact(model, pair.ratings.profile(pair.target)).scores
    after = defense.exact_after(model, pair.change, pair.target).scores
    return float(abs(after[pair.items[0]] - before[pair.items[0]]))


@pytest.mark.cases("seed", [0, 1, 2])
@pytest.mark.cases(
    "defense",
    [
        SlopeOne(epsilon=1, min_ratings=10),
        SlopeOne(epsilon=1, min_ratings=10, variant="corrected"),
        Cosine(epsilon=1, min_ratings=10),
    ],
    ids=["cut", "damped", "cosine"],
)
def test_proposals_move_more_than_as_many_random_changes(
    defense: ItemItem, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ratings = ratings_of(seed, purchases=isinstance(defense, Cosine))
    model = defense.prepare(ratings)
    users = np.flatnonzero(np.diff(ratings.by_user.start) >= 10)
    both = search_pair(defense, model, users, candidates=60, seed=seed)
    monkeypatch.setattr(search, "_proposed", lambda *_: [])
    random = search_pair(defense, model, users, candidates=120, seed=seed)
    assert shift(defense, both) > 1.2 * shift(defense, random) > 0


def test_a_planted_crossing_is_found() -> None:
    # Item 0 has exactly φ co-raters with all items of user 0, who has the fewest ratings.
    phi, rest = 3, [(k, 1.0) for k in range(1, 6)]
    agree = [(0, 5.0), *rest]
    noise = [[(6 + i, 3.0), (12 + i, 4.0), *rest[:4], (18, 2.0)] for i in range(6)]
    ratings = from_profiles([rest, rest, *[agree] * phi, *noise], 19, STARS)
    defense = SlopeOne(epsilon=1, min_ratings=5, min_co_ratings=phi)
    model = defense.prepare(ratings)
    users = np.arange(ratings.n_users)
    pair = search_pair(defense, model, users, candidates=40, seed=0)
    assert shift(defense, pair) == pytest.approx(4)
    assert isinstance(pair.change, RatingAdded)
    assert {pair.target, pair.change.user} == {0, 1}
    assert pair.items == (pair.change.item,) == (0,)


def test_memory_is_bounded_by_looking_at_fewer_users(monkeypatch: pytest.MonkeyPatch) -> None:
    ratings = ratings_of(0)
    defense = SlopeOne(epsilon=1, min_ratings=10)
    model = defense.prepare(ratings)
    users = np.flatnonzero(np.diff(ratings.by_user.start) >= 10)
    seen: list[int] = []
    matrix = search._matrix

    def counted(data: Ratings, chosen: search.Users) -> search.Rated:
        seen.append(len(chosen))
        return matrix(data, chosen)

    monkeypatch.setattr(search, "_matrix", counted)
    monkeypatch.setattr(search, "_ENTRIES", 120 * 7)
    search_pair(defense, model, users, candidates=5, seed=0)
    assert seen == [100, 7]


def test_the_same_seed_finds_the_same_pair() -> None:
    ratings = ratings_of(3)
    defense = SlopeOne(epsilon=1, min_ratings=10)
    model = defense.prepare(ratings)
    users = np.flatnonzero(np.diff(ratings.by_user.start) >= 10)
    one, two = (search_pair(defense, model, users, candidates=30, seed=9) for _ in range(2))
    assert (one.target, one.change, one.summary) == (two.target, two.change, two.summary)
