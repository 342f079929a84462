"""Read delimited text, or JSON lines, as a table of the needed columns.

Usual delimited text is read quickly: the values of each needed column are numbered by their bytes
as they are read, whatever they mean, so a wrong value is found later, as in other tables. Text is
usual if its lines have the same number of fields, none is blank, and quotes enclose whole fields
within a line. Any other one is read record by record, which says what is wrong in it.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import secrets
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data import limits
from dpaudit.data.readers import text_pieces
from dpaudit.data.readers.cells import Coded, RawTable, identifier, positions
from dpaudit.data.source_parts import Column, Layout

_DELIMITERS = ("\t", "::", ";", ",", "|", " ")
# The delimiters of text in which double quotes enclose a field.
_QUOTED = (",", ";")


def read_delimited(path: Path, layout: Layout) -> RawTable:
    """Read delimited text, also if it is compressed by gzip.

    A line of only spaces and delimiters is blank and is skipped. Double quotes enclose a field if
    the delimiter is a comma or a semicolon, and are plain characters otherwise.

    Raises:
        DataError: the file cannot be read, or a line has another number of fields than the first.
    """
    table = read_usual(path, layout)
    return read_any(path, layout) if table is None else table


def read_usual(path: Path, layout: Layout) -> RawTable | None:
    """Read usual text; return None if something in it is unusual.

    Raises:
        DataError: the file is damaged, or exceeds the limits.
    """
    from dpaudit.kernels.text_fields import split_lines

    columns = {what: _Values() for what in layout.columns}
    slots, names, header = None, list[str](), int(layout.header)
    delimiter = ord(text_pieces.one_byte(layout.delimiter))
    for text in _lines(path, layout):
        if not text:
            return None
        if slots is None:
            form = _form(path, layout, text)
            if form is None:
                return None
            slots, names = form
        data = np.frombuffer(text, np.uint8)
        at = np.empty((text.count(b"\n"), len(columns), 2), np.int32)
        quoted = layout.delimiter in _QUOTED and b'"' in text
        if split_lines(data, delimiter, quoted, len(slots), limits.TEXT, slots, at) < 0:
            return None
        for k, column in enumerate(columns.values()):
            if not column.add(data, at[header:, k]):
                return None
        header = 0
    if slots is None:
        return None
    first = 1 + layout.skip + layout.header
    cells = {what: column.coded() for what, column in columns.items()}
    return RawTable(place(path), layout.columns, "line", lambda row: row + first, cells, names)


def _lines(path: Path, layout: Layout) -> Iterator[bytes | None]:
    """Yield the text in parts of whole lines, with one byte as delimiter; None if it is unusual."""
    rest, mark, skip = b"", codecs.BOM_UTF8, layout.skip
    for piece in text_pieces.pieces(path, layout.encoding):
        whole, end, tail = piece.rpartition(b"\n")
        if end:
            yield _plain(rest + whole + end, layout.delimiter, mark, skip)
            rest, mark, skip = tail, b"", 0
        elif b"\r" in piece:
            yield None
        else:
            rest += piece
    if rest:
        yield _plain(rest + b"\n", layout.delimiter, mark, skip)


def _plain(text: bytes, delimiter: str, mark: bytes, skip: int) -> bytes | None:
    """Return lines with plain line ends and a delimiter of one byte, without `mark` and `skip`."""
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError:
            return None
    text = text.removeprefix(mark)
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n")
    if b"\r" in text or b"\0" in text:
        return None
    if skip:
        text = text.split(b"\n", skip)[-1] if text.count(b"\n") > skip else b""
    return text_pieces.separated(text, delimiter)


def _form(path: Path, layout: Layout, text: bytes) -> tuple[NDArray[np.int64], list[str]] | None:
    """Return the form of lines by the first one; None if it is unusual or lacks a column.

    The form is the index of the column of each field, −1 if it is not needed, and the names of the
    columns, if the first line holds them.
    """
    between = text_pieces.one_byte(layout.delimiter)
    line, quoted = text[: text.index(b"\n")].decode(), layout.delimiter in _QUOTED
    try:
        fields = next(csv.reader([line], delimiter=between)) if quoted else line.split(between)
        if not 1 < len(fields) <= limits.COLUMNS or not any(field.strip() for field in fields):
            return None
        names = [field.strip() for field in fields] if layout.header else []
        places = positions(path, layout, names, len(fields))
    except (csv.Error, DataError):
        return None
    slots = np.full(len(fields), -1, np.int64)
    slots[places] = range(len(places))
    distinct = len(set(places)) == len(places)
    return (slots, names) if distinct else None


class _Values:
    """The values of a column, numbered in order of first appearance, in space that doubles."""

    def __init__(self) -> None:
        self.codes = bytearray()  # of 32-bit integers
        self.count = 0
        self.seed = secrets.randbits(62)
        self.slots = np.full(2**11, -1, np.int32)
        self.hashes = np.empty(2**10, np.int64)
        self.ends = np.zeros(2**10 + 1, np.int64)
        self.pool = np.empty(4 * limits.TEXT, np.uint8)

    def add(self, text: NDArray[np.uint8], at: NDArray[np.int32]) -> bool:
        """Number the values at the starts and ends `(n, 2)`; False if too many share a hash."""
        from dpaudit.kernels.text_fields import number_values, place_values

        codes, done = np.empty(len(at), np.int32), 0
        while True:
            space = self.slots, self.hashes, self.ends, self.pool
            self.count, done = number_values(text, at, done, self.seed, codes, *space, self.count)
            if done < 0:
                return False
            if done == len(at):
                self.codes += codes.tobytes()
                return True
            # Double what is full.
            if self.count < len(self.hashes):
                self.pool = np.append(self.pool, np.empty_like(self.pool))
                continue
            self.hashes = np.append(self.hashes, np.empty_like(self.hashes))
            self.ends = np.append(self.ends, np.empty_like(self.ends)[1:])
            self.slots = np.full(2 * len(self.slots), -1, np.int32)
            place_values(self.hashes[: self.count], self.slots)

    def coded(self) -> Coded:
        """Return the column."""
        pool, ends = self.pool.tobytes(), self.ends.tolist()
        values = [pool[ends[k] : ends[k + 1]].decode() for k in range(self.count)]
        return Coded(np.frombuffer(self.codes, np.int32), values)


def read_any(path: Path, layout: Layout) -> RawTable:
    """Read delimited text record by record; slower than `read_usual`, with the same result.

    Raises:
        DataError: as `read_delimited`.
    """
    text = _Text(path, layout)
    first = text.first()
    width = len(first)
    if width == 1:
        likely = max(_DELIMITERS, key=lambda between: first[0].count(between) * len(between))
        hint = f", such as {likely!r}" if likely in first[0] else ""
        raise DataError(
            f"{text.name}: the delimiter {show(layout.delimiter)} does not split the first line: "
            f"set {layout.table}.delimiter, or {layout.table}.format, to what separates its fields"
            f"{hint}"
        )
    for line, record in text.records():
        # Blank lines may have fewer fields.
        if len(record) > width or (len(record) < width and _filled(record)):
            quote = ", or opens a quote that is never closed" if text.has_quotes else ""
            blank = layout.delimiter in {" ", "\t"}
            blanks = text_pieces.blanks_repeat(layout.table) if blank else ""
            raise DataError(
                f"{text.name}, line {line}: the line does not have the {width} fields of the "
                f"first one{quote}: complete or remove it{blanks}"
            )
    names = [name.strip() for name in first] if layout.header else []
    columns = [
        (place_, array("i"), dict[str, int]()) for place_ in positions(path, layout, names, width)
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
        self.name = place(path)
        self.data = text_pieces.utf8(path, layout.encoding, text_pieces.encoding_key(layout.table))
        if layout.skip:
            first = re.match(rb"(?:[^\r\n]*(?:\r\n|\r|\n)){%d}" % layout.skip, self.data)
            rest = b"" if first is None else self.data[first.end() :]
            self.data = b"\n" * layout.skip * (first is not None) + rest
        self.data = text_pieces.separated(self.data, layout.delimiter)
        self.delimiter = text_pieces.one_byte(layout.delimiter)
        self.has_quotes = layout.delimiter in _QUOTED and b'"' in self.data

    def first(self) -> list[str]:
        """Return the fields of the first line that is not blank."""
        for number, record in self.records():
            if len(record) > limits.COLUMNS:
                raise DataError(
                    f"{self.name}, line {number}: the line has more than {limits.COLUMNS} fields: "
                    "give a file with one rating per line"
                )
            if _filled(record):
                return record
        raise DataError(f"{self.name} is empty: give a file with rows")

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
            yield from text_pieces.records(text, self.delimiter)
        except text_pieces.QuoteError as error:
            raise DataError(
                f"{self.name}, line {error.line}: the quote that opens in it is never closed, or "
                f"holds more than {csv.field_size_limit()} characters: close or remove it"
            ) from None


def _filled(record: Sequence[str]) -> bool:
    return any(field.strip() for field in record)


def read_json_lines(path: Path, layout: Layout) -> RawTable:
    """Read the values of some keys of each record; a key that a record lacks is an empty value.

    Raises:
        DataError: a line is no record, a needed value is a list or a record, or no record has one
            of the keys; the message names the line.
    """
    columns = layout.columns
    codes = {what: array("i") for what in columns}
    values: dict[str, dict[str, int]] = {what: {} for what in columns}
    blank: list[int] = []
    keys: dict[str, None] = {}
    row = 0
    for line, text in enumerate(lines(text_pieces.pieces(path, layout.encoding)), 1):
        if not text.strip():
            blank.append(row)
            continue
        record = parsed(path, line, text, layout.table)
        keys.update(dict.fromkeys(record))
        for what, column in columns.items():
            value = _cell(path, line, column, record.get(str(column)))
            codes[what].append(values[what].setdefault(value, len(values[what])))
        row += 1
    positions(path, layout, list(keys), len(keys))
    cells = {what: Coded(np.array(codes[what], np.int32), list(values[what])) for what in columns}
    # A row's line follows as many blank lines as stand above it.
    return RawTable(
        place(path), columns, "line", lambda row: row + 1 + bisect_right(blank, row), cells, [*keys]
    )


def lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the lines of a text in pieces, without their ends."""
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        yield from whole
    if rest:
        yield rest


