"""Guess how a file of interactions is laid out, for a first config."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.readers.binary import parquet_names
from dpaudit.data.readers.cells import number
from dpaudit.data.readers.folder import parquet_files
from dpaudit.data.readers.load import check_file, check_files, unreadable
from dpaudit.data.readers.pieces import pieces
from dpaudit.data.sniff_ratings import Meaning, meaning_of
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import Column

# Names of columns, in lower case, letters and digits alone; the first that a file has is used.
_NAMES = {
    "user": (
        *("userid", "user", "uid", "u", "useridx", "username", "customerid", "customer"),
        *("visitorid", "sessionid", "reviewerid", "memberid", "accountid", "profileid"),
    ),
    "item": (
        *("itemid", "item", "iid", "i", "itemidx", "movieid", "movie", "productid", "product"),
        *("artistid", "songid", "trackid", "bookid", "isbn", "gameid", "asin", "articleid"),
        *("newsid", "videoid", "businessid", "animeid", "beerid", "recipeid", "jokeid", "sku"),
    ),
    "rating": (
        *("rating", "ratings", "stars", "score", "overall", "r", "bookrating", "userrating"),
        "starrating",
    ),
    "value": (*("value", "label", "like", "liked", "click", "clicked", "bought", "purchased"),),
    "count": (
        *("plays", "playcount", "count", "counts", "listens", "clicks", "views", "purchases"),
        *("quantity", "weight", "hours", "playtime"),
    ),
    "time": (
        *("timestamp", "time", "date", "datetime", "ts", "t", "ratedat", "createdat"),
        "unixreviewtime",
    ),
}
# In this order if several separate the lines equally well.
_DELIMITERS = ("\t", "::", ";", "|", ",", " ")
_WORDS = {"\t": "tab", " ": "space"}
# The share of lines that a separator splits alike.
_ALIKE = 0.9
# The most characters and lines that the layout is guessed from.
_SAMPLE, _LINES = 2**18, 500
# Without a header, more columns than this are a matrix.
_MOST = 12
_TIME = re.compile(r"\d{9,10}(\.\d+)?|\d{12,13}|\d{4}-\d\d-\d\d.*|\d{4}/\d\d/\d\d.*")
_BINARY = {
    b"PK\x03\x04": "is a zip archive or a spreadsheet: unpack it, or save it as csv",
    b"BZh": "is packed by bzip2: unpack it",
    b"\xfd7zXZ": "is packed by xz: unpack it",
    b"\x28\xb5\x2f\xfd": "is packed by zstd: unpack it",
    b"\xff\xfe": "is UTF-16 text: save it as UTF-8",
    b"\xfe\xff": "is UTF-16 text: save it as UTF-8",
    b"{": "holds JSON: write it as csv with a header such as user_id,item_id,rating",
    b"[": "holds JSON: write it as csv with a header such as user_id,item_id,rating",
}

Cells = list[list[str]]


@dataclass(frozen=True)
class Sniffed:
    """What was guessed of a file of interactions.

    Attributes:
        source: the `[data]` table.
        layout: how the file is laid out, in words.
        ratings: what its ratings mean, in words.
    """

    source: DataSource
    layout: str
    ratings: str


def sniff(path: Path) -> Sniffed:
    """Guess the layout of a file from its first lines, and its scale from all its ratings.

    Args:
        path: a text file with a row for each interaction, perhaps packed by gzip, or a Parquet
            file or a folder of them.

    Raises:
        DataError: the file cannot be read, its columns cannot be guessed, or a rating is missing.
    """
    try:
        if path.is_dir():
            check_files(path, "the path")
            return _parquet(path)
        check_file(path, "the path", "interactions")
        head = next(pieces(path), b"")
    except OSError as error:
        raise unreadable(path, error) from error
    if head.startswith(b"PAR1"):
        return _parquet(path)
    for start, said in _BINARY.items():
        if head.lstrip().startswith(start):
            raise DataError(f"{place(path)} {said}")
    if b"\0" in head:
        raise DataError(
            f"{place(path)} holds NUL bytes, as UTF-16 text and binary files do: save it as UTF-8"
        )
    return _text(path, head)


def source_of(path: Path) -> DataSource:
    """Return the `[data]` table of a file.

    Raises:
        DataError: as `sniff`.
    """
    return sniff(path).source


def columns_of(where: str, names: Sequence[str]) -> dict[str, str]:
    """Return which of the named columns hold the user, the item and perhaps the rating.

    Raises:
        DataError: none is known to hold the user, or the item.
    """
    found = _named(where, names)
    columns = {"user": found["user"], "item": found["item"]}
    rating = found.get("rating", found.get("value"))
    return columns if rating is None else {**columns, "rating": rating}


def _named(where: str, names: Sequence[str]) -> dict[str, str]:
    """Return the columns with a known meaning.

    Raises:
        DataError: none is known to hold the user, or the item.
    """
    found = _known(names)
    missing = [what for what in ("user", "item") if what not in found]
    if missing:
        shown = ", ".join(map(show, names[:_MOST]))
        more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
        raise DataError(
            f"{where} has the columns {shown}{more}, and none is known to hold the "
            f"{' or the '.join(missing)}: rename {'one' if len(missing) == 1 else 'two'} to "
            f"{' and '.join(f'{what}_id' for what in missing)}, or name them in columns of [data]"
        )
    return found


def _known(names: Sequence[str]) -> dict[str, str]:
    plain: dict[str, str] = {}
    for name in names:
        plain.setdefault("".join(c for c in name.lower() if c.isalnum()), name)
    found = {
        what: next((plain[each] for each in known if each in plain), None)
        for what, known in _NAMES.items()
    }
    return {what: name for what, name in found.items() if name is not None}


def _parquet(path: Path) -> Sniffed:
    names = parquet_names(path)
    words = "Parquet"
    if path.is_dir():
        count = len(parquet_files(path))
        words = f"{count} Parquet file{'s' * (count > 1)}"
    return _found(path, {"format": "parquet"}, words, _named(place(path), names), names)


def _text(path: Path, head: bytes) -> Sniffed:
    text = head[:_SAMPLE].decode("utf-8-sig", errors="replace")
    if len(head) > _SAMPLE:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    delimiter, cells = _split(path, text)
    first, rest = cells[0], cells[1:]
    header = _is_header(first, rest)
    if header and not rest:
        raise DataError(f"{place(path)} has a header and no rows: give a file with interactions")
    meanings = _named(place(path), first) if header else _positions(path, cells)
    layout: dict[str, Any] = {"format": "delimited", "header": header}
    if delimiter != ",":
        layout["delimiter"] = delimiter
    words = f"separator {_WORDS.get(delimiter, repr(delimiter))}, {'' if header else 'no '}header"
    return _found(path, layout, words, meanings, first if header else range(len(first)))


def _split(path: Path, text: str) -> tuple[str, Cells]:
    """Return the separator that splits the lines into the same number of fields, and the fields."""
    best: tuple[tuple[bool, float, int], str, Cells] | None = None
    for delimiter in _DELIMITERS:
        cells = [row for row in _rows(text, delimiter) if any(row)][:_LINES]
        if not cells:
            raise DataError(f"{place(path)} is empty: give a file with interactions")
        width = len(cells[0])
        alike = sum(len(row) == width for row in cells) / len(cells)
        # Words may hold spaces, so a space separates only where nothing else does.
        rank = (delimiter != " " and alike >= _ALIKE, alike, width)
        if width > 1 and (best is None or rank > best[0]):
            best = rank, delimiter, cells
    if best is None:
        raise DataError(
            f"{place(path)} has one column, or a separator that is not known: give the user and "
            "the item in two columns, as in user_id,item_id,rating"
        )
    _, delimiter, cells = best
    return delimiter, [row for row in cells if len(row) == len(cells[0])]


def _rows(text: str, delimiter: str) -> Iterator[list[str]]:
    """Yield the fields of each line; quotes enclose fields as for the reader of the file."""
    lines = io.StringIO(text, newline=None)
    if delimiter not in {",", ";"}:
        yield from ([cell.strip() for cell in line.rstrip("\n").split(delimiter)] for line in lines)
        return
    try:
        yield from (
            [cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter)
        )
    except csv.Error:  # the reader names the line
        return


def _is_header(first: list[str], rest: Cells) -> bool:
    """Whether the first line holds names: known ones, or words above numbers."""
    if {"user", "item"} <= _known(first).keys():
        return True
    if any(map(_number, first)):
        return False
    columns = list(zip(*rest, strict=True))
    # A word that occurs again below is an id.
    return not any(name in column for name, column in zip(first, columns, strict=False))


def _positions(path: Path, cells: Cells) -> dict[str, Column]:
    """Return the columns of a file without a header: the user, the item, and what looks like it."""
    columns = list(zip(*cells, strict=True))
    if len(columns) > _MOST:
        raise DataError(
            f"{place(path)} has {len(columns)} columns and no header: give a row for each "
            "interaction, and a header such as user_id,item_id,rating"
        )
    found: dict[str, Column] = {"user": 0, "item": 1}
    for index, column in enumerate(columns[2:], 2):
        filled = [cell for cell in column if cell]
        if filled and all(_TIME.fullmatch(cell) for cell in filled):
            found.setdefault("time", index)
        elif sum(map(_number, filled)) > len(filled) / 2:  # others are reported as wrong
            found.setdefault("value", index)
    return found


def _found(
    path: Path,
    layout: dict[str, Any],
    words: str,
    meanings: Mapping[str, Column],
    names: Sequence[Column],
) -> Sniffed:
    """Add the columns, with the scale if one holds ratings."""
    columns = {what: meanings[what] for what in ("user", "item")}
    kind = next((what for what in ("rating", "value", "count") if what in meanings), None)
    rated = Meaning()
    if kind is not None:
        bare = DataSource(**layout, path=str(path), columns=columns)
        rated = meaning_of(path, bare, meanings[kind], kind)
    if rated.column is not None:
        columns["rating"] = rated.column
    said = [words, *(f"{what} = {_label(column)}" for what, column in columns.items())]
    if "time" in meanings:
        said.append(f"time = {_label(meanings['time'])} (not used)")
    other = [_label(name) for name in names if name not in {*meanings.values()}]
    if other:
        said.append(f"not used: {', '.join(other[:3])}{', …' if other[3:] else ''}")
    source = DataSource(
        **layout, path=str(path), columns=columns, on_duplicate="last", **rated.keys
    )
    return Sniffed(source, ", ".join(said), rated.said)


def _label(column: Column) -> str:
    return f"column {column}" if isinstance(column, int) else show(column)


def _number(text: str) -> bool:
    """Whether the reader takes a cell for a number."""
    return not math.isnan(number(text))
