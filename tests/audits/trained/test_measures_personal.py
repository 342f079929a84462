"""The ε of single users, from the config to the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.auditor.run import run_audit
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.core.errors import ConfigError
from dpaudit.data import load
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.execution.workers import Workers
from dpaudit.record.result import AuditResult
from dpaudit.reports.render import html, markdown

SMALL: dict[str, Any] = {"dimensions": 2, "epochs": 3, "cap": 9}
USERS, ITEMS = 12, 9


def config(folder: Path, **changes: Any) -> TrainedConfig:
    """User u has u % 9 + 1 ratings and a budget of 1, a half or a tenth, in turn."""
    rows = [f"{u},{i},{(u + i) % 5 + 1}" for u in range(USERS) for i in range(u % ITEMS + 1)]
    (folder / "ratings.csv").write_text("\n".join(rows))
    (folder / "users.csv").write_text(
        "\n".join(f"{u},{(1, 0.5, 0.1)[u % 3]}" for u in range(USERS))
    )
    data = {
        "format": "delimited",
        "path": str(folder / "ratings.csv"),
        "columns": {"user": 0, "item": 1, "rating": 2},
        "scale": {},
        "budgets": {"path": str(folder / "users.csv")},
    }
    private = {"defense": "dpps-mf", "variant": "corrected", "epsilon": [2, 9], "params": SMALL}
    models = [
        private | {"label": "one for all"},
        private | {"label": "own", "params": SMALL | {"budgets": True}},
        {"defense": "dpps-mf", "variant": "nonprivate", "label": "free", "params": SMALL},
        {"defense": "dpsgd-mf", "epsilon": [2], "params": {"dimensions": 2, "epochs": 1}},
    ]
    base = {"seed": 3, "data": data, "train": {"folds": 2, "trials": 1}, "model": models}
    return TrainedConfig.model_validate(base | changes)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    return run_audit(config(tmp_path_factory.mktemp("personal")), workers=Workers(1))


def quantiles(result: AuditResult, metric: str, model: str, epsilon: float) -> dict[str, float]:
    return {
        measurement.part or "": measurement.estimate.value
        for measurement in result.measurements
        if (measurement.metric, measurement.model, measurement.epsilon) == (metric, model, epsilon)
    }


@pytest.mark.parametrize("epsilon", [2, 9])
def test_quantiles_over_users_are_of_their_ratings_and_budgets(
    result: AuditResult, epsilon: float
) -> None:
    counts = np.arange(USERS) % ITEMS + 1
    budgets = np.array([1, 0.5, 0.1])[np.arange(USERS) % 3]
    for label, shares in (
        ("one for all", counts / ITEMS), ("own", np.minimum(budgets, counts / ITEMS)),
    ):  # fmt: skip
        epsilons = np.sort(epsilon * shares)
        values = quantiles(result, "personal.epsilon", label, epsilon)
        # Of 12 users, the values at positions 5.5 and 9.9, rounded up.
        assert values == pytest.approx(
            {"median": epsilons[6], "90 %": epsilons[10], "largest": epsilons[11]}
        )
        losses = quantiles(result, "personal.loss", label, epsilon)
        assert list(losses) == ["median", "90 %", "largest"]
        assert 0 < losses["median"] < losses["90 %"] < losses["largest"] <= epsilons[11]


def test_losses_are_of_draws_on_the_ratings_that_games_learn_from(
    result: AuditResult, tmp_path: Path
) -> None:
    model = SampledFactors(9.0, "corrected", budgets=True, **SMALL)
    losses = model.personal_losses(load(config(tmp_path).data), 3).loss
    values = quantiles(result, "personal.loss", "own", 9)
    assert values["largest"] == losses.max()
    assert values["median"] == np.sort(losses.ravel())[losses.size // 2]


def test_only_private_models_whose_users_differ_are_measured(result: AuditResult) -> None:
    models = {
        measurement.model
        for measurement in result.measurements
        if measurement.metric.startswith("personal.")
    }
    assert models == {"one for all", "own"}
    kinds = {e.estimate.kind for e in result.measurements if e.metric.startswith("personal.")}
    assert kinds == {"exact"}


def test_reports_show_both_and_say_what_they_mean(result: AuditResult) -> None:
    page = markdown.render(result)
    for text in (page, html.render(result)):
        assert "ε of a user: median, 90 %, largest" in text
        assert "loss of a user: median, 90 %, largest" in text
    values = quantiles(result, "personal.epsilon", "own", 9)
    assert f"| {values['median']:.4g} / {values['90 %']:.4g} / {values['largest']:.4g} |" in page
    assert page.count("no claim covers a user") == 1
    assert "| ε of a user, median | – | – | quantile over users | exact |" in page


def test_budgets_that_nobody_uses_and_models_that_lack_them_are_refused(tmp_path: Path) -> None:
    good = config(tmp_path).model_dump(mode="json", exclude_unset=True)
    unused = good | {"model": [good["model"][0]]}
    with pytest.raises(ValueError, match=r"\[data\.budgets\] .*: set params\."):
        TrainedConfig.model_validate(unused)
    bare = good | {"data": {k: v for k, v in good["data"].items() if k != "budgets"}}
    with pytest.raises(ValueError, match=r"params\.budgets = true of model 'own'"):
        TrainedConfig.model_validate(bare)
    swept = {"defense": "dpps-mf", "epsilon": [2], "grid": {"budgets": [False, True]}}
    TrainedConfig.model_validate(good | {"model": [swept | {"params": SMALL}]})
    drawn = {"model": [swept | {"params": SMALL | {"cap": 1000}, "variant": "corrected"}]}
    with pytest.raises(ConfigError, match=r"set data\.budgets"):
        run_audit(TrainedConfig.model_validate(drawn), workers=Workers(1))
    with pytest.raises(ValueError, match=r"budgets .*format 'synthetic'"):
        TrainedConfig.model_validate({"data": {"budgets": {"path": "u.csv"}}, **drawn})
