"""The adapter to implicit, with the real library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.recommenders.implicit import Implicit

pytest.importorskip("implicit")
pytestmark = pytest.mark.filterwarnings("ignore")
I32 = np.int32
MODELS = ("als", "bpr", "lmf", "item-item")


def interactions(seed: int = 2) -> csr_array:
    rng = np.random.default_rng(seed)
    matrix = csr_array((rng.random((15, 10)) < 0.4).astype(np.float32))
    # User 14 and item 9 have nothing.
    dense = matrix.toarray()
    dense[14] = dense[:, 9] = 0
    return csr_array(dense)


def small(model: Any, **settings: Any) -> Implicit:
    size: dict[str, Any] = {"K": 5} if model == "item-item" else {"factors": 4, "iterations": 3}
    return Implicit(model=model, settings={**size, **settings})


EVERY = np.repeat(np.arange(15, dtype=I32), 10), np.tile(np.arange(10, dtype=I32), 15)


@pytest.mark.cases("model", MODELS)
def test_the_seed_decides_everything(model: str) -> None:
    first, again, other = (small(model).fit(interactions(), seed) for seed in (5, 5, 6))
    np.testing.assert_array_equal(first.scores(*EVERY), again.scores(*EVERY))
    same = np.array_equal(first.scores(*EVERY), other.scores(*EVERY))
    assert same == (model == "item-item")


@pytest.mark.cases("model", MODELS)
def test_users_and_items_without_interactions_keep_their_places(model: str) -> None:
    fitted = small(model).fit(interactions(), 1)
    scores = fitted.scores(*EVERY).reshape(15, 10)
    assert np.isfinite(scores).all()
    lists = fitted.recommend(np.arange(15, dtype=I32), 3)
    had = interactions().toarray() > 0
    assert not any(had[user, item] for user, row in enumerate(lists) for item in row if item >= 0)
    # The lists are ordered by the scores.
    for user, row in enumerate(lists):
        shown = scores[user, row[row >= 0]]
        assert (np.diff(shown) <= 1e-6).all()


@pytest.mark.cases("model", MODELS)
def test_training_does_not_change_its_data(model: str) -> None:
    data = interactions()
    fitted = small(model).fit(data, 1)
    np.testing.assert_array_equal(data.toarray(), interactions().toarray())
    np.testing.assert_array_equal(fitted.seen.toarray(), interactions().toarray())


@pytest.mark.cases("model", ["als", "bpr", "lmf"])
def test_scores_are_inner_products_of_the_published_factors(model: str) -> None:
    adapter = small(model)
    fitted = adapter.fit(interactions(), 1)
    factors = adapter.factors(fitted)
    assert factors is not None
    assert factors.users is not None
    expected = (factors.users @ factors.items.T).reshape(-1)
    np.testing.assert_allclose(fitted.scores(*EVERY), expected, rtol=1e-4, atol=1e-6)


def test_similarity_of_items_is_the_cosine_of_their_columns() -> None:
    adapter = Implicit(model="item-item", settings={"K": 10})
    fitted = adapter.fit(interactions(), 1)
    assert adapter.factors(fitted) is None
    dense = interactions().toarray().astype(np.float64)
    norms = np.maximum(np.linalg.norm(dense, axis=0), 1e-12)
    cosine = dense.T @ dense / np.outer(norms, norms)
    np.testing.assert_allclose(
        fitted.scores(*EVERY).reshape(15, 10), dense @ cosine, rtol=1e-5, atol=1e-6
    )


def test_a_setting_that_fails_in_training_names_the_model() -> None:
    with pytest.raises((ConfigError, RunError), match=r"implicit \(als\)"):
        Implicit(settings={"factors": "many"}).fit(interactions(), 1)


@pytest.mark.cases("model", MODELS)
def test_a_gpu_that_is_not_asked_for_is_a_setting_and_one_that_is_is_refused(model: str) -> None:
    plain, off = (small(model, **more).fit(interactions(), 1) for more in ({}, {"use_gpu": False}))
    np.testing.assert_array_equal(plain.scores(*EVERY), off.scores(*EVERY))
    with pytest.raises(ConfigError, match=r"use_gpu = true.*CPU: remove use_gpu"):
        small(model, use_gpu=True).fit(interactions(), 1)


def test_a_random_state_of_the_settings_does_not_replace_the_seed() -> None:
    first, other = (small("als", random_state=3).fit(interactions(), seed) for seed in (5, 6))
    assert not np.array_equal(first.scores(*EVERY), other.scores(*EVERY))
