"""A verification on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpaudit.claims import report
from dpaudit.claims.record import Verification
from dpaudit.core.messages import plain
from dpaudit.reports import palette

if TYPE_CHECKING:
    from rich.console import Console

# Columns that are left out on a narrow terminal.
_DISPENSABLE = ("finds", "trials", "seconds")
_WIDE = 110


def show(verification: Verification, console: Console) -> None:
    """Print the verdicts, and what differs from the catalogue."""
    from rich.table import Table
    from rich.text import Text

    word = palette.GATE[report.outcome(verification)]
    # That verdicts are as recorded says nothing good of the claims.
    style = "" if word.tone == "good" else word.style
    console.print(Text.assemble((word.shown, style or "bold"), "  ", report.headline(verification)))
    for text in report.findings(verification):
        console.print(Text(plain(text), style=style))
    for table in report.tables(verification):
        drop = [n for n in _DISPENSABLE if n in table.header] if console.width < _WIDE else []
        # The claim's name has a line of its own, above its experiments.
        keep = [i for i, name in enumerate(table.header) if i and name not in drop]
        title = Text(plain(table.caption))
        shown = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left")
        for i in keep:
            shown.add_column(Text(plain(table.header[i])), overflow="fold")
        for row, (name, *cells) in enumerate(table.cells):
            if name:
                shown.add_row(Text(plain(name), style="bold"))
            styles = [palette.MARKED if (row, i) in table.marked else "" for i in keep]
            shown.add_row(
                *(
                    Text(f"{'  ' if i == keep[0] else ''}{plain(cells[i - 1])}", style)
                    for i, style in zip(keep, styles, strict=True)
                )
            )
        console.print()
        console.print(shown)
        if drop:
            console.print(Text(f"too wide for this terminal: {', '.join(drop)}", style="dim"))
    console.print()
    for note in report.footnotes(verification):
        console.print(Text(note, style="dim"))
