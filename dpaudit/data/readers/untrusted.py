"""Unpack one MATLAB or parquet file, in a separate process that a hostile file may crash.

`dpaudit.data.readers.binary` runs this file as a script that needs only numpy and the library of
the file format. The file is standard input, and the argument is the request as JSON. The reply is a
line of JSON, which describes the columns, followed by their bytes; the caller executes nothing in
it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.generic]

# The number of rows that are unpacked together.
_BATCH = 2**20

Request = dict[str, Any]
Reply = dict[str, Any]


def main() -> None:
    """Read standard input according to the request, and reply on standard output."""
    request = json.loads(sys.argv[1])
    sys.path[:] = request["path"]
    arrays: list[Array] = []
    try:
        reply = {"matlab": _matlab, "parquet": _parquet}[request["format"]](request, arrays)
    except MemoryError:
        reply, arrays = {"fault": "packed"}, []
    except Exception as error:  # a damaged file can fail anywhere inside the parser
        problem = next(iter(str(error).splitlines()), type(error).__name__)
        fault = "type" if isinstance(error, NotImplementedError) else "broken"
        reply, arrays = {"fault": fault, "problem": problem}, []
    reply["arrays"] = [[array.dtype.str, len(array)] for array in arrays]
    out = sys.stdout.buffer
    out.write(json.dumps(reply).encode("ascii") + b"\n")
    for array in arrays:
        out.write(array.data)
    out.flush()


def _bound(most: int) -> None:
    """Limit the memory of this process to `most` bytes, if the system supports it."""
    try:
        import resource
    except ImportError:  # Windows
        return
    # The limit may already be lower, and macOS does not support it.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _matlab(request: Request, arrays: list[Array]) -> Reply:
    """Return the columns of the requested variable, or of the only array if none is requested."""
    import numpy as np
    from scipy.io import loadmat

    _bound(request["memory"])
    try:
        content = loadmat(sys.stdin.buffer)
    except NotImplementedError:
        return {"fault": "version"}
    tables = {
        name: value
        for name, value in content.items()
        if isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "iuf"
    }
    variable = request["variable"]
    if variable is None and len(tables) == 1:
        variable = next(iter(tables))
    if variable not in tables:
        return {"fault": "variable", "names": list(tables)}
    table = tables[variable]
    wanted = _positions(request["columns"], [], table.shape[1])
    if len(table) > request["rows"]:
        return {"fault": "packed"}
    # The numbers may have the byte order of another machine.
    native = table.dtype.newbyteorder("=")
    arrays += [table[:, column].astype(native) for column in wanted]
    return {"names": [], "width": table.shape[1]}


def _parquet(request: Request, arrays: list[Array]) -> Reply:
    """Return each column as the index of each value, −1 for a null, and the distinct values."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    _bound(request["memory"])
    with pq.ParquetFile(sys.stdin.buffer) as file:
        schema, about = file.schema_arrow, file.metadata
        names = schema.names
        if len(names) > request["most_columns"]:
            return {"fault": "columns"}
        wanted = _positions(request["columns"], names, len(names))
        nested = [
            names[column]
            for column in wanted
            if pa.types.is_nested(_plain(schema.field(column).type))
        ]
        if nested:
            return {"fault": "nested", "names": nested}
        if about.num_rows > request["rows"]:
            return {"fault": "packed"}
        distinct = []
        for column in wanted:
            codes, values = None, list[Any]()
            if pa.types.is_integer(schema.field(column).type):
                codes, values = _near(file, column)
            if codes is None:
                codes, values = _encoded(file, column, request["most_characters"])
            arrays.append(codes)
            distinct.append(values)
    if len({len(array) for array in arrays}) > 1:
        raise ValueError("its columns have different lengths")
    return {"names": names, "width": len(names), "distinct": distinct}


def _parts(file: Any, column: int) -> Iterator[Any]:
    """Yield one column in parts, so that it is never unpacked as a whole."""
    names = file.schema_arrow.names
    # The reader returns all columns of the name, in the order of the file.
    same = [k for k, name in enumerate(names) if name == names[column]]
    for batch in file.iter_batches(_BATCH, columns=[names[column]], use_threads=False):
        if batch.num_columns != len(same):
            raise ValueError("two of its columns have one name")
        # The reader does not check that text is UTF-8 and that indices of values are in range.
        batch.validate(full=True)
        yield batch.column(same.index(column))


