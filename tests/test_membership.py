"""`dpaudit.audit_recommender`: what may be passed, and how the result shows itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

import dpaudit
from dpaudit.core.errors import ConfigError, DataError
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


class Counted(Remembers):
    """The same, which counts the trainings of the class."""

    fits = 0

    def __init__(self, setting: Any = 1) -> None:
        self.setting = setting

    def fit(self, interactions: csr_array, seed: int) -> Fitted:
        Counted.fits += 1
        return Fitted(interactions)


class Unreadable(Counted):
    """The same, whose state cannot be read."""

    def __reduce_ex__(self, _: Any) -> Any:
        raise TypeError

    def __deepcopy__(self, _: Any) -> Unreadable:
        return self


@pytest.mark.long
def test_a_claim_that_is_stated_later_trains_nothing_and_another_object_does(
    tmp_path: Path,
) -> None:
    stated = {"claim": {"epsilon": 1.0}, "gates": [{"metric": "attack.auc", "max": 0.6}]}
    for model, options, trains in (
        (Counted, {}, True),
        (Counted, stated, False),
        (Counted(), stated, True),
        (Counted(), {"confidence": 0.9, "observers": ["others-lists"]}, False),
        (Counted(2), {}, True),
        (Unreadable(), {}, True),
        (Unreadable(), {}, True),
    ):
        before = Counted.fits
        audited(model, folder=tmp_path, **options)
        assert (Counted.fits > before) == trains


@pytest.mark.parametrize(
    ("interactions", "said"),
    [
        (pd.DataFrame({"a": [1], "b": [2]}), "none is known to hold the user"),
        ([1, 2], "give a sparse matrix"),
        (coo_array(([np.nan], ([0], [0]))), "NaN or infinite"),
        (coo_array(np.eye(5)), "too few"),
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
