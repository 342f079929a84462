"""Install a package of one module for the time of a test."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


def install(
    folder: Path, patch: pytest.MonkeyPatch, code: str, entry_points: dict[str, str]
) -> None:
    """Put the module `scratch` on the import path, with entry points.

    Args:
        folder: an empty folder.
        patch: takes the package back.
        code: the source of the module.
        entry_points: `NAME = scratch:OBJECT` by group.
    """
    (folder / "scratch.py").write_text(code, encoding="utf-8")
    info = folder / "scratch-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: scratch\nVersion: 1.0\n")
    points = "".join(f"[{group}]\n{line}\n" for group, line in entry_points.items())
    (info / "entry_points.txt").write_text(points, encoding="utf-8")
    patch.syspath_prepend(str(folder))
    patch.delitem(sys.modules, "scratch", raising=False)
