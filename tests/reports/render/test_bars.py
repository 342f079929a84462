"""The leak meter in characters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpaudit.record.result import AuditResult
from dpaudit.reports.render import bars
from dpaudit.reports.sections import screen

Make = Callable[..., AuditResult]


def test_a_bar_is_as_long_as_its_share_and_has_its_marks(make: Make) -> None:
    row = replace(screen.of(make()).rows[0], limit=0.9)
    shown = bars.bar(row, 1.0, 20)
    assert len(shown) == 20
    assert shown[4] == bars.GUESS
    assert shown[18] == bars.LIMIT
    # 0.727 of 20 cells, one of which is the mark.
    assert shown.count(bars.FULL) == 14


def test_rows_fit_80_columns_and_stand_in_line(make: Make) -> None:
    lines = bars.lines(screen.of(make()), 80, named=True)
    assert len(lines) == 3
    assert max(map(len, lines)) <= 80
    assert len({line.index(" of 100  ") for line in lines[1:]}) == 1
    assert lines[0].startswith("model      attacker")
