"""Scores of the adapter are Cornac's own, and only models that a seed decides are trained."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError
from dpaudit.recommenders.libraries import Cornac

cornac = pytest.importorskip("cornac")
models = pytest.importorskip("cornac.models")

USERS, ITEMS, SEED = 15, 9, 5
EVERY = np.arange(USERS, dtype=np.int32)


def ratings() -> Any:
    rng = np.random.default_rng(2)
    values = rng.integers(1, 6, (USERS, ITEMS)) * (rng.random((USERS, ITEMS)) < 0.6)
    # Cornac numbers users and items by their first ratings: here, in order.
    values[0], values[:, 0] = 4, 3
    return csr_array(values.astype(np.float32))


@pytest.mark.cases("model", ["MF", "BPR", "UserKNN", "MostPop"])
def test_scores_are_those_of_the_library(model: str) -> None:
    data = ratings()
    scores = Cornac(model).fit(data, SEED).rows(EVERY)
    settings = {} if model == "MostPop" else {"seed": SEED}
    rows = zip(*data.tocoo().coords, data.data, strict=True)
    theirs = getattr(models, model)(**settings).fit(
        cornac.data.Dataset.build(list(rows), seed=SEED)
    )
    expected = [theirs.score(theirs.uid_map[user]) for user in EVERY]
    np.testing.assert_allclose(scores, expected, rtol=1e-6)


def test_pmf_predicts_the_ratings_of_its_pairs() -> None:
    fitted = Cornac("PMF", {"max_iter": 20}).fit(ratings(), SEED)
    pairs = [[fitted.model.score(user, item) for item in range(ITEMS)] for user in EVERY.tolist()]
    np.testing.assert_allclose(fitted.rows(EVERY), pairs, rtol=1e-5)


@pytest.mark.cases("model", ["BPR", "HPF", "MF", "MMMF", "NMF", "SVD", "WBPR"])
def test_factors_give_the_scores_up_to_numbers_of_the_user(model: str) -> None:
    recommender = Cornac(model, {"max_iter": 5})
    fitted = recommender.fit(ratings(), SEED)
    factors, rows = recommender.factors(fitted), fitted.rows(EVERY)
    assert factors is not None
    assert factors.users is not None
    given = factors.users @ factors.items.T
    np.testing.assert_allclose(given - given[:, :1], rows - rows[:, :1], atol=1e-5)


def test_every_argument_of_a_constructor_can_be_set() -> None:
    fitted = Cornac("MF", {"name": "factorisation"}).fit(ratings(), SEED)
    assert fitted.model.name == "factorisation"


def test_neighbours_have_no_factors() -> None:
    recommender = Cornac("ItemKNN")
    assert recommender.factors(recommender.fit(ratings(), SEED)) is None


@pytest.mark.cases("model", ["IBPR", "FM", "GRU4Rec", "Recommender", "vaecf", "Dataset"])
def test_a_model_that_is_not_trained_on_interactions_and_a_seed_is_refused(model: str) -> None:
    with pytest.raises(ConfigError, match=f"params.model = '{model}' is no model"):
        Cornac(model).fit(ratings(), SEED)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_a_missing_library_of_a_model_is_named() -> None:
    with pytest.raises(ConfigError, match=r"cornac \(VAECF\) .*torch.*install it"):
        Cornac("VAECF").fit(ratings(), SEED)


def test_training_leaves_the_global_state_and_the_output_alone(capsys: Any) -> None:
    np.random.seed(1)  # noqa: NPY002
    Cornac("HPF").fit(ratings(), SEED)
    drawn = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert drawn == np.random.random()  # noqa: NPY002
    assert capsys.readouterr().out == ""
