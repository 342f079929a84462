"""`dpaudit.audit_recommender`: what may be passed, and how the result shows itself."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

import dpaudit
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.data.interactions import given_ratings
from dpaudit.membership import RecommenderAudit


class Fitted:
    """Scores are what was trained on, so every interaction shows."""

    def __init__(self, seen: csr_array) -> None:
        self.seen = seen

    def scores(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = np.asarray(self.seen[users, items]).reshape(-1)
        return found


class Remembers:
    """A model that tells its training data."""

    def fit(self, interactions: csr_array, seed: int) -> Fitted:
        return Fitted(interactions)


def matrix() -> coo_array:
    rng = np.random.default_rng(2)
    return coo_array((rng.random((80, 50)) < 0.4).astype(np.float64))


def audited(model: Any = Remembers, interactions: Any = None, **options: Any) -> RecommenderAudit:
    given = matrix() if interactions is None else interactions
    return dpaudit.audit_recommender(model, given, **{"trainings": 8, "seed": 1, **options})


@pytest.fixture(scope="module")
def found() -> RecommenderAudit:
    return audited()


def test_a_model_that_tells_its_data_is_found_out(found: RecommenderAudit) -> None:
    assert found.estimate("attack.auc").value == 1
    assert found.estimate("epsilon").lower > 2
    assert found.estimate("attack.auc", observer="own-list").value > 0.5


def test_the_result_shows_itself(found: RecommenderAudit, tmp_path: Path) -> None:
    assert "Remembers" in str(found)
    assert "certified ε" in str(found)
    assert "<table>" in found._repr_html_()
    for ending in ("html", "md", "json"):
        found.save(tmp_path / f"report.{ending}")
    assert "Remembers" in (tmp_path / "report.md").read_text(encoding="utf-8")
    with pytest.raises(ConfigError, match="has none of the endings"):
        found.save(tmp_path / "report.pdf")
    with pytest.raises(ConfigError, match="was not measured"):
        found.estimate("attack.auc", unit="user")


@pytest.mark.long
def test_class_object_matrix_and_frame_give_the_same_numbers(found: RecommenderAudit) -> None:
    entries = matrix()
    users, items = entries.coords
    frame = pd.DataFrame({"user": users, "item": items})
    for again in (audited(Remembers()), audited(interactions=frame), audited(seed=1)):
        assert again.record.measurements == found.record.measurements


@pytest.mark.long
def test_an_adapter_can_be_named_or_passed() -> None:
    from dpaudit.recommenders.most_popular import MostPopular

    named, passed = audited("most-popular"), audited(MostPopular())
    assert named.estimate("attack.auc") == passed.estimate("attack.auc")


def test_a_gate_and_a_claim_are_judged() -> None:
    gate = {"metric": "epsilon", "max": "claim", "detectable": 4.0, "where": {"observer": "scores"}}
    judged = audited(claim={"epsilon": 1.0}, gates=[gate])
    assert judged.record.outcome == "fail"


def test_both_units_and_all_lists_are_measured() -> None:
    judged = audited(
        units=("interaction", "user"), observers=("scores", "own-list", "others-lists"), users=30
    )
    assert judged.estimate("attack.auc", unit="user").value > 0.9
    assert judged.estimate("attack.auc", unit="user", observer="others-lists").value < 1


def test_finished_trainings_are_kept(tmp_path: Path, found: RecommenderAudit) -> None:
    short = audited(folder=tmp_path)
    assert short.record.measurements == found.record.measurements
    assert (tmp_path / "tasks.sqlite").exists()


class Faded(Remembers):
    """A model whose state decides how much it tells."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def fit(self, interactions: csr_array, seed: int) -> Fitted:
        return Fitted(interactions * self.weight)


def test_trainings_of_another_object_are_not_taken_for_its_own(tmp_path: Path) -> None:
    values = [
        audited(model, folder=tmp_path).estimate("attack.auc").value
        for model in (Faded(0), Faded(1), Faded(0))
    ]
    assert values == [0.5, 1, 0.5]
    with pytest.raises(ConfigError, match="the model has no lasting identity"):
        audited(lambda: Faded(1), folder=tmp_path)


@pytest.mark.parametrize(
    ("interactions", "said"),
    [
        (pd.DataFrame({"a": [1], "b": [2]}), "none is known to hold the user"),
        ([1, 2], "give a sparse matrix"),
        (coo_array(([np.nan], ([0], [0]))), "NaN or infinite"),
        (coo_array(np.eye(5)), "too few"),
        (pd.DataFrame({"user_id": [], "item_id": []}), "the data frame holds no ratings"),
        (csr_array((50, 40)), "the sparse matrix holds no ratings"),
        (coo_array(np.ones(5)), "has 1 dimension: give users × items"),
        (given_ratings(matrix()).only(np.zeros(matrix().nnz, np.bool_)), "the data set holds no"),
    ],
)
def test_interactions_that_cannot_be_used_are_one_sentence(interactions: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        audited(interactions=interactions)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="settings belong to an adapter"):
        audited(settings={"factors": 3})
    with pytest.raises(ConfigError, match="publishes no factors"):
        audited(observers=("factors",))
    with pytest.raises(ConfigError, match=r"membership\.trainings = 3"):
        audited(trainings=3)
    with pytest.raises(ConfigError, match=r"membership\.users = 0"):
        audited(users=0)
    with pytest.raises(ConfigError, match=r"membership\.observers"):
        audited(observers=())


class Locked(Remembers):
    """A model that cannot be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def locked() -> Locked:
    return Locked()


def test_an_object_that_cannot_be_copied_is_refused_and_what_makes_it_is_not(
    found: RecommenderAudit,
) -> None:
    with pytest.raises(ConfigError, match=r"Locked cannot be copied .*: give the class, or a func"):
        audited(Locked())
    for maker in (Locked, locked):
        again = audited(maker)
        assert again.record.measurements[0].estimate == found.record.measurements[0].estimate
        assert again.record.points[0].model == maker.__name__
