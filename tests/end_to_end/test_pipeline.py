"""A pipeline sees the same exit code through every format, and the right thing in each."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ci_reports  # type: ignore[import-not-found]
import pipeline  # type: ignore[import-not-found]
import pytest
from click.testing import CliRunner, Result

from dpaudit.cli import main
from dpaudit.core import registry

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
BASH = shutil.which("bash") or "/bin/bash"
FORMATS = registry.names("reports")
CASES: dict[str, tuple[str, float, int]] = pipeline.CASES
FINISHED = [name for name in CASES if name != "crashed"]


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose audits were run once, each with every report."""
    folder = tmp_path_factory.mktemp("repository")
    pipeline.write(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for case in CASES:
            reports = [f"--report={name}={case}.{name}" for name in FORMATS]
            ran = call("run", f"{case}.toml", "--allow-code", "-q", "-o", case, *reports)
            assert ran.exit_code == CASES[case][2], ran.output
    return folder


@pytest.fixture
def repository(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_no_format_changes_the_exit_code(
    repository: Path, tmp_path: Path, case: str, name: str
) -> None:
    target = tmp_path / "report"
    command: tuple[object, ...] = ("gate", case)
    if case == "crashed":
        command = ("run", "crashed.toml", "--allow-code", "-o", tmp_path / "out")
    found = call(*command, "-q", "--report", f"{name}={target}")
    assert found.exit_code == CASES[case][2], found.output
    if case != "crashed" and name != "json":
        assert read(target) == read(Path(f"{case}.{name}"))
        again = tmp_path / "again"
        assert call("report", case, "--format", name, "-o", again).exit_code == 0
        assert read(again) == read(target)


def read(report: Path) -> dict[str, str]:
    """The text of a report, or of each file of one that is a folder; nothing if it is empty."""
    files = [path for path in (report, *report.glob("*")) if path.is_file()]
    return {file.relative_to(report).name: file.read_text() for file in files}


def test_the_record_says_where_the_claim_and_the_gate_stand(repository: Path) -> None:
    origin = json.loads(Path("broken/record.json").read_text())["origin"]
    assert origin == {
        "claim/sum/1": {"path": "broken.toml", "line": pipeline.CLAIM_LINE},
        "gate/epsilon/max": {"path": "broken.toml", "line": pipeline.GATE_LINE},
    }


def test_junit(repository: Path) -> None:
    found = {case: ci_reports.junit(Path(f"{case}.junit").read_text()) for case in CASES}
    claim, gate = "claim/sum/1", "gate/epsilon/max"
    assert found == {
        "good": {claim: "passed", gate: "passed"},
        "broken": {claim: "failure", gate: "failure"},
        "waived": {claim: "skipped", gate: "skipped"},
        "inconclusive": {claim: "skipped", gate: "error"},
        "crashed": {"run": "error"},
    }


def test_sarif(repository: Path) -> None:
    results = {}
    for case in CASES:
        run = ci_reports.sarif(Path(f"{case}.sarif").read_text())
        [invocation] = run["invocations"]
        assert invocation["exitCode"] == CASES[case][2]
        assert invocation["executionSuccessful"] is (case != "crashed")
        assert run["automationDetails"]["id"] == f"dpaudit/{case}.toml/"
        results[case] = [_place(result) for result in run["results"]]
    assert results == {
        "good": [],
        "broken": [("false-claim", "error", 3), ("gate-failed", "error", 16)],
        "waived": [("false-claim", "warning", 3), ("gate-failed", "warning", 16)],
        "inconclusive": [("gate-inconclusive", "error", 16), ("claim-not-tested", "note", 3)],
        "crashed": [("run-failed", "error", 1)],
    }


def _place(result: dict[str, Any]) -> tuple[str, str, int]:
    [location] = result["locations"]
    line = location["physicalLocation"]["region"]["startLine"]
    return result["ruleId"], result["level"], line


def test_gitlab(repository: Path) -> None:
    found = {
        case: [
            (each["check_name"], each["severity"])
            for each in ci_reports.gitlab(Path(f"{case}.gitlab").read_text())
        ]
        for case in CASES
    }
    assert found == {
        "good": [],
        "broken": [("false-claim", "critical"), ("gate-failed", "critical")],
        "waived": [("false-claim", "minor"), ("gate-failed", "minor")],
        "inconclusive": [("gate-inconclusive", "major"), ("claim-not-tested", "info")],
        "crashed": [("run-failed", "blocker")],
    }


def test_github(repository: Path) -> None:
    kinds = {}
    for case in CASES:
        found = ci_reports.github(Path(f"{case}.github").read_text())
        kinds[case] = [each.kind for each in found]
        assert all(each.properties["file"] == f"{case}.toml" for each in found)
    assert kinds == {
        "good": [],
        "broken": ["error", "error"],
        "waived": ["warning", "warning"],
        "inconclusive": ["error", "notice"],
        "crashed": ["error"],
    }
    summaries = [Path(f"{case}.github-summary").read_text().split("\n")[0] for case in CASES]
    assert summaries == [
        f"## Privacy audit: {outcome}"
        for outcome in (
            "GO",
            "STOP",
            "GO, 1 false claim accepted; 1 gate waived until 9999-12-31",
            "UNDECIDED",
            "NO RESULT",
        )
    ]


def test_badge(repository: Path) -> None:
    colors = {case: ci_reports.badge(Path(f"{case}.badge").read_text())["color"] for case in CASES}
    assert colors == {
        "good": "green",
        "broken": "red",
        "waived": "orange",
        "inconclusive": "orange",
        "crashed": "lightgrey",
    }


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """The environment of a step, with this dpaudit instead of an installed one."""
    tools = tmp_path / "bin"
    tools.mkdir()
    python = f'case "$*" in *"-m pip "*) exit 0 ;; *) exec {sys.executable} "$@" ;; esac'
    for name, line in (("python", python), ("dpaudit", f'exec {sys.executable} -m dpaudit "$@"')):
        script = tools / name
        script.write_text(f"#!/bin/sh\n{line}\n")
        script.chmod(0o755)
    return {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}


def lines(path: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in path.read_text().splitlines())


@pytest.mark.long
@pytest.mark.parametrize("case", ["broken", "good"])
def test_the_action_of_github(
    repository: Path, tmp_path: Path, shell: dict[str, str], case: str
) -> None:
    summary, outputs = tmp_path / "summary.md", tmp_path / "outputs"
    summary.write_text("# Before\n")
    step = {
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_OUTPUT": str(outputs),
        "GITHUB_ACTION_PATH": str(ROOT),
        "AUDIT_CONFIG": f"{case}.toml",
        "AUDIT_ARGS": "-s  seed=1\n--allow-code\n",
        "AUDIT_OUTPUT": str(tmp_path / "out"),
    }
    done = subprocess.run(
        [BASH, str(ROOT / "ci" / "github.sh")],
        env={**shell, **step},
        capture_output=True,
        text=True,
        check=False,
    )
    _, _, code = CASES[case]
    assert done.returncode == code, done.stderr
    found = lines(outputs)
    assert found["exit-code"] == str(code)
    assert found["outcome"] == {0: "go", 1: "stop"}[code]
    assert ci_reports.junit(Path(found["junit"]).read_text())
    assert ci_reports.sarif(Path(found["sarif"]).read_text())
    assert ci_reports.badge(Path(found["badge"]).read_text())
    assert Path(found["report"]).read_text().startswith("<!")
    assert summary.read_text().startswith("# Before\n## Privacy audit: ")
    # No command is obeyed until the audit has ended; then come the annotations.
    first, *printed = done.stdout.splitlines()
    token = first.removeprefix("::stop-commands::")
    after = printed[printed.index(f"::{token}::") + 1 :]
    assert len(ci_reports.github("\n".join(after))) == (0 if code == 0 else 2)


@pytest.mark.long
def test_the_job_of_gitlab(
    repository: Path, tmp_path: Path, shell: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import yaml

    job = yaml.safe_load((ROOT / "ci" / "gitlab.yml").read_text())["dpaudit"]
    shutil.copytree(repository, tmp_path / "copy")
    done = subprocess.run(
        [BASH, "-eo", "pipefail", "-c", "\n".join(job["script"])],
        env={**shell, **job["variables"], "AUDIT_CONFIG": "broken.toml"}
        | {"AUDIT_ARGS": "--allow-code -q", "AUDIT_PACKAGE": str(ROOT)},
        cwd=tmp_path / "copy",
        check=False,
    )
    assert done.returncode == 1
    monkeypatch.chdir(tmp_path / "copy")
    reports = job["artifacts"]["reports"]
    assert job["artifacts"]["when"] == "always"
    assert "failure" in ci_reports.junit(Path(reports["junit"]).read_text()).values()
    assert ci_reports.gitlab(Path(reports["codequality"]).read_text())


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "file"),
    [("vendor.github-actions", "action.yml"), ("vendor.gitlab-ci", "ci/gitlab.yml")],
)
def test_templates_are_valid(schema: str, file: str) -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema]
    done = subprocess.run([*command, ROOT / file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def hooks() -> dict[str, dict[str, Any]]:
    import yaml

    found = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    return {hook["id"]: hook for hook in found}


def run_hook(hook: dict[str, Any], env: dict[str, str], *arguments: str) -> Any:
    """Run a hook as pre-commit does: its entry, its args and the files in one command."""
    return subprocess.run(
        [*shlex.split(hook["entry"]), *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_the_hook_of_plans_checks_every_config(repository: Path, shell: dict[str, str]) -> None:
    small = "[data]\nsynthetic = { n_users = 100, n_items = 80, mean_per_user = 30 }\n[model]\n"
    Path("dpaudit-good.toml").write_text(f"{small}[[attack]]\n[audit]\ntrials = 50\n")
    Path("dpaudit-bad.toml").write_text(f"{small}epsilon = 0\n")
    hook = hooks()["dpaudit-plan"]
    assert run_hook(hook, shell, "dpaudit-good.toml").returncode == 0
    found = run_hook(hook, shell, "dpaudit-good.toml", "dpaudit-bad.toml")
    assert found.returncode == 2
    assert "dpaudit-bad.toml, line 4" in found.stderr


@pytest.mark.long
def test_the_hook_of_claims_names_published_guarantees(shell: dict[str, str]) -> None:
    hook = hooks()["dpaudit-claims"]
    assert run_hook(hook, shell, "pa11").returncode == 0
    assert run_hook(hook, shell, "nobody99").returncode == 2


def test_hooks_are_valid() -> None:
    clientlib = pytest.importorskip("pre_commit.clientlib")
    manifest = clientlib.load_manifest(ROOT / ".pre-commit-hooks.yaml")
    assert {hook["id"] for hook in manifest} == {"dpaudit-plan", "dpaudit-claims"}
