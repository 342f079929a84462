"""A shard's model answers its users, and a deletion from shards is exact."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from membership_cases import Copying, small_ratings  # type: ignore[import-not-found]
from pydantic import ValidationError
from scipy.sparse import csr_array

from dpaudit.audits.models.config import OwnRecommender
from dpaudit.core.errors import ConfigError
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Query
from dpaudit.recommenders.forgetting import Forgetting, Sharded
from dpaudit.recommenders.implicit import Implicit

DATA = small_ratings()
SHAPE = DATA.n_users, DATA.n_items
EVERY = np.repeat(np.arange(60, dtype=np.int32), 30), np.tile(np.arange(30, dtype=np.int32), 60)
QUERY = Query(*EVERY, np.arange(60, dtype=np.int32), 4)
GONE = np.arange(len(DATA)) % 7 == 0


@pytest.mark.filterwarnings("ignore")
def test_a_users_own_shard_answers() -> None:
    pytest.importorskip("implicit")
    model = Implicit(settings={"factors": 4, "iterations": 2})
    sharded = Sharded(model, 3)
    answer = sharded.answer(Interactions.of(DATA), 5, QUERY)
    shard = sharded.of_users(60)
    assert set(shard) == {0, 1, 2}
    alone = model.answer(Interactions.of(DATA, shard[DATA.user] == 1), 5, QUERY)
    own = shard == 1
    for one, other in zip(answer[:2], alone[:2], strict=True):
        np.testing.assert_array_equal(one.reshape(60, -1)[own], other.reshape(60, -1)[own])
        assert (one.reshape(60, -1)[~own] != other.reshape(60, -1)[~own]).any()


@pytest.mark.filterwarnings("ignore")
def test_forgetting_is_a_training_without_bit_by_bit() -> None:
    pytest.importorskip("implicit")
    sharded = Sharded(Implicit(settings={"factors": 4, "iterations": 2}), 3)
    targets = csr_array((np.ones(GONE.sum()), (DATA.user[GONE], DATA.item[GONE])), shape=SHAPE)
    forgets = Forgetting(sharded, "own", targets, 4)
    after = forgets.answer(Interactions.of(DATA), 5, QUERY)
    fresh = sharded.answer(Interactions.of(DATA, ~GONE), 5, QUERY)
    np.testing.assert_array_equal(after.scores, fresh.scores)
    np.testing.assert_array_equal(after.lists, fresh.lists)
    seen = forgets.answer(Interactions.of(DATA), 5, replace(QUERY, before=True)).before
    whole = sharded.answer(Interactions.of(DATA), 5, QUERY).scores
    np.testing.assert_array_equal(seen, whole)
    with pytest.raises(ConfigError, match=r"forget = 'filter' needs .* without shards"):
        Forgetting(sharded, "filter", targets).answer(Interactions.of(DATA), 5, QUERY)


def test_a_users_shard_depends_on_the_index_alone() -> None:
    sharded = Sharded(Copying(), 4)
    np.testing.assert_array_equal(sharded.of_users(100)[:60], sharded.of_users(60))
    assert np.bincount(sharded.of_users(10_000)).min() > 2300


def test_what_shards_lack_is_refused() -> None:
    sharded = Sharded(Copying(), 4)
    query = Query(*EVERY, np.arange(60, dtype=np.int32), 4, factors=True)
    with pytest.raises(ConfigError, match="4 shards publish no common factors"):
        sharded.answer(Interactions.of(DATA), 5, query)
    with pytest.raises(ConfigError, match=r"shards = 1000: .* no interactions"):
        Sharded(Copying(), 1000).answer(Interactions.of(DATA), 5, QUERY)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"library": "most-popular", "forget": "fine-tune"}, "shards forget by 'own' or 'retrain'"),
        ({"returned": "folder"}, "not kept: remove it, or returned"),
    ],
    ids=["another method", "trained elsewhere"],
)
def test_a_table_of_shards_is_checked(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        OwnRecommender.model_validate({**table, "shards": 4})


def test_a_table_of_shards_makes_a_sharded_model() -> None:
    table = OwnRecommender.model_validate({"library": "most-popular", "shards": 4, "forget": "own"})
    assert table.label == "most-popular in 4 shards, forgets by own"
    made = table.create("recommender")
    assert isinstance(made, Sharded)
    assert made.shards == 4
