"""Files that are made to crash, to stall or to fill the memory; each gives one sentence."""

from __future__ import annotations

import gzip
import io
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data import DataSource, Ratings, limits, load

COLUMNS: dict[str, Any] = {"user": 0, "item": 1, "rating": 2}
NAMED: dict[str, Any] = {"user": "u", "item": "i", "rating": "r"}
ROWS = np.array([[3, 9, 4], [1, 8, 2]])


def source(path: Path, **options: Any) -> DataSource:
    known = {"format": "delimited", "path": str(path), "columns": COLUMNS, "scale": {}}
    return DataSource.model_validate(known | options)


def refusal(path: Path, **options: Any) -> str:
    """The sentence that the file is refused with, which is one line of printable characters."""
    with pytest.raises(DataError) as caught:
        load(source(path, **options))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 700
    return str(caught.value)


def written(folder: Path, content: bytes | bytearray | str) -> Path:
    path = folder / "r"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- the separate process


def matlab(folder: Path, **variables: Any) -> Path:
    from scipy.io import savemat

    savemat(folder / "r", variables, appendmat=False)
    return folder / "r"


# In a 2 × 3 array, these bytes are the length of the numbers and then the length of its name.
@pytest.mark.long
@pytest.mark.parametrize(("at", "byte"), [(176, 127), (177, 3), (176, 0), (177, 5)])
def test_a_changed_byte_of_a_matlab_file_is_a_sentence(tmp_path: Path, at: int, byte: int) -> None:
    path = matlab(tmp_path, x=ROWS)
    content = bytearray(path.read_bytes())
    content[at] = byte
    path.write_bytes(content)
    assert "r is not a readable MATLAB" in refusal(path, format="matlab")
    trust = {"path": str(path), "format": "matlab"}
    ratings = tmp_path / "ratings.csv"
    ratings.write_text("1,2,3\n")
    assert "r is not a readable MATLAB" in refusal(ratings, trust=trust)


CHILDREN = {
    "crashed": "import os; os.abort()",
    "killed": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "silent": "",
    "wordy": "print('[' * 100_000)",
    "cut": 'print(\'{"names": [], "width": 3, "arrays": [["<f8", 2]]}\')',
    "objects": 'print(\'{"arrays": [["O", 1]]}12345678\')',
    "huge": 'print(\'{"arrays": [["<f8", 1000000000000]]}\')',
}


@pytest.mark.cases("kind", ["matlab", "parquet"])
@pytest.mark.cases("child", CHILDREN)
def test_a_reader_that_crashes_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child: str, kind: str
) -> None:
    pytest.importorskip("pyarrow")
    script = tmp_path / "child.py"
    script.write_text(CHILDREN[child])
    monkeypatch.setattr("dpaudit.data.readers.binary._SCRIPT", script)
    name = {"matlab": "MATLAB", "parquet": "parquet"}[kind]
    sentence = refusal(written(tmp_path, "x"), format=kind)
    assert f" {name} file (its reader crashed): " in sentence


def test_a_reader_that_stalls_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "child.py"
    script.write_text("import time; time.sleep(60)")
    monkeypatch.setattr("dpaudit.data.readers.binary._SCRIPT", script)
    monkeypatch.setattr(limits, "seconds", lambda size: 1)
    sentence = refusal(written(tmp_path, "x"), format="matlab")
    assert "stopped after 1 s): " in sentence


def test_a_reader_inherits_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "child.py"
    output = tmp_path / "told"
    script.write_text(f"import os; open({str(output)!r}, 'w').write(repr(dict(os.environ)))")
    monkeypatch.setattr("dpaudit.data.readers.binary._SCRIPT", script)
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    refusal(written(tmp_path, "x"), format="matlab")
    assert "OMP_NUM_THREADS" in output.read_text()
    assert "SECRET_TOKEN" not in output.read_text()


CALLS: dict[str, Callable[[str, Path], list[str]]] = {
    "script without a guard": lambda code, folder: [str(written_script(code, folder))],
    "-c": lambda code, folder: ["-c", code],
}


def written_script(code: str, folder: Path) -> Path:
    (folder / "audit.py").write_text(code)
    return folder / "audit.py"


