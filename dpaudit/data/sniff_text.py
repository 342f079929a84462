"""Guess how a text of interactions is divided into fields, and what those without names hold."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from dpaudit.core.errors import DataError
from dpaudit.data.readers.cells import number, time_unit
from dpaudit.data.readers.columns import UnknownColumnsError, known
from dpaudit.data.readers.text_pieces import BLANKS, QuoteError, records
from dpaudit.data.source_parts import Column

# If several separate the lines equally well, the first one counts.
_DELIMITERS = ("\t\t", "\t", "::", ";", "|", ",", " ", BLANKS)
# Words may hold spaces, so these count only if nothing else separates the lines.
_SPACES = (" ", BLANKS)
# The share of lines that a separator must split into equally many fields; the most lines tried.
_ALIKE, _LINES = 0.9, 500
_COMMENTS = ("#", "%", "//")
# The line that states the separator for Excel.
_SEPARATOR = re.compile(r'\s*"?sep=[^\n]{1,2}?"?\s*', re.IGNORECASE)
_DATE = re.compile(
    r"\d{4}([-/.])\d\d?\1\d\d?([T ].*)?"  # 2020-01-31T12:00:00Z
    r"|\d\d?([-/.])\d\d?\3(\d\d){1,2}([T ,].*)?"  # 1/31/2020 12:00:00 PM, 31.01.20
    r"|(\w{3,9},? )?\d\d? \w{3,9},? \d{4}.*"  # Fri, 31 Jan 2020 12:00:00
    r"|(\w{3,9},? )?\w{2,9} \d\d?,? (\d{4}|\d\d:\d\d).*"  # Fri Jan 31 12:00:00 +0000 2020
    r"|(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(\d{4}|\d{6})?"  # 20200131
    r"|\d\d:\d\d(:\d\d(\.\d+)?)?"
)
# Seconds since 1970 in a file of older or generated data.
_SECONDS = re.compile(r"\d{9,10}(\.\d+)?")
_GOODS = re.compile(r"B0[0-9A-Z]{8}|[0-9]{9}[0-9X]")
# A column of ratings has at most so many values, each of which is in so many rows on average.
_FEW, _OFTEN = 21, 8
# The largest rating of usual scales, and the number of values of a scale from 0 to 100.
_HIGHEST, _HUNDRED = 10, 101
# With so many rows, a column of distinct values numbers the rows and holds no users.
_ENOUGH = 20


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


@dataclass(frozen=True)
class _Cells:
    """One column.

    Attributes:
        index: its position.
        filled: the cells that are not empty.
    """

    index: int
    filled: Sequence[str]

    @cached_property
    def distinct(self) -> set[str]:
        return set(self.filled)

    @cached_property
    def numbers(self) -> list[float]:
        numbers = (number(cell) for cell in self.distinct)
        return [value for value in numbers if not math.isnan(value)]

    @property
    def numeric(self) -> bool:
        """Whether most cells are numbers; others are reported as wrong when they are read."""
        return 2 * sum(not math.isnan(number(cell)) for cell in self.filled) > len(self.filled)

    @property
    def broken(self) -> bool:
        """Whether it holds numbers that are no integers, so that it cannot hold ids."""
        return self.numeric and not all(value.is_integer() for value in self.numbers)

    @property
    def few(self) -> bool:
        """Whether it repeats a few numbers, as a column of ratings does."""
        count = len(self.distinct)
        return self.numeric and count <= _FEW and len(self.filled) >= _OFTEN * count

    @property
    def scale(self) -> bool:
        """Whether its few numbers lie within a usual scale."""
        return self.few and min(self.numbers) >= -_HIGHEST and max(self.numbers) <= _HIGHEST

    @property
    def many(self) -> bool:
        """Whether it holds words, or more integers than a scale has, as ids do."""
        whole = not self.broken and min(self.numbers, default=0) >= 0
        return not self.numeric or (whole and len(self.distinct) > _HUNDRED)

    @property
    def goods(self) -> bool:
        """Whether it holds Amazon's product numbers, which newer editions put before the user."""
        return any(cell.startswith("B0") for cell in self.filled) and all(
            map(_GOODS.fullmatch, self.filled)
        )

    @property
    def single(self) -> bool:
        """Whether no value is repeated, so that the column numbers the rows."""
        return len(self.filled) >= _ENOUGH and len(self.distinct) == len(self.filled)

    @property
    def time(self) -> bool:
        """Whether every cell looks like a date, a time, or (milli-)seconds since 1970."""
        whole = all(map(_SECONDS.fullmatch, self.filled)) and self.index > 1
        return whole or all(map(is_time, self.filled))


