"""Guess how a file of interactions is laid out, for a first config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.readers.binary import parquet_files, parquet_names
from dpaudit.data.readers.cells import times_of, usual_unit
from dpaudit.data.readers.load import check_file, read_columns, unreadable
from dpaudit.data.readers.text import lines, parsed
from dpaudit.data.readers.text_pieces import pieces
from dpaudit.data.sniff_ratings import Meaning, labelled, meaning_of
from dpaudit.data.sniff_text import divided, positions_of
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

    @property
    def keys(self) -> dict[str, Any]:
        """The keys of `[data]` beside the columns."""
        missing = {} if self.missing_ids == "error" else {"missing_ids": self.missing_ids}
        return missing if self.encoding is None else {"encoding": self.encoding, **missing}


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
        return _records(path, head, stated)
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


def _records(path: Path, head: bytes, stated: StatedLayout) -> Sniffed:
    keys: dict[str, None] = {}
    whole = head[: head.rfind(b"\n") + 1] or head
    for count, line in enumerate(islice(lines(iter([whole])), _RECORDS), 1):
        if line.strip():
            keys.update(dict.fromkeys(parsed(path, count, line)))
    return _with_columns(path, {"format": "jsonl"}, "JSON lines", list(keys), stated)


def _text(path: Path, head: bytes, stated: StatedLayout) -> Sniffed:
    text = head.decode("utf-8-sig", errors="replace")
    if len(text) > 2**16:
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1] or text
    columns = () if stated.columns is None else stated.columns.used.values()
    named = any(isinstance(column, str) for column in columns)
    split = divided(place(path), text, header=named or None)
    layout: dict[str, Any] = {"format": "delimited", "header": split.header}
    if split.delimiter != ",":
        layout["delimiter"] = split.delimiter
    if split.skip:
        layout["skip"] = split.skip
    words = f"separator {_WORDS.get(split.delimiter, repr(split.delimiter))}, "
    words += f"{'' if split.header else 'no '}header"
    if split.skip:
        words += f" below {split.skip} line{'s' if split.skip > 1 else ''} of comment"
    if split.header:
        return _with_columns(path, layout, words, split.names, stated)
    width = len(split.rows[0])
    if stated.columns is None and width > _MOST:
        raise DataError(
            f"{place(path)} has {width} columns and no header: give a row for each interaction, "
            "and a header such as user_id,item_id,rating"
        )
    return _with_columns(path, layout, words, range(width), stated, split.rows)


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
    layout = {**layout, "path": str(path), **stated.keys}
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
