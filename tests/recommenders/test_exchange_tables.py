"""Tables are read as they were written, and what is wrong in one is named with its line or row."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.recommenders.exchange import Kind, read_rows, read_table, write_table

KINDS: dict[str, Kind] = {"user": "index", "score": "number"}


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_written_is_read(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    rng = np.random.default_rng(1)
    user = rng.integers(0, 2**31, 100_000).astype(np.int32)
    score = rng.standard_normal(100_000).astype(np.float32)
    write_table(path, {"more": user, "score": score, "user": user})
    table = read_table(path, KINDS, 100_000)
    np.testing.assert_array_equal(table.columns["user"], user)
    np.testing.assert_array_equal(table.columns["score"].astype(np.float32), score)
    assert list(table.columns) == ["user", "score"]
    rows = read_rows(path, 100_000)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows[:, 1], score)


def test_spaces_blank_lines_quotes_and_a_mark_of_the_encoding_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfscore, user\r\n\r\n1.5, 3\r\n"2",4\r\n,5\r\n')
    table = read_table(path, KINDS, 3)
    np.testing.assert_array_equal(table.columns["user"], [3, 4, 5])
    np.testing.assert_array_equal(table.columns["score"], [1.5, 2.0, np.nan])
    np.testing.assert_array_equal(table.places, [3, 4, 5])


@pytest.mark.cases(
    ("text", "said"),
    [
        ("", "t.csv has no column user, only '': write the columns user, score"),
        ("user;score\n1;2\n", "t.csv has no column user, only 'user;score': write"),
        ("user,score\n1,2\n1.0,2\n", "t.csv, line 3: user = '1.0' is no index (0, 1, 2, …)"),
        ("user,score\n\n1,x\n", "t.csv, line 3: score = 'x' is no number: write one"),
        ("user,score\n1,\x1b[3m\n", "t.csv, line 2: score = '\\x1b[3m' is no number"),
        ("user,score\n1,2,3\n", "t.csv, line 2: 3 cells, and the header has 2"),
        ("user,score\n1\n", "t.csv, line 2: 1 cells, and the header has 2"),
        ("user,score\n9223372036854775808,1\n", "user = '9223372036854775808' is no index"),
        (f"user,score\n{'9' * 5000},1\n", "is no index"),
        (f"user,score\n1,{'9' * 200_000}\n", "t.csv, line 2: field larger than field limit"),
        ("user,score\n" + "1,2\n" * 300_000, "has 1200011 bytes, more than 2 rows take: write"),
    ],
)
def test_a_wrong_csv_file_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(RunError) as raised:
        read_table(path, KINDS, 2)
    assert said in str(raised.value)
    assert len(str(raised.value)) < 300
    assert str(raised.value).isprintable()


@pytest.mark.cases(
    ("columns", "said"),
    [
        ({"user": [1, 2]}, "t.parquet has no column score, only 'user'"),
        ({"user": [1.0], "score": [1.0]}, "column user has type double: write indices"),
        ({"user": ["1"], "score": [1.0]}, "column user has type string: write indices"),
        ({"user": [1], "score": ["1"]}, "column score has type string: write numbers"),
        ({"user": [1], "score": [[1]]}, "column score has type list<"),
        ({"user": [1, None], "score": [1, 1]}, "t.parquet, row 2: user is missing"),
        ({"user": np.zeros(1_100_000, int), "score": np.zeros(1_100_000)}, "has 1100000 rows"),
    ],
)
def test_a_wrong_parquet_file_is_one_sentence(
    tmp_path: Path, columns: dict[str, Any], said: str
) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    with pytest.raises(RunError) as raised:
        read_table(path, KINDS, 2)
    assert said in str(raised.value)


def test_whole_and_missing_numbers_of_parquet_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"user": pa.array([1, 2], pa.uint8()), "score": [3, None]}), path)
    table = read_table(path, KINDS, 2)
    np.testing.assert_array_equal(table.columns["score"], [3.0, np.nan])
    assert table.columns["user"].dtype == np.int64


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_no_table_is_one_sentence(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"t.{suffix}"
    with pytest.raises(RunError, match=rf"no t\.{suffix}: .*task\.json"):
        read_table(path, KINDS, 2)
    path.write_bytes(bytes(range(256)))
    with pytest.raises(RunError, match=rf"t\.{suffix} (cannot be read|has no column)"):
        read_table(path, KINDS, 2)
    path.unlink()
    path.mkdir()
    with pytest.raises(RunError, match=rf"t\.{suffix} is no file"):
        read_table(path, KINDS, 2)


@pytest.mark.cases(
    ("text", "said"),
    [
        (
            "a,b\n1,2\n",
            "t.csv has 1 rows below its header: write one for each of the indices 0 to 1",
        ),
        ("1,2\n3,4\n", "t.csv has 1 rows below its header"),
        (",a\n0,1\n1,1\n", "t.csv has 2 columns, of which some have no name"),
        ("a,a\n0,1\n1,1\n", "t.csv has 2 columns, of which some have no name, or the same"),
        ("", "t.csv has 1 columns, of which some have no name"),
        ("a,b\n1,2\n1,two\n", "t.csv, line 3: b = 'two' is no number"),
    ],
)
def test_wrong_rows_of_factors_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.raises(RunError) as raised:
        read_rows(path, 2)
    assert str(raised.value).startswith(said)


def test_an_index_of_rows_is_no_factor(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": [1.0], "__index_level_0__": [0]}), path)
    with pytest.raises(RunError, match="no index of rows"):
        read_rows(path, 1)


def test_without_pyarrow_the_extra_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.parquet"
    path.touch()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for work in (lambda: write_table(path, {}), lambda: read_table(path, KINDS, 1)):
        with pytest.raises(ConfigError, match=r"needs pyarrow .*pip install 'pyarrow>="):
            work()
