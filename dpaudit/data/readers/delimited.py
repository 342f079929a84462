"""Read delimited text as a table of the needed columns."""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data import limits
from dpaudit.data.readers.cells import Coded, RawTable, position
from dpaudit.data.readers.text_pieces import (
    UNIT_SEPARATOR,
    QuoteError,
    blanks_repeat,
    encoding_key,
    records,
    separated,
    utf8,
)
from dpaudit.data.readers.usual_text import read_usual
from dpaudit.data.source import Layout

_DELIMITERS = ("\t", "::", ";", ",", "|", " ")


def read_delimited(path: Path, layout: Layout) -> RawTable:
    """Read delimited text, also if it is compressed by gzip.

    Usual text is read quickly; the rest of this module reads any text, or says what is wrong in it.

    A line of only spaces and delimiters is blank and is skipped. Double quotes enclose a field if
    the delimiter is a comma or a semicolon, and are plain characters otherwise.

    Raises:
        DataError: the file cannot be read, or a line has another number of fields than the first.
    """
    table = read_usual(path, layout)
    return read_any(path, layout) if table is None else table


def read_any(path: Path, layout: Layout) -> RawTable:
    """Read delimited text record by record; slower than `read_usual`, with the same result.

    Raises:
        DataError: as `read_delimited`.
    """
    text = _Text(path, layout)
    width = len(text.first)
    if width == 1:
        text.refuse_delimiter()
    text.check()
    names = [name.strip() for name in text.first] if layout.header else []
    columns = [
        (position(path, column, names, width, layout.table), array("i"), dict[str, int]())
        for column in layout.columns.values()
    ]
    lines, below = array("q"), not layout.header
    for line, record in text.records():
        if not any(record[1:]) and not "".join(record[:1]).strip():
            continue
        if not below:
            below = True
            continue
        lines.append(line)
        for place_, codes, values in columns:
            value = record[place_] if place_ < len(record) else ""
            codes.append(values.setdefault(value, len(values)))
    cells = {
        what: Coded(np.array(codes, np.int32), list(values))
        for what, (_, codes, values) in zip(layout.columns, columns, strict=True)
    }
    return RawTable(text.name, layout.columns, "line", lines.__getitem__, cells, names)


class _Text:
    """A text file in memory, as records with the numbers of their first lines."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.name, self.table = place(path), layout.table
        self.data = utf8(path, layout.encoding, encoding_key(layout.table))
        if layout.skip:
            first = re.match(rb"(?:[^\r\n]*(?:\r\n|\r|\n)){%d}" % layout.skip, self.data)
            rest = b"" if first is None else self.data[first.end() :]
            self.data = b"\n" * layout.skip * (first is not None) + rest
        self.stated = self.delimiter = delimiter = layout.delimiter
        self.data = separated(self.data, delimiter)
        if len(delimiter.encode()) > 1:
            self.delimiter = UNIT_SEPARATOR
        self.has_quotes = delimiter in (",", ";") and b'"' in self.data
        self.first = self._first()

    def _first(self) -> list[str]:
        """Return the fields of the first line that is not blank."""
        for number, record in self.records():
            if len(record) > limits.COLUMNS:
                raise DataError(
                    f"{self.name}, line {number}: the line has more than {limits.COLUMNS} fields: "
                    "give a file with one rating per line"
                )
            if _filled(record):
                return record
        return self.refuse_empty()

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each record with the number of its first line.

        Raises:
            DataError: a quoted field is longer than the module csv allows, or not closed.
        """
        # Line ends within quotes stay as they are.
        end = "" if self.has_quotes else None
        text = io.TextIOWrapper(io.BytesIO(self.data), encoding="utf-8-sig", newline=end)
        if not self.has_quotes:
            for number, line in enumerate(text, 1):
                yield number, line.removesuffix("\n").split(self.delimiter)
            return
        try:
            yield from records(text, self.delimiter)
        except QuoteError as error:
            raise DataError(
                f"{self.name}, line {error.line}: the quote that opens in it is never closed, or "
                f"holds more than {csv.field_size_limit()} characters: close or remove it"
            ) from None

    def check(self) -> None:
        """Refuse lines with another number of fields than the first; blank ones may have fewer.

        Raises:
            DataError: names the first one.
        """
        width = len(self.first)
        for line, record in self.records():
            if len(record) > width or (len(record) < width and _filled(record)):
                self.refuse_line(line)

    def refuse_line(self, line: int) -> NoReturn:
        quote = ", or opens a quote that is never closed" if self.has_quotes else ""
        blanks = blanks_repeat(self.table) if self.stated in {" ", "\t"} else ""
        raise DataError(
            f"{self.name}, line {line}: the line does not have the {len(self.first)} fields of the "
            f"first one{quote}: complete or remove it{blanks}"
        )

    def refuse_empty(self) -> NoReturn:
        raise DataError(f"{self.name} is empty: give a file with rows")

    def refuse_delimiter(self) -> NoReturn:
        line = self.first[0]
        likely = max(_DELIMITERS, key=lambda delimiter: line.count(delimiter) * len(delimiter))
        hint = f", such as {likely!r}" if likely in line else ""
        raise DataError(
            f"{self.name}: the delimiter {show(self.stated)} does not split the first line: set "
            f"{self.table}.delimiter, or {self.table}.format, to what separates its fields{hint}"
        )


def _filled(record: Sequence[str]) -> bool:
    return any(field.strip() for field in record)
