"""Trainings that end without a model, in each kind of audit."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from membership_cases import Copying, Ignorant, small_ratings  # type: ignore[import-not-found]
from numpy.typing import NDArray
from rich.console import Console
from scipy.sparse import csr_array

from dpaudit import audit_recommender
from dpaudit.auditor.plan import RunFolder
from dpaudit.auditor.run import run_audit
from dpaudit.auditor.trainings import diverged, joined, outcomes
from dpaudit.audits.membership.audit import RecommenderAudit
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError, NoModelError, RunError
from dpaudit.core.streams import Streams, generator
from dpaudit.data.interactions import Interactions
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.execution.workers import Workers
from dpaudit.recommenders.base import Answer, Query, Trainable
from dpaudit.record.result import AuditResult
from dpaudit.record.storage import contradiction
from dpaudit.reports.render import console, html, markdown

DATA: dict[str, Any] = {
    "synthetic": {"n_users": 40, "n_items": 20, "mean_per_user": 9, "minimum_per_user": 6},
    "sensitive": {"share": 0.3, "seed": 1},
}
SOUND: dict[str, Any] = {
    "label": "sound", "defense": "dpsgd-mf", "variant": "nonprivate",
    "params": {"dimensions": 2, "epochs": 3, "learning_rate": 0.001},
}  # fmt: skip
WILD: dict[str, Any] = {
    "label": "wild", "defense": "dpsgd-mf", "variant": "nonprivate",
    "params": {"dimensions": 2, "epochs": 300, "learning_rate": 1.0, "decay": 0.0},
}  # fmt: skip


def run(**changes: Any) -> AuditResult:
    base = {"seed": 3, "data": DATA, "train": {"folds": 2, "trials": 2}, "model": [SOUND, WILD]}
    return run_audit(Config.model_validate(base | changes), workers=Workers(1))


def pages(result: AuditResult) -> Iterator[str]:
    shown = io.StringIO()
    console.show(result, Console(file=shown, width=200))
    yield from (shown.getvalue(), markdown.render(result), html.render(result))


def check(result: AuditResult, *said: str) -> None:
    """Check that the record holds together, and that every report says what diverged."""
    assert contradiction(result) is None
    again = AuditResult.model_validate_json(result.model_dump_json())
    assert again.model_dump_json() == result.model_dump_json()
    for page in pages(result):
        flat = " ".join(re.sub(r"<script.*?</script>", "", page, flags=re.S).split())
        assert all(sentence in flat for sentence in said)
        assert not re.search(r"\bnan\b", flat, re.I)


def test_the_other_trainings_of_a_block_keep_their_numbers() -> None:
    def work(streams: Streams) -> NDArray[np.float64]:
        if 5 in streams.trials:
            raise NoModelError("it diverged")
        return np.column_stack([streams.trials, streams.trials**2]).astype(np.float64)

    rows = outcomes(work, Streams.first(1, "test", 8), np.full((1, 1), np.nan))
    expected = np.column_stack([np.arange(8), np.arange(8) ** 2]).astype(np.float64)
    expected[5] = np.nan
    np.testing.assert_array_equal(rows, expected)


def test_indices_of_trainings_are_parts_too() -> None:
    def work(part: tuple[int, ...]) -> NDArray[np.float64]:
        if 2 in part:
            raise NoModelError("it diverged")
        return np.array(part, np.float64)

    np.testing.assert_array_equal(outcomes(work, (1, 2, 4), np.full(1, np.nan)), [1, np.nan, 4])


def test_other_errors_end_the_audit() -> None:
    def work(streams: Streams) -> NDArray[np.float64]:
        raise RunError("a defect")

    with pytest.raises(RunError, match="a defect"):
        outcomes(work, Streams.first(1, "test", 8), np.zeros((1, 1)))


def test_rows_of_several_widths_are_joined() -> None:
    rows = joined([np.full((2, 1), np.nan), np.ones((1, 3))])
    np.testing.assert_array_equal(rows, [[np.nan] * 3, [np.nan] * 3, [1.0] * 3])


def test_a_finding_says_how_many_trainings_ended_without_a_model() -> None:
    assert not list(diverged(0, 10, "utility", "m", 1.0))
    [finding] = diverged(3, 10, "utility", "m", 1.0, ["utility.rmse"])
    assert finding.text.startswith("At ε = 1 it diverged in 3 of 10 trainings for utility: ")
    assert finding.lacks("utility.rmse", "m", 1.0)
    for other in (("utility.mae", "m", 1.0), ("utility.rmse", "m", 2.0)):
        assert not finding.lacks(*other)
    [finding] = diverged(1, 2, "membership", "m", math.inf)
    assert finding.lacks("leak", "m", math.inf)
    assert finding.text.startswith("It diverged in 1 of 2 ")


@pytest.mark.long
def test_a_model_that_diverges_leaves_its_utility_open_and_the_run_goes_on() -> None:
    gates = [
        {"metric": "utility.rmse", "max": 2.9, "where": {"model": label}}
        for label in ("sound", "wild")
    ]
    result = run(gate=gates, train={"folds": 2, "trials": 20}, model=[WILD, SOUND])
    assert {measurement.model for measurement in result.measurements} == {"sound"}
    assert [gate.outcome for gate in result.gates] == ["pass", "inconclusive"]
    assert "40 of 40 trainings for utility" in result.gates[1].reason
    check(result, "40 of 40 trainings for utility")


def failing(monkeypatch: pytest.MonkeyPatch, trials: set[int], owner: Any, name: str) -> None:
    """Let every training of these trials end without a model."""
    train = getattr(owner, name)

    def instead(self: Any, prepared: Any, streams: Streams, *more: Any) -> Any:
        if trials & set(streams.trials.tolist()):
            raise NoModelError("it diverged")
        return train(self, prepared, streams, *more)

    monkeypatch.setattr(owner, name, instead)


@pytest.mark.long
def test_some_trainings_that_diverge_leave_open_what_is_a_mean_over_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changes: dict[str, Any] = {
        "train": {"folds": 2, "trials": 5, "against": "sound"},
        "attack": {"name": "reconstruction"},
        "gate": [
            {"metric": "utility.rmse", "max": 3},
            {"metric": "reconstruction.rmse", "min": 0.1},
            {"metric": "attack.accuracy", "max": 0.99},
        ],
        "model": [SOUND, SOUND | {"label": "other"}],
    }
    whole = run(**changes)
    failing(monkeypatch, {3}, SgdFactors, "train")
    result = run(**changes)
    assert not result.measurements
    assert len(whole.measurements) > 20
    for gate in result.gates:
        assert gate.outcome == "inconclusive"
        group = gate.rule.split(".")[0].replace("attack", "reconstruction")
        of = {"utility": "2 of 10", "reconstruction": "8 of 40"}[group]
        assert f"sound, ε = inf: It diverged in {of} trainings for {group}: " in gate.reason
    check(result, "other: It diverged in 2 of 10 trainings for utility")


@pytest.mark.long
def test_the_other_models_have_the_same_numbers_as_by_themselves(tmp_path: Path) -> None:
    changes: dict[str, Any] = {"attack": {"name": "reconstruction"}, "model": [SOUND, WILD]}
    config = TrainedConfig.model_validate(
        {"seed": 3, "data": DATA, "train": {"folds": 2, "trials": 3}, **changes}
    )
    first = run_audit(config, workers=Workers(2), folder=RunFolder(tmp_path))
    alone = run_audit(config.model_copy(update={"model": config.model[:1]}))
    assert first.measurements == alone.measurements
    again = run_audit(config, folder=RunFolder(tmp_path))
    assert again.model_dump(exclude={"timing"}) == first.model_dump(exclude={"timing"})
    check(first, "diverged in 6 of 6 trainings for utility")


def test_what_is_stored_of_a_training_without_a_model_is_not_trained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = TrainedConfig.model_validate(
        {"seed": 3, "data": DATA, "train": {"folds": 2, "trials": 2}, "model": WILD}
    )
    first = run_audit(config, folder=RunFolder(tmp_path))

    def never(*_: Any) -> None:
        raise AssertionError("it trains")

    monkeypatch.setattr(SgdFactors, "train", never)
    again = run_audit(config, folder=RunFolder(tmp_path))
    assert again.findings == first.findings
    assert [finding.about for finding in again.findings] == ["diverged"]


@pytest.mark.long
def test_a_grid_offers_what_diverges_only_if_nothing_else_is_offered() -> None:
    small = {"label": "m", "defense": "dpsgd-mf", "variant": "nonprivate"}
    params = {"dimensions": 2, "epochs": 300, "decay": 0.0}
    for rates, chosen in (([1.0, 0.001], 0.001), ([1.0, 0.9], 1.0)):
        model = {**small, "params": params, "grid": {"learning_rate": rates}}
        result = run(model=model)
        assert result.points[0].chosen == {"learning_rate": chosen}
        assert bool(result.findings) == (chosen == 1.0)


@pytest.mark.long
def test_submissions_of_a_training_that_diverges() -> None:
    params = {"dimensions": 3, "rounds": 60, "learning_rate": 10.0, "decay": 0.5, "offset": 3.0}
    result = run(
        data=DATA | {"synthetic": DATA["synthetic"] | {"mean_friends": 2}},
        model={"label": "m", "defense": "privsr", "epsilon": 2, "params": params},
        attack=[{"name": "reconstruction"}, {"name": "submissions"}],
        gate={"metric": "submissions.rmse", "min": 0.1},
    )
    said = "diverged in 4 of 4 trainings for submissions"
    assert (result.gates[0].outcome, result.outcome) == ("inconclusive", "undecided")
    assert said in result.gates[0].reason
    # One training whose users' factors are too long counts them: the longest is infinite.
    assert {measurement.metric for measurement in result.measurements} == {"assumption.norm"}
    check(result, said, "diverged in 16 of 16 trainings for reconstruction")


@pytest.mark.long
def test_lists_and_assumptions_of_trainings_that_diverge() -> None:
    params = {"dimensions": 3, "rounds": 300, "learning_rate": 10.0}
    result = run(
        data={"synthetic": DATA["synthetic"] | {"mean_friends": 2}, "binarize": 3},
        model={"label": "m", "defense": "privsr-ranking", "epsilon": 1, "params": params},
        gate={"metric": "utility.ndcg", "min": 0.1},
    )
    assert result.gates[0].outcome == "inconclusive"
    check(result, "diverged in 4 of 4 trainings for utility")
    result = run(
        model={
            "label": "m",
            "defense": "dpsgd-pnbm",
            "epsilon": 1,
            "params": {"learning_rate": 100.0, "more_than": 2, "decay": 1.0, "steps": 500},
        }
    )
    check(result, "diverged in 4 of 4 trainings for utility", "diverged in a training for assump")
    assert (result.measurements, result.outcome) == ([], "no decision")


@pytest.mark.long
def test_transcripts_of_a_training_that_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, {1}, FakeGradients, "transcript")
    params = {"rounds": 5, "dimensions": 3, "offset": 3.0, "spread": 0.7}
    result = run(
        model={"label": "m", "defense": "fake-gradients", "epsilon": 5, "params": params},
        attack=[{"name": "popularity"}],
        transcript={"trials": 3, "rounds": [2]},
        gate=[{"metric": "attack.auc", "max": 0.99}, {"metric": "transcript.kl", "max": 9}],
    )
    said = "diverged in 1 of 3 trainings for transcripts"
    assert all(gate.outcome == "inconclusive" and said in gate.reason for gate in result.gates)
    assert {measurement.metric for measurement in result.measurements} == {
        "utility.rmse",
        "utility.mae",
    }
    check(result, said)


# Membership.


@dataclass(frozen=True)
class Diverging(Copying):  # type: ignore[misc]
    """A model that shows all, if the number of the training's seed lets it end with a model."""

    share: float = 0.0

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        answer: Answer = super().answer(interactions, seed, query)
        if generator(seed, "diverging").random() < self.share:
            answer.scores[:] = np.nan
        return answer


