"""Gates whose threshold decides nothing, and gates on errors of ratings."""

from __future__ import annotations

import math
from typing import Any

import pytest
from pydantic import ValidationError

from dpaudit.auditor.run import run_audit
from dpaudit.config.gate import Gate, check_rated
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Scale
from dpaudit.record.metrics import table


def gate(metric: str, **threshold: Any) -> Gate:
    needed = {"detectable": 2.0} if table()[metric].judged == "epsilon" else {}
    return Gate.model_validate({"metric": metric, **threshold, **needed})


@pytest.mark.cases(
    ("metric", "threshold", "said"),
    [
        ("attack.tpr", {"max": 10}, "a share in [0, 1]: 10 can never fail; write 0.1 for 10 %"),
        ("attack.auc", {"max": 60}, "a share in [0, 1]: 60 can never fail; write 0.6 for 60 %"),
        ("attack.auc", {"max": 1}, "a share in [0, 1]: 1 can never fail; give a number between"),
        ("attack.accuracy", {"max": 100}, "100 can never fail; give a number between 0 and 1"),
        ("attack.advantage", {"max": 5}, "a difference of shares in [-1, 1]: 5 can never fail"),
        ("attack.advantage", {"min": -1}, "-1 can never fail; give a number between -1 and 1"),
        ("leak", {"max": 20}, "a difference of shares in [0, 1]: 20 can never fail; write 0.2"),
        ("leak", {"max": -0.1}, "-0.1 can never pass; give a number between 0 and 1"),
        ("utility.ndcg", {"min": -5}, "-5 can never fail; give a number between 0 and 1"),
        ("utility.ndcg", {"min": 0}, "0 can never fail"),
        ("utility.overlap", {"min": 90}, "90 can never pass; write 0.9 for 90 %"),
        ("utility.rmse", {"min": 0}, "an error of ratings of at least 0: 0 can never fail"),
        ("utility.rmse", {"max": -1}, "-1 can never pass; give a number above 0"),
        ("epsilon", {"max": -1}, "an ε of at least 0: -1 can never pass; give a number above 0"),
    ],
)
def test_a_threshold_that_decides_nothing_is_refused(
    metric: str, threshold: dict[str, float], said: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        gate(metric, **threshold)
    assert f"{metric} is" in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.cases("name", [name for name, metric in table().items() if metric.gateable])
def test_every_gate_has_thresholds_at_which_it_can_pass_and_fail(name: str) -> None:
    metric = table()[name]
    low, high = metric.range(basis=metric.bases[0] if metric.bases else None)
    refused = [{"max": high + 1}, {"max": low - 1}, {"min": low}, {"min": low - 1}]
    refused += [{"max": math.inf}, {"max": math.nan}, {"min": -math.inf}, {"min": math.nan}]
    for threshold in refused if high < math.inf else refused[1:]:
        with pytest.raises(ValidationError):
            gate(name, **threshold)
    inside = low + 0.25
    assert gate(name, max=inside).max == inside
    assert gate(name, max=low).max == low
    if metric.judged != "epsilon":
        assert gate(name, min=inside).min == inside


def test_a_gain_may_be_negative_and_an_error_may_not() -> None:
    where = {"basis": "leak"}
    assert gate("reconstruction.rmse", min=-0.5, where=where).min == -0.5
    with pytest.raises(ValidationError, match=r"-0\.5 can never fail"):
        gate("reconstruction.rmse", min=-0.5)


def test_no_error_is_larger_than_the_scale_is_wide() -> None:
    said = r"gate\.1: utility\.rmse is an error of ratings in \[0, 4\]: 4 can never fail"
    with pytest.raises(ConfigError, match=said):
        check_rated([gate("utility.mae", max=3.9), gate("utility.rmse", max=4)], Scale(1, 5, 1))


def test_purchases_have_no_error_to_judge() -> None:
    gates = [gate("leak", max=0.5), gate("utility.mae", max=1)]
    with pytest.raises(ConfigError, match=r"gate\.1\.metric = 'utility\.mae' needs ratings"):
        check_rated(gates, Scale(1, 1, 1))
    check_rated(gates[:1], Scale(1, 1, 1))
    check_rated(gates, Scale(1, 5, 1))
    recovered = gate("reconstruction.rmse", max=-0.1, where={"basis": "leak"})
    with pytest.raises(ConfigError, match=r"gate\.0\.metric = 'reconstruction\.rmse' needs"):
        check_rated([recovered], Scale(1, 1, 1))


@pytest.mark.cases(
    "tables",
    [
        {"recommender": [{"library": "most-popular"}]},
        {"recommender": [{"library": "surprise"}]},
        {"model": [{"defense": "neighborhood", "variant": "nonprivate"}]},
    ],
    ids=["no ratings", "ratings", "trained"],
)
def test_such_a_gate_is_refused_before_anything_is_trained(tables: dict[str, Any]) -> None:
    values = {
        "data": {"synthetic": {"n_users": 200, "n_items": 60}, "binarize": 3},
        "gate": [{"metric": "utility.rmse", "max": 1}],
        **tables,
    }
    with pytest.raises(ConfigError, match=r"all ratings .* are 1"):
        run_audit(Config.model_validate(values))
