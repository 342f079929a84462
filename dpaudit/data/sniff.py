"""Guess how a file of interactions is laid out, and what the columns without names hold."""

from __future__ import annotations

import contextlib
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.readers.binary import parquet_files, parquet_names
from dpaudit.data.readers.cells import number, time_unit, times_of, usual_unit
from dpaudit.data.readers.columns import UnknownColumnsError, known
from dpaudit.data.readers.load import check_file, read_columns, unreadable
from dpaudit.data.readers.text import lines, parsed
from dpaudit.data.readers.text_pieces import BLANKS, QuoteError, pieces, records
from dpaudit.data.sniff_ratings import Meaning, labelled, meaning_of
from dpaudit.data.source import DataSource, MissingIds
from dpaudit.data.source_parts import Column, Columns

_WORDS = {"\t": "tab", " ": "space", "blanks": "blanks"}
# The most JSON records whose keys are read.
_RECORDS = 500
# A file without a header and with more columns than this holds a matrix.
_MOST = 12
# The first bytes of files of other formats, and their remedy; only `_BINARY` ones hold NUL bytes.
_BINARY = {
    b"ARROW1": "is a Feather (Arrow) file: save it as Parquet",
    b"FEA1": "is a Feather file: save it as Parquet",
    b"ORC": "is an ORC file: save it as Parquet",
    b"Obj\x01": "is an Avro file: save it as Parquet",
    b"\x93NUMPY": "is a npy file: save it as csv, with a column each for users and items",
    b"\x80": "is a pickle, which can run code and is not read: save its table as csv or Parquet",
    b"\x89HDF": "is an HDF5 file: save its table as csv or Parquet",
    b"MATLAB": "is a MATLAB file: write [data] with format = 'matlab' and the positions of columns",
    b"SQLite format 3": "is a database of SQLite: export its table as csv",
    b"\xd0\xcf\x11\xe0": "is a spreadsheet: save it as csv",
}
_OTHER = {
    b"PK\x03\x04": "is a zip archive or a spreadsheet: unpack it, or save it as csv",
    b"BZh": "is packed by bzip2: unpack it",
    b"\xfd7zXZ": "is packed by xz: unpack it",
    b"\x28\xb5\x2f\xfd": "is packed by zstd: unpack it",
    b"%%MatrixMarket": "is a MatrixMarket file: read it by scipy.io.mmread, and write a row "
    "for each entry, or pass the matrix to dpaudit.audit_recommender",
    **dict.fromkeys(
        (b"INSERT INTO ", b"CREATE TABLE ", b"DROP TABLE ", b"PRAGMA foreign", b"--\n--", b"-- My"),
        "is a dump of a database: export its table as csv",
    ),
    b"+--": "is a table as a database shows it: export it as csv",
    b"[": "holds JSON: write one record a line (jq -c '.[]' does so)",
}


@dataclass(frozen=True)
class StatedLayout:
    """What the user states about a file, which is then not guessed.

    Attributes:
        columns: the columns.
        encoding: the encoding of its text.
        missing_ids: what to do with a row without a user or an item, as in `DataSource`.
        extent: the lowest and the highest rating; rows with others are left out.
    """

    columns: Columns | None = None
    encoding: str | None = None
    missing_ids: MissingIds = "error"
    extent: tuple[float, float] | None = None


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


def sniff(path: Path, stated: StatedLayout | None = None) -> Sniffed:
    """Guess the layout of a file from its first lines, and its scale from all its ratings.

    Args:
        path: a text file with a row for each interaction, perhaps packed by gzip, or a Parquet
            file or a folder of them.
        stated: what is known of it.

    Raises:
        UnknownColumnsError: several columns could be the user or the item, or none is known to be.
        UnknownScaleError: some values may be no ratings.
        DataError: the file cannot be read, or a rating is missing.
    """
    stated = stated or StatedLayout()
    try:
        if path.is_dir():
            for file in parquet_files(path):
                check_file(file, "the path", "ratings")
            return _parquet(path, stated)
        check_file(path, "the path", "interactions")
        head = next(pieces(path, stated.encoding), b"")
    except OSError as error:
        raise unreadable(path, error) from error
    if head.startswith(b"PAR1"):
        return _parquet(path, stated)
    for start, remedy in (_OTHER | _BINARY if b"\0" in head else _OTHER).items():
        if head.lstrip().startswith(start):
            raise DataError(f"{place(path)} {remedy}")
    if b"\0" in head:
        raise DataError(
            f"{place(path)} holds NUL bytes, as UTF-16 text and binary files do: save it as UTF-8, "
            "or state the encoding, such as 'utf-16-le' (dpaudit init --encoding, or encoding of "
            "[data])"
        )
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        keys: dict[str, None] = {}
        whole = head[: head.rfind(b"\n") + 1] or head
        for count, line in enumerate(islice(lines(iter([whole])), _RECORDS), 1):
            if line.strip():
                keys.update(dict.fromkeys(parsed(path, count, line)))
        return _with_columns(path, {"format": "jsonl"}, "JSON lines", list(keys), stated)
    return _text(path, head, stated)


