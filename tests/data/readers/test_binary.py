"""The types of columns of Parquet files, all read by one process."""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.readers.binary import parquet_names, read_parquet
from dpaudit.data.readers.cells import RawTable
from dpaudit.data.readers.columns import ids
from dpaudit.data.source_parts import Layout

U1, U2 = uuid.UUID(int=1), uuid.UUID(int=2)


def coded(values: list[Any], indices: pa.DataType) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, None], indices), values)


# Four rows each: the column, the ids, and the numbers of the rows' ids.
TYPES: dict[str, tuple[pa.Array, list[str], list[int]]] = {
    **{
        f"dictionary of {indices}": (coded(["b", "a"], indices), ["a", "b"], [1, 0, 1, -1])
        for indices in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.int8(), pa.int64())
    },
    "dictionary of bytes": (coded([b"\xff", b"a"], pa.uint8()), ["0x61", "0xff"], [1, 0, 1, -1]),
    "UUID": (
        pa.array([U1.bytes, U2.bytes, U1.bytes, None], pa.uuid()),
        [f"0x{U1.hex}", f"0x{U2.hex}"],
        [0, 1, 0, -1],
    ),
    "JSON": (pa.array(['"a"', "{}", '"a"', None], pa.json_()), ['"a"', "{}"], [0, 1, 0, -1]),
    "text": (pa.array(["a", "a ", " a", " "]), [" a", "a", "a "], [1, 2, 0, -1]),
    "large text": (pa.array(["a", "b", "a", ""], pa.large_string()), ["a", "b"], [0, 1, 0, -1]),
    "text view": (pa.array(["a", "a ", "a", None], pa.string_view()), ["a", "a "], [0, 1, 0, -1]),
    "bytes of text": (pa.array([b"b", b"a", b"b", b""]), ["a", "b"], [1, 0, 1, -1]),
    "blank bytes": (
        pa.array([b"\x20", b"\x09", b"\x20", b"\x1f"], pa.binary(1)),
        ["0x09", "0x1f", "0x20"],
        [2, 0, 2, 1],
    ),
    "padded bytes": (
        pa.array([b"a\x20", b"a\x00", b"a\x20", None], pa.binary_view()),
        ["0x6100", "0x6120"],
        [1, 0, 1, -1],
    ),
    "decimals": (
        pa.array([Decimal(2), Decimal(10), Decimal(2), None], pa.decimal128(38, 0)),
        ["2", "10"],
        [0, 1, 0, -1],
    ),
    "short decimals": (
        pa.array([Decimal(2), Decimal(10), Decimal(2), None], pa.decimal32(5, 0)),
        ["2", "10"],
        [0, 1, 0, -1],
    ),
    "times": (
        pa.array([datetime.datetime(2020, 1, day) for day in (2, 1, 2)] + [None]),
        ["2020-01-01 00:00:00.000000", "2020-01-02 00:00:00.000000"],
        [1, 0, 1, -1],
    ),
    "durations": (
        pa.array([datetime.timedelta(microseconds=span) for span in (2, 10, 2)] + [None]),
        ["2", "10"],
        [0, 1, 0, -1],
    ),
    "short floats": (
        pa.array(np.array([2, 10, 2, np.nan], np.float16)),
        ["2", "10"],
        [0, 1, 0, -1],
    ),
    "large integers": (
        pa.array([2**64 - 1, 2**64 - 2, 2**64 - 1, None], pa.uint64()),
        [f"{2**64 - 2}", f"{2**64 - 1}"],
        [1, 0, 1, -1],
    ),
    "nothing": (pa.nulls(4), [], [-1, -1, -1, -1]),
}


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> RawTable:
    path = tmp_path_factory.mktemp("types") / "r.parquet"
    pq.write_table(pa.table({name: column for name, (column, _, _) in TYPES.items()}), path)
    return read_parquet(path, Layout(",", False, {name: name for name in TYPES}))


@pytest.mark.cases("name", TYPES)
def test_ids_of_every_plain_type_are_told_apart(every: RawTable, name: str) -> None:
    column = ids(every, name)
    _, expected, numbers = TYPES[name]
    assert (column.names, column.codes.tolist()) == (expected, numbers)


@pytest.mark.parametrize("kind", [pl.Categorical, pl.Enum(["b", "a"])])
def test_categories_of_polars_are_read(tmp_path: Path, kind: Any) -> None:
    path = tmp_path / "r.parquet"
    pl.DataFrame({"u": pl.Series(["b", "a", "b", None], dtype=kind)}).write_parquet(path)
    assert ids(read_parquet(path, Layout(",", False, {"user": "u"})), "user").codes.tolist() == [
        1,
        0,
        1,
        -1,
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int8())),
        pa.array([[1], [2]], pa.list_view(pa.int8())),
        pa.ExtensionArray.from_storage(
            pa.fixed_shape_tensor(pa.int8(), [1]), pa.array([[1], [2]], pa.list_(pa.int8(), 1))
        ),
    ],
)
def test_lists_and_records_are_no_ids(tmp_path: Path, column: pa.Array) -> None:
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"u": column}), path)
    with pytest.raises(DataError, match=r"column 'u': .* lists or records"):
        read_parquet(path, Layout(",", False, {"user": "u"}))


@pytest.mark.parametrize(
    "read", [parquet_names, lambda path: read_parquet(path, Layout(",", False, {"user": "u"}))]
)
def test_a_type_that_the_reader_does_not_know_is_a_sentence(tmp_path: Path, read: Any) -> None:
    path = tmp_path / "r.parquet"
    pl.DataFrame({"u": pl.Series([1], dtype=pl.Int128)}).write_parquet(path)
    with pytest.raises(DataError, match=r"a type that its reader does not know"):
        read(path)


def test_the_schema_is_read_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, path = tmp_path / "child.py", tmp_path / "r.parquet"
    script.write_text("import os; os.abort()")
    path.write_bytes(b"PAR1")
    monkeypatch.setattr("dpaudit.data.readers.binary._SCRIPT", script)
    with pytest.raises(DataError, match=r"its reader crashed"):
        parquet_names(path)
