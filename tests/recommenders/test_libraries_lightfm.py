"""Scores of the adapter are LightFM's own predictions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csr_array

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.recommenders.libraries import LightFM

lightfm = pytest.importorskip("lightfm")

USERS, ITEMS, SEED = 15, 9, 5


def ratings() -> Any:
    rng = np.random.default_rng(2)
    values = rng.integers(1, 6, (USERS, ITEMS)) * (rng.random((USERS, ITEMS)) < 0.6)
    return csr_array(values.astype(np.float32))


@pytest.mark.cases("model", ["warp", "bpr", "logistic"])
def test_scores_are_the_predictions_of_the_library(
    model: Literal["warp", "bpr", "logistic"],
) -> None:
    scores = LightFM(model, {"epochs": 3}).fit(ratings(), SEED)
    theirs = lightfm.LightFM(loss=model, random_state=SEED).fit(coo_matrix(ratings()), epochs=3)
    users, items = (index.astype(np.int32).reshape(-1) for index in np.indices((USERS, ITEMS)))
    np.testing.assert_allclose(scores.scores(users, items), theirs.predict(users, items), rtol=1e-4)


def test_a_loss_that_the_model_contradicts_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"settings\.loss = 'bpr' of lightfm \(warp\)"):
        LightFM(settings={"loss": "bpr"}).fit(ratings(), SEED)
    LightFM("bpr", {"loss": "bpr", "epochs": 1}).fit(ratings(), SEED)


def test_a_number_of_epochs_that_is_none_is_a_sentence() -> None:
    with pytest.raises(RunError, match=r"lightfm \(warp\) failed to train .*str"):
        LightFM(settings={"epochs": "many"}).fit(ratings(), SEED)
