"""Read usual delimited text quickly: number the values of each needed column as they are read.

Text is usual if its lines have the same number of fields, none is blank, and quotes enclose whole
fields within a line. The values are numbered by their bytes, whatever they mean, so a wrong value
is found later, as in other tables.
"""

from __future__ import annotations

import codecs
import csv
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place
from dpaudit.data import limits
from dpaudit.data.readers.cells import Coded, RawTable, position
from dpaudit.data.readers.text_pieces import UNIT_SEPARATOR, pieces, separated
from dpaudit.data.source import Layout

_QUOTED = (",", ";")


def read_usual(path: Path, layout: Layout) -> RawTable | None:
    """Read usual text; return None if something in it is unusual.

    Raises:
        DataError: the file is damaged, or exceeds the limits.
    """
    from dpaudit.kernels.text_fields import split_lines

    columns = {what: _Values() for what in layout.columns}
    form, header = None, int(layout.header)
    for text in _lines(path, layout):
        form = form or (_form(path, layout, text) if text else None)
        if not text or form is None:
            return None
        data = np.frombuffer(text, np.uint8)
        at = np.empty((text.count(b"\n"), len(columns), 2), np.int32)
        quoted = form.quoted and b'"' in text
        lines = split_lines(
            data, form.delimiter, quoted, len(form.slots), limits.TEXT, form.slots, at
        )
        if lines < 0:
            return None
        for k, column in enumerate(columns.values()):
            if not column.add(data, at[header:, k]):
                return None
        header = 0
    if form is None:
        return None
    first = 1 + layout.skip + layout.header
    cells = {what: column.coded() for what, column in columns.items()}
    return RawTable(place(path), layout.columns, "line", lambda row: row + first, cells, form.names)


def _lines(path: Path, layout: Layout) -> Iterator[bytes | None]:
    """Yield the text in parts of whole lines, with one byte as delimiter; None if it is unusual."""
    rest, mark, skip = b"", codecs.BOM_UTF8, layout.skip
    for piece in pieces(path, layout.encoding):
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
    return separated(text, delimiter)


class _Form(NamedTuple):
    """The form of the lines.

    Attributes:
        delimiter: the byte between fields.
        quoted: whether double quotes may enclose a field.
        slots: for each field the index of its column, −1 if it is not needed.
        names: the names of the columns, if the first line holds them.
    """

    delimiter: int
    quoted: bool
    slots: NDArray[np.int64]
    names: list[str]


def _form(path: Path, layout: Layout, text: bytes) -> _Form | None:
    """Return the form of lines by the first one; None if it is unusual or lacks a column."""
    between = layout.delimiter if len(layout.delimiter.encode()) == 1 else UNIT_SEPARATOR
    line, quoted = text[: text.index(b"\n")].decode(), layout.delimiter in _QUOTED
    try:
        fields = next(csv.reader([line], delimiter=between)) if quoted else line.split(between)
        if not 1 < len(fields) <= limits.COLUMNS or not any(field.strip() for field in fields):
            return None
        names = [field.strip() for field in fields] if layout.header else []
        positions = [position(path, of, names, len(fields)) for of in layout.columns.values()]
    except (csv.Error, DataError):
        return None
    slots = np.full(len(fields), -1, np.int64)
    slots[positions] = range(len(positions))
    distinct = len(set(positions)) == len(positions)
    return _Form(ord(between), quoted, slots, names) if distinct else None


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
        from dpaudit.kernels.text_fields import number_values

        codes, done = np.empty(len(at), np.int32), 0
        while True:
            space = self.slots, self.hashes, self.ends, self.pool
            self.count, done = number_values(text, at, done, self.seed, codes, *space, self.count)
            if done < 0:
                return False
            if done == len(at):
                self.codes += codes.tobytes()
                return True
            self._grow()

    def _grow(self) -> None:
        """Double what is full."""
        from dpaudit.kernels.text_fields import place_values

        if self.count < len(self.hashes):
            self.pool = np.append(self.pool, np.empty_like(self.pool))
            return
        self.hashes = np.append(self.hashes, np.empty_like(self.hashes))
        self.ends = np.append(self.ends, np.empty_like(self.ends)[1:])
        self.slots = np.full(2 * len(self.slots), -1, np.int32)
        place_values(self.hashes[: self.count], self.slots)

    def coded(self) -> Coded:
        """Return the column."""
        pool, ends = self.pool.tobytes(), self.ends.tolist()
        values = [pool[ends[k] : ends[k + 1]].decode() for k in range(self.count)]
        return Coded(np.frombuffer(self.codes, np.int32), values)
