"""Sentences and tables fit the terminal."""

from __future__ import annotations

import io

from rich.console import Console

from dpaudit.reports import palette
from dpaudit.reports.table import Table
from dpaudit.reports.terminal import say, show_columns, show_table


def console(width: int) -> tuple[Console, io.StringIO]:
    text = io.StringIO()
    return Console(file=text, width=width), text


def test_a_sentence_breaks_at_spaces_but_not_inside_an_interval() -> None:
    screen, text = console(20)
    say("the rate is 0.5 [0.25, 0.75] at a 5 % level", screen, indent=2)
    assert text.getvalue().splitlines() == [
        "  the rate is 0.5",
        "  [0.25, 0.75] at a",
        "  5 % level",
    ]


def test_a_word_that_is_longer_than_the_line_is_broken() -> None:
    screen, text = console(20)
    say("written: /a/path/that/is/longer/than/the/line", screen)
    assert [len(line) for line in text.getvalue().splitlines()] == [20, 20, 5]


def test_a_word_of_an_outcome_begins_the_sentence() -> None:
    screen, text = console(20)
    say("the first line is shorter", screen, first=palette.GATE["fail"], indent=6)
    assert text.getvalue().splitlines() == ["FAIL  the first line", "      is shorter"]


def test_columns_that_do_not_fit_go_below_after_the_first() -> None:
    screen, text = console(20)
    show_columns([("key", ["a"]), ("first", ["1" * 10]), ("second", ["2" * 10])], screen)
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert lines == [["key", "first"], ["a", "1" * 10], ["key", "second"], ["a", "2" * 10]]


def test_the_columns_of_a_table_are_those_of_its_rows() -> None:
    screen, text = console(20)
    show_table(Table("caption", ["x", "y"], [["1", "2"], ["3", "4"]]), screen)
    lines = [line.split() for line in text.getvalue().splitlines()]
    assert lines == [["x", "y"], ["1", "2"], ["3", "4"]]
