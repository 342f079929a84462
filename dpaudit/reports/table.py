"""A table as text, whatever it is rendered to."""

from __future__ import annotations

from dataclasses import dataclass, field

# What stands where there is nothing.
NONE = "–"


@dataclass(frozen=True)
class Table:
    """Cells of text.

    Attributes:
        caption: what it shows.
        header: the names of its columns.
        cells: its rows.
        marked: the cells to stand out, as row and column.
    """

    caption: str
    header: list[str]
    cells: list[list[str]]
    marked: set[tuple[int, int]] = field(default_factory=set)
