"""Files of ratings and of links, in every format that is read."""

from __future__ import annotations

import gzip
import io
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from fuzz_checks import call  # type: ignore[import-not-found]
from fuzz_harness import Case, Make  # type: ignore[import-not-found]
from fuzz_values import KEYS, NUMBERS, TEXTS, token, torn  # type: ignore[import-not-found]
from pydantic import ValidationError
from scipy.io import savemat

from dpaudit.data import DataSource, load
from dpaudit.data.readers import untrusted

_COLUMNS = {"user": 0, "item": 1, "rating": 2}
_NAMED = {"user": "user", "item": "item", "rating": "rating"}
_LINKS = "1 2\n2 3\n3 1\n"
_SCALES: list[Any] = [
    None,
    {"minimum": 0, "maximum": 0},
    {"minimum": 0, "maximum": 1e-9, "step": 1e-9},
    {"minimum": -1e6, "maximum": 1e6, "step": 1e3},
    {"minimum": 1, "maximum": 5, "step": 0.5},
]
_DELIMITERS = [",", ";", "\t", "::", " ", "|", "\u2028", "é", '"', "\n", "\0", "1", "\x1f", "||"]
_BOMB = 2**31
# So many of the files that a process of its own unpacks are given to one that starts anew, which
# takes half a second; the others to a fork, which runs the same code.
_STARTED = 0.003
_start = subprocess.Popen


def maker(folder: Path) -> Make:
    file, links = folder / "ratings", folder / "links"
    for name in ("filmtrust", "ciao", "ciaodvd", "epinions"):
        (folder / name).mkdir()

    kinds: list[Callable[[Random], tuple[dict[str, Any], dict[Path, bytes]]]] = [
        lambda rng: _delimited(rng, file),
        lambda rng: _delimited(rng, file),
        lambda rng: _movielens(rng, file),
        lambda rng: _linked(rng, file, links),
        lambda rng: _folder(rng, folder),
        lambda rng: _parquet(rng, file),
        lambda rng: _parquet(rng, file),
        lambda rng: _matlab(rng, file),
    ]

    def make(rng: Random) -> Case:
        if rng.random() < 0.0002:
            return _case(*_bomb(rng, file))
        options, files = rng.choice(kinds)(rng)
        if rng.random() < 0.3:
            options = {**options, **_option(rng)}
        return _case(options, files, started=rng.random() < _STARTED)

    return make


def _case(options: dict[str, Any], files: dict[Path, bytes], *, started: bool = True) -> Case:
    def attempt() -> str | None:
        setattr(subprocess, "Popen", _start if started else _Fork)  # noqa: B010  mypy forbids the rest
        for path, content in files.items():
            path.write_bytes(content)
        try:
            source = DataSource(**options)
        except ValidationError:
            return None
        said: str | None = call(lambda: load(source))
        return said

    shown = {path.name: content for path, content in files.items()}
    return Case(lambda: f"{options} {shown}", attempt)