def audit(model: Trainable, trainings: int = 16, **more: Any) -> AuditResult:
    data = small_ratings()
    matrix = csr_array((data.value, (data.user, data.item)), shape=(60, 30))
    gates = [
        {"metric": "attack.auc", "max": 0.99},
        {"metric": "epsilon", "max": 9, "detectable": 3},
        {"metric": "utility.ndcg", "min": 0.01},
        {"metric": "leak", "max": 0.99},
    ]
    return audit_recommender(
        model, matrix, trainings=trainings, targets=60, seed=3, gates=gates, **more
    ).record


@pytest.mark.long
def test_a_membership_game_goes_on_without_the_trainings_that_diverge() -> None:
    some = audit(Diverging(share=0.3), claim={"epsilon": 1.0})
    [finding] = [part for part in some.findings if part.about == "diverged"]
    count = int(finding.text.split("diverged in ")[1].split()[0])
    assert 0 < count < 16
    # Without a model trainings show the same, and this is nothing of the others.
    assert not {"repeated", "missing"} & {finding.about for finding in some.findings}
    # The others show everything, so the claim is false.
    assert [verdict.verdict for verdict in some.verdicts] == ["false"]
    assert all(gate.outcome == "inconclusive" for gate in some.gates)
    for measurement in some.measurements:
        if measurement.metric == "attack.auc" and measurement.attack == "strongest":
            assert (
                0
                <= measurement.estimate.lower
                <= measurement.estimate.value
                < measurement.estimate.upper
            )
            assert measurement.estimate.upper > 0.99  # as if the others told every coin
    check(some, f"diverged in {count} of 16 trainings for membership")


