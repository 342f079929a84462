from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from dpaudit.record.result import AuditResult
from dpaudit.reports.render import console, markdown
from dpaudit.reports.render.console import FULL, GUESS, LIMIT, bar, meter_lines
from dpaudit.reports.sections import screen
from tests.support.records import Make, estimate, measured


def shown(result: AuditResult, width: int = 80, *, color: bool = False) -> str:
    file = io.StringIO()
    options = {"color_system": "truecolor", "no_color": False} if color else {}
    console.show(result, Console(width=width, file=file, force_terminal=color, **options))  # type: ignore[arg-type]
    return file.getvalue()


def test_summary_fits_80_columns(result: AuditResult) -> None:
    text = shown(result)
    assert "0.40 [0.36, 0.42]" in text
    assert "≥ 2.71 > claim" in text
    assert "≥ 2.71 (no power)" in text
    assert "1.23 [1.10, 1.40]" in text
    assert text.startswith("STOP  epsilon <= claim: above 1.")
    assert text.index("STOP") < text.index("CLAIM FALSE") < text.index("FAIL")
    assert "All 10 intervals hold together with 95 %" in " ".join(text.split())
    assert "miss copies that leak more" in " ".join(text.split())


@pytest.mark.cases("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(hard: AuditResult, width: int) -> None:
    assert max(len(line) for line in shown(hard, width).splitlines()) <= width


def test_wide_terminal_shows_every_column(result: AuditResult) -> None:
    lines = shown(result, 120).splitlines()
    assert any("0.40 [0.36, 0.42]" in line and "1.23 [1.10, 1.40]" in line for line in lines)


@pytest.mark.cases("width", [60, 80, 120])
def test_no_interval_is_split(hard: AuditResult, width: int) -> None:
    for line in shown(hard, width).splitlines():
        assert line.count("[") == line.count("]"), line
        assert not line.endswith((" =", " ≥", " <=", " >=")), line


@pytest.mark.cases("outcome", ["pass", "fail", "inconclusive"])
def test_outcome_is_a_word_with_and_without_colour(make: Make, outcome: str) -> None:
    result = make(outcome=outcome)
    plain, coloured = shown(result), shown(result, color=True)
    assert plain.count(outcome.upper()) == 1
    assert coloured.count(outcome.upper()) == 1
    assert "\x1b" not in plain
    assert "\x1b[" in coloured


@pytest.mark.cases("width", [40, 80])
@pytest.mark.cases("outcome", ["pass", "fail", "inconclusive"])
def test_the_outcome_is_the_first_and_the_last_line_before_the_next_step(
    make: Make, outcome: str, width: int
) -> None:
    result = make(outcome=outcome)
    file = io.StringIO()
    console.close(result, Console(width=width, file=file))
    decided, _, step = file.getvalue().partition("What next:")
    assert shown(result, width).startswith(decided)
    assert decided.startswith(result.outcome.upper())
    assert step
    # Commands are on one line each, so that they can be copied.
    texts = [line for line in file.getvalue().splitlines() if " dpaudit " not in line]
    assert max(map(len, texts)) <= width


def test_labels_are_not_markup_nor_control_codes(make: Make) -> None:
    text = shown(make(label="[red]x[/red]\x1b[31m"))
    assert "[red]x[/red] [31m" in text
    assert "\x1b" not in text


def test_claim_that_differs_from_the_noise_s_epsilon(result: AuditResult) -> None:
    points = [
        point.model_copy(
            update={
                "claim": point.claim
                and point.claim.model_copy(update={"epsilon": 2 * point.epsilon})
            }
        )
        for point in result.points
    ]
    text = shown(result.model_copy(update={"points": points}))
    header = next(line for line in text.splitlines() if "certified ε" in line)
    assert "claimed" in header


def test_lists_are_shown_with_the_epsilon_of_their_law(lists: AuditResult) -> None:
    text = shown(lists, 120)
    assert "list's ε" in text
    assert "noise's ε" not in text
    assert "∞" in text
    assert "0.9" in text


def test_the_last_line_repeats_the_outcome_and_not_its_reason(make: Make) -> None:
    file = io.StringIO()
    console.close(make(), Console(file=file, width=80))
    assert file.getvalue().startswith("STOP  What next:")
    assert "above 1" not in file.getvalue()


def test_no_reader_misses_an_assumption_that_does_not_hold(make: Make) -> None:
    result = make()
    third = estimate(0.29, 0.29, 0.29)
    counted = measured("assumption.denominator", "published", 1.0, third, step=1)
    result = result.model_copy(update={"measurements": [*result.measurements, counted]})
    file = io.StringIO()
    console.show(result, Console(file=file, width=200), details=False)
    said = "Not as assumed: A claim assumes 0, and this was counted: share of denominators below C"
    assert said in file.getvalue()
    assert said in markdown.render(result)


def test_a_bar_is_as_long_as_its_share_and_has_its_marks(make: Make) -> None:
    row = replace(screen.of(make()).rows[0], limit=0.9)
    shown = bar(row, 1.0, 20)
    assert len(shown) == 20
    assert shown[4] == GUESS
    assert shown[18] == LIMIT
    # 0.727 of 20 cells, one of which is the mark.
    assert shown.count(FULL) == 14


def test_a_row_is_a_name_and_a_bar_with_its_numbers_in_line(make: Make) -> None:
    head, *lines = meter_lines(screen.of(make()), 80, named=True)
    names, bars = lines[::2], lines[1::2]
    assert names == ["published: one prediction, ε = 10", "published: second, ε = 10"]
    assert max(map(len, lines)) <= 80
    assert len({line.index(" of 100  ") for line in bars}) == 1
    assert head.split() == ["0", "80", "of", "100", "found", "limit"]


def test_a_long_name_has_as_many_lines_as_it_needs(make: Make) -> None:
    shown = screen.of(make())
    long = [replace(row, attacker="an attacker " * 10) for row in shown.rows[:1]]
    _, *lines = meter_lines(replace(shown, rows=long), 60, named=False)
    assert " ".join(lines[:-1]) == ("an attacker " * 10).strip()
    assert max(map(len, lines)) <= 60


def test_without_room_for_bars_rows_are_sentences(make: Make) -> None:
    shown = screen.of(make())
    lines = meter_lines(shown, 30, named=False)
    assert " ".join(lines) == " ".join(shown.sentences)
