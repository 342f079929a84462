"""Audits of the reconstruction of sensitive ratings, from config to record and reports."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from rich.console import Console
from scipy import stats

from dpaudit.attacks.reconstruction import Reconstruction
from dpaudit.auditor.plan import Plan
from dpaudit.auditor.run import run_audit
from dpaudit.auditor.trainings import joint_mean
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.subject import guess_means, largest_errors
from dpaudit.core.errors import ConfigError, DataError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import random_folds
from dpaudit.data.readers.load import load
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.record.storage import contradiction
from dpaudit.reports.render import console, html, markdown
from dpaudit.reports.sections.base import charts_of

SYNTHETIC = {
    "n_users": 60, "n_items": 30, "mean_per_user": 12, "minimum_per_user": 6, "mean_friends": 3,
}  # fmt: skip
SMALL: dict[str, Any] = {
    "dimensions": 3,
    "rounds": 60,
    "learning_rate": 0.01,
    "decay": 0.5,
    "offset": 3.0,
}
MODELS: list[dict[str, Any]] = [
    {"label": "SoReg", "variant": "nonprivate", "defense": "privsr", "params": SMALL},
    {"label": "PrivSR", "defense": "privsr", "epsilon": [2, 5000], "params": SMALL},
    {
        "label": "DPMF",
        "defense": "privsr",
        "epsilon": 50,
        "params": SMALL | {"noise_kind": "equal", "social": 0.0},
    },
]
BASE: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": SYNTHETIC, "sensitive": {"share": 0.3, "seed": 1}},
    "train": {"folds": 3, "trials": 2, "against": "DPMF"},
    "model": MODELS,
    "attack": {"name": "reconstruction"},
}


def config(**changes: Any) -> TrainedConfig:
    return TrainedConfig.model_validate(BASE | changes)


def run(threads: int = 1, **changes: Any) -> AuditResult:
    return run_audit(config(**changes), workers=Workers(threads))


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return run()


def of(result: AuditResult, metric: str, **where: Any) -> list[Measurement]:
    return [
        measurement
        for measurement in result.measurements
        if measurement.metric == metric
        and all(getattr(measurement, k) == v for k, v in where.items())
    ]


def errors(shown: Any, values: Any) -> list[float]:
    away = np.asarray(shown, np.float64) - values
    return [float(np.sqrt((away**2).mean(1)).mean()), float(abs(away).mean())]


@pytest.mark.long
def test_errors_are_those_of_the_attack_on_either_model_and_of_means(result: AuditResult) -> None:
    ratings = load(config().data)
    part = PrivSR(2.0, **SMALL)
    tables: dict[str, list[list[float]]] = {}
    for number, fold in enumerate(random_folds(ratings, 3, 3)):
        train, streams = fold.train, Streams.first(3, f"fold/{number}", 2)
        kept = train.kept_private
        assert 0.2 < kept.mean() < 0.4
        shared = train.only(~kept)
        wanted = train.user[kept], train.item[kept]
        for states, data in (("released model", train), ("model without them", shared)):
            models = part.train(part.prepare(data), streams)
            shown = Reconstruction().reconstruct(
                models.public(np.arange(30, dtype=np.int32)), shared, *wanted
            )
            tables.setdefault(states, []).append(errors(shown, train.value[kept]))
        rng = np.random.default_rng(np.random.SeedSequence([3, number, *b"halves"]))
        rows = rng.permutation(np.flatnonzero(kept))
        parts = np.split(rows, [len(rows) // 2])
        apart = []
        for trained, other in (parts, parts[::-1]):
            learned = ~kept
            learned[trained] = True
            release = part.train(part.prepare(train.only(learned)), streams).public(
                np.arange(30, dtype=np.int32)
            )
            for half, sign in ((trained, -1), (other, 1)):
                shown = Reconstruction().reconstruct(
                    release, shared, train.user[half], train.item[half]
                )
                apart.append(sign * np.array(errors(shown, train.value[half])))
        tables.setdefault("leak", []).append((np.sum(apart, axis=0) / 2).tolist())
        guess = guess_means(shared, train.item[kept])
        tables.setdefault("item means", []).append(errors(guess[None], train.value[kept]))
    by = {name: np.array(table) for name, table in tables.items()}
    by["better than without them"] = by["model without them"] - by["released model"]
    by["better than item means"] = by["item means"] - by["released model"]
    for place, kind in enumerate(("rmse", "mae")):
        for states, values in by.items():
            [measurement] = of(
                result, f"reconstruction.{kind}", model="PrivSR", epsilon=2.0, detail=states
            )
            assert measurement.attack == "reconstruction"
            assert measurement.estimate.value == pytest.approx(values[:, place].mean(), abs=1e-9)
            low, high = stats.t.interval(
                0.95, 2, values[:, place].mean(), stats.sem(values[:, place])
            )
            assert [measurement.estimate.lower, measurement.estimate.upper] == pytest.approx(
                [low, high]
            )
            assert measurement.estimate.kind == "assumes-law"


def test_a_model_without_noise_leaks_more_than_one_with_much(result: AuditResult) -> None:
    leaks = {
        (measurement.model, measurement.epsilon): measurement.estimate.value
        for measurement in of(result, "reconstruction.rmse", detail="leak")
    }
    assert leaks["SoReg", np.inf] > 0.02
    assert leaks["SoReg", np.inf] > leaks["PrivSR", 2.0]


@pytest.mark.long
def test_gates_judge_what_is_recovered(result: AuditResult) -> None:
    picked = {"model": "PrivSR"}
    gates: list[dict[str, Any]] = [
        {"metric": "reconstruction.rmse", "min": 0.3, "where": picked},
        {"metric": "reconstruction.rmse", "max": 0.3, "where": picked},
        {"metric": "reconstruction.rmse", "max": 3, "where": {**picked, "basis": "leak"}},
        {"metric": "attack.accuracy", "max": 0.99, "where": picked},
        {"metric": "attack.accuracy", "max": 0.01, "where": picked},
    ]
    model = {"label": "PrivSR", "defense": "privsr", "epsilon": 2, "params": SMALL}
    judged = run(gate=gates, model=model, train={"folds": 3, "trials": 12})
    assert [gate.outcome for gate in judged.gates] == ["pass", "fail", "pass", "pass", "fail"]
    assert "basis released model" in judged.gates[0].rule
    # Two bases and the accuracy.
    assert judged.family.size == 3
    for measurement in judged.measurements:
        basis = measurement.metric == "reconstruction.rmse" and measurement.basis in {
            "released model",
            "leak",
        }
        joint = basis or measurement.metric == "attack.accuracy"
        assert (measurement.estimate.kind == "frequentist") == joint
        if joint:
            assert (measurement.estimate.n, measurement.estimate.alpha) == (36, judged.family.alpha)
            assert (
                measurement.estimate.lower < measurement.estimate.value < measurement.estimate.upper
            )
    assert not of(result, "attack.accuracy")
    assert contradiction(judged) is None


@pytest.mark.cases(
    ("gate", "words"),
    [
        ({"where": {"attack": "other"}}, "attack = 'other' is not measured; there is reconstr"),
        ({"metric": "reconstruction.recall"}, "it needs trained models with"),
        ({"metric": "submissions.rmse"}, "it needs trained models with"),
    ],
)
def test_gates_on_what_is_not_recovered_are_refused(gate: dict[str, Any], words: str) -> None:
    one = {"metric": "reconstruction.rmse", "min": 0.3, **gate}
    with pytest.raises(ValidationError, match="basis = 'item means'"):
        config(gate=[{**one, "where": {"basis": "item means"}}])
    with pytest.raises(ConfigError, match=words):
        Plan(config(gate=[one])).check_gates()


@pytest.mark.long
def test_what_a_model_tells_of_others_is_no_leak() -> None:
    # Two thirds are sensitive, so without them a model is worse for all ratings.
    record = run(
        data={"synthetic": SYNTHETIC | {"n_users": 1500}, "sensitive": {"share": 0.67, "seed": 1}},
        model=[MODELS[0] | {"params": SMALL | {"dimensions": 1, "learning_rate": 0.002}}],
        train={"folds": 3},
    )
    at = {
        measurement.detail: measurement.estimate
        for measurement in of(record, "reconstruction.rmse")
    }
    assert at["better than without them"].lower > 4 * abs(at["leak"].value)


@pytest.mark.long
def test_errors_are_compared_fold_by_fold(result: AuditResult) -> None:
    differences = of(result, "utility.difference")
    assert {
        (measurement.model, measurement.epsilon, measurement.detail) for measurement in differences
    } == {
        (model, epsilon, kind)
        for model, epsilon in (("SoReg", np.inf), ("PrivSR", 2.0), ("PrivSR", 5000.0))
        for kind in ("rmse", "mae")
    }
    base = {measurement.metric: measurement.estimate.value for kind in ("rmse", "mae")
            for measurement in of(result, f"utility.{kind}", model="DPMF")}  # fmt: skip
    for measurement in differences:
        [error] = of(
            result,
            f"utility.{measurement.detail}",
            model=measurement.model,
            epsilon=measurement.epsilon,
        )
        expected = error.estimate.value - base[error.metric]
        assert measurement.estimate.value == pytest.approx(expected, abs=1e-9)
        assert measurement.against == "DPMF"
    assert not of(run(train={"folds": 3, "trials": 2}), "utility.difference")


@pytest.mark.long
def test_threads_change_no_number(result: AuditResult) -> None:
    other = run(threads=3)
    assert other.model_dump(exclude={"timing"}) == result.model_dump(exclude={"timing"})


def test_reports_show_the_leak(result: AuditResult) -> None:
    shown = io.StringIO()
    console.show(result, Console(file=shown, width=200))
    for text in (markdown.render(result), html.render(result), shown.getvalue()):
        assert "recovered by reconstruction" in text
        assert "DPMF, fold by fold" in text
        assert "leak" in text
    assert "paired t test" in markdown.render(result)
    # None of these intervals is joint.
    assert "hold together" not in markdown.render(result)


@pytest.mark.long
def test_the_chart_has_a_point_for_each_model_and_epsilon(result: AuditResult) -> None:
    [chart] = [drawn for drawn in charts_of(result) if drawn.name == "recovery"]
    (panel,) = chart.panels
    points = panel.spec["datasets"]["points"]
    errors = {
        (measurement.model, measurement.epsilon): measurement.estimate.value
        for measurement in of(result, "utility.rmse")
    }
    assert sorted(point["error"] for point in points) == sorted(errors.values())
    measurements = of(result, "reconstruction.rmse", detail="released model")
    assert {point["value"] for point in points} == {
        measurement.estimate.value for measurement in measurements
    }
    [mean] = panel.spec["datasets"]["means"]
    assert mean["mean"] == of(result, "reconstruction.rmse", detail="item means")[0].estimate.value
    none = [drawn for drawn in charts_of(run(attack=[])) if drawn.name == "recovery"]
    assert not none


def test_ratings_that_nobody_keeps_cannot_be_recovered() -> None:
    for share, words in ((0.0, r"raise data\.sensitive\.share"), (1.0, r"lower data\.sensitive")):
        with pytest.raises(DataError, match=rf"'reconstruction'.*sensitive: {words}"):
            run(data={"synthetic": SYNTHETIC, "sensitive": {"share": share}})
    with pytest.raises(DataError, match=r"0 of \d+ .*: set data\.sensitive"):
        run(data={"synthetic": SYNTHETIC})


def test_a_comparison_with_a_model_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"train\.against = 'DPFM' .*'DPMF'"):
        config(train={"against": "DPFM"})


# Gates on utility: joint intervals over trainings.


GATES = [
    {"metric": "utility.rmse", "max": 2.0},
    {"metric": "utility.mae", "max": 0.5, "where": {"model": "DPMF"}},
]


@pytest.fixture(scope="module")
def gated() -> AuditResult:
    return run(gate=GATES, train={"folds": 3, "trials": 40, "against": "DPMF"}, attack=[])


@pytest.mark.long
def test_a_gated_error_has_a_joint_interval_over_all_trainings(gated: AuditResult) -> None:
    folds = random_folds(load(config().data), 3, 3)
    defense = PrivSR(2.0, **SMALL)
    values: dict[str, list[Any]] = {"rmse": [], "mae": []}
    for number, fold in enumerate(folds):
        models = defense.train(defense.prepare(fold.train), Streams.first(3, f"fold/{number}", 40))
        away = models.predict(fold.users, fold.items).astype(float) - fold.values
        values["rmse"].append(np.sqrt((away**2).mean(1)))
        values["mae"].append(abs(away).mean(1))
    most = np.max([largest_errors(fold) for fold in folds], axis=0)
    for kind, largest in zip(("rmse", "mae"), most, strict=True):
        [measurement] = of(gated, f"utility.{kind}", model="PrivSR", epsilon=2.0)
        rows = np.stack(values[kind], axis=1)
        expected = joint_mean(rows, gated.family, most=float(largest))
        assert measurement.estimate.value == pytest.approx(expected.value)
        assert measurement.estimate.lower == pytest.approx(expected.lower)
        assert measurement.estimate.upper == pytest.approx(expected.upper)
        assert (measurement.estimate.n, measurement.estimate.kind) == (120, "frequentist")
        # Few of the largest possible errors are that large.
        assert measurement.estimate.upper < 0.9 * largest


@pytest.mark.long
def test_gated_errors_are_counted_and_differences_stay_by_themselves(gated: AuditResult) -> None:
    points = len(gated.points)
    assert gated.family.size == 2 * points
    assert {measurement.estimate.kind for measurement in of(gated, "utility.difference")} == {
        "assumes-law"
    }
    assert contradiction(gated) is None


@pytest.mark.long
def test_gates_on_errors_of_trained_models_pass_and_fail(gated: AuditResult) -> None:
    kept, broken = gated.gates
    assert (kept.outcome, broken.outcome) == ("pass", "fail")
    assert "DPMF, ε = 50" in broken.reason
    few = run(gate=[GATES[0] | {"max": 1.3}], attack=[]).gates[0]
    assert few.outcome == "inconclusive"
    assert "train.trials" in few.reason


@pytest.mark.long
def test_one_gated_error_leaves_the_other_by_itself() -> None:
    record = run(gate=GATES[:1], attack=[])
    kinds = {measurement.metric: measurement.estimate.kind for measurement in record.measurements}
    assert {name: kind for name, kind in kinds.items() if name.startswith("utility.")} == {
        "utility.rmse": "frequentist",
        "utility.mae": "assumes-law",
        "utility.difference": "assumes-law",
    }
