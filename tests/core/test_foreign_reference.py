"""Objects that a config names are imported, and what cannot be imported is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpaudit.core.errors import ConfigError
from dpaudit.core.foreign import import_object


def test_an_object_of_a_module_is_found() -> None:
    assert import_object("pathlib:Path", "x") is Path


@pytest.mark.cases("reference", ["", "pathlib", "pathlib:", ":Path", ":", ".pathlib:Path"])
def test_a_reference_without_module_or_name_is_refused(reference: str) -> None:
    with pytest.raises(ConfigError) as raised:
        import_object(reference, "defense.target")
    said = str(raised.value)
    assert said.startswith(f"defense.target = {reference!r} is not ")


def test_a_dot_instead_of_the_colon_is_corrected() -> None:
    with pytest.raises(ConfigError, match=r"give one, such as 'mine\.model:Recommender'"):
        import_object("mine.model.Recommender", "recommender.0.target")


@pytest.mark.cases(
    ("reference", "said", "remedy"),
    [
        ("no_such_module:f", "ModuleNotFoundError", "put the module beside the config, or install"),
        ("json.no_such:f", "ModuleNotFoundError", "put the module beside the config, or install"),
        ("pathlib:no_such_name", "AttributeError", "pathlib.py, or correct the name"),
    ],
)
def test_what_cannot_be_imported_is_named_with_the_remedy(
    reference: str, said: str, remedy: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        import_object(reference, "defense.target")
    message = str(raised.value)
    assert message.startswith(f"defense.target = {reference!r} cannot be imported ({said}")
    assert remedy in message


@pytest.mark.cases(
    ("text", "words"),
    [
        ("x = 1\nraise ValueError('no')", ["(ValueError: no)", "correct own_module.py, line 2"]),
        ("import json\njson.loads('{')", ["JSONDecodeError", "correct own_module.py, line 2"]),
        ("\nimport no_such_library", ["'no_such_library'", "own_module.py, line 2, or install"]),
        ("x = 1\ndef (", ["own_module.py, line 2", "correct that line"]),
        ("import own_helper", ["own_helper.py, line 1", "correct that line"]),
    ],
)
def test_a_module_that_fails_is_named_with_the_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: list[str]
) -> None:
    (tmp_path / "own_module.py").write_text(text)
    (tmp_path / "own_helper.py").write_text("def (")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as raised:
        import_object("own_module:f", "x")
    assert all(word in str(raised.value) for word in words), str(raised.value)


@pytest.mark.cases("text", ["import sys\nsys.exit(0)", "raise RuntimeError(1)", "def ("])
def test_a_module_that_ends_the_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    (tmp_path / "broken_module.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="cannot be imported"):
        import_object("broken_module:f", "x")
