"""The leak meter in characters, for terminals and for Markdown."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from dpaudit.core.messages import plain
from dpaudit.reports.frequency import Frequency
from dpaudit.reports.sections.screen import Screen

FULL, EMPTY, GUESS, LIMIT = "█", "·", "┊", "┃"
# The shortest and the longest bar.
_BAR = (10, 40)
_GAP = 2
_SPACE = " " * _GAP
# No name is cut to less.
_NAME = 12


def bar(row: Frequency, scale: float, width: int) -> str:
    """Return a bar in which a guess and the limit are marked.

    Args:
        row: what is found.
        scale: the share at the right end.
        width: the number of characters.
    """
    cells = [FULL if (cell + 0.5) / width <= row.value / scale else EMPTY for cell in range(width)]
    marks = [(row.guess, GUESS), *([] if row.limit is None else [(row.limit, LIMIT)])]
    for share, mark in marks:
        cells[min(width - 1, int(share / scale * width))] = mark
    return "".join(cells)


def lines(screen: Screen, width: int, *, named: bool) -> list[str]:
    """Return the meter, at most `width` characters wide.

    Where there is no room for bars, rows are sentences.

    Args:
        screen: the first screen.
        width: of the terminal.
        named: whether rows name the model.
    """
    if not screen.rows:
        return []
    header = [*(["model"] if named else []), "attacker"]
    names = [[*([row.measurement.model] if named else []), row.attacker] for row in screen.rows]
    right = _aligned([("found", "a guess", "limit"), *(row.counts for row in screen.rows)])
    most = width - len(right[0]) - _BAR[0] - 2 * _GAP
    if most < len(header) * (_NAME + _GAP):
        return [line for text in screen.sentences for line in textwrap.wrap(plain(text), width)]
    left = _aligned(_cut([[*map(plain, name)] for name in (header, *names)], most))
    length = max(_BAR[0], min(_BAR[1], width - len(left[0]) - len(right[0]) - 2 * _GAP))
    ends = f"0{screen.end:>{length - 1}}"
    bars = [
        ends if " " in ends.removesuffix(screen.end) else f"{screen.end:>{length}}",
        *(bar(row, screen.scale, length) for row in screen.rows),
    ]
    return [_SPACE.join(parts).rstrip() for parts in zip(left, bars, right, strict=True)]


def _cut(rows: Sequence[Sequence[str]], most: int) -> Sequence[Sequence[str]]:
    """Return rows of names whose longest column is cut so that all columns fit."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    longest = widths.index(max(widths))
    room = max(_NAME, widths[longest] - max(0, sum(widths) + _GAP * (len(widths) - 1) - most))
    names = [row[longest] for row in rows]
    heads = [name if len(name) <= room else f"{name[: room - 1]}…" for name in names]
    tails = [name if len(name) <= room else f"…{name[1 - room :]}" for name in names]
    # Names that begin alike are told apart by their ends.
    short = max(heads, tails, key=lambda cut: len(set(cut)))
    return [
        [*row[:longest], cell, *row[longest + 1 :]] for row, cell in zip(rows, short, strict=True)
    ]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as text with columns of one width each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _SPACE.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
