"""The leak meter in characters, for terminals and for Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from dpaudit.core.messages import plain
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections.screen import Screen

FULL, EMPTY, GUESS, LIMIT = "█", "·", "┊", "┃"
# The shortest and the longest bar.
_BAR = (10, 40)
_GAP = 2


def bar(row: Frequency, scale: float, width: int) -> str:
    """Return a bar in which a guess and the limit are marked.

    Args:
        row: what is found.
        scale: the share at the right end.
        width: the number of characters.
    """
    cells = [
        FULL if (place + 0.5) / width <= row.value / scale else EMPTY for place in range(width)
    ]
    marks = [(row.guess, GUESS), *([] if row.limit is None else [(row.limit, LIMIT)])]
    for share, mark in marks:
        cells[min(width - 1, int(share / scale * width))] = mark
    return "".join(cells)


def lines(screen: Screen, width: int, *, named: bool) -> list[str]:
    """Return the meter, at most `width` characters wide where names leave room for bars.

    Args:
        screen: the first screen.
        width: of the terminal.
        named: whether rows name the model.
    """
    header = [*(["model"] if named else []), "the attacker sees"]
    names = [[*([row.measurement.model] if named else []), row.attacker] for row in screen.rows]
    counts = [("found", "a guess", "limit"), *(row.counts for row in screen.rows)]
    left = _aligned([[*map(plain, name)] for name in (header, *names)])
    right = _aligned(counts)
    room = width - len(left[0]) - len(right[0]) - 2 * _GAP
    length = max(_BAR[0], min(_BAR[1], room))
    bars = [
        f"0{screen.end:>{length - 1}}",
        *(bar(row, screen.scale, length) for row in screen.rows),
    ]
    gap = " " * _GAP
    parts = zip(left, bars, right, strict=True)
    return [gap.join(part).rstrip() for part in parts]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as text with columns of one width each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    gap = " " * _GAP
    return [
        gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]
