"""What results depend on: code of dpaudit and of plug-ins, and libraries."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from dpaudit.execution import tasks
from dpaudit.execution.tasks import MACHINE, environment, identity_of


def test_the_identity_names_code_libraries_and_the_machine_s_type() -> None:
    words = identity_of()
    assert words == identity_of()
    assert {**environment(), "code": words["code"]} == words
    assert set(words) > MACHINE


def test_modules_of_dpaudit_add_nothing() -> None:
    assert identity_of(["dpaudit.attacks.base", "builtins"]) == identity_of()


def test_a_changed_plug_in_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugged").mkdir()
    (tmp_path / "plugged" / "__init__.py").write_text("")
    (tmp_path / "plugged" / "attack.py").write_text("A = 1\n")
    (tmp_path / "single.py").write_text("A = 1\n")
    (tmp_path / "helper.py").write_text("A = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("plugged.attack", "single"):
        importlib.import_module(name)
    codes = [identity_of(["plugged.attack", "single"])["code"]]
    for file in ("plugged/attack.py", "helper.py", "single.py"):
        (tmp_path / file).write_text("A = 2\n")
        codes.append(identity_of(["plugged.attack", "single"])["code"])
    assert len(set(codes)) == 4
    for name in ("plugged.attack", "plugged", "single"):
        del sys.modules[name]


def test_every_source_file_of_the_package_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "dpaudit" / "execution" / "tasks.py"
    file.parent.mkdir(parents=True)
    kernel = tmp_path / "dpaudit" / "kernels" / "deep" / "kernel.py"
    kernel.parent.mkdir(parents=True)
    monkeypatch.setattr(tasks, "__file__", str(file))
    codes = []
    for source in (kernel, kernel.with_name("read.toml")):
        for text in ("a = 1\n", "a = 2\n"):
            source.write_text(text)
            codes.append(tasks._package.__wrapped__())
    assert len(set(codes)) == 4
