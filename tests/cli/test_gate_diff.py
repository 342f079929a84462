from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dpaudit.record import storage as record
from dpaudit.record.comparison import Comparison
from dpaudit.record.result import AuditResult
from tests.support.commands import call


@pytest.fixture
def folders(tmp_path: Path, make: Callable[..., AuditResult]) -> tuple[Path, Path]:
    """The folders of a baseline and of a run that lacks its last ε."""
    places = tmp_path / "before", tmp_path / "after"
    for place, epsilons in zip(places, [(0.1, 1.0), (0.1,)], strict=True):
        place.mkdir()
        text = record.render(make(epsilons=epsilons, outcome="pass"))
        (place / record.NAME).write_text(text)
    return places


def test_the_exit_code_does_not_depend_on_the_comparison(folders: tuple[Path, Path]) -> None:
    before, after = folders
    for style in ("text", "md", "json"):
        result = call("diff", before, after, "--format", style)
        assert result.exit_code == 0, result.output
        assert "ε = 1 of 'published'" in " ".join(result.output.split())
    assert call("gate", after, "--baseline", before).exit_code == 4
    assert call("gate", before, "--baseline", after).exit_code == 0


def test_json_holds_the_whole_comparison(folders: tuple[Path, Path]) -> None:
    text = call("diff", *folders, "--format", "json").output
    compared = Comparison.model_validate_json(text)
    assert (compared.outcome, compared.confidence) == ("inconclusive", 0.9)
    assert json.loads(text)["numbers"][-1]["upper"] == "Infinity"


def test_identical_runs_are_said_to_be_in_one_line(folders: tuple[Path, Path]) -> None:
    run, line = (
        folders[0],
        "No change: all numbers, verdicts and gates are those of the baseline.\n",
    )
    assert call("diff", run, run).output == line
    assert call("diff", run, run, "--format", "md").output == (
        f"# Comparison with the baseline\n\n{line}"
    )
    assert json.loads(call("diff", run, run, "--format", "json").output)["same"]
    assert "No change" not in call("diff", *folders).output


def test_a_folder_without_a_record_is_an_error(folders: tuple[Path, Path], tmp_path: Path) -> None:
    for command in (
        ("diff", tmp_path, folders[1]),
        ("diff", folders[0], tmp_path),
        ("gate", folders[1], "--baseline", tmp_path),
    ):
        result = call(*command)
        assert result.exit_code == 2
        assert f"{tmp_path / record.NAME} does not exist" in result.output


def test_all_shows_what_cannot_be_told(folders: tuple[Path, Path]) -> None:
    assert "Cannot tell\n" not in call("diff", *folders).output
    assert "Cannot tell\n" in call("diff", *folders, "--all").output


def test_what_is_not_comparable_is_undecided_unless_the_run_stops(
    tmp_path: Path, make: Callable[..., AuditResult]
) -> None:
    """A record of an older version, with other keys, is no baseline; nor is it an error."""
    run, stopped = make(outcome="pass"), make(outcome="fail")
    older = run.model_copy(update={"config": {**run.config, "split": {"test_share": 0.5}}})
    for name, result in (("run", run), ("stopped", stopped), ("older", older)):
        (tmp_path / name).mkdir()
        (tmp_path / name / record.NAME).write_text(record.render(result))
    for name, code in (("run", 4), ("stopped", 1)):
        gated = call("gate", tmp_path / name, "--baseline", tmp_path / "older")
        assert gated.exit_code == code, gated.output
        assert "Not comparable: split.test_share 0.5 → unset" in " ".join(gated.output.split())
    compared = json.loads(
        call("diff", tmp_path / "older", tmp_path / "run", "--format", "json").output
    )
    assert {number["judgement"] for number in compared["numbers"]} == {"not comparable"}
    assert {number["lower"] for number in compared["numbers"]} == {"-Infinity"}