@pytest.mark.long
@pytest.mark.parametrize("call", CALLS)
def test_matlab_is_read_wherever_the_audit_starts(tmp_path: Path, call: str) -> None:
    path = matlab(tmp_path, x=ROWS)
    # A module in the working folder must not be imported instead of the library.
    (tmp_path / "scipy.py").write_text("raise SystemExit('not me')")
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[3])!r}); "
        "from dpaudit.data import DataSource, load; "
        f"print(len(load(DataSource.model_validate({source(path, format='matlab').model_dump()}))))"
    )
    command = [sys.executable, "-P", *CALLS[call](code, tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.long
def test_numbers_of_another_machine_are_read(tmp_path: Path) -> None:
    # MATLAB version 4; the thousands digit 1 marks big-endian numbers.
    head = np.array([1000, 2, 3, 0, 2], ">i4").tobytes() + b"x\0"
    path = written(tmp_path, head + ROWS.T.astype(">f8").tobytes())
    ratings = load(source(path, format="matlab"))
    assert ratings.value.tolist() == [2, 4]
    assert ratings.user_ids is not None
    assert ratings.user_ids.tolist() == ["1", "3"]


# --- decompression bombs


def unpacks(sentence: str) -> bool:
    return "unpacks to more than a file of" in sentence


@pytest.mark.long
@pytest.mark.parametrize("shape", [(3_000_000, 3), (1000, 250_000)])
def test_matlab_bombs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int]
) -> None:
    from scipy.io import savemat

    monkeypatch.setattr(limits, "memory", lambda size: 600 * limits.MIB)
    array = {"x": np.ones(shape, np.int8)}
    savemat(tmp_path / "r", array, appendmat=False, do_compression=True)
    sentence = refusal(tmp_path / "r", format="matlab")
    assert unpacks(sentence)
    assert "the option -v6" in sentence


@pytest.mark.long
def test_parquet_bombs(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "r.parquet"
    # Run-length encoding: few bytes expand to many rows.
    ones = pa.array(np.ones(3_000_000, np.int8))
    pq.write_table(pa.table({"u": ones, "i": ones, "r": ones}), path, compression="zstd")
    assert path.stat().st_size < 50_000
    assert unpacks(refusal(path, format="parquet", columns=NAMED))
    # One long text that many rows refer to.
    long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200_000, np.int8)), ["x" * 10_000])
    ones = ones[:200_000]
    table = pa.table({"u": long, "i": ones, "r": ones})
    pq.write_table(table, path, compression="zstd", store_schema=False)
    assert path.stat().st_size < 50_000
    sentence = refusal(path, format="parquet", columns=NAMED)
    assert unpacks(sentence)
    assert "write it without compression" in sentence


@pytest.mark.long
@pytest.mark.parametrize(
    ("line", "count", "message"),
    [
        ("1,2,3\n", 3_000_000, "lines of text, the limit for a file of its size: unpack it"),
        ("\n", 5_000_000, "lines of text, the limit"),
        ("1,2,3" + "0" * 5000 + "\n", 8000, "holds more than 3"),
        ("0" * 2**20, 40, "a line is longer than 1 MiB"),
    ],
)
def test_gzip_bombs(tmp_path: Path, line: str, count: int, message: str) -> None:
    path = tmp_path / "r.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"1,2,3\n" * 70_000)
        for _ in range(count // 40):
            file.write(line.encode() * 40)
    assert message in refusal(path)


@pytest.mark.long
def test_a_repetitive_gzip_file_is_read(tmp_path: Path) -> None:
    content = "".join(f"{user},{item},3\n" for user in range(1000) for item in range(300))
    assert len(load(source(written(tmp_path, gzip.compress(content.encode()))))) == 300_000


# --- not a regular file


@pytest.mark.cases("kind", ["delimited", "matlab", "parquet", "movielens-1m"])
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with a name")
def test_pipes_and_devices_are_refused(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), Path("/dev/null")):
        options = {"format": kind, "path": str(path), "columns": COLUMNS}
        if kind == "movielens-1m":
            del options["columns"]
        with pytest.raises(DataError, match=r"a pipe or a device: set data\.path"):
            load(DataSource.model_validate(options))
    ratings = written(tmp_path, "1,2,3\n")
    trust = {"path": str(tmp_path / "pipe")}
    assert "set data.trust.path" in refusal(ratings, trust=trust)


@pytest.mark.cases("kind", ["delimited", "matlab", "parquet"])
@pytest.mark.cases(
    ("size", "message"), [(2**40, "is larger than the limit of 4 GiB: keep the part"), (2**30, "r")]
)
def test_sparse_files_are_refused(tmp_path: Path, kind: str, size: int, message: str) -> None:
    pytest.importorskip("pyarrow")
    with (tmp_path / "r").open("wb") as file:
        file.truncate(size)
    assert message in refusal(tmp_path / "r", format=kind)


# --- parquet files with unusual columns


def parquet(folder: Path, names: list[str], *columns: Any) -> Path:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    arrays = [column if isinstance(column, pa.Array) else pa.array(column) for column in columns]
    pq.write_table(pa.Table.from_arrays(arrays, names), folder / "r")
    return folder / "r"


