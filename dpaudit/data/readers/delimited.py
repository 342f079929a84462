"""Read delimited text as a table of the needed columns."""

from __future__ import annotations

import csv
import io
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data import limits
from dpaudit.data.readers.cells import Table, position
from dpaudit.data.readers.pieces import (
    UNIT_SEPARATOR,
    blanks_repeat,
    not_utf8,
    pieces,
    separated,
)
from dpaudit.data.readers.usual import read_usual
from dpaudit.data.source import Layout

_DELIMITERS = ("\t", "::", ";", ",", "|", " ")


def read_text(path: Path, layout: Layout) -> Table:
    """Read delimited text, also if it is compressed by gzip.

    Usual text is read quickly; the rest of this module reads any text, or says what is wrong in it.

    A line of only spaces and delimiters is blank and is skipped. Double quotes enclose a field if
    the delimiter is a comma or a semicolon, and are plain characters otherwise.

    Raises:
        DataError: the file cannot be read, or a line has another number of fields than the first.
    """
    table = read_usual(path, layout)
    return read_any(path, layout) if table is None else table


def read_any(path: Path, layout: Layout) -> Table:
    """Read delimited text with pandas; slower than `read_usual`, with the same result.

    Raises:
        DataError: as `read_text`.
    """
    import pandas as pd

    text = _Text(path, layout)
    if text.width == 1:
        text.refuse_delimiter()
    try:
        # Reading all columns, not only the needed ones, lets the reader refuse overlong lines.
        frame = text.frame(names=range(text.width), skip_blank_lines=False, index_col=False)
    except pd.errors.ParserError:
        line = text.odd_line()
        if line is None:  # the last record contains everything after its quote
            text.refuse_quote(max(line for line, _ in text.records()))
        text.refuse_line(line)
    blank = (frame.iloc[:, 1:] == "").all(axis=1) & (frame[0].str.strip() == "")
    rows = np.flatnonzero(~blank.to_numpy())
    # The reader pads short lines. Without quotes and blanks, the number of delimiters reveals them.
    if text.has_quotes or blank.any() or text.delimiters != (text.width - 1) * len(rows):
        line = text.odd_line()
        if line is not None:
            text.refuse_line(line)
    if not len(rows):
        text.refuse_empty()
    names: Sequence[str] = ()
    if layout.header:
        names, rows = [str(name).strip() for name in frame.iloc[rows[0]]], rows[1:]
    cells = {
        what: frame[position(path, column, names, text.width, layout.table)].iloc[rows]
        for what, column in layout.columns.items()
    }
    return Table(text.name, layout.columns, "line", lambda row: text.line(int(rows[row])), cells)


class _Text:
    """A text file in memory; finds the exact number of a line for error messages."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.name, self.table = place(path), layout.table
        self.data = _bytes(path, layout)
        self.stated = self.delimiter = delimiter = layout.delimiter
        self.quoting: Literal[0, 3] = (
            csv.QUOTE_MINIMAL if delimiter in (",", ";") else csv.QUOTE_NONE
        )
        self.data = separated(self.data, delimiter)
        if len(delimiter.encode()) > 1:
            self.delimiter = UNIT_SEPARATOR
        self.first = self._first()
        self.width = len(self.first)

    def frame(self, **options: Any) -> Any:
        import pandas as pd

        return pd.read_csv(
            io.BytesIO(self.data),
            engine="c",
            sep=self.delimiter,
            quoting=self.quoting,
            header=None,
            dtype=str,
            na_filter=False,
            **options,
        )

    def _first(self) -> list[str]:
        """Return the fields of the first line that is not blank."""
        for number, record in self.records():
            if (
                len(record) > limits.COLUMNS
            ):  # also of a blank line, which the reader would parse too
                raise DataError(
                    f"{self.name}, line {number}: the line has more than {limits.COLUMNS} fields: "
                    "give a file with one rating per line"
                )
            if _filled(record):
                return record
        return self.refuse_empty()

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield each record with the number of its first line; slow, so used only to find errors.

        Raises:
            DataError: a quoted field is longer than the module csv allows.
        """
        text = io.TextIOWrapper(io.BytesIO(self.data), encoding="utf-8-sig")
        if not self.has_quotes:
            for number, line in enumerate(text, 1):
                yield number, line.removesuffix("\n").split(self.delimiter)
            return
        reader = csv.reader(text, delimiter=self.delimiter)
        first = 1
        try:
            for record in reader:
                yield first, record
                first = reader.line_num + 1
        except csv.Error:
            self.refuse_quote(first)

    @property
    def has_quotes(self) -> bool:
        return self.quoting != csv.QUOTE_NONE and b'"' in self.data

    @property
    def delimiters(self) -> int:
        return self.data.count(self.delimiter.encode())

    def line(self, row: int) -> int:
        if not self.has_quotes:
            return row + 1
        return next(itertools.islice(self.records(), row, None))[0]

    def odd_line(self) -> int | None:
        """Return the first line with another number of fields; blank lines may have fewer."""
        for line, record in self.records():
            if len(record) > self.width or (_filled(record) and len(record) != self.width):
                return line
        return None

    def refuse_line(self, line: int) -> NoReturn:
        quote = ", or opens a quote that is never closed" if self.has_quotes else ""
        blanks = blanks_repeat(self.table) if self.stated in {" ", "\t"} else ""
        raise DataError(
            f"{self.name}, line {line}: the line does not have the {self.width} fields of the "
            f"first one{quote}: complete or remove it{blanks}"
        )

    def refuse_quote(self, line: int) -> NoReturn:
        raise DataError(
            f"{self.name}, line {line}: the quote that opens in it is never closed, or holds more "
            f"than {csv.field_size_limit()} characters: close or remove it"
        )

    def refuse_empty(self) -> NoReturn:
        raise DataError(f"{self.name} is empty: give a file with rows")

    def refuse_delimiter(self) -> NoReturn:
        line = self.first[0]
        found = max(_DELIMITERS, key=lambda delimiter: line.count(delimiter) * len(delimiter))
        hint = f", such as {found!r}" if found in line else ""
        raise DataError(
            f"{self.name}: the delimiter {show(self.stated)} does not split the first line: set "
            f"{self.table}.delimiter, or {self.table}.format, to what separates its fields{hint}"
        )


def _filled(record: Sequence[str]) -> bool:
    return any(field.strip() for field in record)


def _bytes(path: Path, layout: Layout) -> bytes:
    """Return the text as UTF-8 bytes, unpacked if needed, with blank lines for what is skipped.

    Raises:
        DataError: the file is damaged, not of its encoding, or exceeds the limits.
    """
    content = io.BytesIO()
    for piece in pieces(path, layout.encoding):
        content.write(piece)
    data = content.getvalue()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = io.TextIOWrapper(io.BytesIO(data[: error.start] + b"."), encoding="utf-8")
        line = sum(1 for _ in before)
        raise not_utf8(path, line, data[error.start], option=layout.table == "data") from None
    if layout.skip:
        first = re.match(rb"(?:[^\r\n]*(?:\r\n|\r|\n)){%d}" % layout.skip, data)
        data = b"" if first is None else b"\n" * layout.skip + data[first.end() :]
    return data
