"""What errors advise."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import get_args

from dpaudit.core.errors import installing, said
from dpaudit.core.exit_codes import exit_code
from dpaudit.record.result import RunOutcome

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ASKED = re.compile(r"(?:required\([^()]*,\s*|installing\()['\"](\w+)['\"]\)")


def test_every_extra_that_code_asks_for_is_installed_by_its_libraries_from_any_folder() -> None:
    code = [path.read_text(encoding="utf-8") for path in (ROOT / "dpaudit").rglob("*.py")]
    extras = {extra for text in code for extra in ASKED.findall(text)}
    assert {"cluster", "implicit", "parquet", "torch"} <= extras
    for extra in extras:
        command, libraries = shlex.split(installing(extra)), PROJECT["optional-dependencies"][extra]
        assert command == ["python", "-m", "pip", "install", *sorted(libraries)]


def test_what_an_exception_says_can_be_written() -> None:
    assert said(ValueError("a \ud800\n b")) == "ValueError: a \\ud800 b"


def test_a_decision_that_is_required_and_missing_is_undecided() -> None:
    codes = {outcome: exit_code(outcome) for outcome in get_args(RunOutcome)}
    assert codes == {"go": 0, "stop": 1, "undecided": 4, "no decision": 0}
    required = {outcome: exit_code(outcome, require_decision=True) for outcome in codes}
    assert required == {**codes, "no decision": 4}
