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


def test_names_that_begin_alike_are_cut_so_that_they_stay_apart(make: Make) -> None:
    shown = screen.of(make())
    row, ends = shown.rows[0], ("own", "filter")
    labels = [f"{'a' * 30} by {end}" for end in ends]
    models = [row.measurement.model_copy(update={"model": label}) for label in labels]
    rows = [replace(row, measurement=model) for model in models]
    _, *lines = bars.lines(replace(shown, rows=rows), 80, named=True)
    for line, end in zip(lines, ends, strict=True):
        assert line.startswith("…")
        assert line.split("  ")[0].endswith(f" by {end}")
