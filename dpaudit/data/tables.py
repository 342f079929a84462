"""Files as tables of the columns that are needed."""

from __future__ import annotations

import csv
import difflib
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.cells import Table
from dpaudit.data.source import Layout
from dpaudit.data.source_parts import Column
from dpaudit.errors import DataError

# The C reader splits at one byte, so a longer delimiter is replaced by this control character.
_UNIT_SEPARATOR = "\x1f"
_DELIMITERS = ("\t", "::", ";", ",", "|", " ")


def read_text(path: Path, layout: Layout) -> Table:
    """Read delimited text, also when it is packed by gzip.

    A line with nothing but spaces and delimiters is blank and is skipped. Double quotes protect a
    field when the delimiter is a comma or a semicolon and are plain characters otherwise.

    Raises:
        DataError: the file cannot be read, or a line does not split like the first one.
    """
    import pandas as pd

    text = _Text(path, layout)
    if text.width == 1:
        text.refuse_delimiter()
    try:
        # Reading all columns, not only the needed ones, lets the reader refuse overlong lines.
        frame = text.frame(names=range(text.width), skip_blank_lines=False, index_col=False)
    except pd.errors.ParserError:
        text.refuse_line(text.odd_line() or 1)
    blank = (frame.iloc[:, 1:] == "").all(axis=1) & (frame[0].str.strip() == "")
    rows = np.flatnonzero(~blank.to_numpy())
    # The reader fills short lines up. Where every delimiter counts, their number tells at once.
    if text.has_quotes or blank.any() or text.delimiters != (text.width - 1) * len(rows):
        line = text.odd_line()
        if line is not None:
            text.refuse_line(line)
    names: Sequence[str] = ()
    if layout.header:
        names, rows = [str(name).strip() for name in frame.iloc[rows[0]]], rows[1:]
    cells = {
        what: frame[_position(path, column, names, text.width, layout.table)].iloc[rows]
        for what, column in layout.columns.items()
    }
    return Table(path, layout.columns, "line", lambda row: text.line(int(rows[row])), cells)


class _Text:
    """A text file in memory, and the way to a line's exact number when something is wrong."""

    def __init__(self, path: Path, layout: Layout) -> None:
        self.path, self.table = path, layout.table
        self.data = _bytes(path)
        self.stated = self.delimiter = delimiter = layout.delimiter
        self.quoting: Literal[0, 3] = (
            csv.QUOTE_MINIMAL if delimiter in (",", ";") else csv.QUOTE_NONE
        )
        if len(delimiter.encode()) > 1:
            self.data = self.data.replace(delimiter.encode(), _UNIT_SEPARATOR.encode())
            self.delimiter = _UNIT_SEPARATOR
        self.width = self._width()

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

    def _width(self) -> int:
        """Number of fields of the first line that is not blank."""
        import pandas as pd

        try:
            return len(self.frame(nrows=1).columns)
        except pd.errors.EmptyDataError:
            raise DataError(f"{self.path} is empty: give a file with rows") from None
        except pd.errors.ParserError:
            raise DataError(
                f"{self.path}: the quote that opens in the first line is never closed: close or "
                "remove it"
            ) from None

    def records(self) -> Iterator[tuple[int, list[str]]]:
        """Each record with its first line's number; slow, so only for the wording of errors."""
        reader = csv.reader(
            io.StringIO(self.data.decode("utf-8-sig"), newline=None),
            delimiter=self.delimiter,
            quoting=self.quoting,
        )
        line = 1
        try:
            for record in reader:
                yield line, record
                line = reader.line_num + 1
        except csv.Error:  # a quote that is never closed makes a field longer than csv allows
            yield line, ["never closed"]

    @property
    def has_quotes(self) -> bool:
        return self.quoting != csv.QUOTE_NONE and b'"' in self.data

    @property
    def delimiters(self) -> int:
        return self.data.count(self.delimiter.encode())

    def line(self, row: int) -> int:
        if not self.has_quotes:
            return row + 1
        return next(line for index, (line, _) in enumerate(self.records()) if index == row)

    def odd_line(self) -> int | None:
        """The first line that does not split into the fields of the first one."""
        for line, record in self.records():
            blank = not any(field.strip() for field in record)
            if not blank and len(record) != self.width:
                return line
        return None

    def refuse_line(self, line: int) -> NoReturn:
        quote = ", or opens a quote that is never closed" if self.has_quotes else ""
        raise DataError(
            f"{self.path}, line {line}: the line does not have the {self.width} fields of the "
            f"first one{quote}: complete or remove it"
        )

    def refuse_delimiter(self) -> NoReturn:
        first = next(line for line in self.data.decode("utf-8-sig").splitlines() if line.strip())
        found = max(_DELIMITERS, key=lambda delimiter: first.count(delimiter) * len(delimiter))
        hint = f", such as {found!r}" if found in first else ""
        raise DataError(
            f"{self.path}: the delimiter {self.stated!r} does not split the first line: set "
            f"{self.table}.delimiter, or {self.table}.format, to what separates its fields{hint}"
        )


