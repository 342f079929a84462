"""Modules beside a config can be imported, and hide none that is installed."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dpaudit.cli.options import import_from
from dpaudit.core.errors import ConfigError


def path_of(folder: Path, *code: str) -> list[str]:
    """The path on which a command finds modules whose config names this code."""
    seen: list[str] = []

    @click.command()
    def command() -> None:
        import_from(folder, code)
        seen.extend(sys.path)

    CliRunner().invoke(command, [], catch_exceptions=False)
    return seen


def test_the_folder_stands_last_until_the_command_ends(tmp_path: Path) -> None:
    before = [*sys.path]
    assert path_of(tmp_path) == [*before, str(tmp_path.resolve())]
    assert sys.path == before


def test_a_module_that_is_installed_too_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed, beside = tmp_path / "installed", tmp_path / "beside"
    for folder in (installed, beside):
        folder.mkdir()
        (folder / "own_model.py").touch()
    (beside / "json.py").touch()
    monkeypatch.syspath_prepend(str(installed))
    for module, file in (("own_model", installed / "own_model.py"), ("json", "json/__init__.py")):
        with pytest.raises(ConfigError) as raised:
            path_of(beside, f"recommender.target = '{module}:Model'")
        for word in (f"'{module}:Model'", str(beside / f"{module}.py"), str(file), "rename"):
            assert word in str(raised.value)
    # What stands at one place, or is not named, is fine; so is a link to the folder.
    (tmp_path / "link").symlink_to(installed)
    named = "defense.target = 'own_model:sum'"
    assert path_of(installed, named)
    assert path_of(tmp_path / "link", named)
    assert path_of(tmp_path, named)
    assert path_of(beside, "recommender.command = 'own_model'")