class _Fork:
    """Stand for `subprocess.Popen` of the script that unpacks files."""

    def __init__(self, command: list[str], *, stdin: BinaryIO, **options: Any) -> None:
        reader, writer = os.pipe()
        self.child = os.fork()
        if not self.child:
            try:
                _unpack(command[-1], stdin, writer)
            finally:
                os._exit(0)
        os.close(writer)
        self.stdout = open(reader, "rb")  # noqa: SIM115

    def kill(self) -> None:
        os.kill(self.child, signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        self.stdout.close()
        os.waitpid(self.child, 0)


def _unpack(request: str, stdin: BinaryIO, writer: int) -> None:
    """In the fork, which may take as much memory as a process that starts anew."""
    os.dup2(stdin.fileno(), 0)
    os.dup2(writer, 1)
    sys.stdin, sys.stdout, sys.argv = open(0), open(1, "w"), ["", request]  # noqa: SIM115
    with open("/proc/self/statm") as file:
        before = int(file.read().split()[0]) * resource.getpagesize()
    bound = untrusted._bound
    setattr(untrusted, "_bound", lambda most: bound(most + before))  # noqa: B010
    untrusted.main()


def _option(rng: Random) -> dict[str, Any]:
    options: list[dict[str, Any]] = [
        {"scale": rng.choice(_SCALES)},
        {"on_duplicate": rng.choice(["last", "mean", "error"])},
        {"outside_scale": "drop"},
        {"binarize": rng.choice([0, -1e6, 3, 1e6])},
        {"sensitive": {"share": rng.choice([0, 0.5, 1e-300, 1])}},
        {"sensitive": {"categories": [rng.choice([0, 1, 2**70, *TEXTS[5:8]])]}},
    ]
    return rng.choice(options)


def _lines(rng: Random, delimiter: str, header: bool, columns: int = 3) -> Any:
    rows = [[rng.randrange(1, 9) for _ in range(columns)] for _ in range(rng.choice((1, 3, 8)))]
    for number, row in enumerate(rows):
        row[:3] = [number % 4, number, rng.randrange(1, 6)]
    lines = [delimiter.join(map(str, row)) for row in rows]
    names = ["user", "item", "rating", "category", "when"][:columns]
    text = "\n".join([delimiter.join(names)] * header + lines) + "\n"
    return _broken(rng, text.encode(errors="surrogatepass"), delimiter)


def _broken(rng: Random, data: bytes, delimiter: str = ",") -> Any:
    way = rng.random()
    if way < 0.25:
        fields = data.split(delimiter.encode(errors="surrogatepass") or b",")
        fields[rng.randrange(len(fields))] = token(rng)
        return delimiter.encode().join(fields)
    if way < 0.35:
        return rng.choice([b"", token(rng) + b"\n"]) + data.replace(
            b"\n", rng.choice([b"\r", b"\r\n"])
        )
    if way < 0.4:
        return (
            rng.choice([delimiter.encode(), b",", b"\n\n", b"\xef\xbb\xbf", b'"', b"", b" "])
            + b"\n"
        )
    if way < 0.45:
        return torn(rng, gzip.compress(data, mtime=0))
    if way < 0.4501:
        return delimiter.encode() * 1_000_000 + b"\n" + data
    return torn(rng, data)


def _delimited(rng: Random, file: Path) -> tuple[dict[str, Any], dict[Path, bytes]]:
    delimiter, header = rng.choice(_DELIMITERS), rng.random() < 0.5
    columns: dict[str, Any] = dict(_NAMED if header and rng.random() < 0.7 else _COLUMNS)
    width = rng.choice((3, 3, 5))
    for name in rng.sample(["category", "sensitive"], rng.choice((0, 0, 1))):
        columns[name] = width - 1
    if rng.random() < 0.1:
        columns[rng.choice(list(columns))] = rng.choice([0, 7, 10**18, 2**63, *KEYS[1:]])
    if rng.random() < 0.1:
        del columns["rating"]
    options = {"format": "delimited", "path": str(file), "header": header}
    content = {file: _lines(rng, delimiter, header, width)}
    return {**options, "delimiter": delimiter, "columns": columns}, content


def _movielens(rng: Random, file: Path) -> tuple[dict[str, Any], dict[Path, bytes]]:
    name, delimiter = rng.choice(
        [("movielens-100k", "\t"), ("movielens-1m", "::"), ("movielens-csv", ",")]
    )
    data = _lines(rng, delimiter, header=False)
    if name == "movielens-csv":
        data = _broken(rng, b"userId,movieId,rating,timestamp\n1,2,3.5,9\n2,2,4.0,9\n")
    return {"format": name, "path": str(file)}, {file: data}


def _linked(rng: Random, file: Path, links: Path) -> tuple[dict[str, Any], dict[Path, bytes]]:
    content = {file: b"1,1,3\n2,1,4\n3,2,5\n", links: _broken(rng, _LINKS.encode(), " ")}
    trust: dict[str, Any] = {"path": str(links), "delimiter": " ", "mutual": rng.random() < 0.5}
    if rng.random() < 0.3:
        content[links] = _mat(rng, "links", 2)
        trust = {"path": str(links), "format": "matlab"}
    options = {"format": "delimited", "path": str(file), "columns": _COLUMNS, "trust": trust}
    return options, content


def _folder(rng: Random, folder: Path) -> tuple[dict[str, Any], dict[Path, bytes]]:
    name = rng.choice(["filmtrust", "ciaodvd", "ciao", "epinions"])
    here = folder / name
    options = {"format": name, "path": str(here)}
    if name == "filmtrust":
        return options, {
            here / "ratings.txt": _broken(rng, b"1 1 3.5\n2 1 4\n3 2 0.5\n", " "),
            here / "trust.txt": _broken(rng, _LINKS.encode().replace(b"\n", b" 1\n"), " "),
        }
    if name == "ciaodvd":
        return options, {
            here / "movie-ratings.txt": _broken(
                rng, b"1,1,5,2,3,2020\n2,1,5,2,4,2020\n3,2,6,1,5,x\n"
            ),
            here / "trusts.txt": _broken(rng, b"1,2,1\n2,3,1\n"),
        }
    return options, {
        here / "rating.mat": _mat(rng, "rating", 6),
        here / "trustnetwork.mat": _mat(rng, "trustnetwork", 2),
    }


def _parquet(rng: Random, file: Path) -> tuple[dict[str, Any], dict[Path, bytes]]:
    size = rng.choice((0, 1, 3, 20))
    names = ["user", "item", "rating"]
    if rng.random() < 0.1:
        names[rng.randrange(3)] = rng.choice(["user", *KEYS[:3], "\u2028"])
    arrays = [_array(rng, size) if rng.random() < 0.5 else pa.array(range(size)) for _ in names]
    data = io.BytesIO()
    # Not every array can be written; then three plain columns are.
    try:
        pq.write_table(pa.table(arrays, names=names), data)
    except (pa.ArrowException, OSError, ValueError):
        data = io.BytesIO()
        pq.write_table(pa.table([pa.array(range(size))] * 3, names=_plain_names()), data)
    content = torn(rng, data.getvalue()) if rng.random() < 0.5 else data.getvalue()
    columns = rng.choice([_COLUMNS, _NAMED])
    return {"format": "parquet", "path": str(file), "columns": columns}, {file: content}


def _plain_names() -> list[str]:
    return list(_NAMED)


def _array(rng: Random, size: int) -> Any:
    cells: list[Any] = [None] * size
    kinds: list[tuple[Any, Any]] = [
        (pa.int64(), lambda: rng.choice([0, 1, 2**62, 2**63 - 1, -(2**63), None])),
        (pa.uint64(), lambda: rng.choice([0, 2**64 - 1, None])),
        (pa.float64(), lambda: rng.choice([each for each in NUMBERS if isinstance(each, float)])),
        (pa.float16(), lambda: np.float16(rng.choice([0, 1, np.inf]))),
        (pa.string(), lambda: rng.choice([text for text in TEXTS if text != "\ud800"])),
        (pa.binary(), lambda: rng.choice([b"", b"\xff\xfe", b"1"])),
        (pa.bool_(), lambda: rng.random() < 0.5),
        (pa.list_(pa.int64()), lambda: rng.choice([[], [1], None])),
        (pa.list_(pa.int64(), 2), lambda: [1, 2]),
        (pa.struct([("a", pa.int64())]), lambda: {"a": 1}),
        (pa.map_(pa.string(), pa.int64()), lambda: [("a", 1)]),
        (pa.timestamp("ns", "UTC"), lambda: rng.choice([0, 2**62, -(2**62)])),
        (pa.timestamp("s"), lambda: rng.choice([0, 2**40, -(2**40), 2**62])),
        (pa.date32(), lambda: rng.choice([0, 2**31 - 1, -(2**31)])),
        (pa.date64(), lambda: 86_400_000),
        (pa.time64("ns"), lambda: rng.randrange(10**9)),
        (pa.duration("ns"), lambda: rng.randrange(10**9)),
        (pa.decimal128(38, 3), lambda: rng.randrange(10**9)),
        (pa.decimal256(76, -3), lambda: None),
        (pa.null(), lambda: None),
        (pa.dictionary(pa.int8(), pa.string()), lambda: rng.choice(["a", "1", None])),
        (pa.large_string(), lambda: rng.choice(["a", "1", None])),
    ]
    kind, cell = rng.choice(kinds)
    cells = [cell() for _ in range(size)]
    return pa.array(cells, kind)


def _matlab(rng: Random, file: Path) -> tuple[dict[str, Any], dict[Path, bytes]]:
    options: dict[str, Any] = {"format": "matlab", "path": str(file), "columns": _COLUMNS}
    if rng.random() < 0.3:
        options["variable"] = rng.choice(["rating", "x", "[/]"])
    return options, {file: _mat(rng, "rating", 3)}


def _mat(rng: Random, name: str, columns: int) -> bytes:
    rows = np.array([[k % 3 + 1, k + 1, 5, 3, 1, 9][:columns] for k in range(6)], float)
    if columns == 3:
        rows[:, 2] = 4
    way = rng.random()
    if way < 0.3:
        value: Any = rng.choice(
            [
                *(
                    rows * np.nan,
                    rows * 1e300,
                    rows + 0.5,
                    rows.astype(complex),
                    rows[:0],
                    rows[:, :0],
                ),
                *(np.array([["a", "b"]]), np.array([[{}]], object), rows > 1, rows.astype(np.int8)),
                *(rows.astype(np.uint64) + np.uint64(2**63), rows[None], {"a": rows}, rows - 2**62),
                *(rows.astype(np.int64) * 2**60, rows.astype(np.float32) * np.inf, -rows),
            ]
        )
    else:
        value = rows
    made = io.BytesIO()
    options: dict[str, Any] = rng.choice([{"do_compression": True}, {}, {}])
    savemat(made, {name: value, **({"other": rows} if way > 0.95 else {})}, **options)
    # Its header tells the time, and equal seeds are to make equal files.
    data = b"MATLAB 5.0 MAT-file".ljust(116) + made.getvalue()[116:]
    return torn(rng, data) if rng.random() < 0.6 else data


def _bomb(rng: Random, file: Path) -> tuple[dict[str, Any], dict[Path, bytes]]:
    """A small file that unpacks to more than may be used."""
    if rng.random() < 0.5:
        part = b"1,2,3\n" * 2**20
        packed = gzip.compress(part, mtime=0) * (_BOMB // len(part))
        return {"format": "delimited", "path": str(file), "columns": _COLUMNS}, {file: packed}
    rows = 2**20
    table = pa.table([pa.array(np.ones(rows, np.int64))] * 3, names=_plain_names())
    made = io.BytesIO()
    with pq.ParquetWriter(made, table.schema) as writer:
        for _ in range(_BOMB // (24 * rows)):
            writer.write_table(table)
    return {"format": "parquet", "path": str(file), "columns": _COLUMNS}, {file: made.getvalue()}
