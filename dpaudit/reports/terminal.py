"""Sentences and tables on a terminal, whose lines fit its width."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence

from rich.console import Console
from rich.table import Table as Drawn
from rich.text import Text

from dpaudit.core.messages import plain
from dpaudit.reports import digest, palette
from dpaudit.reports.palette import Word
from dpaudit.reports.table import Column, Table

GAP = 2
_HEADER = 12
# Spaces at which no line may end: inside an interval, and between a number and its sign.
_INSIDE = re.compile(r"\[[^\[\]]{1,40}\]|[εδ] [=≥≤] (?=\S)|(?<=\d) %|[<>]?[=≥≤] (?=[-\d∞])")
_FIXED = "\N{NO-BREAK SPACE}"


def say(
    text: str, console: Console, *, first: Word | None = None, indent: int = 0, style: str = ""
) -> None:
    """Print a sentence; no line ends inside a number, an interval or its unit."""
    head = Text(first.shown, style=first.style) if first else Text("")
    held = _INSIDE.sub(lambda match: match[0].replace(" ", _FIXED), plain(text))
    start = len(head) + GAP if len(head) else indent
    lines = textwrap.wrap(
        held,
        max(console.width - indent, 1),
        initial_indent=" " * (start - indent),
        break_on_hyphens=False,
    )
    for number, line in enumerate(lines or [""]):
        shown = Text(line.replace(_FIXED, " "), style=style)
        if not number and len(head):
            shown = Text.assemble(head, " " * GAP, Text(shown.plain.lstrip(), style=style))
        else:
            shown.pad_left(indent)
        console.print(shown, no_wrap=True, overflow="ignore", crop=False)


def show_columns(shown: Sequence[Column], console: Console, *, right: Collection[str] = ()) -> None:
    """Print a table; columns that do not fit side by side go below, after the first again."""
    if not any(cells for _, cells in shown):
        return
    # Long names of columns take several lines, unless all fits on one.
    full = sum(_width(name, cells, len(name)) + GAP for name, cells in shown)
    header = max((len(name) for name, _ in shown), default=0)
    header = header if full - GAP <= console.width else _HEADER
    for block in _blocks(shown, console.width, header):
        table = Drawn(box=None, pad_edge=False, padding=(0, GAP, 0, 0))
        for name, cells in block:
            table.add_column(
                Text(plain(name)),
                justify="right" if name in right else "left",
                vertical="bottom",
                width=min(_width(name, cells, header), console.width),
                overflow="fold",
            )
        for row in zip(*(cells for _, cells in block), strict=True):
            styles = [palette.MARKED if cell.endswith(digest.ABOVE) else "" for cell in row]
            table.add_row(*map(Text, map(plain, row), styles))
        console.print(table)


def show_table(table: Table, console: Console) -> None:
    """Print a table of a report, without its caption."""
    show_columns(table.columns(), console)


def _blocks(columns: Sequence[Column], width: int, header: int) -> Iterator[list[Column]]:
    """Yield the columns that fit side by side; each block begins with the first column."""
    if not columns:
        return
    key, *rest = columns
    start = _width(*key, header) + GAP
    block, left = [key], width - start
    for column in rest:
        need = _width(*column, header) + GAP
        # The last gap may be cut.
        if need - GAP > left and len(block) > 1:
            yield block
            block, left = [key], width - start
        block.append(column)
        left -= need
    yield block


def _width(name: str, cells: Sequence[str], header: int) -> int:
    """Return the width of a column: no cell is split, and no word of a name above `header`."""
    longest = max((len(word) for word in plain(name).split()), default=0)
    return max(longest, min(len(name), header), *(len(plain(cell)) for cell in cells))
