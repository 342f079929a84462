"""Measured violations of assumptions that published claims of social training rest on."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpaudit.auditor.measure import Context
from dpaudit.auditor.run import run_audit
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.measures import Assumptions
from dpaudit.core.claim import LONGER, LONGEST
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking
from dpaudit.execution.executor import Executor
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult, Family, Measurement
from dpaudit.reports.render import html, markdown

N, M, D = 30, 12, 2
SMALL: dict[str, Any] = {
    "dimensions": D,
    "rounds": 6,
    "learning_rate": 0.01,
    "offset": 3.0,
    "social": 0.0,
}
RANKS: dict[str, Any] = {
    "dimensions": D,
    "rounds": 6,
    "learning_rate": 0.01,
    "social": False,
    "triples": 3,
}


def drawn(purchases: bool = False) -> Ratings:
    """Ratings of all users but the last."""
    source = np.random.default_rng(0)
    user, item = np.nonzero(source.random((N, M)) < 0.5)
    user, item = user[user < N - 1], item[user < N - 1]
    values = np.ones(len(user)) if purchases else source.integers(1, 6, len(user))
    scale = Scale(1, 1, 1) if purchases else Scale()
    return Ratings.build(user, item, values.astype(np.float32), N, M, scale)


def measured(*defenses: Any, ratings: Ratings | None = None) -> dict[tuple[float, str], float]:
    learned = drawn() if ratings is None else ratings
    config = TrainedConfig.model_validate({"seed": 5, "model": {"defense": defenses[0].name}})
    context = Context(config, Family.of(0.95, 1), Executor())
    subject: Any = SimpleNamespace(learned=learned, context=context)
    model: Any = SimpleNamespace(label="m", defenses=defenses, model=config.model[0])
    measurements = [
        measurement
        for measurement in Assumptions(subject).run(model)
        if isinstance(measurement, Measurement)
    ]
    assert {measurement.metric for measurement in measurements} <= {"assumption.norm"}
    return {
        (measurement.epsilon, measurement.detail or ""): measurement.estimate.value
        for measurement in measurements
    }


def test_users_longer_than_one_are_counted_in_the_model_that_is_trained() -> None:
    defense = PrivSR(0.5, spread=0.8, **SMALL)
    models = defense.train(defense.prepare(drawn()), Streams.first(5, "assumptions", 1))
    factors = models.users[0][: N - 1, :D, 0].astype(np.float64)  # the last has no ratings
    lengths = np.sqrt((factors**2).sum(1))
    estimates = measured(defense)
    assert estimates[0.5, LONGER] == (lengths > 1).sum() / (N - 1)
    assert 0 < estimates[0.5, LONGER] < 1
    assert estimates[0.5, LONGEST] == pytest.approx(lengths.max(), rel=1e-6)


def test_users_longer_than_one_are_counted_in_models_that_rank() -> None:
    ratings, defense = drawn(purchases=True), PrivSRRanking(0.5, spread=0.8, **RANKS)
    models = defense.train(defense.prepare(ratings), Streams.first(5, "assumptions", 1))
    lengths = np.linalg.norm(models.users[0][: N - 1].astype(np.float64), axis=1)
    estimates = measured(defense, ratings=ratings)
    assert estimates[0.5, LONGER] == (lengths > 1).sum() / (N - 1)
    assert 0 < estimates[0.5, LONGER] < 1
    assert estimates[0.5, LONGEST] == pytest.approx(lengths.max(), rel=1e-6)


def test_a_length_of_one_is_not_longer() -> None:
    # Negligible steps keep all factors at (√½, √½).
    still = SMALL | {"start": "constant", "learning_rate": 1e-12, "decay": 0.0}
    one = measured(PrivSR(1.0, spread=math.sqrt(0.5), **still))
    assert one == {(1.0, LONGER): 0, (1.0, LONGEST): pytest.approx(1, abs=1e-6)}
    more = measured(PrivSR(1.0, spread=math.sqrt(0.5) + 1e-4, **still))
    assert more[1.0, LONGER] == 1


def test_the_forms_that_assume_nothing_of_the_kind_are_not_measured() -> None:
    others = [
        PrivSR(1.0, variant="corrected", **SMALL), PrivSR(math.inf, variant="nonprivate", **SMALL),
    ]  # fmt: skip
    assert not measured(*others)
    # Each ε is measured, the baseline of the paper too.
    estimates = measured(PrivSR(1.0, **SMALL), PrivSR(2.0, noise_kind="equal", **SMALL))
    assert set(estimates) == {(eps, states) for eps in (1.0, 2.0) for states in (LONGER, LONGEST)}


def test_a_training_that_diverges_leaves_the_longest_infinite() -> None:
    estimates = measured(PrivSR(1e-3, **SMALL | {"learning_rate": 10.0, "rounds": 50}))
    assert estimates == {(1e-3, LONGEST): math.inf}


# --- in an audit

DATA = {
    "synthetic": {
        "n_users": 40, "n_items": 20, "mean_per_user": 9, "minimum_per_user": 6, "mean_friends": 2,
    },
    "sensitive": {"share": 0.3},
}  # fmt: skip


def run(**changes: Any) -> AuditResult:
    published = {"defense": "privsr", "label": "as published", "epsilon": [1, 50], "params": SMALL}
    base = {
        "data": DATA,
        "train": {"folds": 2, "trials": 1},
        "model": [published, published | {"label": "repaired", "variant": "corrected"}],
    }
    return run_audit(TrainedConfig.model_validate(base | changes), workers=Workers(1))


@pytest.fixture(scope="module")
def result() -> AuditResult:
    return run()


def norms(result: AuditResult) -> list[Measurement]:
    return [
        measurement
        for measurement in result.measurements
        if measurement.metric == "assumption.norm"
    ]


def test_an_audit_measures_it_after_the_last_round(result: AuditResult) -> None:
    measurements = norms(result)
    assert [
        (measurement.model, measurement.epsilon, measurement.detail, measurement.step)
        for measurement in measurements
    ] == [("as published", eps, states, 6) for eps in (1, 50) for states in (LONGER, LONGEST)]
    assert {measurement.estimate.kind for measurement in measurements} == {"exact"}


def test_reports_say_it_beside_the_claim(result: AuditResult) -> None:
    page = markdown.render(result)
    for text in (page, html.render(result)):
        assert "users longer than 1" in text
        assert "longest user" in text
    assert page.count("user's factors are longer than 1") == 1
    assert "| length of users' factors, longest | – | – | counted among 40 users" in page
    share, longest = (
        next(
            measurement.estimate.value
            for measurement in norms(result)
            if measurement.detail == states
        )
        for states in (LONGER, LONGEST)
    )
    assert f"| {100 * share:.3g} % | {longest:.4g} |" in page


def test_differences_of_one_round_are_refused_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trained(*args: object) -> None:
        raise AssertionError(args)

    monkeypatch.setattr(PrivSR, "train", trained)
    short = {"defense": "privsr", "label": "short", "params": SMALL | {"rounds": 1}}
    attack = {"name": "submissions", "params": {"users": 3, "rounds": "difference"}}
    with pytest.raises(ConfigError, match=r"'submissions' .*'short': .* one round"):
        run(model=[short], attack=[attack])
    monkeypatch.undo()
    attack["params"] = {"users": 3}
    measurements = run(model=[short], attack=[attack]).measurements
    assert any(measurement.metric == "submissions.rmse" for measurement in measurements)
