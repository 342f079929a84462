from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpaudit.config import load as config_file
from dpaudit.config.origin import Origin, shown

TEXT = """
seed = 1
[[model]]
label = "one"
# [[model]] of a comment
[[model]]
label = "two"
defense = "cosine"
params = { top_k = 5 }

[[attack]]
[[gate]]
metric = "utility.overlap"
min = 0.1

[[gate]]
metric = "utility.rmse"
max = 3
"""


def origin(folder: Path, text: str, *overrides: str, name: str = "audit.toml") -> Origin:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    places = config_file.load(path, overrides).origin
    assert places is not None
    return places


def test_tables_stand_at_the_lines_of_their_headers(tmp_path: Path) -> None:
    places = origin(tmp_path, TEXT)
    assert places.models == {"one": 3, "two": 6}
    assert places.gates == (12, 16)


def test_a_project_file_keeps_its_own_lines(tmp_path: Path) -> None:
    lines = TEXT.replace("[[", "[[tool.dpaudit.").replace("seed", "[tool.dpaudit]\nseed")
    places = origin(tmp_path, lines, name="pyproject.toml")
    assert places.models == {"one": 4, "two": 7}
    assert places.gates == (13, 17)


def test_a_table_without_a_header_stands_at_its_list(tmp_path: Path) -> None:
    text = "\nmodel = [{ label = 'a' }, { label = 'b', defense = 'cosine' }]\n"
    assert origin(tmp_path, text).models == {"a": 2, "b": 2}
    assert origin(tmp_path, "[audit]\n").models == {"slope-one published": 1}
    gate = "gate=[{metric='utility.overlap', min=0.1}]"
    assert origin(tmp_path, "[audit]\n[model]\n", gate).gates == (1,)


@pytest.mark.cases(
    ("given", "said"),
    [
        ("audit.toml", "audit.toml"),
        ("./configs/../configs/audit.toml", "configs/audit.toml"),
        ("../elsewhere/audit.toml", "audit.toml"),
        ("/home/someone/audit.toml", "audit.toml"),
    ],
)
def test_a_path_tells_nothing_of_the_folders_above(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(Path(given)) == said
    assert shown(tmp_path / "audit.toml") == "audit.toml"


def test_a_name_that_is_no_text_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown(Path(os.fsdecode(b"a\xff.toml"))) == "a�.toml"
