"""Whatever ends a command without a result, its CI reports say so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import ci_reports  # type: ignore[import-not-found]
import pytest

from dpaudit.core.errors import DataError, RunError
from tests.support.commands import call

CONFIG = """
[data]
synthetic = { n_users = 100, n_items = 80, mean_per_user = 30 }
[model]
epsilon = [1]
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return config_in(tmp_path, monkeypatch)


def config_in(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    patch.chdir(folder)
    path = Path("audit.toml")
    path.write_text(CONFIG)
    return path


def stale(*names: str) -> list[str]:
    """Files of an earlier run, and the options that name them."""
    for name in names:
        Path(f"{name}.ci").write_text("all is well")
    return [f"--report={name}={name}.ci" for name in names]


def failures() -> tuple[dict[str, str], int, str, str, str]:
    """What the five files say."""
    run = ci_reports.sarif(Path("sarif.ci").read_text())
    [issue] = ci_reports.gitlab(Path("gitlab.ci").read_text())
    return (
        ci_reports.junit(Path("junit.ci").read_text()),
        run["invocations"][0]["exitCode"],
        issue["location"]["path"],
        issue["description"],
        Path("github-summary.ci").read_text().split("\n")[0],
    )


NAMES = ("junit", "sarif", "gitlab", "github-summary", "badge")


@pytest.mark.cases(
    ("options", "code", "words"),
    [
        (("audit.toml", "-s", "audit.trials=0"), 2, "the option --set audit.trials"),
        (("nowhere.toml",), 2, "nowhere.toml does not exist"),
        ((), 2, "neither dpaudit.toml nor"),
        (("audit.toml", "--workers", "0"), 2, "--workers"),
        (("audit.toml", "--shard", "1/2"), 2, "a shard has no reports"),
        (("audit.toml", "-o", "audit.toml/out"), 2, "cannot be written"),
    ],
)
def test_a_wrong_use_is_an_error_in_every_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], code: int, words: str
) -> None:
    config_in(tmp_path, monkeypatch)
    result = call("run", *options, *stale(*NAMES))
    assert result.exit_code == code, result.output
    tests, recorded, path, said, title = failures()
    assert tests == {"run": "error"}
    assert recorded == code
    assert path in {"audit.toml", "nowhere.toml", "dpaudit.toml"}
    assert words in said
    assert title == "## Privacy audit: NO RESULT"
    assert ci_reports.badge(Path("badge.ci").read_text())["message"] == "NO RESULT"


@pytest.mark.cases(
    ("error", "words"),
    [
        (RunError("KeyError: user 4711"), "the command's output says why"),
        (DataError("line 3 of u.data: user 4711 rates 9"), "the command's output says why"),
        (PermissionError(13, "Permission denied", "/home/a/u.data"), "refused: Permission denied"),
        (OSError("user 4711"), "refused: OSError"),
        (TimeoutError(), "refused: TimeoutError"),
        (ZeroDivisionError("user"), "this is a defect of dpaudit"),
        (KeyboardInterrupt(), "interrupted"),
        (MemoryError(), "not enough memory"),
        (SystemExit(0), "called sys.exit"),
    ],
)
def test_a_run_that_fails_is_an_error_in_every_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, words: str
) -> None:
    config = config_in(tmp_path, monkeypatch)

    def failing(*_: object, **__: object) -> None:
        # While it runs, the reports of an earlier run are gone already.
        assert "has not finished" in Path("junit.ci").read_text()
        raise error

    monkeypatch.setattr("dpaudit.auditor.run.run", failing)
    result = call("run", config, *stale(*NAMES))
    codes = {DataError: 2, KeyboardInterrupt: 130}
    expected = codes.get(type(error), 3)
    assert result.exit_code == expected
    assert "4711" in result.stderr or "4711" not in str(error)
    assert "refused: \n" not in result.stderr
    assert not any("4711" in Path(f"{name}.ci").read_text() for name in NAMES)
    assert not any("/home" in Path(f"{name}.ci").read_text() for name in NAMES)
    tests, code, path, said, _ = failures()
    assert (tests, code, path) == ({"run": "error"}, expected, "audit.toml")
    assert words in said


def test_a_gate_or_merge_without_a_record_is_an_error(config: Path) -> None:
    assert call("merge", "shards", *stale("gitlab")).exit_code == 2
    [issue] = ci_reports.gitlab(Path("gitlab.ci").read_text())
    assert issue["location"]["path"] == "shards/record.json"


def test_annotations_of_a_failure_are_printed(config: Path) -> None:
    result = call("run", "nowhere.toml", "--report", "github=-")
    [note] = ci_reports.github(result.stdout)
    assert note.kind == "error"
    assert note.properties["file"] == "nowhere.toml"


