"""The pictures of the README are what their scripts draw today."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "scripts"
PICTURES = ROOT / "docs" / "pictures"
# Numbers and places differ from machine to machine.
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.mark.long
@pytest.mark.drawn
def test_the_first_screen_is_that_of_the_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sys, "path", [str(SCRIPTS), str(ROOT / "examples" / "own-model"), *sys.path]
    )
    script = runpy.run_path(str(SCRIPTS / "make_screen.py"))
    result = script["audited"](script["example"]("own-model/audit"), tmp_path, allow_code=True)
    drawn, kept = script["drawing"](result), (PICTURES / "screen.svg").read_text(encoding="utf-8")
    assert _NUMBER.sub("#", drawn) == _NUMBER.sub("#", kept)
    assert "STOP" in kept


def test_the_dots_are_those_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(SCRIPTS), *sys.path])
    script = runpy.run_path(str(SCRIPTS / "make_dots.py"))
    page = (ROOT / "docs" / "results" / "libraries.md").read_text(encoding="utf-8")
    assert script["drawing"](page) == (PICTURES / "libraries.svg").read_text(encoding="utf-8")
    assert script["column"](page, "Scores", 4)["implicit als"] == 0.45