@pytest.mark.long
def test_a_repeated_name_is_refused_and_its_position_read(tmp_path: Path) -> None:
    path = parquet(tmp_path, ["r", "u", "r", "i"], [5, 6], [7, 8], [3, 4], [1, 2])
    message = "several columns 'r': rename one or give its position"
    assert message in refusal(path, format="parquet", columns=NAMED)
    columns = {"user": 1, "item": "i", "rating": 2}
    assert load(source(path, format="parquet", columns=columns)).value.tolist() == [3, 4]


@pytest.mark.long
def test_parquet_of_binary_ids_of_one_length(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    ids = pa.array([bytes(range(16)), b"\xff" * 16], pa.binary(16))
    path = parquet(tmp_path, ["u", "i", "r"], ids, [1, 2], [3, 4])
    assert load(source(path, format="parquet", columns=NAMED)).n_users == 2


@pytest.mark.long
def test_parquet_of_endless_ids(tmp_path: Path) -> None:
    path = parquet(tmp_path, ["u", "i", "r"], ["a" * 5000, "b"], [1, 2], [3, 4])
    assert "more than 4096 characters" in refusal(path, format="parquet", columns=NAMED)


@pytest.mark.long
def test_parquet_of_other_types(tmp_path: Path) -> None:
    import datetime
    import decimal

    day, price = datetime.date(2020, 1, 2), decimal.Decimal("3.00")
    path = parquet(tmp_path, ["u", "i", "r"], [day, day], [b"7", b"\xff"], [price, price])
    ratings = load(source(path, format="parquet", columns=NAMED))
    assert ratings.user_ids is not None
    assert ratings.item_ids is not None
    assert ratings.user_ids.tolist() == ["2020-01-02"]
    assert ratings.item_ids.tolist() == ["0x37", "0xff"]
    assert ratings.value.tolist() == [3, 3]
    path = parquet(tmp_path, ["u", "i", "r"], [1, 2], [None, None], [-0.0, 0.0])
    assert "row 1, column 'i': the item id" in refusal(
        path, format="parquet", columns=NAMED, scale={"minimum": 0}
    )
    path = parquet(tmp_path, ["u", "i", "r"], [1, 2], [True, False], [-0.0, 0.0])
    options = {"columns": NAMED, "scale": {"minimum": 0}}
    assert load(source(path, format="parquet", **options)).value.tolist() == [0, 0]


def test_text_that_is_none_is_refused(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    raw = pa.array([b"a", b"\xff\xfe"])
    broken = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    path = parquet(tmp_path, ["u", "i", "r"], broken, [1, 2], [3, 3])
    sentence = refusal(path, format="parquet", columns=NAMED)
    assert "r is not a readable parquet" in sentence


# Byte 12 is the number of distinct values; bytes 73 and 74 encode the index of each row.
@pytest.mark.cases(("at", "byte"), [(12, 0), (12, 4), (73, 4), (74, 8)])
def test_a_number_that_leads_to_no_value_is_refused(tmp_path: Path, at: int, byte: int) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    ids = pa.array(["a", "b", "c", "d"]).dictionary_encode()
    ones = pa.array([1, 1, 1, 1])
    pq.write_table(pa.table({"u": ids, "i": ones, "r": ones}), tmp_path / "r", compression="none")
    content = bytearray((tmp_path / "r").read_bytes())
    content[at] = byte
    sentence = refusal(written(tmp_path, content), format="parquet", columns=NAMED)
    assert "r is not a readable parquet" in sentence


@pytest.mark.long
def test_parquet_of_many_columns_is_refused(tmp_path: Path) -> None:
    count = 10_001
    path = parquet(tmp_path, [f"c{column}" for column in range(count)], *([[1]] * count))
    assert "has more than 10000 columns" in refusal(path, format="parquet")


# --- text


@pytest.mark.cases(
    ("content", "options", "message"),
    [
        (
            "1," * 400_000 + "1\n",
            {},
            "line 1: the line has more than 10000 fields: give a file with",
        ),
        ("," * 400_000 + "\n1,1,3\n", {}, "line 1: the line has more than 10000 fields"),
        ("1,1,3\n" + "," * 400_000 + "\n", {}, "line 2: the line does not have the 3 fields"),
        (",\n", {"header": True}, "is empty: give a file with rows"),
        (",,\n , \n", {}, "is empty"),
        ("a\u2028b;c\n", {}, "does not split the first line: .* such as ';'"),
        ("a\u2028,b,3\nc,d\n", {}, "line 2: the line does not have the 3 fields"),
        ("1,2,3\x0b\x0c\x1c\x85\u2029\n1,2\n", {}, "line 2: the line does not have the 3 fields"),
        ("1,2,3\r4,5,3\r7,8\r", {}, "line 3: the line does not have the 3 fields"),
        (b"1,2,3\r4,5,3\r\n7,\xff,3\r", {}, "line 3: the byte 0xff is not UTF-8"),
        (f"1,2,{'9' * 5000}\n", {}, r"line 1, column 2 .* the rating '9{39}… is not a finite"),
        (
            "1,2,1e300\n",
            {"scale": None, "binarize": 2},
            "the rating '1e300' is not a finite number",
        ),
        ("1,2,1e300\n", {"scale": None}, "the rating '1e300' is not a finite number"),
        (f"1,{'x' * 900_000},9\n", {}, "the rating '9' lies outside"),
        (f"1,{'x' * 2_200_000},3\n", {}, "a line is longer than 1 MiB"),
        ('1,"2' + "a\n" * 200_000, {}, "line 1: the quote that opens in it is never closed"),
        ('1,2,3\n1,"2,3\n"x",4,5\n', {}, "line 2: the line does not have"),
        ('1,2,3\n4,5,"6\n7,8,9\n', {}, "line 2: the quote that opens in it is never closed"),
        ("1,2,\x1b]0;x\x07\x9b31m\u202e\n", {}, r"the rating '\\x1b]0;x\\x07\\x9b31m\\u202e' is"),
        ("a\x1b[2J,b\n1,2\n", {"header": True, "columns": {"user": "a\x1b[2K", "item": 1}}, "mean"),
        ("1,2,3\n" * 2, {}, "user '1', item '2' at line 1"),
        (
            f"\x1b{'x' * 99},2,3\n" * 2,
            {},
            r"user '\\x1bx+… item '2' at line 1".replace("… ", "…, "),
        ),
    ],
)
def test_hostile_text(
    tmp_path: Path, content: str | bytes, options: dict[str, Any], message: str
) -> None:

    if "columns" in options:
        options = options | {"scale": None}
    assert re.search(message, refusal(written(tmp_path, content), **options))


def test_ids_with_odd_characters_are_told_apart(tmp_path: Path) -> None:
    path = written(tmp_path, "1\x00a,2,3\n1\x00b,2,3\n1\u2028,2,3\n")
    assert load(source(path)).n_users == 3


@pytest.mark.long
def test_hostile_names_in_messages(tmp_path: Path) -> None:
    folder = tmp_path / ("d\x1b[31m\n" + "x" * 200)
    folder.mkdir()
    sentence = refusal(written(folder, "1,2,9\n"))
    assert sentence.startswith("…")
    assert "x/r, line 1" in sentence
    assert "does not exist" in refusal(tmp_path / "\x1b]0;x\n")
    path = matlab(tmp_path, x=ROWS)
    options = {"format": "matlab", "variable": "v\x1b" + "y" * 4000}
    assert r"the variable 'v\x1byyy" in refusal(path, **options)
    assert refusal(path, columns={"user": 0, "item": 1, "rating": 9}, format="matlab")


def test_hostile_categories_and_links_in_messages(tmp_path: Path) -> None:
    columns = {**COLUMNS, "category": 3}
    path = written(tmp_path, "1,2,3,\x1b[31m" + "x" * 900 + "\n")
    sensitive = {"categories": ["\x1b[32m" + "y" * 900]}
    sentence = refusal(path, columns=columns, sensitive=sensitive)
    assert r"category '\x1b[32my" in sentence
    assert r"choose from \x1b[31mx" in sentence
    links = tmp_path / "links"
    links.write_text("\x1b[31m" + "x" * 900 + ",7\n")
    assert r"a link is between '\x1b[31mx" in refusal(path, trust={"path": str(links)})


# --- valid and truncated files


@pytest.mark.long
def test_a_matlab_file_of_several_arrays_is_read_by_name(tmp_path: Path) -> None:
    path = matlab(tmp_path, **{f"x{count}": ROWS for count in range(30)})
    assert refusal(path, format="matlab").endswith("'x8', 'x9'")
    ratings: Ratings = load(source(path, format="matlab", variable="x7"))
    assert ratings.value.tolist() == [2, 4]


def test_a_file_that_is_cut_anywhere_is_a_sentence(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        file.write(b"1,2,3\n1,3,3\n")
    for end in range(2, len(packed.getvalue())):
        path = written(tmp_path, packed.getvalue()[:end])
        assert "complete gzip" in refusal(path)
