"""A run compared with its baseline, on a terminal and as GitHub Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpaudit.core.messages import plain
from dpaudit.record.comparison import Comparison
from dpaudit.reports import palette
from dpaudit.reports.render import markdown
from dpaudit.reports.sections import comparison
from dpaudit.reports.table import Table

if TYPE_CHECKING:
    from rich.console import Console

_GAP = 2
# How many differences of settings a terminal shows, unless everything is asked for.
_SHOWN = 8


def show(compared: Comparison, console: Console, *, everything: bool) -> None:
    """Print a comparison.

    Args:
        compared: the comparison.
        console: where to print.
        everything: whether to print also what is the same and what cannot be told.
    """
    for table in comparison.tables(compared, everything=everything):
        _show_table(table, console)
    if compared.differences:
        _show_differences(compared, console, len(compared.differences) if everything else _SHOWN)
    for sentence in comparison.sentences(compared):
        console.print(plain(sentence), markup=False, highlight=False)


def render(compared: Comparison) -> str:
    """Render a comparison as GitHub Markdown, with all that was compared if anything changed."""
    shown = [] if compared.same else comparison.tables(compared, everything=True)
    if compared.differences:
        shown.append(comparison.differences(compared))
    parts = [
        "# Comparison with the baseline",
        *map(markdown.escape, comparison.sentences(compared)),
        *map(markdown.captioned, shown),
    ]
    return "\n\n".join(parts) + "\n"


def _show_differences(compared: Comparison, console: Console, most: int) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print(Text(comparison.DIFFERENCES, style="bold"))
    lines = [
        f"{difference.key}: {difference.before} → {difference.after}"
        for difference in compared.differences[:most]
    ]
    if most < len(compared.differences):
        more = len(compared.differences) - most
        lines.append(f"and {more} more: 'dpaudit diff --all' shows them")
    for line in lines:
        console.print(Padding.indent(Text(plain(line)), _GAP))
    console.print()


def _show_table(table: Table, console: Console) -> None:
    from rich.text import Text

    cells = [[plain(cell) for cell in row] for row in table.cells]
    console.print(Text(table.caption, style="bold"))
    header, lines = _laid_out(table.header, cells, console.width)
    if header:
        console.print(Text(header, style="dim"))
    for row, line in enumerate(lines):
        marked = any((row, at) in table.marked for at in range(len(table.header)))
        console.print(Text(line, style=palette.MARKED if marked else ""))
    console.print()


def _laid_out(header: list[str], cells: list[list[str]], width: int) -> tuple[str, list[str]]:
    """Return the header and the rows of a table as text.

    If a row is too wide, its first cell stands above the others, and they stand side by side or, if
    they are too wide too, below each other.
    """
    from rich.cells import cell_len, set_cell_size

    widths = [max(map(cell_len, column)) for column in zip(header, *cells, strict=True)]

    def beside(row: list[str], first: int) -> str:
        padded = (set_cell_size(*cell) for cell in zip(row[first:], widths[first:], strict=True))
        return (" " * _GAP).join(padded).rstrip()

    if sum(widths) + _GAP * (len(widths) - 1) <= width:
        return beside(header, 0), [beside(row, 0) for row in cells]
    start = " " * _GAP
    if sum(widths[1:]) + _GAP * (len(widths) - 1) <= width:
        return start + beside(header, 1), [f"{row[0]}\n{start}{beside(row, 1)}" for row in cells]
    name = max(map(cell_len, header))
    return "", [
        "\n".join(
            [
                row[0],
                *(
                    f"{start}{set_cell_size(label, name)}{start}{cell}"
                    for label, cell in zip(header[1:], row[1:], strict=True)
                ),
            ]
        )
        for row in cells
    ]
