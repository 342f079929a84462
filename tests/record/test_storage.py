from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dpaudit.core.errors import ConfigError
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult


def test_round_trip_keeps_every_number(result: AuditResult, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(record.render(result), encoding="utf-8")
    assert record.load(path) == result
    assert record.load(path.parent) == result
    assert any(measurement.estimate.upper == math.inf for measurement in result.measurements)


def test_render_is_plain_json_with_a_final_newline(result: AuditResult) -> None:
    text = record.render(result)
    assert text.endswith("}\n")
    assert json.loads(text)["schema_version"] == 4
    assert text == record.render(result)


@pytest.mark.cases(
    ("stores", "remedy"),
    [
        (["tasks.sqlite"], "has not ended: give its command 'dpaudit run' again"),
        (["tasks-1-of-2.sqlite"], "'dpaudit merge .*' makes the record"),
        ([], "name the folder that 'dpaudit run' wrote"),
    ],
)
def test_a_folder_without_a_record_says_what_became_of_the_run(
    tmp_path: Path, stores: list[str], remedy: str
) -> None:
    for name in stores:
        (tmp_path / name).touch()
    with pytest.raises(ConfigError, match=rf"record\.json does not exist.*{remedy}"):
        record.load(tmp_path)


def test_missing_record(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"record\.json does not exist"):
        record.load(tmp_path)


@pytest.mark.cases(
    ("content", "message"),
    [
        (b"{", r"is not JSON .*: name the folder or the record\.json"),
        (b"\xff", "is not UTF-8 text"),
        (b"[]", "is not a record of an audit"),
        (b"{}", "is not a record of an audit"),
        (b'{"schema_version": 99}', "schema_version 99 and this dpaudit reads 4: run the audit"),
        (b'{"schema_version": 1}', "schema_version 1 and this dpaudit reads 4: run the audit"),
        (b'{"schema_version": 4}', "tool: Field required"),
    ],
)
def test_what_is_not_a_record(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        record.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