def _bytes(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        if path.suffix == ".gz" or data.startswith(b"\x1f\x8b"):
            data = gzip.decompress(data)
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise DataError(
            f"{path}, line {line}: the byte 0x{data[error.start]:02x} is not UTF-8: save the file "
            "as UTF-8"
        ) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a whole gzip file ({error}): fetch it again") from None
    return data


def _position(
    path: Path, column: Column, names: Sequence[str], width: int, table: str = "data"
) -> int:
    if isinstance(column, int) and column < width:
        return column
    if isinstance(column, str) and column in names:
        if names.count(column) == 1:
            return names.index(column)
        raise DataError(f"{path} has several columns {column!r}: rename one or give its position")
    close = difflib.get_close_matches(str(column), names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise DataError(
        f"{path} has no column {column!r}: give {'one of its names or ' if names else ''}a "
        f"position from 0 to {width - 1}, or set {table}.format to how the file is laid out{hint}"
    )


def read_parquet(path: Path, columns: Mapping[str, Column]) -> Table:
    """Read a parquet file.

    Raises:
        DataError: the file cannot be read, lacks a column, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise DataError(
            f"{path} is a parquet file and pyarrow is not installed: "
            "run pip install 'dpaudit[parquet]'"
        ) from None
    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            wanted = {
                what: names[_position(path, column, names, len(names))]
                for what, column in columns.items()
            }
            table = file.read(list(wanted.values()))
        # Without its metadata no column becomes the index; integers with gaps stay integers.
        frame = table.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    except (pa.ArrowException, OSError) as error:
        raise DataError(
            f"{path} is not a readable parquet file ({_first(error)}): write it again"
        ) from None
    cells = {what: frame[name] for what, name in wanted.items()}
    return Table(path, columns, "row", lambda row: row + 1, cells)


def read_matlab(
    path: Path, columns: Mapping[str, Column], variable: str | None, table: str = "data"
) -> Table:
    """Read a two-dimensional numeric array from a MATLAB file of version 4 to 7.

    Args:
        path: the file.
        columns: the columns that are needed, by what they hold.
        variable: the array's name; None where it is the only one.
        table: the table of the config that describes the file, for messages.

    Raises:
        DataError: the file cannot be read, or lacks the variable or a column.
    """
    from scipy.io import loadmat

    try:
        content = loadmat(path)
    except NotImplementedError:
        raise DataError(f"{path} is a MATLAB 7.3 file: save it with the option -v7") from None
    except Exception as error:  # a damaged file can fail anywhere inside the parser
        raise DataError(
            f"{path} is not a readable MATLAB file ({_first(error)}): save it again"
        ) from None
    array = _array(path, content, variable, table)
    cells = {
        what: array[:, _position(path, column, (), array.shape[1], table)]
        for what, column in columns.items()
    }
    return Table(path, columns, "row", lambda row: row + 1, cells)


def _array(path: Path, content: dict[str, Any], variable: str | None, table: str) -> NDArray[Any]:
    arrays = {
        name: value
        for name, value in content.items()
        if isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "iuf"
    }
    if variable is None and len(arrays) == 1:
        return next(iter(arrays.values()))
    if variable is not None and variable in arrays:
        return arrays[variable]
    wanted = "the only" if variable is None else f"the variable {variable!r} as a"
    choices = ", ".join(map(repr, arrays)) or "its arrays, of which it has none"
    raise DataError(
        f"{path} does not hold {wanted} two-dimensional numeric array: set {table}.variable to one "
        f"of {choices}"
    )


def _first(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(". ")
