"""What a change runs, and what it leaves out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import affected  # type: ignore[import-not-found]
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def readers() -> dict[str, set[str]]:
    """The long test modules that may read a file, by the file."""
    checkout = affected.Checkout(ROOT)
    readers: dict[str, set[str]] = {}
    for test in checkout.long_modules():
        for name in checkout.reads(test):
            readers.setdefault(name, set()).add(test)
    return readers


@pytest.mark.long
def test_a_change_runs_what_may_read_it(readers: dict[str, set[str]]) -> None:
    everything = set().union(*readers.values())
    missed = [
        (name, test)
        for name, tests in {
            # What is imported, in a function and through others too.
            "dpaudit/kernels/noise.py": ["kernels.test_noise", "defenses.social.test_training"],
            "dpaudit/core/errors.py": ["bounds.frequentist.test_labels"],
            # A helper, a helper's helper, and a program that a test starts by its name.
            "tests/support/wald.py": ["end_to_end.test_soundness"],
            "tests/support/coin_games.py": ["claims.test_verify"],
            "tests/support/own_command.py": ["recommenders.test_command"],
            # What is loaded by its name, or with its group.
            "dpaudit/recommenders/libraries.py": ["contract.test_recommenders"],
            "dpaudit/defenses/item_item/similarities.py": ["end_to_end.test_killed"],
            "dpaudit/audits/attributes/kind.py": ["auditor.test_run"],
            "dpaudit/reports/render/services.py": ["end_to_end.test_pipeline"],
            # The command line of what starts a process, and what is no Python.
            "dpaudit/cli/main.py": ["end_to_end.test_killed", "cases.test_cases"],
            "dpaudit/cli/scripts/recbole_model.py": ["cli.test_init_scripts"],
            # What is started by its file, or imported by a name in a text.
            "dpaudit/data/readers/untrusted.py": ["data.readers.test_untrusted"],
            "dpaudit/recommenders/cleanup.py": ["recommenders.test_command"],
            "dpaudit/auditor/measure.py": ["papers.test_sensitivity"],
            "dpaudit/reports/page.html.j2": ["reports.render.test_html"],
            "examples/quickstart.toml": ["docs.test_snippets", "cli.test_audit"],
            "README.md": ["docs.test_snippets"],
            "tests/cases/ties/cmd": ["cases.test_cases"],
        }.items()
        for test in tests
        if f"tests/{test.replace('.', '/')}.py" not in readers.get(name, ())
    ]
    assert missed == []
    assert "ci/green.json" not in readers
    simulations = {test for test in everything if test.startswith("tests/bounds/")}
    for name in ("frequentist/labels", "accounting", "divergence"):
        assert simulations <= readers[f"dpaudit/bounds/{name}.py"]


@pytest.mark.long
def test_a_change_leaves_out_what_cannot_read_it(readers: dict[str, set[str]]) -> None:
    adapter = readers["dpaudit/recommenders/libraries.py"]
    assert not any(test.startswith(("tests/bounds/", "tests/kernels/")) for test in adapter)
    assert "tests/end_to_end/test_soundness.py" not in readers["dpaudit/cli/plan.py"]
    assert "tests/kernels/test_noise.py" not in readers["dpaudit/attacks/membership/inference.py"]


@pytest.mark.long
def test_data_sets_and_versions_decide_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"tests/{name}.py" for name in ("cli/test_audit", "kernels/test_noise")]
    monkeypatch.delenv("DPAUDIT_DATA", raising=False)
    without = [affected.Checkout(ROOT).state(name) for name in names]
    monkeypatch.setenv("DPAUDIT_DATA", str(Path(__file__).parent))
    with_data = [affected.Checkout(ROOT).state(name) for name in names]
    assert [one == other for one, other in zip(without, with_data, strict=True)] == [False, True]
    monkeypatch.setattr(affected.platform, "python_version", lambda: "4.0")
    assert affected.Checkout(ROOT).state(names[1]) != without[1]


TESTS = """
import pytest

def test_short(): pass

@pytest.mark.long
def test_long(): assert {fine}
"""


def run(folder: Path, **plan: Any) -> tuple[int, str]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    (folder / "plan.json").write_text(json.dumps(plan))
    places = {affected.PLAN: str(folder / "plan.json"), "PYTHONPATH": str(ROOT / "ci")}
    command = [sys.executable, "-m", "pytest", "-v", "-p", "affected", "-p", "no:xdist", "."]
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_of_many_affected_modules_a_part_that_its_digest_draws_waits_for_the_night() -> None:
    names = [f"test_{i}.py" for i in range(40)]
    states = {name: f"{7919 * i % 1009:04x}" for i, name in enumerate(names)}
    passed = {name: ["", 40.0] for name in names[1:]}
    later = affected.postponed(names, states, passed)
    assert names[0] not in later  # one that has not passed yet always runs
    kept = [name for name in names[1:] if name not in later]
    assert len(kept) == affected.SECONDS // 40
    assert max(states[name] for name in kept) < min(states[name] for name in later)
    assert affected.postponed(names[:5], states, passed) == []


def test_what_is_left_out_keeps_its_state_and_what_fails_has_none(tmp_path: Path) -> None:
    file = tmp_path / "green.json"
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text(TESTS.format(fine=name != "b"))
    plan: dict[str, Any] = {
        "state": str(file),
        "record": {f"test_{name}.py": name for name in ("a", "b", "c")},
        "passed": {"test_b.py": ["b", 3], "test_c.py": ["c", 9], "test_gone.py": ["gone", 1]},
        "left out": ["test_c.py"],
    }

    code, said = run(tmp_path, **plan)
    assert code == 1
    assert "test_c.py::test_long" not in said
    # What takes longest is first.
    assert said.index("test_c.py::test_short PASSED") < said.index("test_a.py::test_long PASSED")
    green = {"test_a.py": ["a", 0], "test_c.py": ["c", 9]}
    assert json.loads(file.read_text()) == green
    file.unlink()

    (tmp_path / "test_b.py").write_text(TESTS.format(fine="pytest.importorskip('no_such')"))
    code, said = run(tmp_path, **plan)
    assert code == 0
    # A module with a test that lacks a package has not passed.
    assert json.loads(file.read_text()) == green
