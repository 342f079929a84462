"""The picture of the first screen is what its script draws of the example today."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "scripts"
PICTURE = ROOT / "docs" / "pictures" / "screen.svg"
# Numbers and places differ from machine to machine.
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.mark.long
def test_the_picture_is_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "path", [str(SCRIPTS), str(ROOT / "examples" / "own-model"), *sys.path]
    )
    script = runpy.run_path(str(SCRIPTS / "make_screen.py"))
    result = script["audited"](script["example"]("own-model/audit"), tmp_path, allow_code=True)
    drawn, kept = script["drawing"](result), PICTURE.read_text(encoding="utf-8")
    assert _NUMBER.sub("#", drawn) == _NUMBER.sub("#", kept)
    assert "STOP" in kept
