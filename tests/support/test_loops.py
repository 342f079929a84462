"""A loop over cases misses none, names those that fail, and keeps them apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

@pytest.mark.cases("a", [1, pytest.param(2, id="two"), 3])
@pytest.mark.cases(("b", "c"), [(0, "x"), (1, "y")], ids=["first", "second"])
def test_failing(a, b, c, tmp_path, monkeypatch, capsys):
    assert not list(tmp_path.iterdir())
    (tmp_path / c).touch()
    monkeypatch.setenv("NAME", c)
    print(a)
    assert capsys.readouterr().out == f"{a}\\n"
    assert a + b != 3
    if a == 1 and b == 0:
        pytest.fail("on purpose")

@pytest.mark.cases("a", ["x" * 80, "x" * 80])
def test_of_one_name(a):
    assert not a

@pytest.mark.cases("a", [1, 2])
def test_skipped_in_part(a):
    if a == 1:
        pytest.skip("not here")

@pytest.mark.cases("a", [1, 2])
def test_skipped(a):
    pytest.skip("nowhere")

@pytest.mark.cases("a", [])
def test_of_nothing(a):
    assert False

@pytest.mark.cases("a", iter([1, 2]))
def test_read_once(a):
    pass
"""


def outcome(folder: Path, *options: str) -> str:
    path = folder / "test_cases.py"
    path.write_text(TESTS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "loops", "-p", "no:cacheprovider"]
    command += ["-c", os.devnull, "--rootdir", str(folder), *options, str(path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent), "COLUMNS": "200"}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False
    ).stdout


@pytest.fixture(scope="module")
def looped(tmp_path_factory: pytest.TempPathFactory) -> str:
    return outcome(tmp_path_factory.mktemp("looped"))


def test_all_cases_run_and_those_that_fail_are_named(looped: str) -> None:
    assert "Failed: 3 of 6 cases fail: first-1, first-3, second-two" in looped
    assert "In the case first-1:" in looped
    assert "assert (2 + 1) != 3" in looped
    assert "2 of 2 cases fail" in looped  # of one name
    assert "#1" in looped


def test_a_test_is_skipped_if_no_case_runs(looped: str) -> None:
    assert "3 failed, 1 passed, 2 skipped" in looped
    assert "the cases of a loop and their ids are lists" in looped


def test_each_case_may_be_a_test(tmp_path: Path) -> None:
    text = outcome(tmp_path, "--each-case", "-k", "failing")
    assert "3 failed, 3 passed" in text
    assert "test_failing[first-1] - Failed: on purpose" in text
