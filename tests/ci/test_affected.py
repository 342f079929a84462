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
            "dpaudit/kernels/noise.py": [
                "kernels.test_noise",
                "defenses.social.test_training",
            ],
            "dpaudit/core/errors.py": ["bounds.frequentist.test_labels"],
            # A helper, a helper's helper, and a program that a test starts by its name.
            "tests/support/wald.py": ["end_to_end.test_soundness"],
            "tests/support/coin_games.py": ["claims.test_verify"],
            "tests/support/own_command.py": ["recommenders.test_command"],
            # What is loaded by its name, or with its group.
            "dpaudit/recommenders/cornac.py": ["contract.test_recommenders"],
            "dpaudit/defenses/item_item/slope_one.py": ["end_to_end.test_killed"],
            "dpaudit/audits/attributes/kind.py": ["auditor.test_run"],
            "dpaudit/reports/render/badge.py": ["end_to_end.test_pipeline"],
            # The command line of what starts a process, and what is no Python.
            "dpaudit/cli/main.py": ["end_to_end.test_killed", "cases.test_cases"],
            "dpaudit/reports/page.html.j2": ["reports.render.test_html"],
            "examples/quickstart.toml": ["docs.test_snippets", "cli.test_audit"],
            "README.md": ["docs.test_snippets"],
            "tests/cases/ties/cmd": ["cases.test_cases"],
        }.items()
        for test in tests
        if f"tests/{test.replace('.', '/')}.py" not in readers.get(name, ())
    ]
    assert missed == []
    simulations = {test for test in everything if test.startswith("tests/bounds/")}
    for name in ("frequentist/labels", "accounting", "divergence/binary"):
        assert simulations <= readers[f"dpaudit/bounds/{name}.py"]


@pytest.mark.long
def test_a_change_leaves_out_what_cannot_read_it(readers: dict[str, set[str]]) -> None:
    adapter = readers["dpaudit/recommenders/lightfm.py"]
    assert not any(test.startswith(("tests/bounds/", "tests/kernels/")) for test in adapter)
    assert "tests/end_to_end/test_soundness.py" not in readers["dpaudit/cli/plan.py"]
    assert "tests/data/test_sniff.py" not in readers["dpaudit/attacks/membership/lira.py"]


def test_a_module_that_has_not_passed_or_reads_otherwise_runs() -> None:
    assert affected.reason({"a": "1"}, None) == "has not passed yet"
    assert affected.reason({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}) == "changed: b, c"
    assert affected.reason({"a": "1"}, {"a": "1"}) == ""


TESTS = """
import pytest

def test_short(): pass

@pytest.mark.long
def test_long(): assert {fine}
"""


def run(folder: Path, **plan: Any) -> tuple[int, str]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = long\n")
    (folder / "plan.json").write_text(json.dumps({"seconds": {}, "left out": [], **plan}))
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


def test_what_is_left_out_keeps_its_state_and_what_fails_has_none(tmp_path: Path) -> None:
    state = tmp_path / "green.json"
    for name in ("a", "b", "c"):
        (tmp_path / f"test_{name}.py").write_text(TESTS.format(fine=name != "b"))
    reads = {f"test_{name}.py": {"room": name} for name in ("a", "b", "c")}
    old = {"reads": {"room": "old"}, "seconds": 1.0}
    state.write_text(json.dumps({"test_c.py": old, "test_gone.py": old}))
    plan: dict[str, Any] = {"state": str(state), "record": reads, "left out": ["test_c.py"]}

    code, said = run(tmp_path, **plan)
    assert code == 1
    assert "test_c.py::test_long" not in said
    assert "test_c.py::test_short PASSED" in said
    assert json.loads(state.read_text()).keys() == {"test_c.py", "test_gone.py"}

    (tmp_path / "test_b.py").write_text(TESTS.format(fine="pytest.importorskip('no_such')"))
    code, said = run(tmp_path, **plan, seconds={"test_c.py": 9.0})
    assert code == 0
    assert said.index("test_c.py::") < said.index("test_a.py::")
    states = json.loads(state.read_text())
    # A module with a test that lacks a package has not passed.
    assert states.keys() == {"test_a.py", "test_c.py"}
    assert (states["test_a.py"]["reads"], states["test_c.py"]) == ({"room": "a"}, old)
