"""One hostile set of labels, at every output."""

from __future__ import annotations

import io
import json
import re
import tomllib
from csv import reader as csv_reader
from functools import cache
from pathlib import Path
from xml.etree import ElementTree as Xml

import ci_reports  # type: ignore[import-not-found]
import pytest
from click.testing import CliRunner
from hostile import LABELS, unseen  # type: ignore[import-not-found]
from records import make_result  # type: ignore[import-not-found]
from rich.console import Console

from dpaudit.cli import main
from dpaudit.core import registry
from dpaudit.core.files import write_text
from dpaudit.execution.reporter import Reporter
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult, PlaceRecord
from dpaudit.reports.ci import Failure, Format
from dpaudit.reports.render import console, csv, html, markdown
from dpaudit.reports.render.svg import svg

CONFIG = """
[data]
synthetic = {{ n_users = 100, n_items = 80, mean_per_user = 30 }}
[[model]]
label = {label}
params = {{ top_k = 5 }}
[[game]]
trials = 300
"""


@cache
def hostile(label: str) -> AuditResult:
    """A record that has the label wherever a record has text; no test changes it."""
    base = make_result(label=label, attack=label, rule=label)
    gates = [gate.model_copy(update={"reason": label}) for gate in base.gates]
    pairs = [pair.model_copy(update={"summary": label, "drift": label}) for pair in base.pairs]
    texts = {"title": label, "source": label, "variant": label, "params": {label: label}}
    models = [model.model_copy(update=texts) for model in base.models]
    config = {**base.config, label: {label: [label]}}
    origin = {found.id: PlaceRecord(path=label, line=1) for found in base.verdicts}
    changes = {
        "gates": gates,
        "origin": origin,
        "pairs": pairs,
        "models": models,
        "config": config,
        "tool": label,
    }
    worst: AuditResult = base.model_copy(update=changes)
    return worst


every_label = pytest.mark.cases("label", list(LABELS.values()), ids=list(LABELS))


@every_label
@pytest.mark.long
@pytest.mark.drawn
def test_html_shows_labels_as_they_are_or_not_at_all(label: str) -> None:
    page = html.render(hostile(label))
    assert not unseen(page)
    assert "<script" not in page
    assert "<img" not in page
    assert "49" not in re.findall(r"<h1.*?</header>", page, re.DOTALL)[0]  # 7 * 7 of a template


@every_label
def test_markdown_shows_labels_as_they_are_or_not_at_all(label: str) -> None:
    text = markdown.render(hostile(label))
    assert not unseen(text)
    prose, _, config = text.partition("```toml\n")
    assert "```" not in prose
    assert re.findall(r"^```", config, re.MULTILINE) == ["```"]
    for link in ("https://", "ftp://", "www.", "a@evil", "@everyone"):
        assert link not in prose
    assert not re.search(r"(?<!\\)(<(?!!-- -->)|\]\()", prose)


@every_label
def test_a_row_of_csv_is_one_line_without_a_formula(label: str) -> None:
    worst = hostile(label)
    text = csv.render(worst)
    assert not unseen(text)
    rows = list(csv_reader(io.StringIO(text)))
    assert len(text.splitlines()) == len(rows) == len(worst.measurements) + 1
    assert not [cell for row in rows for cell in row if cell.startswith(("=", "+", "@"))]


@every_label
@pytest.mark.long
@pytest.mark.drawn
def test_a_picture_is_valid_and_shows_labels_as_they_are_or_not_at_all(label: str) -> None:
    for name, text in svg(hostile(label)).items():
        assert not unseen(name + text)
        tags = {element.tag.rpartition("}")[2] for element in Xml.fromstring(text).iter()}  # noqa: S314
        assert tags <= {"svg", "rect", "g", "path", "line", "circle", "text", "tspan"}


@every_label
def test_the_config_in_a_report_is_read_as_it_was(label: str) -> None:
    config = markdown.render(hostile(label)).partition("```toml\n")[2].rpartition("```")[0]
    assert tomllib.loads(config)[label] == {label: [label]}


