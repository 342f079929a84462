"""One word has one look in every report."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import get_args

import pytest

import dpaudit.reports
from dpaudit.auditor.gate import judge_run
from dpaudit.record.result import Outcome, RunOutcome, State, Verdict, Waiver
from dpaudit.reports import palette
from tests.support.records import Make

FOLDER = Path(dpaudit.reports.__file__).parent
CSS = (FOLDER / "page.html.j2").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+);", part))
    for part in (FOLDER / "colors.css").read_text(encoding="utf-8").split("@media screen")
)


def luminance(color: str) -> float:
    """The relative luminance of WCAG 2.2."""
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in (int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4))
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    """The contrast of two colours of WCAG 2.2."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_every_word_of_a_record_has_a_look() -> None:
    assert set(palette.RUN) == set(get_args(RunOutcome))
    assert set(palette.GATE) == set(get_args(Outcome))
    assert set(palette.CLAIM) == set(get_args(Verdict))
    assert set(palette.WAIVER) == set(get_args(State))


def test_what_was_not_decided_or_tested_is_neither_green_nor_red() -> None:
    for word in (
        palette.RUN["no decision"],
        palette.CLAIM["not tested"],
        palette.LEAK_MEASURED,
        palette.NOT_ATTACKED,
        palette.survived(1, 3),
    ):
        assert word.tone == "neutral"
        assert "pass" not in word.text
        assert not re.search("green|red", f"{word.style} {word.shield}")
    assert palette.survived(3, 3).tone == "good"


@pytest.mark.cases("tone", get_args(palette.Tone))
@pytest.mark.cases("colors", [LIGHT, DARK], ids=["light", "dark"])
def test_tones_can_be_read_as_labels_and_as_text(colors: dict[str, str], tone: str) -> None:
    assert f".{tone} {{ --tone: var(--{tone}); }}" in CSS
    assert contrast(colors["on-tone"], colors[tone]) >= 4.5
    for ground in (colors["page"], colors["card"], "#fff" if colors is LIGHT else colors["page"]):
        assert contrast(ground, colors[tone]) >= 4.5


def test_a_go_is_green_only_without_reservation(make: Make) -> None:
    false = make(outcome="pass")
    assert (false.outcome, palette.run(false).tone) == ("go", "open")
    assert palette.run(false).shown == "GO, 2 false claims accepted"
    clean = false.model_copy(update={"verdicts": []})
    assert palette.run(clean) is palette.RUN["go"]
    weak = clean.gates[0].model_copy(update={"attacker": "trains-none"})
    weaker = palette.run(clean.model_copy(update={"gates": [weak]}))
    assert (weaker.tone, weaker.but) == ("open", "against an attacker who trains no model")


def test_a_waived_gate_is_a_reservation_with_its_last_day(make: Make) -> None:
    waiver = Waiver(id="gate/epsilon/max", owner="o", statement="s", expires=date(2027, 1, 31))
    waived = judge_run(make(), date(2026, 1, 1), waivers=[waiver])
    waived = waived.model_copy(update={"verdicts": []})
    assert waived.outcome == "go"
    assert palette.run(waived).shown == "GO, 1 gate waived until 2027-01-31"
    # What a baseline turns into a stop has no reservation.
    assert palette.run(waived, "stop") is palette.RUN["stop"]
