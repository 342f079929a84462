"""`dpaudit gate`: JSON, and reports of what it decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ci_reports  # type: ignore[import-not-found]
import pytest

from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult, PlaceRecord
from tests.support.commands import call
from tests.support.records import Make


@pytest.fixture
def folder(tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a record of a failed gate, two false claims and one that was not tested."""
    monkeypatch.chdir(tmp_path)
    return written(make(), "out")


def written(result: AuditResult, name: str) -> Path:
    folder = Path(name)
    folder.mkdir()
    (folder / record.NAME).write_text(record.render(result), encoding="utf-8")
    return folder


def test_json_is_all_that_is_printed(folder: Path) -> None:
    for quiet in ((), ("-q",)):
        result = call("gate", folder, "--format", "json", *quiet)
        assert (result.exit_code, result.stderr) == (1, "")
        decided = json.loads(result.stdout)
        assert (decided["outcome"], decided["exit_code"]) == ("stop", 1)
        assert {verdict["id"]: verdict["verdict"] for verdict in decided["verdicts"]} == {
            "claim/published/0.1": "false",
            "claim/published/1": "false",
            "claim/published/10": "not tested",
        }
        [gate] = decided["gates"]
        assert (gate["id"], gate["outcome"], gate["reason"]) == (
            "gate/epsilon/max",
            "fail",
            "above 1",
        )
        assert decided["waivers"] == []
        assert decided["baseline"] is None


def test_the_table_that_is_missing_is_named(make: Make, folder: Path) -> None:
    result = call("gate", written(make(gate=False), "bare"))
    assert "add [[gate]]" in result.output


def test_a_required_decision_that_is_missing_is_undecided(make: Make, folder: Path) -> None:
    nothing = make(epsilons=(10.0,), gate=False)
    for required, code in ((False, 0), (True, 4)):
        run = f"exits {code}"
        written(nothing.model_copy(update={"require_decision": required}), run)
        options = ("--format", "json", "--report", "badge=b", "--report", "junit=j")
        result = call("gate", run, *options, "--report", "github-summary=s")
        decided = json.loads(result.stdout)
        assert result.exit_code == decided["exit_code"] == code
        assert decided["outcome"] == "no decision"
        assert ci_reports.badge(Path("b").read_text())["isError"] is required
        assert f'"exit_code" value="{code}"' in Path("j").read_text()
        summary = Path("s").read_text()
        assert summary.startswith("## Privacy audit: NO DECISION\n")
        assert f"Exit code {code}" in summary
    assert "NO DECISION " in call("gate", run).output


def test_quiet_prints_nothing(folder: Path) -> None:
    result = call("gate", folder, "-q")
    assert (result.exit_code, result.output) == (1, "")


def test_a_gate_of_a_policy_stands_in_the_policy(folder: Path) -> None:
    Path("policy.toml").write_text("\n[[gate]]\nmetric = 'attack.accuracy'\nmax = 0.01\n")
    result = call("gate", folder, "-q", "--policy", "policy.toml", "--report", "github=-")
    assert result.exit_code == 1
    first, *_ = ci_reports.github(result.stdout)
    assert (first.properties["file"], first.properties["line"]) == ("policy.toml", "2")


def accepted(day: str) -> str:
    return "".join(
        f'[[waiver]]\nid = "{name}"\nowner = "us"\nstatement = "old"\nexpires = {day}\n'
        for name in ("claim/published/0.1", "claim/published/10", "gate/epsilon/max")
    )


def test_what_is_waived_is_shown_as_suppressed(make: Make, folder: Path) -> None:
    strict = make().model_copy(update={"fail_on_false_claim": True})
    strict = strict.model_copy(
        update={"origin": {"gate/epsilon/max": PlaceRecord(path="a.toml", line=4)}}
    )
    written(strict, "strict")
    Path("waivers.toml").write_text(accepted("9999-12-31"))
    options = ("--waivers", "waivers.toml", "-q", "--report", "junit=j", "--report", "sarif=s")
    assert call("gate", "strict", *options).exit_code == 1
    assert ci_reports.junit(Path("j").read_text()) == {
        "claim/published/0.1": "skipped",
        "claim/published/1": "failure",
        "claim/published/10": "skipped",
        "gate/epsilon/max": "skipped",
    }
    results = ci_reports.sarif(Path("s").read_text())["results"]
    shown: dict[str, Any] = {
        result["properties"]["id"]: (result["level"], "suppressions" in result)
        for result in results
    }
    assert shown == {
        "claim/published/0.1": ("warning", True),
        "claim/published/1": ("error", False),
        "claim/published/10": ("note", False),
        "gate/epsilon/max": ("warning", True),
        "waiver/claim/published/10": ("warning", False),
    }


