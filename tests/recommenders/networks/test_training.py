"""Trainings of networks: a seed decides all that is random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

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


def subset() -> Interactions:
    source = np.random.default_rng(5)
    return Interactions.of(DATA, source.random(len(DATA)) < 0.9)


@MODELS
def test_a_seed_decides_a_model(model: Any) -> None:
    data, recommender = subset(), small(model)
    first, again, other = (recommender.fit(data, seed).rows(EVERY) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert abs(first - other).max() > 1e-3


@MODELS
def test_no_interaction_at_all_can_be_trained(model: Any) -> None:
    nothing = Interactions.of(DATA, np.zeros(len(DATA), np.bool_))
    assert np.isfinite(small(model).fit(nothing, 1).rows(EVERY)).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU")
@MODELS
def test_a_gpu_gives_the_models_of_the_processor(model: Any) -> None:
    data = subset()
    settings: Any = {"dimensions": 6, "epochs": 1, "sampling_rate": 0.5}
    here = Torch(model, **settings).fit(data, 1).rows(EVERY)
    there = Torch(model, **settings, device="cuda").fit(data, 1).rows(EVERY)
    np.testing.assert_allclose(there, here, rtol=0.01, atol=0.01)