@every_label
def test_json_is_seen_in_full_and_keeps_every_letter(label: str) -> None:
    worst = hostile(label)
    text = record.render(worst)
    assert not unseen(text)
    assert json.loads(text)["models"][0]["label"] == label
    assert AuditResult.model_validate_json(text) == worst


@every_label
@pytest.mark.cases(
    "name",
    [n for n in registry.names("reports") if isinstance(registry.load("reports", n), Format)],
)
def test_a_ci_report_is_valid_and_shows_labels_as_they_are_or_not_at_all(
    label: str, name: str
) -> None:
    worst = hostile(label)
    report = registry.load("reports", name)
    read = getattr(ci_reports, name, str)
    for text in (report(worst), report.failed(Failure(label, 3, label))):
        assert not unseen(text)
        read(text)


@every_label
@pytest.mark.cases("terminal", [False, True])
def test_a_terminal_gets_no_controls_but_colour(label: str, terminal: bool) -> None:
    worst = hostile(label)
    file = io.StringIO()
    console.show(worst, Console(file=file, width=200, force_terminal=terminal))
    shown = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()) if terminal else file.getvalue()
    assert not unseen(shown)


@every_label
def test_gates_and_refusals_print_no_controls(label: str, tmp_path: Path) -> None:
    worst = hostile(label)
    write_text(tmp_path / record.NAME, record.render(worst))
    wide = {"COLUMNS": "1000000"}  # so that no line is folded
    found = CliRunner().invoke(main, ["gate", str(tmp_path)], env=wide)
    assert found.exit_code == 1
    assert not unseen(found.output)
    assert len(found.output.splitlines()) == 11
    for style in ("text", "md"):
        compared = ["diff", str(tmp_path), str(tmp_path), "--all", "--format", style]
        found = CliRunner().invoke(main, compared)
        assert found.exit_code == 0
        assert not unseen(found.output)
    write_text(
        tmp_path / record.NAME, record.render(worst.model_copy(update={"points": worst.points[:1]}))
    )
    found = CliRunner().invoke(main, ["gate", str(tmp_path)])
    assert found.exit_code == 2
    assert not unseen(found.output)
    assert len(found.output.splitlines()) == 1
    assert len(found.output) < 2000
    assert found.output.rstrip().endswith("run the audit again")


def config(folder: Path, label: str, wrong: str = "") -> Path:
    """A config that has the label, also where `wrong` has {}."""
    written = json.dumps(label).replace("\x7f", "\\u007f")
    for letter in label:
        if ord(letter) > 0xFFFF:  # JSON writes two halves, which TOML does not allow
            written = written.replace(json.dumps(letter)[1:-1], f"\\U{ord(letter):08x}")
    path = folder / "audit.toml"
    text = f"{CONFIG.format(label=written)}\n{wrong.format(written)}\n"
    path.write_text(text, encoding="utf-8")
    return path


@every_label
@pytest.mark.long
@pytest.mark.drawn
def test_a_plan_shows_labels_as_they_are_or_not_at_all(label: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["plan", str(config(tmp_path, label))])
    assert found.exit_code == 0, found.output
    assert not unseen(found.output)


@every_label
@pytest.mark.cases(
    "wrong",
    ["[[attack]]\nname = {}", "[[gate]]\nmetric = {}", "[{}]\na = 1", "[game.params]\n{} = 1"],
)
def test_a_refused_config_is_one_short_line(label: str, wrong: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(main, ["plan", str(config(tmp_path, label, wrong))])
    assert found.exit_code == 2
    assert not unseen(found.output)
    assert len(found.output.splitlines()) == 1
    assert len(found.output) < 2000


@every_label
def test_a_bar_shows_labels_as_they_are_or_not_at_all(
    label: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with Reporter() as bar:
        bar.start(10)
        bar.stage(f"{label}: game")
        bar.advance(1)
    shown = capsys.readouterr().err
    assert shown
    for control in ("\x1b]", "\x1b[32mPASS", "\x9b", "\x9d", "\u202e", "\u2066"):
        assert control not in shown
