"""Read JSON lines, a record a line, as a table of the needed keys."""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.readers.cells import Coded, RawTable, identifier, position
from dpaudit.data.readers.text_pieces import encoding_key, not_utf8, pieces
from dpaudit.data.source_parts import Column


def read_json_lines(
    path: Path, columns: Mapping[str, Column], encoding: str | None, table: str = "data"
) -> RawTable:
    """Read the values of some keys of each record; a key that a record lacks is an empty value.

    Args:
        path: a text file, perhaps packed by gzip.
        columns: the needed keys, by their meaning.
        encoding: the encoding of its text, as in `pieces`.
        table: the config table that describes the file, for messages.

    Raises:
        DataError: a line is no record, a needed value is a list or a record, or no record has one
            of the keys; the message names the line.
    """
    codes = {what: array("i") for what in columns}
    values: dict[str, dict[str, int]] = {what: {} for what in columns}
    blank: list[int] = []
    keys: dict[str, None] = {}
    row = 0
    for line, text in enumerate(lines(pieces(path, encoding)), 1):
        if not text.strip():
            blank.append(row)
            continue
        record = parsed(path, line, text, table)
        keys.update(dict.fromkeys(record))
        for what, column in columns.items():
            value = _cell(path, line, column, record.get(str(column)))
            codes[what].append(values[what].setdefault(value, len(values[what])))
        row += 1
    for column in columns.values():
        position(path, column, list(keys), len(keys), table)
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
        raise not_utf8(path, line, text[error.start], encoding_key(table)) from None
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
