"""Audits of what the server of a federated training sees, from config to record."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from counted_progress import CountedProgress  # type: ignore[import-not-found]
from sklearn.metrics import roc_auc_score

from dpaudit.attacks.federated.gradient_ratio import GradientRatio
from dpaudit.auditor.measure import MetricKey
from dpaudit.auditor.plan import Plan, RunFolder
from dpaudit.auditor.run import run_audit
from dpaudit.audits.federated.config import FederatedConfig
from dpaudit.audits.federated.measures import _check_pairs
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import random_folds
from dpaudit.data.readers.load import load
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.fake_gradients import TrainingTranscript as ServerTranscript
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult, Measurement

SYNTHETIC = {"n_users": 30, "n_items": 20, "mean_per_user": 8, "minimum_per_user": 4}
SMALL: dict[str, Any] = {"rounds": 5, "dimensions": 3, "offset": 3.0, "spread": 0.7}
PUBLISHED = {"label": "published", "defense": "fake-gradients", "epsilon": [5, 40], "params": SMALL}
CORRECTED = PUBLISHED | {"label": "corrected", "variant": "corrected", "epsilon": 5}
EXACT = {"label": "exact", "defense": "fake-gradients", "variant": "nonprivate", "params": SMALL}
T_TEST = {"name": "zero-mean", "params": {"statistic": "t", "about": "zero"}}
IDEAL = {"name": "gradient-ratio"}
BASE: dict[str, Any] = {
    "seed": 3,
    "data": {"synthetic": SYNTHETIC},
    "train": {"folds": 2, "trials": 1},
    "model": [PUBLISHED, CORRECTED, EXACT],
    "attack": [{"name": "popularity"}, T_TEST, IDEAL],
    "transcript": {"trials": 3, "rounds": [2]},
    # AUCs are measured only if they are gated.
    "gate": [{"metric": "attack.auc", "max": 0.99}],
}
LABELS = ["popularity", "zero-mean (t, zero)", "gradient-ratio"]
# A baseline is judged only by name.
JUDGED = LABELS[1:]
PRIVATE = [("published", 5.0), ("published", 40.0), ("corrected", 5.0)]


def config(**changes: Any) -> Config:
    """Return the config with these tables, and without those that are None."""
    tables = {name: table for name, table in (BASE | changes).items() if table is not None}
    return Config.model_validate(tables)


def observed(**changes: Any) -> FederatedConfig:
    return FederatedConfig.model_validate(BASE | changes)


def run(threads: int = 1, **changes: Any) -> AuditResult:
    return run_audit(config(**changes), workers=Workers(threads))


def of(result: AuditResult, metric: str, **where: Any) -> list[Measurement]:
    return [
        measurement
        for measurement in result.measurements
        if measurement.metric == metric
        and all(getattr(measurement, k) == v for k, v in where.items())
    ]


def numbers(result: AuditResult) -> str:
    return json.dumps(result.model_dump(mode="json", exclude={"timing"}))


@pytest.mark.cases(
    ("changes", "words"),
    [
        ({"transcript": {"rounds": [2, 9]}}, "transcript.rounds ends at 9, .*params.rounds = 5"),
        (
            {"model": [CORRECTED, PUBLISHED | {"params": {}, "grid": {"dimensions": [2, 3]}}]},
            "model 'published' has a grid",
        ),
        (
            {
                "model": [CORRECTED, PUBLISHED | {"params": SMALL | {"rounds": 3}}],
                "transcript": {"rounds": [4]},
            },
            "ends at 4, and a model has params.rounds = 3",
        ),
    ],
)
def test_what_a_model_cannot_run_is_refused_before_anything_is_trained(
    changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(*_: object) -> None:
        raise AssertionError

    for name in ("train", "transcript"):
        monkeypatch.setattr(FakeGradients, name, trained)
    with pytest.raises(ConfigError, match=words) as caught:
        run(**changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"params": SMALL | {"density": 0}}, "model 'published' has params.density = 0"),
        # A hundredth of so few ratings rounds to no fakes.
        (
            {"params": SMALL | {"density": 0.01}},
            "fewer than two of the observed users submit fakes",
        ),
    ],
)
def test_models_whose_users_submit_no_fakes_are_refused_before_anything_is_run(
    changes: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def outcome(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(ServerTranscript, "rounds", outcome)
    with pytest.raises(ConfigError, match=words) as caught:
        run(model=[PUBLISHED | changes])
    assert "\n" not in str(caught.value)


@pytest.mark.cases(
    ("users", "real", "words"),
    [
        ([0, 0, 1, 1], [1, 1, 0, 0], "submit real pairs"),
        ([0, 0, 1, 1], [1, 0, 1, 1], "submit fakes"),
        ([0, 1, 1, 1], [0, 1, 1, 0], "submit real pairs"),
        ([0, 0, 1, 1], [0, 0, 0, 0], "submit real pairs"),
        ([0, 0, 1, 1], [1, 1, 1, 1], "submit fakes"),
        ([0, 0, 1, 1], [1, 0, 1, 0], None),
        ([0, 1, 2, 3], [1, 0, 1, 0], None),
    ],
)
def test_pairs_of_either_kind_are_of_two_users_at_least(
    users: list[int], real: list[int], words: str | None
) -> None:
    given = SimpleNamespace(
        real=np.array(real, np.bool_), pairs=SimpleNamespace(users=np.array(users))
    )
    if words is None:
        _check_pairs(given)
        return
    with pytest.raises(ConfigError, match=f"fewer than two .* {words}"):
        _check_pairs(given)


def joint(config: Config) -> list[MetricKey]:
    return [key for key in Plan(config).keys if key.joint]


def test_intervals_are_counted_for_every_private_point_and_attack() -> None:
    game = {"pair": "data", "observe": "public", "trials": 20}
    measured = joint(config(game=[game]))
    areas = [key for key in measured if key.metric == "attack.auc"]
    assert [(key.model, key.epsilon, key.attack) for key in areas] == [
        (*point, label) for point in PRIVATE for label in JUDGED
    ]
    bounds = [(key.model, key.epsilon) for key in measured if key.metric == "epsilon"]
    assert bounds == [*PRIVATE, ("exact", math.inf)]
    assert len(measured) == 6 + 4
    assert len(joint(config(attack=[]))) == 3 * 12
    assert joint(config(model=[EXACT])) == []
    assert len(joint(config(attack=[], game=[game], transcript=None, gate=[]))) == 4


@pytest.mark.long
@pytest.mark.parametrize("gate", [[], [{"metric": "epsilon", "max": 9, "detectable": 12}]])
def test_areas_that_no_gate_asks_for_are_not_measured(gate: list[dict[str, Any]]) -> None:
    game = {"pair": "data", "observe": "public", "trials": 20, "params": {"calibration": 16}}
    given: dict[str, Any] = {"model": [CORRECTED], "attack": [IDEAL], "game": [game]}
    assert [key.metric for key in joint(config(**given, gate=gate))] == ["epsilon"]
    without = run(**given, gate=gate)
    assert without.family.size == 1
    assert not of(without, "attack.auc")
    # An AUC in the family widens the other joint interval; separate intervals do not change.
    gated = run(**given)
    assert gated.family.size == 2
    assert len(of(gated, "attack.auc")) == 1
    assert gated.family.alpha == pytest.approx(without.family.alpha / 2)
    assert of(without, "transcript.auc") == of(gated, "transcript.auc") != []


# The audit.


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return run()


def test_every_attack_has_an_area_at_every_private_point(result: AuditResult) -> None:
    areas = of(result, "attack.auc")
    assert [(m.model, m.epsilon, m.attack) for m in areas] == [
        (*point, label) for point in PRIVATE for label in JUDGED
    ]
    assert result.family.size == len(areas) == 6
    for area in areas:
        estimate = area.estimate
        assert (area.step, area.detail, area.at, area.pair) == (5, None, None, None)
        assert (estimate.kind, estimate.n) == ("frequentist", 3)
        assert estimate.alpha == result.family.alpha == pytest.approx(0.05 / 6)
        assert estimate.confidence == pytest.approx(0.95)
        assert 0 <= estimate.lower <= estimate.value <= estimate.upper <= 1
    by = {(m.model, m.epsilon, m.attack): m.estimate.value for m in areas}
    # With less noise an attack that knows the gradients learns more.
    assert by["published", 40.0, "gradient-ratio"] > by["published", 5.0, "gradient-ratio"] > 0.6
    # The training starts alike at every ε, so findings before any round are equal.
    before = {
        m.epsilon: m.estimate.value
        for m in of(result, "transcript.auc", model="published", attack="popularity", step=5)
        if m.detail is None
    }
    assert before[40.0] == before[5.0]
    assert set(result.attacks) == set(LABELS)
    assert result.attacks["zero-mean (t, zero)"]["statistic"] == "t"


def test_attackers_are_asked_after_the_rounds_of_the_config_alone(result: AuditResult) -> None:
    for metric in ("transcript.auc", "transcript.power", "transcript.exposed", "transcript.kl"):
        for point in PRIVATE:
            measurements = of(result, metric, model=point[0], epsilon=point[1])
            assert {measurement.step for measurement in measurements} == {2, 5}, metric
    for point in [*PRIVATE, ("exact", math.inf)]:
        errors = of(result, "transcript.rmse", model=point[0], epsilon=point[1])
        assert [measurement.step for measurement in errors] == [1, 2, 3, 4, 5]
        assert all(0.3 < measurement.estimate.value < 4 for measurement in errors)
    quarters = [measurement for measurement in of(result, "transcript.auc") if measurement.detail]
    assert quarters
    assert {measurement.step for measurement in quarters} == {5}


def test_numbers_of_one_training_stand_for_users_like_these(result: AuditResult) -> None:
    for measurement in result.measurements:
        if measurement.metric.startswith("transcript."):
            assert measurement.estimate.kind in {"assumes-law", "exact"}
            assert measurement.estimate.alpha == 0 or measurement.estimate.alpha == pytest.approx(
                0.05
            )
    parts = {
        measurement.detail for measurement in of(result, "transcript.kl", model="published", step=5)
    }
    assert parts == {"whole", "scatter", "apart", "delay", "estimate"}
    # Clipped gradients have no parts; their divergence is far smaller.
    [cut] = of(result, "transcript.kl", model="corrected", step=5)
    [whole] = of(result, "transcript.kl", model="published", epsilon=5.0, detail="whole", step=5)
    assert 0 < cut.estimate.value < whole.estimate.value
    kl = {
        measurement.detail: measurement.estimate.value
        for measurement in of(result, "transcript.kl", model="published", epsilon=40.0, step=5)
    }
    # All users are observed and submit for all candidates.
    assert kl["scatter"] + kl["apart"] == pytest.approx(kl["whole"], rel=1e-3)


def test_users_without_privacy_submit_no_fakes_and_only_errors_are_measured(
    result: AuditResult,
) -> None:
    metrics = {
        measurement.metric for measurement in result.measurements if measurement.model == "exact"
    }
    assert metrics - {"assumption.floor"} == {*("utility.rmse", "utility.mae", "transcript.rmse")}
    assert all(
        measurement.estimate.value == 0
        for measurement in of(result, "assumption.floor", model="exact")
    )


def test_floored_shares_are_counted_once_a_point(result: AuditResult) -> None:
    for model, epsilon in PRIVATE:
        measurements = of(result, "assumption.floor", model=model, epsilon=epsilon)
        # The corrected form asks no user.
        assert len(measurements) == (model == "published")
        assert all(
            measurement.step == 0 and 0 < measurement.estimate.value <= 20
            for measurement in measurements
        )


def test_areas_are_means_over_the_trainings_of_the_first_fold(result: AuditResult) -> None:
    [first, _] = random_folds(load(observed().data), 2, 3)
    for epsilon in (5.0, 40.0):
        defense = FakeGradients(epsilon, **SMALL)
        prepared, areas, errors = defense.prepare(first.train), [], []
        for trial in Streams.first(3, "transcript", 3).blocks(1):
            seen = defense.transcript(prepared, trial)
            reader = GradientRatio().reader(seen.pairs)
            for round_, _ in seen.rounds():
                reader.see(round_)
            areas.append(roc_auc_score(seen.real, reader.verdicts().scores))
            away = seen.models().predict(first.users, first.items)[0] - first.values
            errors.append(float(np.sqrt((away.astype(float) ** 2).mean())))
        where = {"model": "published", "epsilon": epsilon, "step": 5}
        [area] = of(result, "attack.auc", **where, attack="gradient-ratio")
        assert area.estimate.value == pytest.approx(np.mean(areas), rel=1e-9)
        [same] = of(result, "transcript.auc", **where, attack="gradient-ratio", detail=None)
        assert same.estimate.value == pytest.approx(np.mean(areas), rel=1e-9)
        [error] = of(result, "transcript.rmse", **where)
        assert error.estimate.value == pytest.approx(np.mean(errors), rel=1e-5)
        assert np.std(areas) > 1e-4


@pytest.mark.long
def test_the_numbers_are_the_same_on_any_number_of_threads(result: AuditResult) -> None:
    assert numbers(run(threads=3)) == numbers(result)
    other = run(seed=4)
    for metric in ("attack.auc", "transcript.rmse", "transcript.kl"):
        values = [
            [measurement.estimate.value for measurement in of(r, metric)] for r in (result, other)
        ]
        assert values[0] != values[1]


def test_another_confidence_and_other_gates_train_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {"model": [CORRECTED], "attack": [IDEAL]}
    run_audit(config(**given), folder=RunFolder(tmp_path))
    gate = {"metric": "transcript.kl", "max": 1.0}
    changes: list[dict[str, Any]] = [
        {"audit": {"confidence": 0.9}}, {"gate": [gate]}, {"gate": []},
    ]  # fmt: skip
    wanted = [numbers(run_audit(config(**given, **change))) for change in changes]
    monkeypatch.setattr(FakeGradients, "transcript", None)
    monkeypatch.setattr(FakeGradients, "train", None)
    for change, expected in zip(changes, wanted, strict=True):
        assert numbers(run_audit(config(**given, **change), folder=RunFolder(tmp_path))) == expected


@pytest.fixture(scope="module")
def divergent() -> AuditResult:
    gates = [
        {"metric": "transcript.kl", "max": 1e-4, "where": {"model": "published", "epsilon": 40}},
        {"metric": "transcript.kl", "max": 1e6, "where": {"model": "published", "epsilon": 5}},
        {"metric": "transcript.kl", "min": 1e-4, "where": {"model": "published", "epsilon": 40}},
        {"metric": "transcript.kl", "max": 10, "where": {"model": "corrected"}},
        {"metric": "transcript.kl", "max": 10, "where": {"model": "two-valued"}},
        {"metric": "transcript.kl", "max": 0.03, "where": {"model": "corrected"}},
    ]
    two = {**PUBLISHED, "label": "two-valued", "epsilon": 5}
    two["params"] = {**SMALL, "fakes": "two-valued"}
    models = [PUBLISHED, CORRECTED, two]
    return run(model=models, attack=[{"name": "popularity"}], transcript={"trials": 6}, gate=gates)


@pytest.mark.long
def test_gates_judge_the_divergence_of_submissions(divergent: AuditResult) -> None:
    assert [gate.outcome for gate in divergent.gates] == [
        "fail", "inconclusive", "pass", "pass", "pass", "inconclusive",
    ]  # fmt: skip
    assert "so max cannot pass" in divergent.gates[1].reason
    assert divergent.gates[3].reason.endswith("the law that its code states")
    # One joint number a point, beside those that stand by themselves.
    assert divergent.family.size == 4
    joint = [m for m in of(divergent, "transcript.kl") if m.estimate.kind == "frequentist"]
    assert [(m.model, m.epsilon, m.step, m.part) for m in joint] == [
        ("published", 5.0, 5, "whole"),
        ("published", 40.0, 5, "whole"),
        ("corrected", 5.0, 5, "whole"),
        ("two-valued", 5.0, 5, "whole"),
    ]
    for measurement in joint:
        assert (measurement.estimate.n, measurement.estimate.alpha) == (6, divergent.family.alpha)
        assert (
            0 < measurement.estimate.lower < measurement.estimate.value < measurement.estimate.upper
        )
        assert np.isfinite(measurement.estimate.upper) == (measurement.model != "published")
    # The same number without a gate is that of users like these.
    here = [m for m in of(divergent, "transcript.kl", part="whole") if m.step == 5]
    assert len(here) == len(joint)


@pytest.mark.long
def test_gates_judge_the_divergence_of_a_game() -> None:
    games = [
        {"pair": "data", "observe": "recommender", "trials": 200},
        {"pair": "data", "observe": "public", "trials": 60, "params": {"calibration": 16}},
    ]
    gates = [
        {"metric": "game.kl", "max": 20, "where": {"pair": "data (recommender)"}},
        {"metric": "game.kl", "max": 20, "where": {"pair": "data (public)"}},
        {"metric": "game.kl", "max": 0.001, "where": {"pair": "data (recommender)"}},
    ]
    record = run(
        model=[CORRECTED | {"epsilon": 20}],
        attack=[{"name": "popularity"}],
        transcript={"trials": 1},
        game=games,
        gate=gates,
    )
    joint = {m.pair: m.estimate for m in of(record, "game.kl", estimator="one threshold")}
    assert len(joint) == 2
    assert record.family.size == 4
    law = joint["data (recommender)"]
    assert 0.001 < law.lower < law.value < law.upper < 20
    assert math.isinf(joint["data (public)"].upper)
    assert [gate.outcome for gate in record.gates] == ["pass", "inconclusive", "fail"]
    # The other estimates stand beside it and decide nothing.
    assert len(of(record, "game.kl")) == 5


def test_a_point_is_audited_alike_beside_others(result: AuditResult) -> None:
    alone = run(model=[CORRECTED], attack=[IDEAL], audit={"confidence": 1 - 0.05 / 9})
    for metric in ("attack.auc", "transcript.kl", "transcript.rmse"):
        here, there = (
            [
                measurement.estimate.value
                for measurement in of(record, metric, model="corrected")
                if measurement.attack in {None, "gradient-ratio"}
            ]
            for record in (alone, result)
        )
        assert here == there
    [area] = of(alone, "attack.auc")
    [same] = of(result, "attack.auc", model="corrected", attack="gradient-ratio")
    assert area.estimate.lower == same.estimate.lower


def test_some_users_are_observed_and_the_training_is_of_all() -> None:
    given: dict[str, Any] = {"model": [PUBLISHED | {"epsilon": 5}], "attack": [IDEAL]}
    some, more = (run(transcript={"trials": 2, "users": n}, **given) for n in (8, 2000))
    for record, count in ((some, 8), (more, 30)):
        areas = of(record, "transcript.auc", detail=None)
        for measurement in areas + of(record, "transcript.kl", detail="whole"):
            # Users with a rating in the fold's training set.
            assert count - 2 <= measurement.estimate.n <= count
    # The errors are on the same data, with other draws of the same noise.
    a, b = (of(record, "transcript.rmse", step=5)[0].estimate.value for record in (some, more))
    assert a != b
    assert a == pytest.approx(b, rel=0.3)


def test_trainings_that_are_observed_are_counted() -> None:
    progress = CountedProgress()
    run_audit(config(attack=[IDEAL]), workers=Workers(2), progress=progress)
    # At 4 points: 2 folds and 3 observed trainings.
    assert progress.done == progress.total == 4 * (2 + 3)
    assert {f"{label}: transcripts" for label in ("published", "corrected", "exact")} < {
        *progress.stages
    }


@pytest.mark.long
def test_gates_judge_the_expected_area() -> None:
    # With so little noise fakes stand out; an attack that reads no rounds cannot find them all.
    gates: list[dict[str, Any]] = [
        {"max": 0.6, "where": {"attack": "gradient-ratio"}},
        {"min": 0.6, "where": {"attack": "gradient-ratio"}},
        {"max": 0.98, "where": {"attack": "gradient-ratio"}},
        {"max": 0.85, "where": {"attack": "popularity", "model": "published", "epsilon": 400}},
        {"max": 0.85},
    ]
    record = run(
        model=[PUBLISHED | {"epsilon": 400}],
        attack=[{"name": "popularity"}, IDEAL],
        transcript={"trials": 40},
        gate=[{"metric": "attack.auc", **gate} for gate in gates],
    )
    by = {measurement.attack: measurement.estimate for measurement in of(record, "attack.auc")}
    assert by["gradient-ratio"].value > 0.99
    # The popularity attack's expected AUC is certified to be below the ideal attack's.
    assert 0.5 < by["popularity"].upper < 0.85 < by["gradient-ratio"].lower
    outcomes = [gate.outcome for gate in record.gates]
    assert outcomes == ["fail", "pass", "inconclusive", "pass", "fail"]
    assert record.outcome == "stop"


# What the same server sees of two neighbouring data sets.


@pytest.fixture(scope="module")
def outcome() -> AuditResult:
    return run(
        model=[PUBLISHED | {"epsilon": 5}, CORRECTED],
        attack=[{"name": "popularity"}],
        transcript={"trials": 2},
        game=[{"pair": "data", "observe": "recommender", "trials": 160}],
    )


@pytest.mark.long
def test_games_of_the_recommender_have_the_law_beside_the_bound(outcome: AuditResult) -> None:
    assert {pair.model: pair.pair for pair in outcome.pairs} == {
        "published": "data (recommender)",
        "corrected": "data (recommender)",
    }
    for pair, adjacency in zip(outcome.pairs, ("rating-add-remove", "user-replace"), strict=True):
        assert f"({adjacency}, observer recommender)" in pair.summary
    assert outcome.family.size == 2 + 2
    for model in ("published", "corrected"):
        [bound] = of(outcome, "epsilon", model=model)
        assert bound.attack == "likelihood-ratio"
        assert bound.theory is not None
        assert bound.theory.kind == "assumes-law"
        assert 0 == bound.theory.lower < bound.theory.value == bound.theory.upper
        assert (bound.theory.n, bound.theory.alpha) == (64, 1)
        # The certified bound is at most the ε by the law.
        assert bound.estimate.lower <= bound.theory.upper
    [corrected] = of(outcome, "epsilon", model="corrected")
    assert corrected.theory is not None
    assert corrected.theory.value <= 5


@pytest.mark.long
def test_gates_judge_what_the_recommender_sees() -> None:
    wide = {"metric": "epsilon", "max": "claim", "detectable": 60}
    gates = [
        wide | {"where": {"model": "corrected"}},
        wide | {"where": {"model": "corrected"}, "detectable": 1.5},
        wide | {"where": {"model": "published"}},
    ]
    record = run(
        model=[PUBLISHED | {"epsilon": 0.3}, CORRECTED | {"epsilon": 0.3}],
        attack=[{"name": "popularity"}],
        transcript={"trials": 1},
        game=[{"pair": "data", "observe": "recommender", "trials": 200}],
        gate=gates,
    )
    # Too few trials to certify anything, and the published form's ε by law exceeds its claim.
    assert [gate.outcome for gate in record.gates] == ["pass", "inconclusive", "inconclusive"]
    for gate, words in zip(
        record.gates, ("finds noise for ε = 18", "use more game.trials", "by the law"), strict=True
    ):
        assert words in gate.reason


@pytest.mark.long
def test_games_of_the_recommender_estimate_divergences(outcome: AuditResult) -> None:
    for model in ("published", "corrected"):
        measurements = {
            measurement.detail: measurement for measurement in of(outcome, "game.kl", model=model)
        }
        assert set(measurements) == {"mean log-ratio", "normal plug-in", "nearest neighbours"}
        [bound] = of(outcome, "epsilon", model=model)
        for measurement in measurements.values():
            assert (measurement.pair, measurement.attack) == (bound.pair, bound.attack)
            assert measurement.estimate.kind == "assumes-law"
            assert measurement.estimate.alpha == pytest.approx(0.05)
        exact = measurements["mean log-ratio"].estimate
        near = measurements["normal plug-in"].estimate
        assert near.lower <= exact.upper
        assert exact.lower <= near.upper


@pytest.mark.long
def test_games_of_other_observers_have_no_law_of_the_steps(outcome: AuditResult) -> None:
    game = {"pair": "data", "observe": "public", "trials": 20, "params": {"calibration": 16}}
    record = run(model=[CORRECTED], attack=[{"name": "popularity"}], game=[game])
    [bound] = of(record, "epsilon")
    assert bound.theory is None
    assert not of(record, "game.kl")
    assert of(outcome, "game.kl")


# The record.


@pytest.mark.long
def test_the_record_is_read_again(result: AuditResult, outcome: AuditResult) -> None:
    for record in (result, outcome):
        text = record.model_dump_json()
        assert AuditResult.model_validate_json(text).model_dump_json() == text
    assert Config.model_validate(result.config) == config()


@pytest.mark.long
def test_the_record_names_no_user_item_or_rating(tmp_path: Path) -> None:
    source = np.random.default_rng(5)
    rows = [
        f"person{1000 + user},film{5000 + item},{source.choice([1.375, 2.625, 3.875])}"
        for user in range(24)
        for item in np.sort(source.choice(15, 7, replace=False))
    ]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(["who,what,stars", *rows]) + "\n")
    data = {
        "format": "delimited",
        "delimiter": ",",
        "header": True,
        "path": str(path),
        "columns": {"user": "who", "item": "what", "rating": "stars"},
        "scale": {"minimum": 0.125, "maximum": 5.125, "step": 1.25},
    }
    record = run(
        data=data,
        model=[PUBLISHED | {"epsilon": 5}, CORRECTED],
        attack=[],
        game=[{"pair": "data", "observe": "recommender", "trials": 40}],
        transcript={"trials": 1},
    )
    text = record.model_dump_json()
    for word in ("person1", "film5"):
        assert word not in text
    for rating in (r"1\.375", r"2\.625", r"3\.875"):
        assert not re.search(rf"(?<![\d.]){rating}(?!\d)", text)
    # One number per measurement: nothing is stored per pair.
    measured = json.loads(text)["measurements"]
    assert len(measured) > 100
    for measurement in measured:
        assert not any(isinstance(measurement[key], list) for key in measurement if key != "tried")
