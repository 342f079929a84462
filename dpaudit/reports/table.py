"""A table of text cells, independent of the output format."""

from __future__ import annotations

from dataclasses import dataclass, field

# The text of an empty cell.
NONE = "–"
# A column by its name, with a cell for each row.
Column = tuple[str, list[str]]


@dataclass(frozen=True)
class Table:
    """A table of text cells.

    Attributes:
        caption: what the table shows.
        header: the names of the columns.
        cells: the rows.
        marked: the highlighted cells, as row and column.
        note: what its words mean; stands below it.
    """

    caption: str
    header: list[str]
    cells: list[list[str]]
    marked: set[tuple[int, int]] = field(default_factory=set)
    note: str = ""

    def __bool__(self) -> bool:
        """Whether it has any row."""
        return bool(self.cells)

    def columns(self, first: str | None = None) -> list[Column]:
        """Return the columns, with the cells of all rows or of those with this first cell."""
        rows = [row for row in self.cells if first in (None, row[0])]
        return [(name, [row[at] for row in rows]) for at, name in enumerate(self.header)]
