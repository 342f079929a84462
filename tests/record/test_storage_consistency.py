"""A record is checked as a whole before a report or a gate reads anything from it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dpaudit.cli import main
from dpaudit.core.errors import ConfigError
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult
from dpaudit.record.storage import contradiction


def changed(result: AuditResult, change: Callable[[Any], object], folder: Path) -> Path:
    values = json.loads(record.render(result))
    change(values)
    path = folder / record.NAME
    path.write_text(json.dumps(values))
    return path


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


ASKED = {
    "id": "claim/published/0.1",
    "owner": "the team",
    "statement": "known",
    "expires": "2027-01-31",
}
WAIVER = ASKED | {"judged": "2027-01-31", "state": "active"}

CONTRADICTIONS: dict[str, tuple[Callable[[Any], object], str]] = {
    "an outcome that its gates do not have": (
        lambda r: r.update(outcome="go"),
        "outcome is 'go', but its gates and verdicts give 'stop'",
    ),
    "fewer gates than its config has": (
        lambda r: r.update(gates=[], outcome="go"),
        "it has 0 gates, and its config has a different number",
    ),
    "NaN in its settings": (
        lambda r: r["models"][0]["params"].update(top_k=math.nan),
        "NaN is not a JSON number",
    ),
    "an outcome without gates": (
        lambda r: (r.update(gates=[]), r["config"].update(gate=[])),
        "outcome is 'stop', but its gates and verdicts give 'go'",
    ),
    "a verdict that its measurements do not give": (
        lambda r: r["verdicts"][0].update(verdict="survived"),
        "its verdicts are not those of its measurements",
    ),
    "a place of a claim that it does not have": (
        lambda r: r["origin"].update({"claim/other/1": {"path": "audit.toml", "line": 1}}),
        "there is no claim or gate 'claim/other/1'",
    ),
    "a start that is no moment": (
        lambda r: r["timing"].update(started="2026-01-01\nT00:00:00+00:00"),
        "timing.started",
    ),
    "a line before the first": (
        lambda r: r["origin"].update({"gate/epsilon/max": {"path": "audit.toml", "line": 0}}),
        "greater than or equal to 1",
    ),
    "an outcome that hides a false claim": (
        lambda r: (
            r["gates"][0].update(outcome="pass"),
            r.update(outcome="go", fail_on_false_claim=True),
        ),
        "outcome is 'go', but its gates and verdicts give 'stop'",
    ),
    "a waiver that its config has not": (
        lambda r: r.update(waivers=[WAIVER]),
        "its waivers are not those of its config",
    ),
    "a waiver whose last day is over, as if it were active": (
        lambda r: r.update(waivers=[WAIVER | {"judged": "2027-02-01"}]),
        "the waiver of 'claim/published/0.1' is active, and should be expired",
    ),
    "an outcome that its waivers do not give": (
        lambda r: (
            r.update(waivers=[WAIVER | {"id": "gate/epsilon/max"}]),
            r["config"].update(waiver=[ASKED | {"id": "gate/epsilon/max"}]),
        ),
        "outcome is 'stop', but its gates and verdicts give 'go'",
    ),
    "two models of one name": (
        lambda r: r["models"].append(r["models"][0]),
        "two models have the label 'published'",
    ),
    "a point of no model": (
        lambda r: r["models"][0].update(label="other"),
        "there is no model 'published'",
    ),
    "a point twice": (
        lambda r: r["points"].append(r["points"][0]),
        "model 'published' has ε = 0.1 twice",
    ),
    "a number of no point": (
        lambda r: r["points"].pop(),
        "is at ε = 10, which is not in the sweep",
    ),
    "a number twice": (
        lambda r: r["measurements"].append(r["measurements"][0]),
        "is recorded twice",
    ),
    "an accuracy of no attack": (
        lambda r: r["measurements"][0].update(attack=None),
        "attack.accuracy of 'published' lacks its attack",
    ),
    "a share above 1": (
        lambda r: r["measurements"][0]["estimate"].update(value=7.0, upper=8.0),
        "is 7, which is not in [0, 1]",
    ),
    "a game that one point lacks": (
        lambda r: r["measurements"].pop(),
        "model 'published' does not have the same pairs at every ε",
    ),
    "settings without end": (
        lambda r: r["config"].update(data=nested(50)),
        "nested more than 20 deep",
    ),
    "an ε of 0": (lambda r: r["points"][0]["claim"].update(epsilon=0), "greater than 0"),
    "NaN": (
        lambda r: r["measurements"][-1]["estimate"].update(lower=math.nan),
        "NaN is not a JSON number",
    ),
    "NaN in words": (lambda r: r["points"][0].update(epsilon="NaN"), "NaN is not allowed"),
    "an interval that ends before it begins": (
        lambda r: r["measurements"][0]["estimate"].update(lower=0.9, upper=0.1),
        "lies above the upper end",
    ),
}


@pytest.mark.cases("name", CONTRADICTIONS)
@pytest.mark.cases("command", [["gate"], ["report", "--format", "md"]])
def test_a_record_that_contradicts_itself_is_refused(
    result: AuditResult, tmp_path: Path, name: str, command: list[str]
) -> None:
    change, words = CONTRADICTIONS[name]
    path = changed(result, change, tmp_path)
    with pytest.raises(ConfigError) as caught:
        record.load(path)
    assert words in str(caught.value)
    reply = CliRunner().invoke(main, [*command, str(tmp_path)])
    assert reply.exit_code == 2
    assert len(reply.output.splitlines()) == 1


def test_what_a_run_writes_is_consistent(hard: AuditResult) -> None:
    assert contradiction(hard) is None