def rated_by(columns: Mapping[str, Column]) -> str:
    """Return the meaning of the column of ratings or counts; empty if there is none."""
    return next((what for what in ("rating", "value", "count") if what in columns), "")


def _parquet(path: Path, stated: StatedLayout) -> Sniffed:
    words = "Parquet"
    if path.is_dir():
        count = len(parquet_files(path))
        words = f"{count} Parquet file{'s' * (count > 1)}"
    return _with_columns(path, {"format": "parquet"}, words, parquet_names(path), stated)


def _text(path: Path, head: bytes, stated: StatedLayout) -> Sniffed:
    text = head.decode("utf-8-sig", errors="replace")
    if len(text) > 2**16:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    where, skip = place(path), _comments(text)
    below = "".join(islice(io.StringIO(text, newline=None), skip, None))
    delimiter = _delimiter(where, below)
    rows = [row for row in _fields(below, delimiter) if any(row)]
    width = len(rows[0])
    if skip:
        last = "".join(islice(io.StringIO(text, newline=None), skip - 1, skip))
        first = next(_fields(last, delimiter))
        # A comment may be the header, or the first row, of which an id begins like a comment.
        row = len(first) == width and last[:1] == "#" and last[1:2].strip()
        if row or (len(first) == width and {"user", "item"} <= known(first).keys()):
            skip, rows = skip - 1, [first, *rows]
    columns = () if stated.columns is None else stated.columns.used.values()
    header = any(isinstance(column, str) for column in columns) or _is_header(rows)
    names, body = (rows[0], rows[1:]) if header else ([], rows)
    if not body:
        raise DataError(f"{where} has a header and no rows: give a file with interactions")
    layout: dict[str, Any] = {"format": "delimited", "header": header}
    layout |= {} if delimiter == "," else {"delimiter": delimiter}
    layout |= {"skip": skip} if skip else {}
    words = f"separator {_WORDS.get(delimiter, repr(delimiter))}, {'' if header else 'no '}header"
    if skip:
        words += f" below {skip} line{'s' if skip > 1 else ''} of comment"
    if header:
        return _with_columns(path, layout, words, names, stated)
    if stated.columns is None and width > _MOST:
        raise DataError(
            f"{where} has {width} columns and no header: give a row for each interaction, "
            "and a header such as user_id,item_id,rating"
        )
    alike = [row for row in body if len(row) == width]
    return _with_columns(path, layout, words, range(width), stated, alike)


