"""Two towers read features, and neural filtering scores all items as it scores pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.torch import Torch

torch = pytest.importorskip("torch")
pairs = pytest.importorskip("dpaudit.recommenders.networks.network")

USERS, ITEMS = 60, 40


def test_features_are_standardised_numbers_and_one_column_for_each_value() -> None:
    frame = pd.DataFrame({"age": [10.0, 30.0, np.nan], "kind": ["b", None, "b"], "same": [1, 1, 1]})
    columns = pairs.columns_of(frame, 3)
    expected = [[-1, 0, 1, 0], [1, 1, 0, 0], [0, 0, 1, 0]]
    np.testing.assert_allclose(columns, expected)
    assert pairs.columns_of(None, 3).shape == (3, 0)


def test_an_item_without_interactions_is_recommended_by_its_features() -> None:
    source = np.random.default_rng(1)
    taste, kind = np.arange(USERS) % 2, np.arange(ITEMS) % 2
    liked = (taste[:, None] == kind) & (source.random((USERS, ITEMS)) < 0.6)
    liked[:, :4] = False
    user, item = np.nonzero(liked)
    ratings = Ratings.build(
        user, item, np.ones(len(user), np.float32), USERS, ITEMS, Scale(1, 1, 1)
    )
    frame = pd.DataFrame({"kind": np.array(["a", "b"])[kind]})
    recommender = Torch("two-tower", dimensions=4, epochs=30, sampling_rate=0.2, negatives=1)

    def gap(given: Ratings) -> float:
        rows = recommender.fit(Interactions.of(given), 1).rows(np.arange(USERS, dtype=np.int32))
        same = taste[:, None] == kind[:4]
        return float(rows[:, :4][same].mean() - rows[:, :4][~same].mean())

    assert gap(replace(ratings, item_features=frame)) > 1
    assert abs(gap(ratings)) < 0.5


def test_neural_filtering_scores_all_items_as_it_scores_pairs() -> None:
    user, item = np.nonzero(np.eye(USERS, ITEMS))
    ratings = Ratings.build(
        user, item, np.ones(len(user), np.float32), USERS, ITEMS, Scale(1, 1, 1)
    )
    model: Any = Torch("ncf", dimensions=5, epochs=1).fit(Interactions.of(ratings), 1)
    users, items = torch.arange(USERS), torch.arange(ITEMS).expand(USERS, -1)
    expected = model.network(users, items).detach()
    np.testing.assert_allclose(model.rows(users.numpy()), expected, atol=1e-5)
