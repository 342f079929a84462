"""The peers that `bench/speed.py` times compute the same similarities, where both have them."""

from __future__ import annotations

import numpy as np
import pytest
from bench_peers import implicit_cosine, matrix, purchases, scipy_cosine, surprise_slope_one

from dpaudit.data.ratings import Ratings
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.base import ItemModel
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return generate(SyntheticParams(n_users=80, n_items=200, mean_per_user=25, seed=1))


def rows(model: ItemModel) -> np.ndarray:
    return np.stack([model.row(item) for item in range(model.ratings.n_items)], axis=1)


def test_slope_one_agrees_with_surprise(ratings: Ratings) -> None:
    """The same deviations, eq. (3), where any user rated both; Surprise has NaN elsewhere."""
    model, trainset = surprise_slope_one(ratings)
    model.fit(trainset)
    items = np.unique(ratings.item)
    inner = np.array([trainset.to_inner_iid(item) for item in items])
    # φ = 1 shrunk divides by max(m, 1): eq. (3).
    ours = SlopeOne(epsilon=1, variant="corrected", similarity="shrunk", min_co_ratings=1)
    both = (matrix(purchases(ratings)).T @ matrix(purchases(ratings))).toarray() > 0
    theirs = np.zeros(both.shape)
    theirs[np.ix_(items, items)] = model.dev[np.ix_(inner, inner)]
    assert 0 < both.sum() < both.size
    np.testing.assert_allclose(rows(ours.prepare(ratings)), np.where(both, theirs, 0), atol=1e-5)


def test_cosine_agrees_with_scipy_and_implicit(ratings: Ratings) -> None:
    bought = purchases(ratings)
    ours = rows(Cosine(epsilon=1).prepare(bought))
    theirs, nearest = scipy_cosine(matrix(bought)), implicit_cosine(matrix(bought))
    others = ~np.eye(len(ours), dtype=bool)
    np.testing.assert_allclose(ours, theirs.toarray() * others, atol=1e-5)
    found = nearest.toarray() * others
    assert (found > 0).sum() > 10 * len(ours)
    np.testing.assert_allclose(found, np.where(found, ours, 0), atol=1e-5)
