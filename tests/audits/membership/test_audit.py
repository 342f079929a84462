"""`dpaudit.audit_recommender`: what may be passed, and how the result shows itself."""

from __future__ import annotations

import math
import threading
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

import dpaudit
from dpaudit.audits.membership.audit import RecommenderAudit
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.data.interactions import given_ratings
from dpaudit.record.result import STRONGEST


class Fitted:
    """Scores are what was trained on, so every interaction shows."""

    def __init__(self, seen: csr_array) -> None:
        self.seen = seen

    def scores(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
        values: NDArray[Any] = np.asarray(self.seen[users, items]).reshape(-1)
        return values


class Remembers:
    """A model that tells its training data."""

    def fit(self, interactions: csr_array, seed: int) -> Fitted:
        return Fitted(interactions)


class Draws:
    """A model that learns nothing, so any claim holds; lists leave out what their user has seen."""

    shows = -np.inf

    def fit(self, interactions: csr_array, seed: int) -> Draws:
        self.seen = interactions.toarray() > 0
        self.drawn = np.random.default_rng(seed).normal(size=interactions.shape)
        return self

    def scores(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
        values: NDArray[Any] = self.drawn[users, items].astype(np.float32)
        return values

    def recommend(self, users: NDArray[Any], k: int) -> NDArray[Any]:
        left = np.where(self.seen[users], self.shows, self.drawn[users])
        return np.argsort(-left, axis=1)[:, :k].astype(np.int32)


class Recalls(Draws):
    """The same, but lists begin with what their user has seen."""

    shows = np.inf


class Keeps(Draws):
    """The same, but lists leave out nothing."""

    def recommend(self, users: NDArray[Any], k: int) -> NDArray[Any]:
        return np.argsort(-self.drawn[users], axis=1)[:, :k].astype(np.int32)


def matrix() -> coo_array:
    rng = np.random.default_rng(2)
    return coo_array((rng.random((80, 50)) < 0.4).astype(np.float64))


def audited(model: Any = Remembers, interactions: Any = None, **options: Any) -> RecommenderAudit:
    given = matrix() if interactions is None else interactions
    return dpaudit.audit_recommender(model, given, **{"trainings": 8, "seed": 1, **options})


@pytest.fixture(scope="module")
def audit() -> RecommenderAudit:
    return audited()


def test_a_model_that_tells_its_data_is_found_out(audit: RecommenderAudit) -> None:
    assert audit.estimate("attack.auc").value == 1
    assert audit.estimate("epsilon").lower > 2
    assert audit.estimate("attack.auc", observer="own-list").value > 0.5


def test_the_result_shows_itself(audit: RecommenderAudit, tmp_path: Path) -> None:
    assert "Remembers" in str(audit)
    assert "certified ε" in str(audit)
    assert audit._repr_html_().startswith('<iframe srcdoc="&lt;!DOCTYPE html&gt;')
    assert "</main>" in unescape(audit._repr_html_())
    assert len(repr(audit)) < 2000
    assert repr(audit).startswith("RecommenderAudit: NO DECISION. ")
    frame = audit.to_frame()
    assert len(frame) == len(audit.record.measurements)
    wanted = frame.query("metric == 'attack.auc' and observer == 'scores'")
    [area] = wanted[wanted["attack"] == STRONGEST]["value"]
    assert area == audit.estimate("attack.auc").value
    assert not frame.isna().all().any()
    for ending in ("html", "md", "csv", "json"):
        audit.save(tmp_path / f"report.{ending}")
    assert "Remembers" in (tmp_path / "report.md").read_text(encoding="utf-8")
    assert len(pd.read_csv(tmp_path / "report.csv")) == len(frame)
    for unknown in ("report.pdf", "report", "charts.svg"):
        with pytest.raises(ConfigError, match="has none of the endings"):
            audit.save(tmp_path / unknown)
    with pytest.raises(ConfigError, match="was not measured"):
        audit.estimate("attack.auc", unit="user")


@pytest.mark.long
def test_class_object_matrix_and_frame_give_the_same_numbers(audit: RecommenderAudit) -> None:
    entries = matrix()
    users, items = entries.coords
    frame = pd.DataFrame({"user": users, "item": items})
    for again in (audited(Remembers()), audited(interactions=frame), audited(seed=1)):
        assert again.record.measurements == audit.record.measurements


@pytest.mark.long
def test_an_adapter_can_be_named_or_passed() -> None:
    from dpaudit.recommenders.most_popular import MostPopular

    named, passed = audited("most-popular"), audited(MostPopular())
    assert named.estimate("attack.auc") == passed.estimate("attack.auc")


def test_a_gate_and_a_claim_are_judged() -> None:
    gate = {"metric": "epsilon", "max": "claim", "detectable": 4.0, "where": {"observer": "scores"}}
    judged = audited(claim={"epsilon": 1.0}, gates=[gate])
    assert judged.record.outcome == "stop"


@pytest.fixture(scope="module")
def honest() -> RecommenderAudit:
    return audited(Draws, trainings=16, claim={"epsilon": 0.74, "delta": 1e-5})


@pytest.mark.long
def test_what_a_filter_reveals_breaks_no_claim_and_stands_in_every_report(
    honest: RecommenderAudit,
) -> None:
    """The claim holds at scores and others' lists: broken with probability 0.05 at most."""
    [verdict] = honest.record.verdicts
    assert verdict.verdict != "false"
    assert honest.record.outcome != "stop"
    assert honest.estimate("epsilon", observer="own-list").lower > 0.74
    about = {finding.about for finding in honest.record.findings}
    assert {"hide-seen", "beside-claim"} <= about
    said = "More than the claimed ε = 0.74 is certified beside the claim"
    seen = "for one interaction, seen: the list shown to the target's user"
    for name in ("html", "md", "json", "sarif", "junit", "gitlab", "card"):
        text = registry.load("reports", name)(honest.record)
        text = " ".join(unescape(text).split()).replace("\\u03b5", "ε").replace("\\u2265", "≥")
        assert said in text, name
        assert seen in text, name
    for text in (str(honest), unescape(honest._repr_html_())):
        assert said in " ".join(text.split())


@pytest.mark.long
@pytest.mark.parametrize("units", [["interaction"], ["user"]])
@pytest.mark.parametrize(
    ("model", "broken", "covered"),
    [(Draws, False, False), (Keeps, False, True), (Recalls, True, True)],
)
def test_a_claim_is_about_lists_without_a_filter(
    model: type[Draws], broken: bool, covered: bool, units: list[Any]
) -> None:
    adjacency = "rating-add-remove" if units == ["interaction"] else "user-add-remove"
    claim = {"epsilon": 0.5, "delta": 1e-5, "adjacency": adjacency}
    options: dict[str, Any] = {"observers": ["own-list"], "units": units, "users": 30}
    record = audited(model, trainings=32, claim=claim, **options).record
    assert (record.verdicts[0].verdict == "false") == broken
    assert (record.verdicts[0].reason != "no game") == covered


@pytest.mark.long
def test_a_claim_that_names_own_lists_is_judged_on_their_filter() -> None:
    stated = {"epsilon": 0.74, "delta": 1e-5, "observers": ["scores", "own-list"]}
    record = audited(Draws, trainings=16, claim=stated).record
    assert record.verdicts[0].verdict == "false"
    assert "beside-claim" not in {finding.about for finding in record.findings}


def test_both_units_and_all_lists_are_measured() -> None:
    judged = audited(
        units=("interaction", "user"), observers=("scores", "own-list", "others-lists"), users=30
    )
    assert judged.estimate("attack.auc", unit="user").value > 0.9
    assert judged.estimate("attack.auc", unit="user", observer="others-lists").value < 1


def test_finished_trainings_are_kept(tmp_path: Path, audit: RecommenderAudit) -> None:
    short = audited(folder=tmp_path)
    assert short.record.measurements == audit.record.measurements
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


def test_one_training_tells_its_members_by_rows_of_scores() -> None:
    audit = audited(trainings=1, targets=300, observers=["scores", "asked-rows"])
    shown = {
        (m.observer, m.attack): m for m in audit.record.measurements if m.metric == "attack.auc"
    }
    assert shown["asked-rows", "low-rank"].estimate.value > 0.9
    assert ("scores", "low-rank") not in shown


@pytest.mark.long
def test_a_claim_that_is_stated_later_trains_nothing_and_another_object_does(
    tmp_path: Path,
) -> None:
    stated = {"claim": {"epsilon": 1.0}, "gates": [{"metric": "attack.auc", "max": 0.6}]}
    for model, options, trains in (
        (Counted, {}, True),
        (Counted, stated, False),
        (Counted(), stated, True),
        (Counted(), {"confidence": 0.9, "observers": ["others-lists", "asked-rows"]}, False),
        (Counted(2), {}, True),
        (Unreadable(), {}, True),
        (Unreadable(), {}, True),
    ):
        before = Counted.fits
        audited(model, folder=tmp_path, **options)
        assert (Counted.fits > before) == trains


@pytest.mark.cases(
    ("interactions", "said"),
    [
        (pd.DataFrame({"a": [1], "b": [2]}), "none is known to hold the user"),
        ([1, 2], "give a sparse matrix"),
        (coo_array(([np.nan], ([0], [0]))), "the rating nan is not a finite number"),
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
    with pytest.raises(ConfigError, match=r"10 can never fail; write 0\.1 for 10 %"):
        audited(gates=[{"metric": "attack.tpr", "max": 10}])
    with pytest.raises(ConfigError, match=r"membership\.trainings = 0"):
        audited(trainings=0)
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
    audit: RecommenderAudit,
) -> None:
    with pytest.raises(ConfigError, match=r"Locked cannot be copied .*: give the class"):
        audited(Locked())
    for maker in (Locked, locked):
        again = audited(maker)
        assert again.record.measurements[0].estimate == audit.record.measurements[0].estimate
        assert again.record.points[0].model == maker.__name__


# Models that show old data, or hardly anything.


class Bits:
    """Scores from a matrix; lists of its largest."""

    def __init__(self, shown: NDArray[Any], listed: NDArray[Any]) -> None:
        self.shown, self.listed = shown, listed

    def scores(self, users: NDArray[Any], items: NDArray[Any]) -> NDArray[Any]:
        values: NDArray[Any] = self.shown[users, items]
        return values

    def recommend(self, users: NDArray[Any], k: int) -> NDArray[Any]:
        lists: NDArray[Any] = np.argsort(-self.listed[users], axis=1)[:, :k]
        return lists


class Noisy:
    """Learns nothing, and knows it by its noise alone."""

    def fit(self, interactions: csr_array, seed: int) -> Bits:
        first, second = np.random.default_rng(seed).normal(size=(2, *interactions.shape))
        return Bits(*self.shown(interactions.toarray() > 0, first, second, seed))

    def shown(
        self, had: NDArray[Any], scores: NDArray[Any], lists: NDArray[Any], seed: int
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        return scores, lists


def stale(period: int, offset: float = 0.0) -> Any:
    """A class whose every `period`-th model is the first one, up to a constant."""

    class Stale(Noisy):
        first: NDArray[Any] | None = None
        count = 0

        def shown(
            self, had: NDArray[Any], scores: NDArray[Any], lists: NDArray[Any], seed: int
        ) -> tuple[NDArray[Any], NDArray[Any]]:
            kind = type(self)
            kind.first = had * 1.0 + scores if kind.first is None else kind.first
            kind.count += 1
            if kind.count % period:
                return scores, lists
            return kind.first + offset * seed, kind.first

    return Stale


def lossy(share: float) -> Any:
    """A class that gives no score for a share of the pairs."""

    class Lossy(Noisy):
        def shown(
            self, had: NDArray[Any], scores: NDArray[Any], lists: NDArray[Any], seed: int
        ) -> tuple[NDArray[Any], NDArray[Any]]:
            lost = np.random.default_rng([seed, 1]).random(had.shape) < share
            return np.where(lost, np.nan, scores), lists

    return Lossy


TPR = {"metric": "attack.tpr", "max": 0.9, "where": {"observer": "scores", "at": 0.1}}
EPSILON = {
    "metric": "epsilon", "max": "claim", "detectable": 4, "where": {"observer": "scores"},
}  # fmt: skip


def gated(model: Any) -> RecommenderAudit:
    return audited(
        model,
        trainings=64,
        targets=60,
        observers=["scores", "own-list"],
        claim={"epsilon": 1.0, "observers": ["scores"]},
        gates=[TPR, EPSILON, {"metric": "leak", "max": 0.9}],
    )


@pytest.mark.long
def test_an_honest_model_passes() -> None:
    record = gated(Noisy).record
    assert [gate.outcome for gate in record.gates] == ["pass"] * 3
    assert record.verdicts[0].verdict == "survived"
    assert record.findings == []


@pytest.mark.long
@pytest.mark.parametrize("model", [stale(1), stale(3), stale(1, 1e-9)])
def test_no_gate_passes_a_model_that_shows_an_old_one(model: Any) -> None:
    record = gated(model).record
    assert "repeated" in {finding.about for finding in record.findings}
    assert [gate.outcome for gate in record.gates] == ["inconclusive"] * 3
    assert all("show observer" in gate.reason for gate in record.gates)
    assert (record.verdicts[0].verdict, record.verdicts[0].reason) == ("not tested", "finding")


@pytest.mark.parametrize("shape", [(150, 60), (300, 80)])
def test_lists_of_popular_items_that_stay_the_same_are_no_finding(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    chances = 1 / np.arange(1, shape[1] + 1) ** 0.7
    matrix = csr_array((rng.random(shape) < chances).astype(np.float32))
    gate = {"metric": "attack.auc", "max": 0.99, "where": {"observer": "scores"}}
    audit = dpaudit.audit_recommender(
        "most-popular", matrix, trainings=8, targets=60, seed=1, gates=[gate]
    )
    assert "repeated" not in {finding.about for finding in audit.record.findings}


@pytest.mark.long
@pytest.mark.parametrize(("share", "outcome"), [(0.9, "inconclusive"), (0.001, "pass")])
def test_the_share_that_is_missing_is_said_and_bounds_the_gates(share: float, outcome: str) -> None:
    found = gated(lossy(share))
    record = found.record
    (missing,) = record.findings
    assert missing.about == "missing"
    assert missing.undecided == (outcome == "inconclusive")
    assert [gate.outcome for gate in record.gates] == [outcome] * 3
    assert (found.estimate("attack.tpr", at=0.1).upper > 0.9) == (outcome == "inconclusive")
    assert "missing answers" in found.estimate("attack.auc").method


WRONG: dict[str, list[Any]] = {
    "targets": ["x", True, 1.5, math.inf, []],
    "users": ["x", True, 1.5, math.inf, []],
    "folder": [0, True, "", []],
    "workers": [2, "processes:2"],
    **{name: [3] for name in ("units", "observers", "gates")},
    **{name: [-1] for name in ("trainings", "confidence", "seed")},
}


@pytest.mark.cases(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_an_argument_of_the_wrong_kind_is_refused(name: str, value: Any) -> None:
    arguments: dict[str, Any] = {"trainings": 8, name: value}
    with pytest.raises(ConfigError) as caught:
        dpaudit.audit_recommender("most-popular", csr_array(np.eye(60, 40)), **arguments)
    assert name.removesuffix("s") in str(caught.value)
