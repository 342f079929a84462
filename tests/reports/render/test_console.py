from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from dpaudit.record.result import AuditResult, measured
from dpaudit.reports.render import console, markdown
from tests.support.records import estimate

Make = Callable[..., AuditResult]


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
    assert "All 10 intervals hold together with 95 % confidence" in " ".join(text.split())
    assert "the games also miss copies that leak more" in " ".join(text.split())


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
    decided, _, step = file.getvalue().partition("Next: ")
    assert shown(result, width).startswith(decided)
    assert decided.startswith(result.outcome.upper())
    assert step
    assert max(map(len, file.getvalue().splitlines())) <= width


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
    assert file.getvalue().startswith("STOP  Next: ")
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
