"""Read a text file piece by piece, unpacked if needed, within the limits on hostile files."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place
from dpaudit.data import limits

# Readers split at one byte, so a longer delimiter is replaced by this control character.
UNIT_SEPARATOR = "\x1f"


def pieces(path: Path) -> Iterator[bytes]:
    """Yield the content of a file in pieces, unpacked if it is compressed by gzip.

    Raises:
        DataError: the file is damaged, or exceeds the limits.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if path.suffix == ".gz" or file.peek(2).startswith(b"\x1f\x8b"):
                with gzip.GzipFile(fileobj=file) as packed:
                    yield from _bounded(path, packed, limits.unpacked(size), limits.rows(size))
            else:
                yield from _bounded(path, file, limits.LARGEST, limits.LARGEST)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(
            f"{place(path)} is not a complete gzip file ({error}): download it again"
        ) from None


def _bounded(path: Path, source: io.BufferedIOBase, most: int, most_lines: int) -> Iterator[bytes]:
    """Yield the content of a file of at most `most` bytes and `most_lines` lines.

    Raises:
        DataError: the file is larger, or a line is longer than the limit.
    """
    size = lines = 0
    while piece := source.read(limits.LINE):
        ends = piece.count(b"\n") + piece.count(b"\r")
        if not ends and len(piece) == limits.LINE:
            raise DataError(
                f"{place(path)}: a line is longer than {limits.LINE // limits.MIB} MiB: give a "
                "text file with one rating per line"
            )
        size += len(piece)
        lines += ends
        if size > most or lines > most_lines:
            raise DataError(
                f"{place(path)} holds more than {most // limits.MIB} MiB or {most_lines} lines of "
                "text, the limit for a file of its size: unpack it, or keep the part that the "
                "audit needs"
            )
        yield piece