def test_an_expired_waiver_fails_in_every_report(make: Make, folder: Path) -> None:
    written(make(epsilons=(5.0,), outcome="pass"), "good")
    waiver = accepted("2020-01-01").split("[[waiver]]")[-1]
    Path("waivers.toml").write_text(f"[[waiver]]{waiver}")
    options = ("--waivers", "waivers.toml", "-q", "--report", "junit=j", "--report", "badge=b")
    assert call("gate", "good", *options).exit_code == 1
    assert ci_reports.junit(Path("j").read_text())["waiver/gate/epsilon/max"] == "failure"
    badge = ci_reports.badge(Path("b").read_text())
    assert (badge["message"], badge["color"]) == ("STOP, 1 of 1 claim survived", "red")


def test_what_a_baseline_decides_is_in_every_report(make: Make, folder: Path) -> None:
    good = make(epsilons=(5.0,), outcome="pass")
    worse = make(epsilons=(1.0,), outcome="pass")
    for name, result in (("good", good), ("worse", worse)):
        written(result, name)
    options = ("--baseline", "good", "-q", "--report", "junit=j", "--report", "badge=b")
    reply = call("gate", "worse", "--format", "json", *options)
    decided = json.loads(reply.stdout)
    assert reply.exit_code == decided["exit_code"] == 4
    assert decided["baseline"]["outcome"] == "inconclusive"
    assert ci_reports.junit(Path("j").read_text())["baseline"] == "error"
    assert ci_reports.badge(Path("b").read_text())["message"].startswith("UNDECIDED, 0 of 1 claim")
    assert call("gate", "good", *options).exit_code == 0
    assert ci_reports.junit(Path("j").read_text())["baseline"] == "passed"


@pytest.mark.cases(
    ("options", "target"),
    [
        ((), "out/record.json"),
        (("--policy", "policy.toml"), "policy.toml"),
        (("--waivers", "waivers.toml"), "./waivers.toml"),
        (("--baseline", "before"), "before/record.json"),
        (("--baseline", "before/record.json"), "before/record.json"),
    ],
)
def test_a_report_cannot_replace_what_is_read(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    target: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = written(make(), "out")
    written(make(), "before")
    Path("policy.toml").write_text('[[gate]]\nmetric = "epsilon"\nmax = 9\ndetectable = 2\n')
    Path("waivers.toml").write_text(accepted("2999-01-01"))
    before = Path(target).read_text()
    for name in ("md", "junit"):
        result = call("gate", folder, *options, "--report", f"{name}={target}")
        assert result.exit_code == 2
        assert "give --report" in result.stderr
        assert Path(target).read_text() == before


def test_a_record_in_a_folder_that_cannot_be_written_is_judged(folder: Path) -> None:
    folder.chmod(0o500)
    assert call("gate", folder, "-q", "--report", "junit=j").exit_code == 1
    folder.chmod(0o700)
    assert ci_reports.junit(Path("j").read_text())


def test_a_missing_record_is_an_error_in_the_report(folder: Path) -> None:
    assert call("gate", "nowhere", "--report", "junit=j", "--format", "json").exit_code == 2
    assert ci_reports.junit(Path("j").read_text()) == {"run": "error"}


def test_a_report_that_raises_hides_no_failed_gate(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(result: AuditResult) -> str:
        raise ValueError("no page")

    monkeypatch.setattr("dpaudit.reports.render.html.render", failing)
    reply = call("gate", folder, "--report", "html=page.html")
    assert reply.exit_code == 1
    assert "(ValueError: no page); the outcome is stop" in reply.stderr
    assert not Path("page.html").exists()