@pytest.mark.parametrize("share", [0.95, 1.0])
def test_a_membership_game_with_hardly_any_model_decides_nothing(share: float) -> None:
    none = audit(Diverging(share=share), trainings=8, claim={"epsilon": 1.0})
    [verdict] = none.verdicts
    assert (verdict.verdict, verdict.reason) == ("not tested", "finding")
    assert [gate.outcome for gate in none.gates] == ["inconclusive"] * 4
    assert all("trainings for membership" in gate.reason for gate in none.gates)
    check(none, "of 8 trainings for membership")
    if share == 1:
        with pytest.raises(ConfigError, match="diverged in 8 of 8 trainings"):
            RecommenderAudit(none).estimate("attack.auc")


@pytest.mark.long
def test_a_defense_that_diverges_in_a_membership_game() -> None:
    table = {
        "units": ["interaction"], "observers": ["scores", "own-list"], "trainings": 8,
        "interactions": 40, "held_out": 40, "k": 4, "rates": [0.5],
    }  # fmt: skip
    results = []
    for workers in (1, 2):
        config = Config.model_validate(
            {
                "seed": 3,
                "data": {"synthetic": DATA["synthetic"]},
                "membership": table,
                "model": [SOUND, WILD],
                "gate": {"metric": "attack.auc", "max": 0.9, "where": {"model": "wild"}},
            }
        )
        results.append(run_audit(config, workers=Workers(workers)))
    assert results[0].model_dump(exclude={"timing"}) == results[1].model_dump(exclude={"timing"})
    assert {measurement.model for measurement in results[0].measurements} == {"sound"}
    assert results[0].outcome == "undecided"
    check(results[0], "wild: It diverged in 8 of 8 trainings for membership")


def test_a_model_that_raises_anything_else_ends_the_game() -> None:
    def fail(answer: Answer, interactions: csr_array, query: Query) -> None:
        raise RunError("a defect")

    with pytest.raises(RunError, match="a defect"):
        audit(Ignorant(change=fail))
