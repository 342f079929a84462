"""Inputs that once went wrong, as users bring them: what each command has to say.

A folder holds the inputs, or a program that makes them, the commands (`cmd`), and `expect.toml`:
the exit code of the last command, what the output holds and what it does not.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

CASES = sorted(path.parent for path in Path(__file__).parent.glob("*/expect.toml"))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_a_case_ends_as_it_should(case: Path, tmp_path: Path) -> None:
    place = shutil.copytree(case, tmp_path / "case")
    expected = tomllib.loads((case / "expect.toml").read_text("utf-8"))
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["/bin/sh", "cmd"], cwd=place, env={**os.environ, "PATH": here, "COLUMNS": "200"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == expected["exit"], output
    assert [words for words in expected["says"] if words not in output] == [], output
    assert [words for words in expected.get("never", []) if words in output] == [], output
