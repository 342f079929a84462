"""The example plug-in, installed and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PLUGIN = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a Python that has the plug-in."""
    place = tmp_path_factory.mktemp("plugin")
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
    subprocess.run(
        [sys.executable, *install, str(place), str(PLUGIN)], check=True, capture_output=True
    )
    paths = [str(place), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def run(environment: dict[str, str], *arguments: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment,
        cwd=PLUGIN,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.long
def test_an_observer_that_nobody_knows_needs_no_change_of_the_auditor(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert "noisy-popularity" in run(environment, "dpaudit", "list", "defenses")
    assert "Observers for [[game]]" in run(environment, "dpaudit", "show", "noisy-popularity")
    run(environment, "dpaudit", "run", "audit.toml", "-o", str(tmp_path), "--quiet")
    record = json.loads((tmp_path / "record.json").read_text())
    found = {
        each["epsilon"]: each["estimate"]["lower"]
        for each in record["measurements"]
        if each["metric"] == "epsilon"
    }
    # The game finds nearly all that the noise allows, and no more.
    for epsilon, lower in found.items():
        assert 0.8 * epsilon < lower <= epsilon
    assert len(found) == 2


@pytest.mark.long
def test_a_kind_of_audit_that_nobody_knows_has_a_table_a_gate_and_every_report(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert "what drafts say about subscribers" in run(environment, "dpaudit", "list", "audits")
    assert '"draft"' in run(environment, "dpaudit", "schema")
    call = ("dpaudit", "run", "drafts.toml", "--allow-code", "-o", str(tmp_path))
    assert "PASS  draft.named <= 0.01" in run(environment, *call)
    careless = "draft.target=dpaudit_newsletter.drafts:careless"
    said = run(environment, *call, "--force", "-s", careless, "-s", "draft.drafts=4000", code=1)
    assert "FAIL  draft.named <= 0.01" in said
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "drafts that name a subscriber" in text
        assert "A draft names a subscriber" in text
        assert "in another spelling." in text
        assert "Games that test a claimed" not in text
    refused = run(environment, *call, "-s", "train.folds=2", code=2)
    assert "[train] is of audits of" in refused


@pytest.mark.long
def test_its_own_suite_runs_the_contract(environment: dict[str, str]) -> None:
    options = ["-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    assert "3 passed" in run(environment, "pytest", *options, "tests")
