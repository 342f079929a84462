"""Read a text file piece by piece, unpacked and as UTF-8, within the limits on hostile files."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place
from dpaudit.data import limits

# Readers split at one byte, so a longer delimiter is replaced by this control character.
UNIT_SEPARATOR = "\x1f"
# The delimiter that stands for a run of spaces and tabs.
BLANKS = "blanks"
_AROUND = re.compile(rb"(?<![^\r\n])[ \t]+|[ \t]+(?![^\r\n])")
_BETWEEN = re.compile(rb"[ \t]+")
# The mark of UTF-32 begins with that of UTF-16.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


def separated(text: bytes, delimiter: str) -> bytes:
    """Return whole lines with a delimiter of one byte: the given one, or `UNIT_SEPARATOR`."""
    if delimiter == BLANKS:
        return _BETWEEN.sub(UNIT_SEPARATOR.encode(), _AROUND.sub(b"", text))
    between = one_byte(delimiter)
    return text if between == delimiter else text.replace(delimiter.encode(), between.encode())


def one_byte(delimiter: str) -> str:
    """Return the delimiter of one byte that `separated` leaves or puts in the place of another."""
    return delimiter if len(delimiter.encode()) == 1 else UNIT_SEPARATOR


def blanks_repeat(table: str) -> str:
    """Return the remedy for fields that are padded with blanks, in a config table."""
    return f", or set {table}.delimiter = {BLANKS!r} where several blanks separate two fields"


def not_utf8(path: Path, line: int, byte: int, key: str = "data.encoding") -> DataError:
    """Return the error for a byte that is not UTF-8; `key` sets the encoding, if any does."""
    init = " (dpaudit init --encoding)" if key == "data.encoding" else ""
    remedy = f", or set {key}{init}, such as 'cp1252'" if key else ""
    return DataError(
        f"{place(path)}, line {line}: the byte 0x{byte:02x} is not UTF-8: save the file as UTF-8"
        f"{remedy}"
    )


def encoding_key(table: str) -> str:
    """Return the key that sets the encoding of the file of a config table; empty if none does."""
    return f"{table}.encoding" if table in {"data", "data.users", "data.items"} else ""


class QuoteError(Exception):
    """A field in quotes is longer than the module csv allows, or its quote is not closed.

    Attributes:
        line: the first line of its record, from 1.
    """

    def __init__(self, line: int, problem: str) -> None:
        """Say what is wrong in the record."""
        super().__init__(problem)
        self.line = line


def records(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each record, from 1, and its fields without quotes.

    Double quotes enclose a field; within them, a delimiter or a line end belongs to the field.

    Args:
        lines: the lines with their ends.
        delimiter: the character between fields.

    Raises:
        QuoteError: a field in quotes is too long, or, after the last record, not closed.
    """
    ended = False

    def fed() -> Iterator[str]:
        nonlocal ended
        yield from lines
        ended = True

    reader, first = csv.reader(fed(), delimiter=delimiter), 1
    try:
        for record in reader:
            yield first, record
            if ended:  # the reader asked for more lines
                raise QuoteError(first, "a quote is never closed")
            first = reader.line_num + 1
    except csv.Error as error:
        raise QuoteError(first, str(error)) from None


def utf8(path: Path, encoding: str | None = None, key: str = "data.encoding") -> bytes:
    """Return the content of a file that `pieces` yields, checked to be UTF-8.

    Args:
        path: the file.
        encoding: the encoding of its text, as for `pieces`.
        key: the key of the config that sets the encoding; empty if none does.

    Raises:
        DataError: the file is damaged, not of its encoding, or exceeds the limits.
    """
    data = b"".join(pieces(path, encoding))
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        before = io.TextIOWrapper(io.BytesIO(data[: error.start] + b"."), encoding="utf-8")
        line = sum(1 for _ in before)
        raise not_utf8(path, line, data[error.start], key) from None
    return data


def pieces(path: Path, encoding: str | None = None) -> Iterator[bytes]:
    """Yield the content of a file in pieces, unpacked if it is compressed by gzip.

    Args:
        path: the file.
        encoding: the encoding of its text, which becomes UTF-8; if absent, the bytes stay as they
            are unless they begin with the mark of UTF-16 or UTF-32.

    Raises:
        DataError: the file is damaged, has another encoding, or exceeds the limits.
    """
    parts = _unpacked(path)
    first = next(parts, b"")
    known = encoding or next(
        (name for mark, name in _MARKS.items() if first.startswith(mark)), None
    )
    content = chain([first] if first else [], parts)
    yield from content if known is None else _as_utf8(path, content, known)


def _as_utf8(path: Path, parts: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """Yield text of another encoding as UTF-8.

    Raises:
        DataError: some bytes are not of this encoding; the message names their line.
    """
    decoder, line = codecs.getincrementaldecoder(encoding)(), 1
    for part in chain(parts, [b""]):
        try:
            text = decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            before = error.object[: error.start].decode(encoding, "ignore")
            raise DataError(
                f"{place(path)}, line {line + before.count(chr(10))}: the byte "
                f"0x{error.object[error.start]:02x} is not {encoding}: correct data.encoding, or "
                "save the file as UTF-8"
            ) from None
        except UnicodeError as error:  # there is no mark of the order of bytes
            raise DataError(
                f"{place(path)} is not {encoding} ({error}): correct data.encoding, or save the "
                "file as UTF-8"
            ) from None
        line += text.count("\n")
        yield text.encode("utf-8", "backslashreplace")


def _unpacked(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, unpacked if needed.

    Raises:
        DataError: the file is too large, or a line is longer than the limit, or it is damaged.
    """
    try:
        with path.open("rb") as file:
            length, lines, size = os.fstat(file.fileno()).st_size, 0, 0
            source: io.BufferedIOBase = file
            most = most_lines = limits.LARGEST
            if path.suffix == ".gz" or file.peek(2).startswith(b"\x1f\x8b"):
                source = gzip.GzipFile(fileobj=file)
                most, most_lines = limits.unpacked(length), limits.rows(length)
            while piece := source.read(limits.LINE):
                ends = piece.count(b"\n") + piece.count(b"\r")
                if not ends and len(piece) == limits.LINE:
                    raise DataError(
                        f"{place(path)}: a line is longer than {limits.LINE // limits.MIB} MiB: "
                        "give a text file with one rating per line"
                    )
                size += len(piece)
                lines += ends
                if size > most or lines > most_lines:
                    raise DataError(
                        f"{place(path)} holds more than {most // limits.MIB} MiB or {most_lines} "
                        "lines of text, the limit for a file of its size: unpack it, or keep the "
                        "part that the audit needs"
                    )
                yield piece
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{place(path)} is not a complete gzip file ({error}): download it again"
        ) from None
