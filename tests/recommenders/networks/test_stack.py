"""Trainings side by side: every model is the one that is trained alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.training import Training
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.networks.settings import DEFAULTS
from dpaudit.recommenders.torch import Torch

torch = pytest.importorskip("torch")

USERS, ITEMS = 40, 33
EVERY = np.arange(USERS, dtype=np.int32)
MODELS = pytest.mark.parametrize("model", DEFAULTS)


def ratings() -> Ratings:
    source = np.random.default_rng(4)
    user, item = np.nonzero(source.random((USERS, ITEMS)) < 0.5)
    value = source.integers(0, 6, len(user)).astype(np.float32)
    time = source.random(len(user))
    return Ratings.build(user, item, value, USERS, ITEMS, Scale(0, 5, 1), time=time)


DATA = ratings()


def small(model: Any) -> Torch:
    length = 6 if DEFAULTS[model].length else None
    return Torch(model, dimensions=6, epochs=2, sampling_rate=0.3, length=length)


def subsets(count: int) -> list[Interactions]:
    source = np.random.default_rng(5)
    return [Interactions.of(DATA, source.random(len(DATA)) < 0.9) for _ in range(count)]


@MODELS
def test_a_model_does_not_depend_on_what_is_trained_beside_it(model: Any) -> None:
    data, recommender = subsets(10), small(model)
    assert recommender.together == 8
    rows = [fitted.rows(EVERY) for fitted in recommender.fit_many(data, range(10))]
    for index in (0, 3, 9):
        alone = recommender.fit(data[index], index).rows(EVERY)
        # Bit by bit on the machines that were tried; other libraries of linear algebra may round
        # the product of many matrices otherwise than that of one.
        np.testing.assert_allclose(rows[index], alone, rtol=1e-4, atol=1e-5)
    assert abs(rows[0] - rows[1]).max() > 1e-3


@MODELS
def test_a_seed_decides_a_model(model: Any) -> None:
    [data], recommender = subsets(1), small(model)
    first, again, other = (recommender.fit(data, seed).rows(EVERY) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert abs(first - other).max() > 1e-3


def test_a_membership_game_trains_blocks_whose_rows_are_those_of_single_trainings() -> None:
    table = Membership(
        units=["interaction"], interactions=50, users=20, held_out=20, rates=[0.5], k=5
    )
    design = Design.of(DATA, table, 3)
    training = Training(small("sasrec"), design, [("interaction", "scores")])
    assert [len(part) for part in training.parts(20)] == [8, 8, 4]
    rows = training.together((2, 0, 1))
    for row, index in zip(rows, (2, 0, 1), strict=True):
        np.testing.assert_allclose(row, training(index), rtol=1e-4, atol=1e-5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")
@MODELS
def test_a_gpu_gives_the_models_of_the_processor(model: Any) -> None:
    [data] = subsets(1)
    settings: Any = {"dimensions": 6, "epochs": 1, "sampling_rate": 0.5}
    here = Torch(model, **settings).fit(data, 1).rows(EVERY)
    there = Torch(model, **settings, device="cuda").fit(data, 1).rows(EVERY)
    np.testing.assert_allclose(there, here, rtol=0.01, atol=0.01)
