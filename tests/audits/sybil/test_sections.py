"""What reports say about Sybil attacks, from records made by hand."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from dpaudit.audits.sybil.sections import LEVEL, SybilSections, _accuracy_chart
from dpaudit.core.estimate import Estimate
from dpaudit.core.files import write_text
from dpaudit.record import storage as record
from dpaudit.record.result import AuditResult, Measurement
from dpaudit.reports.chart_parts import Look
from dpaudit.reports.render import console, html, markdown
from dpaudit.reports.render.page import svgs
from dpaudit.reports.sections import footnotes, tables
from dpaudit.reports.table import Table
from tests.support.records import EVIL, Make

Valid = Callable[[dict[str, Any]], bool]
# Effort, and the accuracy's value, lower and upper bound.
Curve = list[tuple[int, float, float, float]]

LOOK = Look(["published"])
LOW, OPEN, HIGH = (0.3, 0.2, 0.4), (0.9, 0.7, 0.97), (0.98, 0.91, 1.0)


def measured(label: str, epsilon: float, curve: Curve, model: str) -> list[Measurement]:
    return [
        Measurement(
            metric="sybil.accuracy",
            model=model,
            epsilon=epsilon,
            attack=label,
            effort=effort,
            estimate=Estimate(
                value=value,
                lower=lower,
                upper=upper,
                confidence=0.95,
                alpha=0.005,
                n=200,
                method="clopper-pearson",
            ),
        )
        for effort, value, lower, upper in curve
    ]


def tried(*steps: tuple[float, float, float]) -> Curve:
    """With efforts 1, 10, 100, …"""
    return [(10**index, *step) for index, step in enumerate(steps)]


def add(
    result: AuditResult, curves: dict[tuple[str, float], Curve], model: str = "published"
) -> AuditResult:
    measurements = [
        measurement
        for (label, epsilon), curve in curves.items()
        for measurement in measured(label, epsilon, curve, model)
    ]
    said = {"name": "sybil", "title": "Accounts", "source": "§4.1", "fake_accounts": 20}
    labels = {label for label, _ in curves}
    return result.model_copy(
        update={
            "kind": "sybil",
            "measurements": result.measurements + measurements,
            "sybil_attacks": {**result.sybil_attacks, **dict.fromkeys(sorted(labels), said)},
        }
    )


def with_sybils(result: AuditResult) -> AuditResult:
    return add(
        result,
        {
            ("dynamic", 1.0): tried(LOW, OPEN, HIGH),
            ("dynamic", 10.0): tried(HIGH, HIGH, HIGH),
            ("passive", 1.0): tried(LOW, LOW, LOW),
        },
    )


def efforts(result: AuditResult) -> Table:
    (table,) = SybilSections(result).brief()
    return table


def shown(result: AuditResult, width: int = 120) -> str:
    file = io.StringIO()
    console.show(result, Console(width=width, file=file, force_terminal=True, color_system=None))
    return file.getvalue()


# The words of the table.


@pytest.mark.cases(
    ("curve", "said"),
    [
        (tried(LOW, OPEN, HIGH), "10 to 100"),
        (tried(LOW, OPEN, OPEN, HIGH), "10 to 1000"),
        (tried(OPEN, LOW, HIGH), "1 to 100"),
        (tried(LOW, HIGH), "10"),
        (tried(HIGH, HIGH), "1"),
        (tried(LOW, HIGH, OPEN), "10"),
        (tried(LOW, LOW), "> 10 (0.30)"),
        (tried(LOW, OPEN, LOW), "10 to > 100 (0.30)"),
        (tried(LOW, LOW, OPEN), "100 to > 100 (0.90)"),
        (tried(OPEN), "1 to > 1 (0.90)"),
        # The bounds themselves reach the level.
        (tried((0.85, 0.8, 0.9), (0.95, 0.9, 1.0)), "1 to 10"),
        (tried((0.85, 0.8, 0.8999), (0.95, 0.8999, 1.0)), "10 to > 10 (0.95)"),
        (tried((0.0, 0.0, 0.1)), "> 1 (0)"),
    ],
)
def test_the_effort_in_words(result: AuditResult, curve: Curve, said: str) -> None:
    # In whatever order they were measured.
    for order in (curve, curve[::-1]):
        table = efforts(add(result, {("a", 1.0): order}))
        assert table.header == ["model", "ε", "a"]
        assert table.cells == [["published", "1", said]]


def test_a_row_for_each_point_and_a_column_for_each_sybil(result: AuditResult) -> None:
    one = add(result, {("b", 10.0): tried(HIGH), ("a", 0.1): tried(LOW), ("b", 1.0): tried(OPEN)})
    both = add(one, {("a", math.inf): tried(HIGH)}, model="exact")
    table = efforts(both)
    assert table.header == ["model", "ε", "b", "a"]
    # ε ascends as in every table; what was not run is a dash.
    assert table.cells == [
        ["published", "0.1", "–", "> 1 (0.30)"],
        ["published", "1", "1 to > 1 (0.90)", "–"],
        ["published", "10", "1", "–"],
        ["exact", "∞", "–", "1"],
    ]


def test_without_sybil_nothing_is_said_of_them(result: AuditResult) -> None:
    assert SybilSections(result).brief() == []
    assert SybilSections(result).notes()[0] not in footnotes.notes(result)
    assert _accuracy_chart(result, LOOK) is None
    assert "Accounts, changes or lists" not in shown(result)
    assert "Accounts, changes or lists" not in markdown.render(result)


def test_the_note_says_how_the_table_is_read(result: AuditResult) -> None:
    notes = footnotes.notes(with_sybils(result))
    (note,) = SybilSections(result).notes()
    assert note in notes
    for words in ("created before training included", "'a to b'", "'> n'", "tried"):
        assert words in note
    assert "'a to > n'" in note
    assert "only guesses" in note
    assert "certain;" not in note


# The reports.


def test_markdown_has_the_table_the_sybil_and_their_method(result: AuditResult) -> None:
    text = markdown.render(with_sybils(result))
    assert "**Accounts, changes or lists for 90 % accuracy**" in text
    assert "| model | ε | dynamic | passive |" in text
    assert "| published | 1 | 10 to 100 | \\> 100 (0.30) |" in text
    assert "| published | 10 | 1 | – |" in text
    assert "| dynamic | sybil: Accounts | fake\\_accounts = 20 | §4.1 |" in text
    for label in ("dynamic", "passive"):
        line = f"| accuracy of Sybil attack {label} | 200 | 0.005 | clopper-pearson | frequentist |"
        assert text.count(line) == 1


def test_an_attack_and_a_sybil_of_one_label_are_both_listed(make: Make) -> None:
    both = add(make(attack="same"), {("same", 1.0): tried(HIGH)})
    table = tables.attacks(both)
    assert table is not None
    methods = [row[1] for row in table.cells if row[0] == "same"]
    assert methods == ["linear-ideal: Linear", "sybil: Accounts"]


def test_html_has_the_same_table_and_a_chart(result: AuditResult) -> None:
    text = html.render(with_sybils(result))
    assert "Accounts, changes or lists for 90 % accuracy" in text
    for cell in ("10 to 100", "&gt; 100 (0.30)"):
        assert cell in text
    assert 'id="figure-sybil"' in text


def test_the_chart_shows_every_accuracy(result: AuditResult, valid: Valid) -> None:
    chart = _accuracy_chart(with_sybils(result), LOOK)
    assert chart is not None
    (panel,) = chart.panels
    assert valid(panel.spec)
    data = panel.spec["datasets"]["points"]
    assert len(data) == 9
    seen = [(row["series"], row["x"], row["y"], row["lower"], row["upper"]) for row in data]
    assert ("published, ε = 1, dynamic", 10, 0.9, 0.7, 0.97) in seen
    assert ["published, ε = 1, dynamic", "10", "0.900 [0.700, 0.970]"] in chart.numbers.cells
    levels = {row["series"]: row["y"] for row in panel.spec["datasets"]["baselines"]}
    assert levels == {"guess (1 of 2)": 0.5, "90 %": LEVEL}
    assert "created before training included" in chart.caption
    assert "90 %" in chart.caption


@pytest.mark.long
@pytest.mark.drawn
def test_the_chart_of_a_single_effort_can_be_drawn(result: AuditResult) -> None:
    curves = {("dynamic", 1.0): tried(OPEN), ("passive", 1.0): tried(OPEN)}
    chart = _accuracy_chart(add(result, curves), LOOK)
    assert chart is not None
    (panel,) = chart.panels
    (drawn,) = svgs([panel.spec])
    assert "accounts, changes or observed lists" in drawn
    assert "NaN" not in drawn


def test_the_console_prints_the_table(result: AuditResult) -> None:
    lines = shown(with_sybils(result)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Accounts, changes or lists"))
    below = [re.split(r"  +", line.strip()) for line in lines[start:]]
    assert ["model", "ε", "dynamic", "passive"] in below
    assert ["published", "1", "10 to 100", "> 100 (0.30)"] in below
    assert ["published", "10", "1", "–"] in below


@pytest.mark.cases("width", [40, 80, 120])
@pytest.mark.cases("columns", [1, 8])
def test_no_line_is_wider_than_the_terminal(result: AuditResult, width: int, columns: int) -> None:
    many = {(f"a Sybil attack of number {i}", 1.0): tried(LOW, OPEN, OPEN) for i in range(columns)}
    lines = shown(add(result, many), width).splitlines()
    assert max(len(line) for line in lines) <= width


# Labels are text.


LABELS = [EVIL, "[red]x[/red]", "[/]", "a|b\n# c\x1b[31m", "**x** `y`"]


@pytest.mark.long
@pytest.mark.drawn
def test_labels_cannot_break_out_of_the_page(result: AuditResult) -> None:
    page = html.render(add(result, {(label, 1.0): tried(HIGH) for label in LABELS}))
    # The page of harmless labels has as many scripts and images.
    harmless = html.render(add(result, {(f"{i}", 1.0): tried(HIGH) for i in range(5)}))
    for tag in ("<script", "</script", "<img"):
        assert page.count(tag) == harmless.count(tag)
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in page


@pytest.mark.cases("label", LABELS)
def test_labels_are_text(result: AuditResult, label: str) -> None:
    evil = add(result, {(label, 1.0): tried(LOW, HIGH)})
    text = markdown.render(evil)
    header = next(line for line in text.splitlines() if line.startswith("| model | ε |"))
    assert len(re.findall(r"(?<!\\)\|", header)) == 4
    assert "\n# c" not in text
    assert "**x**" not in text
    assert "<img" not in header.replace("\\<", "")
    printed = shown(evil, 200)
    assert "\x1b" not in printed
    plain = "".join(letter if letter.isprintable() else " " for letter in label)
    assert plain in printed


def test_the_record_round_trips(result: AuditResult, tmp_path: Any) -> None:
    saved = with_sybils(result)
    write_text(tmp_path / record.NAME, record.render(saved))
    again = record.load(tmp_path)
    assert again == saved
    content = json.loads((tmp_path / record.NAME).read_text())
    assert {m.get("effort") for m in content["measurements"]} == {None, 1, 10, 100}
    assert list(content["sybil_attacks"]) == ["dynamic", "passive"]
    for render in (markdown.render, shown):
        assert render(again) == render(saved)
