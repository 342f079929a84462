from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from dpaudit import files
from dpaudit.auditor.result import AuditResult
from dpaudit.errors import ConfigError
from dpaudit.reports import record


def test_round_trip_keeps_every_number(result: AuditResult, tmp_path: Path) -> None:
    path = record.save(result, tmp_path / "new" / "folder")
    assert path == tmp_path / "new" / "folder" / "record.json"
    assert record.load(path) == result
    assert record.load(path.parent) == result
    assert any(found.estimate.upper == math.inf for found in result.measurements)


def test_render_is_plain_json_with_a_final_newline(result: AuditResult) -> None:
    text = record.render(result)
    assert text.endswith("}\n")
    assert json.loads(text)["schema_version"] == 1
    assert text == record.render(result)


def test_save_replaces_and_leaves_nothing_beside(result: AuditResult, tmp_path: Path) -> None:
    record.save(result, tmp_path)
    record.save(result.model_copy(update={"tool": "0.2.0"}), tmp_path)
    assert record.load(tmp_path).tool == "0.2.0"
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_failed_save_keeps_the_old_record(
    result: AuditResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    record.save(result, tmp_path)

    def fail(path: Path, *arguments: object, **options: object) -> None:
        if step == "write_text":
            path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, step, fail)
    with pytest.raises(ConfigError, match="cannot be written"):
        record.save(result.model_copy(update={"tool": "0.2.0"}), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
    assert record.load(tmp_path).tool == "0.1.0"


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="name another place"):
        files.write_text(tmp_path, "text")


def test_a_pipe_is_written_to_and_not_replaced() -> None:
    files.write_text(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()


def test_missing_record(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"record\.json does not exist"):
        record.load(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON"),
        (b"\xff", "cannot be read as UTF-8"),
        (b"[]", "is not a record of an audit"),
        (b"{}", "is not a record of an audit"),
        (b'{"schema_version": 99}', "schema_version 99 and this dpaudit reads 1: run the audit"),
        (b'{"schema_version": 1}', "tool: Field required"),
    ],
)
def test_what_is_not_a_record(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message) as caught:
        record.load(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