def _with_columns(
    path: Path,
    layout: dict[str, Any],
    words: str,
    names: Sequence[Column],
    stated: StatedLayout,
    rows: Sequence[Sequence[str]] = (),
) -> Sniffed:
    """Guess the columns, and the scale if one holds ratings, and add them to the layout.

    Args:
        path: the file.
        layout: the keys of `[data]` that say how it is laid out.
        words: the same in words.
        names: the names of all columns, or their positions.
        stated: what is known of the file.
        rows: fields of rows, if the columns have no names.
    """
    layout = {**layout, "path": str(path)}
    layout |= {} if stated.encoding is None else {"encoding": stated.encoding}
    layout |= {} if stated.missing_ids == "error" else {"missing_ids": stated.missing_ids}
    if stated.columns is not None:
        meanings = stated.columns.used
    elif rows:
        meanings = positions_of(place(path), rows)
    else:
        meanings = labelled(
            place(path),
            [str(name) for name in names],
            lambda used: read_columns(path, DataSource(**layout, columns=used)),
        )
    columns = {what: meanings[what] for what in ("user", "item")}
    kind = rated_by(meanings)
    meaning = Meaning()
    if kind:
        bare = DataSource(**layout, columns={**columns, "rating": meanings[kind]})
        meaning = meaning_of(read_columns(path, bare), kind, stated.extent)
    elif stated.extent is not None:
        raise DataError(
            f"{place(path)}: no column is known to hold the ratings that --scale states: name it, "
            f"such as --columns user={meanings['user']},item={meanings['item']},rating=NAME"
        )
    if meaning.column is not None:
        columns["rating"] = meaning.column
    notes = [words, *(f"{what} = {_label(column)}" for what, column in columns.items())]
    if "time" in meanings:
        time = {"time": meanings["time"]}
        table = read_columns(path, DataSource(**layout, columns={**columns, **time}))
        # A time that the user states is reported as wrong when it is read.
        when, faults = times_of(table)
        used = stated.columns is not None or not faults
        columns |= time if used else {}
        unit = None if faults else usual_unit(when)
        why = f" in {unit}" if unit not in {None, "seconds"} else ""
        for row, _, fault in [] if used else faults:
            why = f" (not used, {table.place(row)}: {fault})"
        notes.append(f"time = {_label(meanings['time'])}{why}")
    taken = {*meanings.values()}
    other = [_label(name) for index, name in enumerate(names) if taken.isdisjoint({index, name})]
    if other:
        notes.append(f"not used: {', '.join(other[:3])}{', …' if other[3:] else ''}")
    source = DataSource(**layout, columns=columns, on_duplicate="last", **meaning.keys)
    return Sniffed(source, ", ".join(notes), meaning.words)


def _label(column: Column) -> str:
    return f"column {column}" if isinstance(column, int) else show(column)


# If several separate the lines equally well, the first one counts.
_DELIMITERS = ("\t\t", "\t", "::", ";", "|", ",", " ", BLANKS)
# These count only if nothing else separates the lines.
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
        # Words may hold spaces, so these count only between numbers.
        clear = delimiter not in _SPACES or not any(
            math.isnan(number(cell)) for row in rows for cell in row
        )
        rank = (clear and alike >= _ALIKE, alike, filled)
        if width > 1 and (best is None or rank > best[0]):
            best = rank, delimiter
    if best is None:
        raise DataError(
            f"{where} has one column, or a separator that is not known: give the user and the item "
            "in two columns, as in user_id,item_id,rating"
        )
    return best[1]


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
    def goods(self) -> bool:
        """Whether it holds Amazon's product numbers, which newer editions put before the user."""
        return any(cell.startswith("B0") for cell in self.filled) and all(
            map(_GOODS.fullmatch, self.filled)
        )

    @property
    def single(self) -> bool:
        """Whether no value is repeated, so that the column numbers the rows."""
        return len(self.filled) >= _ENOUGH and len(self.distinct) == len(self.filled)


def is_time(cell: str) -> bool:
    """Whether a cell looks like a date, a time of day, or a recent time since 1970."""
    return bool(_DATE.fullmatch(cell)) or time_unit(number(cell)) is not None


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
    # Every cell looks like a date, a time, or (milli-)seconds since 1970.
    times = [
        column.index
        for column in columns
        if (column.index > 1 and all(map(_SECONDS.fullmatch, column.filled)))
        or all(map(is_time, column.filled))
    ]
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
    # The likeliest columns.
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
    raise UnknownColumnsError(
        f"{where} has no header, and which of its columns are the user, the item and the rating is "
        f"not clear (counted from 0, it may be {able}{clock})",
        "state the right ones, ",
        guess,
    )


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
    whole = not value.broken and min(value.numbers, default=0) >= 0
    # The value holds words, or more integers than a scale has, as ids do.
    many = not value.numeric or (whole and len(value.distinct) > _HUNDRED)
    odd = (item.few and not value.few) or (user.scale and not item.few and many)
    if odd or user.broken or item.broken or not value.numeric:
        return {}
    return {"user": user, "item": item, "value": value}