def test_a_failure_is_added_to_the_job_summary(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = Path("summary.md")
    summary.write_text("## Build\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary.absolute()))
    call("run", "nowhere.toml", "--report", "github-summary=summary.md")
    assert summary.read_text().startswith("## Build\n## Privacy audit: NO RESULT\n")


def test_a_failure_replaces_neither_a_record_nor_what_the_command_reads(config: Path) -> None:
    Path("out").mkdir()
    Path("out/record.json").write_text("{}")
    for target in ("audit.toml", "out/record.json"):
        before = Path(target).read_text()
        options = ("-o", "out", "-s", "audit.trials=0", f"--report=junit={target}")
        assert call("run", config, *options).exit_code == 2
        assert Path(target).read_text() == before


@pytest.mark.parametrize("name", ["md", "junit"])
def test_a_report_of_a_run_cannot_replace_its_data(config: Path, name: str) -> None:
    rows = "user,item,rating\n1,1,3\n"
    Path("ratings.csv").write_text(rows)
    config.write_text(
        '[data]\npath = "ratings.csv"\nformat = "movielens-csv"\n[model]\nepsilon = [1]\n'
    )
    result = call("run", config, "-o", "out", f"--report={name}=./ratings.csv")
    assert result.exit_code == 2
    assert "which the command reads" in result.stderr
    assert Path("ratings.csv").read_text() == rows


def test_a_report_of_a_run_cannot_replace_the_budgets_of_users(config: Path) -> None:
    Path("users.csv").write_text("1,0.5\n")
    config.write_text(
        '[data]\npath = "ratings.csv"\nformat = "movielens-csv"\nbudgets.path = "users.csv"\n'
        '[model]\ndefense = "dpps-mf"\nepsilon = [1]\nparams.budgets = true\n'
    )
    result = call("run", config, "-o", "out", "--report=md=./users.csv")
    assert result.exit_code == 2
    assert "which the command reads" in result.stderr
    assert Path("users.csv").read_text() == "1,0.5\n"


@pytest.mark.parametrize("name", ["md", "junit"])
def test_a_report_of_a_run_cannot_replace_its_config(config: Path, name: str) -> None:
    result = call("run", config, "-o", "out", f"--report={name}=./audit.toml")
    assert result.exit_code == 2
    assert "which the command reads" in result.stderr
    assert config.read_text() == CONFIG


@pytest.mark.cases("name", ["md", "junit"])
@pytest.mark.cases("file", ["record.json", "tasks.sqlite"])
def test_a_report_of_a_run_cannot_replace_its_record_or_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, file: str
) -> None:
    config = config_in(tmp_path, monkeypatch)
    Path("out").mkdir()
    target = Path("out", file)
    target.write_text("kept")
    result = call("run", config, "-o", "out", f"--report={name}={target}")
    assert result.exit_code == 2
    assert f"outputs are written to {target}" in result.stderr
    assert target.read_text() == "kept"


def test_a_report_that_fails_too_does_not_change_the_exit_code(config: Path) -> None:
    Path("file").write_text("")
    result = call("run", "nowhere.toml", "--report", "junit=file/junit.xml", *stale("gitlab"))
    assert result.exit_code == 2
    assert "nowhere.toml does not exist" in result.stderr
    assert "cannot be written to report 'junit'" in result.stderr
    assert len(ci_reports.gitlab(Path("gitlab.ci").read_text())) == 1


def test_other_reports_are_left_alone(config: Path) -> None:
    call("run", "nowhere.toml", *stale("md", "html", "json"))
    assert {Path(f"{name}.ci").read_text() for name in ("md", "html", "json")} == {"all is well"}


@pytest.mark.long
def test_a_killed_run_leaves_no_older_result(config: Path) -> None:
    options = stale("junit", "sarif")
    slow = ["-s", "audit.trials=50000000", "-s", "attack=[{}]", "-o", "out", "-q"]
    command = [sys.executable, "-m", "dpaudit", "run", str(config), *slow, *options]
    with subprocess.Popen(command, env={**os.environ, "NUMBA_NUM_THREADS": "1"}) as process:
        limit = time.monotonic() + 60
        while Path("junit.ci").read_text() == "all is well" and time.monotonic() < limit:
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    assert ci_reports.junit(Path("junit.ci").read_text()) == {"run": "error"}
    run = ci_reports.sarif(Path("sarif.ci").read_text())
    assert "has not finished" in json.dumps(run["invocations"])


@pytest.mark.cases(
    ("text", "line"),
    [
        ("seed = 1\n[data]\npath = \n", 3),
        ("seed = 1\n[data", 2),
        ("seed = 1\n\n[audit]\ntrials = 0\n", 4),
    ],
)
def test_a_wrong_config_is_annotated_at_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int
) -> None:
    config = config_in(tmp_path, monkeypatch)
    config.write_text(text)
    result = call("run", config, "--report", "github=-", *stale("sarif", "gitlab"))
    assert result.exit_code == 2
    [note] = ci_reports.github(result.stdout)
    assert (note.properties["file"], note.properties["line"]) == ("audit.toml", str(line))
    [issue] = ci_reports.gitlab(Path("gitlab.ci").read_text())
    assert issue["location"]["lines"]["begin"] == line
    assert f'"startLine": {line}' in Path("sarif.ci").read_text()
