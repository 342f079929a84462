"""The table of metrics, and measurements with exactly its fields."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from dpaudit.auditor.measure import MetricKey
from dpaudit.auditor.plan import Plan
from dpaudit.cli import main
from dpaudit.config.gate import Gate
from dpaudit.config.schema import Config
from dpaudit.core.estimate import Estimate
from dpaudit.record.metric import Metric
from dpaudit.record.metrics import faults, table
from dpaudit.record.result import Measurement, PointRecord

METRICS = table()
ONE = Estimate.exact(0.5, "by hand")
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
VALUES: dict[str, Any] = {"effort": 3, "step": 4, "at": 0.01, "rows": 5}


def measurement_of(name: str, **changes: Any) -> Measurement:
    fields = {field: VALUES.get(field, field) for field in METRICS[name].required} | changes
    return Measurement(metric=name, model="m", epsilon=1.0, estimate=ONE, **fields)


def test_every_metric_stands_in_the_table_once() -> None:
    assert faults() == []
    for metric in METRICS.values():
        names = [field.name for field in metric.known]
        assert metric.detail is None or metric.detail in names
        assert len(names) == len(set(names))


def test_shares_of_utility_and_errors_of_attackers_are_better_if_larger() -> None:
    better = [metric for metric in METRICS.values() if metric.larger == "better"]
    kinds = [(metric.name.partition(".")[0], metric.unit) for metric in better]
    assert (
        kinds
        == [("utility", "share")] * 7
        + [("reconstruction", "rating")] * 2
        + [("submissions", "rating")] * 2
    )
    errors = [METRICS[name].larger for name in ("utility.rmse", "utility.mae")]
    assert errors == ["worse", "worse"]


def schema_of(key: str) -> dict[str, Any]:
    printed = CliRunner().invoke(main, ["schema"]).output
    values: dict[str, Any] = json.loads(printed)["$defs"]["Gate"]["properties"][key]
    return values


def test_the_schema_names_the_metrics_that_may_gate_and_explains_each() -> None:
    able = [metric for metric in METRICS.values() if metric.gateable]
    assert schema_of("metric")["enum"] == [metric.name for metric in able]
    assert schema_of("metric")["enumDescriptions"] == [metric.words for metric in able]
    for metric in METRICS.values():
        gate = {"metric": metric.name, "max": 0.5}
        if metric.judged == "epsilon":
            gate["detectable"] = 2.0
        if metric.gateable:
            assert Gate.model_validate(gate).metric == metric.name
            continue
        with pytest.raises(ValidationError, match=f"no gate may use {metric.name!r}; "):
            Gate.model_validate(gate)


def test_the_keys_of_where_are_fields_by_which_a_metric_is_picked() -> None:
    keys = set(schema_of("where")["propertyNames"]["enum"])
    assert keys == set().union(*(metric.where for metric in METRICS.values()))
    for metric in METRICS.values():
        assert bool(metric.where) == metric.gateable
        assert set(metric.where) <= {"model", "epsilon", *(field.name for field in metric.known)}
    # A maximum over attacks and observers is not picked by one of them.
    assert METRICS["leak"].where == ("epsilon", "model")


def test_metrics_that_may_gate_say_which_audits_have_them() -> None:
    for metric in METRICS.values():
        assert metric.audits
        assert len(metric.sources) == len(metric.audits)
    assert "[defense]" in METRICS["epsilon"].sources


# Configs of each kind of audit that together measure all that it can.
AUDITS: dict[str, list[dict[str, Any]]] = {
    "on_demand": [{"attack": [{}], "game": [{}], "sybil": [{}]}],
    "trained": [
        {"model": [{"defense": "fake-gradients"}], "transcript": {}, "game": [{"pair": "data"}]},
        {
            "model": [{"defense": "privsr"}],
            "attack": [{"name": "reconstruction"}, {"name": "submissions"}],
        },
        {"model": [{"defense": "privsr-ranking"}], "attack": [{"name": "ranking-reconstruction"}]},
    ],
    "membership": [{"recommender": [{"library": "surprise"}]}],
    "dp_training": [{"dp-training": {"target": "a:b", "epsilon": 1, "delta": 1e-5}}],
    "mechanism": [
        {"defense": {"kind": "python", "target": "a:b", "d": 1, "d_prime": 2, "epsilon": 1}}
    ],
}


@pytest.mark.cases("audit", AUDITS)
def test_what_a_gate_may_judge_is_planned_where_the_table_says(audit: str) -> None:
    gates = [
        {"metric": metric.name, "max": 0.5}
        | ({"detectable": 2} if metric.judged == "epsilon" else {})
        for metric in METRICS.values()
        if metric.gateable
    ]
    configs = [Config.model_validate({**tables, "gate": gates}) for tables in AUDITS[audit]]
    planned = {
        key.metric for config in configs for key in Plan(config).keys if key.joint or key.census
    }
    expected = {
        metric.judged for metric in METRICS.values() if metric.gateable and audit in metric.audits
    }
    assert planned == expected


@pytest.mark.cases("name", METRICS)
def test_a_measurement_has_the_fields_of_its_metric_and_no_others(name: str) -> None:
    metric, measurement = METRICS[name], measurement_of(name)
    known = {field.name for field in metric.known}
    written = measurement.model_dump(mode="json")
    assert set(written) == {"metric", "model", "epsilon", "estimate", *known}
    assert Measurement.model_validate_json(measurement.model_dump_json()) == measurement
    for field in metric.required:
        with pytest.raises(ValidationError, match=f"lacks its {field}"):
            measurement_of(name, **{field: None})
    foreign = next(field for field in ("pair", "effort", "against") if field not in known)
    with pytest.raises(ValidationError, match=f"{name} of 'm' .*{foreign}"):
        measurement_of(name, **{foreign: VALUES.get(foreign, "one")})


def test_a_detail_stands_where_the_metric_has_it() -> None:
    measurement = MetricKey("transcript.kl", "m", 1.0).measured(ONE, step=2, detail="whole")
    assert (measurement.part, measurement.detail) == ("whole", "whole")
    assert MetricKey("utility.rmse", "m", 1.0).measured(ONE).detail is None
    keys = {measurement_of(name).key for name in METRICS}
    assert len(keys) == len(METRICS)


def test_a_maximum_is_the_same_number_wherever_it_is_attained() -> None:
    one, other = (
        measurement_of("leak", attack=attack, pair=attack) for attack in ("first", "second")
    )
    assert one.key == other.key
    assert one.key[:3] == ("leak", "m", 1.0)
    games = (
        measurement_of("attack.advantage", attack="a", pair=pair) for pair in ("here", "there")
    )
    assert len({game.key for game in games}) == 2


def test_the_command_and_the_page_list_them_all() -> None:
    listed = CliRunner().invoke(main, ["list", "metrics"]).output
    page = DOCS.read_text(encoding="utf-8")
    entries = {}
    for part in re.split(r"\n(?=\S)", listed):
        name, _, rest = part.partition(" ")
        entries[name] = [line.strip() for line in rest.splitlines()]
    assert list(entries) == list(METRICS)
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert len([row for row in rows if row.count(" | ") == 5]) == len(METRICS)
    for metric in METRICS.values():
        sources = "; ".join(metric.sources)
        lines = [metric.words, f"unit: {metric.unit}", f"from: {sources}"]
        if metric.gateable:
            lines.append(f"may gate (larger is {metric.larger}), where: {', '.join(metric.where)}")
        assert entries[metric.name] == lines
        required = metric.required
        said = [f"`{name}`" for name in required]
        said += [f"[`{field.name}`]" for field in metric.known[len(required) :]]
        where = ", ".join(f"`{key}`" for key in metric.where)
        where = f"{where} (larger is {metric.larger})" if where else ""
        cells = (metric.words, metric.unit, sources, ", ".join(said) or "–", where)
        assert f"| `{metric.name}` | {' | '.join(cells)} |" in rows


def test_a_metric_that_nobody_describes_is_placed_by_its_fields_of_which_there_are_few() -> None:
    number = Measurement(metric="other.x", model="m", epsilon=1.0, estimate=ONE, country="at", n=3)
    assert number.place == "m, ε = 1, at, 3"
    many = {f"f{index}": 1 for index in range(60)}
    with pytest.raises(ValidationError, match="60 fields"):
        Measurement(metric="other.x", model="m", epsilon=1.0, estimate=ONE, **many)


@pytest.mark.cases("name", ["epsilon", "census", "traits", "place"])
def test_a_field_has_no_name_that_measurements_have_anyway(name: str) -> None:
    with pytest.raises(ValueError, match=repr(name)):
        Metric("a.b", "words", "share", fields=(name,))


def test_traits_have_stated_values_and_others_are_kept() -> None:
    point = {"model": "m", "epsilon": 1.0, "sensitivity": None, "noise_scale": None, "claim": None}
    assert PointRecord(**point, forget="own").traits == {"forget": "own"}
    assert PointRecord(**point, region=None).model_dump()["forget"] is None
    assert PointRecord(**point, region="eu").traits == {"region": "eu"}
    for wrong in ("garbage", ""):
        with pytest.raises(ValidationError, match="forget"):
            PointRecord(**point, forget=wrong)
