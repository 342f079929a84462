"""Guess how the lines of a text of interactions are divided into fields."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from dpaudit.core.errors import DataError
from dpaudit.data.readers.cells import number
from dpaudit.data.readers.text_pieces import BLANKS, QuoteError, records
from dpaudit.data.sniff_columns import is_time
from dpaudit.data.sniff_names import known

# If several separate the lines equally well, the first one counts.
_DELIMITERS = ("\t\t", "\t", "::", ";", "|", ",", " ", BLANKS)
# Words may hold spaces, so these count only if nothing else separates the lines.
_SPACES = (" ", BLANKS)
# The share of lines that a separator must split into equally many fields; the most lines tried.
_ALIKE, _LINES = 0.9, 500
_COMMENTS = ("#", "%", "//")
# The line that states the separator for Excel.
_SEPARATOR = re.compile(r'\s*"?sep=[^\n]{1,2}?"?\s*', re.IGNORECASE)


@dataclass(frozen=True)
class DividedText:
    """How a text is divided.

    Attributes:
        delimiter: what separates fields.
        header: whether the first line holds names.
        skip: the number of lines above it.
        names: the names; none if there is no header.
        rows: the fields of the other lines, as many in each.
    """

    delimiter: str
    header: bool
    skip: int
    names: Sequence[str]
    rows: Sequence[Sequence[str]]


def divided(where: str, text: str, *, header: bool | None = None) -> DividedText:
    """Guess the separator, the lines of comment above the rows, and whether there is a header.

    Args:
        where: the file, for messages.
        text: its first lines.
        header: whether there is a header; to be guessed if None.

    Raises:
        DataError: there are no rows, or they have one column.
    """
    skip = _comments(text)
    below = "".join(islice(io.StringIO(text, newline=None), skip, None))
    delimiter = _delimiter(where, below)
    rows = [row for row in _fields(below, delimiter) if any(row)]
    width = len(rows[0])
    if skip:
        last = "".join(islice(io.StringIO(text, newline=None), skip - 1, skip))
        names = next(_fields(last, delimiter))
        # A comment may be the header, or the first row, of which an id begins like a comment.
        row = len(names) == width and last[:1] == "#" and last[1:2].strip()
        if row or (len(names) == width and {"user", "item"} <= known(names).keys()):
            skip, rows = skip - 1, [names, *rows]
    if header is None:
        header = _is_header(rows)
    names, body = (rows[0], rows[1:]) if header else ([], rows)
    if not body:
        raise DataError(f"{where} has a header and no rows: give a file with interactions")
    return DividedText(delimiter, header, skip, names, [row for row in body if len(row) == width])


def _comments(text: str) -> int:
    """Return the number of lines up to the last comment above the rows; 0 if all are comments."""
    skip = 0
    for count, line in enumerate(io.StringIO(text, newline=None), 1):
        if line.lstrip().startswith(_COMMENTS) or (count == 1 and _SEPARATOR.fullmatch(line)):
            skip = count
        elif line.strip():
            return skip
    return 0


def _delimiter(where: str, text: str) -> str:
    """Return the separator that splits the lines into the same number of fields.

    Raises:
        DataError: there are no lines, or they have one field.
    """
    best: tuple[tuple[bool, float, int], str] | None = None
    for delimiter in _DELIMITERS:
        rows = list(islice((row for row in _fields(text, delimiter) if any(row)), _LINES))
        if not rows:
            raise DataError(f"{where} is empty: give a file with interactions")
        width = len(rows[0])
        alike = sum(len(row) == width for row in rows) / len(rows)
        filled = sum(any(cells) for cells in zip(*rows, strict=False))
        if delimiter == " " and not all(map(all, rows)):
            continue  # several spaces separate two fields
        clear = delimiter not in _SPACES or _numeric(rows)
        rank = (clear and alike >= _ALIKE, alike, filled)
        if width > 1 and (best is None or rank > best[0]):
            best = rank, delimiter
    if best is None:
        raise DataError(
            f"{where} has one column, or a separator that is not known: give the user and the item "
            "in two columns, as in user_id,item_id,rating"
        )
    return best[1]


def _numeric(rows: Sequence[Sequence[str]]) -> bool:
    """Whether every field is a number, so that none holds a space."""
    return not any(math.isnan(number(cell)) for row in rows for cell in row)


def _fields(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the fields of each line; quotes enclose fields as for the reader of the file."""
    lines = io.StringIO(text, newline=None)
    if delimiter == BLANKS:
        yield from (line.split() for line in lines)
        return
    if delimiter not in {",", ";"}:
        yield from ([cell.strip() for cell in line.rstrip("\n").split(delimiter)] for line in lines)
        return
    with contextlib.suppress(QuoteError):  # the reader of the file names the line
        yield from ([cell.strip() for cell in row] for _, row in records(lines, delimiter))


def _is_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first line holds names: known ones, or words above numbers."""
    first, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if {"user", "item"} <= known(first).keys():
        return True
    if any(not math.isnan(number(cell)) or is_time(cell) for cell in first):
        return False
    # A word that occurs again below is an id, unless the line is repeated among numbers.
    others = [row for row in rest if row != first]
    if any(not math.isnan(number(cell)) for row in others for cell in row):
        rest = others
    columns = zip(*rest, strict=True)
    return not any(name in column for name, column in zip(first, columns, strict=False))
