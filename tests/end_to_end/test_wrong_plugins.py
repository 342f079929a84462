"""A plug-in that is none, or that cannot be imported, ends in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from scratch_package import install  # type: ignore[import-not-found]

from dpaudit.cli import main

CODE = """
import math

from dpaudit.auditor.kind import AuditKind
from dpaudit.auditor.measure import Measure
from dpaudit.record.metric import Metric

NOTHING = None


class Unfinished(AuditKind):
    name = "unfinished"

    def subject(self):
        return None

    def measures(self):
        return ()


class Nowhere(Measure):
    def __init__(self, subject):
        pass

    @classmethod
    def plan(cls, config):
        yield from ()

    def run(self, model):
        yield from ()


OTHER = Metric("other.name", "words", "share", {})
"""
CONFIG = """
[data]
synthetic = { n_users = 60, n_items = 40, mean_per_user = 20 }
[[model]]
defense = "slope-one"
params = { min_ratings = 5, top_k = 5 }
[audit]
trials = 10
"""


def listed(
    place: Path, monkeypatch: pytest.MonkeyPatch, group: str, point: str, code: str = CODE
) -> str:
    """Return what `list` says of an entry point that no run uses, after a run beside it."""
    site = place / "site"
    site.mkdir()
    install(site, monkeypatch, code, {f"dpaudit.{group}": point})
    (place / "audit.toml").write_text(CONFIG)
    run = CliRunner().invoke(main, ["run", str(place / "audit.toml"), "-o", str(place / "out")])
    assert run.exit_code == 0, run.output
    done = CliRunner().invoke(main, ["list", "metrics" if group == "measures" else group])
    assert done.exit_code == 0
    [line] = [line for line in done.output.splitlines() if line.startswith("not usable: ")]
    return line


@pytest.mark.cases(
    ("group", "point", "words"),
    [
        ("audits", "x = scratch:math", "no object of dpaudit.auditor.kind.AuditKind, but a module"),
        ("audits", "x = scratch:Unfinished", "AuditKind, but the class Unfinished: correct its"),
        ("audits", "x = scratch:NOTHING", "AuditKind, but a NoneType"),
        ("audits", "x = scratch_of_nobody:KIND", "cannot be imported: ModuleNotFoundError"),
        ("measures", "x = scratch:math", "no subclass of dpaudit.auditor.measure.Measure, but a"),
        ("measures", "x = scratch:OTHER", "Measure, but a Metric"),
        ("measures", "x = scratch:Absent", "cannot be imported: AttributeError"),
        ("measures", "x = scratch:Nowhere", "is of no kind of audit: its attribute audit is ''"),
        ("metrics", "x.y = scratch:math", "no object of dpaudit.record.metric.Metric, but a"),
        ("metrics", "x.y = scratch:Absent", "cannot be imported: AttributeError"),
    ],
)
def test_it_stops_no_run_that_does_not_use_it_and_has_a_line_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, point: str, words: str
) -> None:
    text = listed(tmp_path, monkeypatch, group, point)
    assert words in text
    assert "'x" in text


def test_a_kind_without_a_config_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = f"{CODE}\nKIND = Unfinished()\n"
    line = listed(tmp_path, monkeypatch, "audits", "x = scratch:KIND", code)
    assert "Unfinished has no config" in line


@pytest.mark.cases("group", ["attacks", "defenses", "recommenders", "reports"])
def test_parts_that_a_config_names_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    from dpaudit.core import registry
    from dpaudit.core.errors import ConfigError

    install(tmp_path, monkeypatch, CODE, {f"dpaudit.{group}": "wrong = scratch:math"})
    with pytest.raises(ConfigError, match=r"'wrong' \(scratch:math\) .* a module"):
        registry.load(group, "wrong")  # type: ignore[arg-type]
    assert "wrong" not in registry.every(group)  # type: ignore[arg-type]
    [fault] = registry.broken(group)  # type: ignore[arg-type]
    assert "but a module" in fault


FAILING = f"""{CODE}

class Failing(Nowhere):
    audit = "on_demand"

    def __init__(self, subject):
        self.context = subject.context

    def run(self, model):
        self.failing()
        yield

    def tasks(self, model):
        self.context.tasks("x").map("x", self.failing, [1, 2], size=int)

    def failing(self, *given):
        raise KeyError("nowhere")
"""
MARKED = f"""{CODE}

class Marked:
    title = "x"
    marks = ["x"]


class Other(Unfinished):
    config = Marked


KIND = Other()
"""


@pytest.mark.cases("place", ["self.failing()", "self.tasks(model)"])
def test_an_exception_of_a_plug_in_names_it_and_no_defect_of_dpaudit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    code = FAILING.replace("self.failing()", place)
    install(tmp_path, monkeypatch, code, {"dpaudit.measures": "x = scratch:Failing"})
    (tmp_path / "audit.toml").write_text(CONFIG)
    arguments = ["run", str(tmp_path / "audit.toml"), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 3
    last = done.output.strip().splitlines()[-1]
    assert "defect of the plug-in 'x' of dpaudit.measures (scratch:Failing)" in last
    assert not (tmp_path / "out" / "record.json").exists()


def test_a_kind_whose_marks_cannot_be_compared_stops_no_other_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = listed(tmp_path, monkeypatch, "audits", "x = scratch:KIND", MARKED)
    assert "whose marks are frozen" in line


def test_a_name_of_dpaudits_own_is_not_taken_by_another_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpaudit.core import registry
    from dpaudit.record.metrics import table

    points = {
        "dpaudit.metrics": "membership = scratch:OTHER",
        "dpaudit.audits": "sybil = scratch:X",
    }
    install(tmp_path, monkeypatch, CODE, points)
    assert {"attack.tpr", "other.name"} <= table().keys()
    assert registry.load("audits", "sybil").name == "sybil"
    assert "scratch:X" in "".join(registry.broken("audits"))


def test_a_plug_in_that_exits_when_it_is_imported_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = listed(tmp_path, monkeypatch, "metrics", "x = scratch:X", "raise SystemExit(1)\n")
    assert "'x'" in line
