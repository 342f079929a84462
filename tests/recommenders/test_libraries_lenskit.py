"""Scores of the adapter are those of LensKit's pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpaudit.recommenders.libraries import LensKit, Scorer

pytest.importorskip("lenskit")
# Of the library about its own calls.
pytestmark = pytest.mark.filterwarnings("ignore")

USERS, ITEMS, SEED = 15, 9, 5
EVERY = np.arange(USERS, dtype=np.int32)


def ratings() -> Any:
    rng = np.random.default_rng(2)
    values = rng.integers(1, 6, (USERS, ITEMS)) * (rng.random((USERS, ITEMS)) < 0.3)
    values[0], values[:, 0] = 4, 3
    return csr_array(values.astype(np.float32))


def pairs() -> tuple[Any, Any]:
    users, items = (index.astype(np.int32).reshape(-1) for index in np.indices((USERS, ITEMS)))
    return users, items


@pytest.mark.parametrize("model", ["ItemKNNScorer", "UserKNNScorer", "EASEScorer", "BiasScorer"])
def test_scores_are_the_predictions_of_a_pipeline(model: Scorer) -> None:
    from lenskit import predict
    from lenskit.pipeline import predict_pipeline
    from lenskit.training import TrainingOptions

    fitted = LensKit(model).fit(ratings(), SEED)
    pipeline = predict_pipeline(type(fitted.model)(), fallback=True)
    pipeline.train(fitted.data, TrainingOptions(rng=SEED))
    expected = [predict(pipeline, user, np.arange(ITEMS)).scores() for user in EVERY.tolist()]
    scores = fitted.scores(*pairs()).reshape(USERS, ITEMS)
    np.testing.assert_allclose(scores, expected, rtol=1e-5)


def test_an_item_without_neighbours_is_scored_by_biases_and_not_listed() -> None:
    fitted = LensKit("ItemKNNScorer", {"min_nbrs": 3}).fit(ratings(), SEED)
    assert np.isfinite(fitted.scores(*pairs())).all()
    unknown = np.isnan(fitted.rows(EVERY))
    lists = fitted.recommend(EVERY, ITEMS)
    assert unknown.any()
    assert not any(unknown[user, lists[user][lists[user] >= 0]].any() for user in EVERY)


@pytest.mark.parametrize("model", ["BiasedMFScorer", "ImplicitMFScorer", "FunkSVDScorer"])
def test_factors_give_the_scores_up_to_numbers_of_the_user(model: Scorer) -> None:
    recommender = LensKit(model, {"embedding_size": 4})
    fitted = recommender.fit(ratings(), SEED)
    factors, rows = recommender.factors(fitted), fitted.rows(EVERY)
    assert factors is not None
    assert factors.users is not None
    given = factors.users @ factors.items.T
    np.testing.assert_allclose(given - given[:, :1], rows - rows[:, :1], atol=1e-5)


def test_factors_of_users_that_give_no_score_are_not_published() -> None:
    recommender = LensKit("BiasedMFScorer", {"embedding_size": 4, "user_embeddings": True})
    factors = recommender.factors(recommender.fit(ratings(), SEED))
    assert factors is not None
    assert factors.users is None


@pytest.mark.parametrize("model", ["EASEScorer", "BiasScorer"])
def test_another_model_has_no_factors(model: Scorer) -> None:
    recommender = LensKit(model)
    assert recommender.factors(recommender.fit(ratings(), SEED)) is None


def test_neighbours_predict_ratings_unless_feedback_is_implicit() -> None:
    assert LensKit("UserKNNScorer").predicts_ratings
    assert not LensKit("UserKNNScorer", {"feedback": "implicit"}).predicts_ratings
