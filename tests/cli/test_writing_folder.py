"""A report of several files is written into a folder, as a whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult
from tests.support.commands import call
from tests.support.records import Make

FILES = ["accuracy.svg", "certified.svg", "difference.svg", "rmse.svg", "tradeoff.svg"]


@pytest.fixture
def run(tmp_path: Path, result: AuditResult, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a finished run, `out` in the current one."""
    monkeypatch.chdir(tmp_path)
    return written(result, "out")


def written(result: AuditResult, name: str) -> Path:
    folder = Path(name)
    folder.mkdir()
    (folder / record.NAME).write_text(record.render(result), encoding="utf-8")
    return folder


def inside(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).iterdir())


@pytest.mark.cases(
    "command",
    [
        ("report", "out", "--format", "svg", "-o", "new/report"),
        ("gate", "out", "-q", "--report", "svg=new/gate"),
    ],
)
def test_a_folder_is_made_and_files_of_others_stay(run: Path, command: tuple[str, ...]) -> None:
    code, folder = 1 if command[0] == "gate" else 0, f"new/{command[0]}"
    for _ in range(2):
        result = call(*command)
        assert (result.exit_code, result.output) == (code, "")
        assert inside(folder) == FILES
    Path(folder, "accuracy.svg").write_text("old")
    Path(folder, "mine.svg").write_text("mine")
    assert call(*command).exit_code == code
    assert inside(folder) == sorted([*FILES, "mine.svg"])
    assert Path(folder, "accuracy.svg").read_text().startswith("<svg ")
    assert Path(folder, "mine.svg").read_text() == "mine"


def test_nothing_is_left_where_the_disk_is_full(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("report", "out", "--format", "svg", "-o", "charts").exit_code == 0
    before = {name: Path("charts", name).read_text() for name in FILES}
    written: list[int] = []

    def full(file: int) -> None:
        written.append(file)
        if len(written) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("dpaudit.core.files.os.fsync", full)
    result = call("report", "out", "--format", "svg", "-o", "charts")
    assert result.exit_code == 2
    assert "certified.svg cannot be written" in result.stderr
    assert {name: Path("charts", name).read_text() for name in inside("charts")} == before


@pytest.mark.cases(
    ("command", "named"),
    [
        (("report", "out", "--format", "svg"), "'svg'"),
        (("gate", "out", "--report", "svg=-"), "'svg'"),
        (("report", "out", "--format", "svg", "-o", "out/record.json"), "record.json"),
        (("gate", "out", "--report", "svg=out/record.json"), "record.json"),
        (("gate", "out", "--report", "svg=a", "--report", "html=a"), "a"),
        (("report", "out", "--format", "html", "-o", "out"), "out"),
        (("gate", "out", "--report", "html=out"), "out"),
    ],
)
def test_a_file_and_a_folder_do_not_take_each_others_place(
    run: Path, command: tuple[str, ...], named: str
) -> None:
    result = call(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert named in result.stderr.splitlines()[-1]
    assert inside(".") == ["out"]
    assert inside("out") == [record.NAME]


def test_a_record_without_charts_makes_no_folder_and_says_so(make: Make, run: Path) -> None:
    bare = make(epsilons=(1.0,), attacks=False, game=False, gate=False, rated=False)
    written(bare.model_copy(update={"measurements": []}), "bare")
    result = call("report", "bare", "--format", "svg", "-o", "charts")
    assert (result.exit_code, result.stdout) == (0, "")
    [sentence] = result.stderr.splitlines()
    assert "'svg'" in sentence
    assert "charts" in sentence
    assert not Path("charts").exists()