def is_time(cell: str) -> bool:
    """Whether a cell looks like a date, a time of day, or a recent time since 1970."""
    if _DATE.fullmatch(cell):
        return True
    return time_unit(number(cell)) is not None


def positions_of(where: str, rows: Sequence[Sequence[str]]) -> dict[str, Column]:
    """Return the position of the user, of the item, and of what looks like a value or a time.

    Args:
        where: the file, for messages.
        rows: fields of rows, of one width.

    Raises:
        UnknownColumnsError: several columns could be the user, the item or the value, or none.
    """
    columns = [
        _Cells(index, [cell for cell in cells if cell])
        for index, cells in enumerate(zip(*rows, strict=True))
    ]
    columns = [column for column in columns if column.filled]
    times = [column.index for column in columns if column.time]
    # A constant column is left out, unless it may hold the user or the item of the first rows.
    others = [
        column
        for column in columns
        if column.index not in times and (column.index < 2 or len(column.distinct) > 1)
    ]
    known = _ordered(others, timed=bool(times))
    meanings: dict[str, Column] = {what: column.index for what, column in known.items()}
    if known and not known["user"].single:
        return meanings | ({"time": times[0]} if times else {})
    raise _unknown(where, others, times)


def _ordered(columns: Sequence[_Cells], *, timed: bool) -> dict[str, _Cells]:
    """Return two or three columns by their meaning; nothing if another order is as likely."""
    if len(columns) > 1 and columns[0].goods and not columns[1].goods:
        columns = [columns[1], columns[0], *columns[2:]]
    if len(columns) == 2:
        user, item = columns
        rated = timed and item.few
        return {} if rated or user.broken or item.broken else {"user": user, "item": item}
    if len(columns) != 3:
        return {}
    user, item, value = columns
    if item.scale and not value.few and not value.broken and not user.broken:
        return {"user": user, "item": value, "value": item}
    # An item with fewer values than the rating, or a user that looks like one, is another order.
    odd = (item.few and not value.few) or (user.scale and not item.few and value.many)
    if odd or user.broken or item.broken or not value.numeric:
        return {}
    return {"user": user, "item": item, "value": value}


def _unknown(where: str, others: Sequence[_Cells], times: Sequence[int]) -> UnknownColumnsError:
    """Return the error, with the likeliest columns."""
    scales = [column.index for column in others if column.scale]
    ids = [column for column in others if column.index not in scales and not column.broken]
    # A column that numbers the rows is the least likely id.
    ids.sort(key=lambda column: column.single)
    likeliest = sorted(column.index for column in ids[:2])
    guess: dict[str, Column] = dict(
        zip(("user", "item"), [*likeliest, "NUMBER", "NUMBER"], strict=False)
    )
    if len(scales) == 1:
        guess["rating"] = scales[0]
    able = ", ".join(str(column.index) for column in others) or "none"
    clock = f"; {', '.join(map(str, times))} looks like a time" if times else ""
    return UnknownColumnsError(
        f"{where} has no header, and which of its columns are the user, the item and the rating is "
        f"not clear (counted from 0, it may be {able}{clock})",
        "state the right ones, ",
        guess,
    )
