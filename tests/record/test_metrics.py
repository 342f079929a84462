"""The table of metrics, and measurements with exactly its fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from click.testing import CliRunner
from pydantic import ValidationError

from dpaudit.cli import main
from dpaudit.config.schema import Gate
from dpaudit.core.estimate import Estimate
from dpaudit.record.metrics import METRICS, MetricName
from dpaudit.record.result import Measurement, measured

ONE = Estimate.exact(0.5, "by hand")
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
VALUES: dict[str, Any] = {"effort": 3, "step": 4, "at": 0.01}


def made(name: MetricName, **changes: Any) -> Measurement:
    fields = {each: VALUES.get(each, each) for each in METRICS[name].fields} | changes
    return Measurement(metric=name, model="m", epsilon=1.0, estimate=ONE, **fields)


def test_every_metric_stands_in_the_table_once() -> None:
    assert list(METRICS) == list(get_args(MetricName))
    fields = set(Measurement.model_fields)
    for metric in METRICS.values():
        assert set(metric.known) <= fields
        assert metric.detail is None or metric.detail in metric.known
        assert len(metric.known) == len(set(metric.known))


def test_of_what_may_gate_only_shares_of_utility_are_better_if_larger() -> None:
    better = [metric for metric in METRICS.values() if metric.larger == "better"]
    assert [(metric.name, metric.unit) for metric in better] == [("utility.overlap", "share")]


def test_what_may_gate_is_what_a_gate_may_name() -> None:
    named = set(get_args(Gate.model_fields["metric"].annotation))
    assert named == {metric.name for metric in METRICS.values() if metric.gateable}


@pytest.mark.parametrize("name", METRICS)
def test_a_measurement_has_the_fields_of_its_metric_and_no_others(name: MetricName) -> None:
    metric, found = METRICS[name], made(name)
    written = found.model_dump(mode="json")
    assert set(written) == {"metric", "model", "epsilon", "estimate", *metric.known}
    assert Measurement.model_validate_json(found.model_dump_json()) == found
    for field in metric.fields:
        with pytest.raises(ValidationError, match=f"lacks its {field}"):
            made(name, **{field: None})
    foreign = next(each for each in ("pair", "effort", "against") if each not in metric.known)
    with pytest.raises(ValidationError, match=f"{name} of 'm' cannot have {foreign}"):
        made(name, **{foreign: VALUES.get(foreign, "one")})


def test_a_detail_stands_where_the_metric_has_it() -> None:
    found = measured("transcript.kl", "m", 1.0, ONE, step=2, detail="whole")
    assert (found.part, found.detail) == ("whole", "whole")
    assert measured("utility.rmse", "m", 1.0, ONE).detail is None
    keys = {made(name).key for name in METRICS}
    assert len(keys) == len(METRICS)


def test_the_command_and_the_page_list_them_all() -> None:
    listed = CliRunner().invoke(main, ["list", "metrics"]).output
    page = DOCS.read_text(encoding="utf-8")
    for metric in METRICS.values():
        assert f"{metric.name} " in listed
        said = [f"`{name}`" for name in metric.fields]
        said += [f"[`{name}`]" for name in metric.optional]
        fields = ", ".join(said) or "–"
        gates = "yes" if metric.gateable else ""
        row = f"| `{metric.name}` | {metric.words} | {metric.unit} | {fields} | {gates} |"
        assert row in page
