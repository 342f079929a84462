"""`dpaudit.tune_recommender`: what it takes, and how the result shows itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

import dpaudit
from dpaudit.core.errors import ConfigError
from dpaudit.tuning.python import RecommenderTuning

GATES = [{"metric": "attack.tpr", "where": {"at": 0.3}, "max": 0.6}]


class Noisy:
    """Shows what it was trained on, through noise."""

    def __init__(self, noise: float = 0.2) -> None:
        self.noise = noise

    def fit(self, interactions: csr_array, seed: int) -> Noisy:
        rng = np.random.default_rng(seed)
        self.seen = interactions.toarray() > 0
        self.shown = self.seen + self.noise * rng.normal(size=interactions.shape)
        return self

    def scores(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
        shown: NDArray[Any] = self.shown[users, items].astype(np.float32)
        return shown

    def recommend(self, users: NDArray[Any], k: int) -> NDArray[Any]:
        left = np.where(self.seen[users], -np.inf, -np.arange(self.seen.shape[1]))
        return np.argsort(-left, axis=1)[:, :k].astype(np.int32)


def interactions() -> csr_array:
    rng = np.random.default_rng(0)
    return csr_array((rng.random((60, 50)) < 0.4).astype(np.float32))


def tuned(model: Any, search: dict[str, Any], **options: Any) -> RecommenderTuning:
    common = {"gates": GATES, "budget": 60, "observers": ["scores"], "targets": 300, "seed": 2}
    return dpaudit.tune_recommender(model, interactions(), search, **{**common, **options})


@pytest.mark.long
def test_arguments_of_a_class_are_searched(tmp_path: Path) -> None:
    one = tuned(Noisy, {"noise": [0.5, 4.0]}, folder=tmp_path / "kept")
    assert one.result.outcome == "go"
    assert one.settings == {"noise": 4.0}
    assert repr(one).startswith("RecommenderTuning: GO. With noise 4 it is GO: ")
    assert "noise 0.5" in str(one)
    one.save(tmp_path / "page.html")
    assert "<svg" in (tmp_path / "page.html").read_text()
    assert one.outcome.records[1].outcome == "go"


def test_an_object_has_no_arguments() -> None:
    with pytest.raises(ConfigError, match="is an object, and settings are arguments"):
        tuned(Noisy(), {"noise": [1.0]})


def test_without_gates_nothing_can_pass() -> None:
    with pytest.raises(ConfigError, match=r"no \[\[gate\]\] judges"):
        tuned(Noisy, {"noise": [1.0]}, gates=[])