def parsed(path: Path, line: int, text: bytes, table: str = "data") -> dict[str, Any]:
    """Return the record in a line.

    Raises:
        DataError: the line is no record, or not UTF-8.
    """
    try:
        # A float as text shows whether an id has lost digits.
        record = json.loads(text.decode("utf-8-sig"), parse_float=str)
    except UnicodeDecodeError as error:
        key = text_pieces.encoding_key(table)
        raise text_pieces.not_utf8(path, line, text[error.start], key) from None
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise DataError(
            f'{place(path)}, line {line}: the line is no JSON record such as {{"user": 1, "item": '
            '2}: write one record a line (jq -c ".[]" does so with an array)'
        )
    if not record:
        raise DataError(f"{place(path)}, line {line}: the record is empty: remove the line")
    return record


def _cell(path: Path, line: int, column: Column, value: object) -> str:
    """Return a value as text.

    Raises:
        DataError: it is a list or a record.
    """
    if isinstance(value, list | dict):
        raise DataError(
            f"{place(path)}, line {line}, column {show(column)}: the value is a "
            f"{'list' if isinstance(value, list) else 'record'}: give a key of plain values"
        )
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    text = value if isinstance(value, str) else identifier(value)
    # JSON can hold halves of characters, which cannot be written.
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