def _near(file: Any, column: int) -> tuple[Array | None, list[int]]:
    """Return the distances from the lowest integer, and all integers from it to the highest.

    There are no distances if a value is missing or some are far apart.
    """
    import numpy as np

    codes, done = np.empty(file.metadata.num_rows, np.int32), 0
    low, high = 2**31 - 1, -(2**31)
    for part in _parts(file, column):
        numbers = part.to_numpy(zero_copy_only=False)
        if part.null_count or not len(part):
            return None, []
        low, high = min(low, int(numbers.min())), max(high, int(numbers.max()))
        if low < -(2**31) or high >= 2**31 or high - low > len(codes) // 8 + 1000:
            return None, []
        codes[done : done + len(part)] = numbers
        done += len(part)
    codes = codes[:done]
    codes -= np.int32(low)
    return codes, list(range(low, high + 1))


def _encoded(file: Any, column: int, most: int) -> tuple[Array, list[Any]]:
    """Return the index of each value, −1 for a null, and the distinct values."""
    import numpy as np
    import pyarrow as pa

    parts = [_stored(part).dictionary_encode() for part in _parts(file, column)]
    if not parts:
        return np.empty(0, np.int32), []
    whole = pa.chunked_array(parts)
    del parts
    # One chunk with one dictionary.
    coded = whole.unify_dictionaries().combine_chunks()
    del whole
    # Indices may be unsigned, and then hold no −1.
    codes = coded.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    values = _listed(_stored(coded.dictionary))
    if any(isinstance(value, str) and len(value) > most for value in values):
        raise ValueError(f"a value has more than {most} characters")
    return codes, values


def _plain(kind: Any) -> Any:
    """Return the type of the values beneath extension types and dictionaries."""
    import pyarrow as pa

    while True:
        if isinstance(kind, pa.BaseExtensionType):  # such as UUID and JSON
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind):
            kind = kind.value_type
        else:
            return kind


def _stored(values: Any) -> Any:
    """Return values without extension types, in a type that can be numbered and listed."""
    import pyarrow as pa

    while isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    other = {
        "string_view": pa.large_string(),
        "binary_view": pa.large_binary(),
        "null": pa.large_string(),
        "halffloat": pa.float32(),
    }.get(str(values.type))
    if pa.types.is_decimal(values.type):
        other = pa.large_string()
    return values if other is None else values.cast(other)


def _listed(values: Any) -> list[Any]:
    """Return values as numbers or text: bytes as text if all are, else in hexadecimal."""
    import pyarrow as pa

    types, kind = pa.types, values.type
    packed = types.is_binary, types.is_large_binary, types.is_fixed_size_binary
    plain = types.is_integer, types.is_floating, types.is_boolean
    if any(of(kind) for of in packed):
        return _texts(values.to_pylist())
    if types.is_duration(kind):
        values = values.cast(pa.int64())
    elif not any(of(kind) for of in plain):
        values = values.cast(pa.large_string())
    return values.to_pylist()


def _texts(values: list[bytes | None]) -> list[str | None]:
    """Return bytes as text if all are printable UTF-8 without blanks around it, else as `0x…`."""
    try:
        texts = [value if value is None else value.decode() for value in values]
    except UnicodeDecodeError:
        texts = ["\n"]
    if all(text is None or (text.isprintable() and text == text.strip()) for text in texts):
        return texts
    return [value if value is None else f"0x{value.hex()}" for value in values]


def _positions(columns: Sequence[int | str], names: Sequence[str], width: int) -> list[int]:
    """Return the positions of the columns; none if one is missing, which the caller reports."""
    try:
        positions = [
            names.index(column) if isinstance(column, str) else column for column in columns
        ]
    except ValueError:
        return []
    repeated = any(names.count(column) > 1 for column in columns if isinstance(column, str))
    return [] if repeated or max(positions, default=-1) >= width else positions


if __name__ == "__main__":
    main()
