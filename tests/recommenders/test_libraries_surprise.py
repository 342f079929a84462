"""Scores of the adapter are Surprise's own estimates, for absent users and items too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.recommenders.libraries import Surprise

surprise = pytest.importorskip("surprise")

USERS, ITEMS, SEED = 15, 9, 5
DRAWN: list[tuple[str, dict[str, Any]]] = [
    ("SVD", {}),
    ("SVD", {"biased": False}),
    ("SVDpp", {"n_epochs": 3}),
    ("NMF", {}),
    ("CoClustering", {}),
]
FIXED: list[tuple[str, dict[str, Any]]] = [
    ("BaselineOnly", {}),
    ("KNNBasic", {"k": 3}),
    ("KNNBaseline", {"sim_options": {"name": "pearson_baseline", "user_based": False}}),
    ("SlopeOne", {}),
]


def ratings(absent: bool = False) -> Any:
    rng = np.random.default_rng(2)
    values = rng.integers(1, 6, (USERS, ITEMS)) * (rng.random((USERS, ITEMS)) < 0.6)
    # Surprise numbers users and items by their first ratings: here, in order.
    values[0], values[:, 0] = 4, 3
    if absent:
        values[USERS - 1], values[:, ITEMS - 1] = 0, 0
    return csr_array(values.astype(np.float32))


def shown(model: str, settings: dict[str, Any], data: Any) -> Any:
    fitted = Surprise(model, settings).fit(data, SEED)  # type: ignore[arg-type]
    users, items = (index.astype(np.int32).reshape(-1) for index in np.indices(data.shape))
    rows = fitted.rows(np.arange(USERS, dtype=np.int32))
    np.testing.assert_allclose(fitted.scores(users, items), rows.reshape(-1), rtol=1e-5)
    return rows


def expected(model: str, settings: dict[str, Any], data: Any) -> Any:
    algorithm = getattr(surprise, model)(**settings)
    algorithm.random_state = SEED
    entries = data.tocoo()
    table = pd.DataFrame(zip(*entries.coords, entries.data, strict=True))
    algorithm.fit(surprise.Dataset.load_from_df(table, surprise.Reader()).build_full_trainset())
    pairs = [(user, item) for user in range(USERS) for item in range(ITEMS)]
    estimates = [algorithm.predict(user, item, clip=False).est for user, item in pairs]
    return np.reshape(estimates, (USERS, ITEMS))


@pytest.mark.cases(("model", "settings"), DRAWN + FIXED)
def test_scores_are_the_estimates_of_the_library(model: str, settings: dict[str, Any]) -> None:
    scores = shown(model, settings, ratings())
    np.testing.assert_allclose(scores, expected(model, settings, ratings()), rtol=1e-5)


@pytest.mark.cases(("model", "settings"), FIXED)
def test_an_absent_user_or_item_changes_no_other(model: str, settings: dict[str, Any]) -> None:
    data = ratings(absent=True)
    np.testing.assert_allclose(
        shown(model, settings, data), expected(model, settings, data), rtol=1e-5
    )


@pytest.mark.parametrize("model", ["SVD", "NMF"])
def test_a_model_without_biases_gives_the_mean_for_an_absent_user_or_item(model: str) -> None:
    data = ratings(absent=True)
    scores = shown(model, {"biased": False}, data)
    np.testing.assert_allclose(scores[-1], data.data.mean(), rtol=1e-5)
    np.testing.assert_allclose(scores[:, -1], data.data.mean(), rtol=1e-5)
    assert len(np.unique(scores[:-1, :-1])) > USERS


def test_options_of_the_user_stay_as_they_are() -> None:
    recommender = Surprise("KNNBasic", {"sim_options": {"name": "cosine"}})
    recommender.fit(ratings(), SEED)
    assert recommender.settings == {"sim_options": {"name": "cosine"}}


def test_a_misspelt_setting_of_neighbours_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"KNNBasic.*min_K.*correct params.settings"):
        Surprise("KNNBasic", {"min_K": 2}).fit(ratings(), SEED)


def test_what_surprise_divides_by_zero_for_is_named() -> None:
    zero = ratings().toarray()
    zero[1] = 0
    mask = zero > 0
    mask[1] = True  # the ratings of user 1 are all 0
    users, items = np.nonzero(mask)
    data = csr_array((zero[mask], (users, items)), shape=zero.shape)
    recommender = Surprise("KNNBasic", {"sim_options": {"name": "cosine"}})
    with pytest.raises(RunError, match=r"\(KNNBasic\) divides by zero: .* cosine"):
        recommender.fit(data, SEED)
    constant = csr_array(np.full((4, 4), 3, np.float32))
    recommender = Surprise("KNNBaseline", {"sim_options": {"name": "pearson_baseline"}})
    with pytest.raises(RunError, match=r"pearson_baseline: set .*'msd'"):
        recommender.fit(constant, SEED)
