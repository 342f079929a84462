"""`dpaudit epsilon`: numbers on the command line, counts, and files of scores."""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fuzz_checks import command  # type: ignore[import-not-found]
from fuzz_harness import Case, Make  # type: ignore[import-not-found]
from fuzz_values import NUMBERS, TEXTS, token, torn  # type: ignore[import-not-found]

_COUNTS = [0, 1, 2, 3, 10, 1000, 10**6, 10**9, 10**12, 10**18, 2**62, 2**63 - 1, 2**63, -1]
_LEVELS = [0.5, 0.9, 0.95, 1 - 1e-9, 1 - 1e-16, 1e-300, 1e-9, 0.0, 1.0, -0.5, math.nan, math.inf]
_DELTAS = [0.0, 1e-300, 1e-9, 1e-5, 0.1, 0.5, 1 - 1e-16, 1.0, -1e-9, math.nan, 2.0]
_SCORES = [0.0, -0.0, 1.0, 2.0, -1.0, 5e-324, 1e-300, 1e300, -1e300, 1.7e308, 0.1]
_OF_COUNTS = ("clopper-pearson", "gdp")
_OF_SCORES = ("label", "gdp", "two-sample", "one-run")
_ONE_RUN = ("one-run", "one-run-gdp")
_TYPES = ("f8", "f4", "f2", "i8", "u8", "i1", "?", ">f8", "c16", "U3", "S3", "M8[s]", "O", "f8,i4")


def maker(folder: Path) -> Make:
    files = folder / "absent.csv", folder / "present.csv"
    arrays = folder / "absent.npy", folder / "present.npy"

    def make(rng: Random) -> Case:
        way = rng.random()
        options = _options(rng)
        if way < 0.35:
            counts = ",".join(_number(rng) for _ in range(4 if rng.random() < 0.9 else 3))
            options += _method(rng, _OF_COUNTS)
            return _case([], ["--counts", counts, *options])
        if way < 0.6:
            numbers = ",".join(_number(rng) for _ in range(3))
            return _case([], ["--one-run", numbers, *options, *_method(rng, _ONE_RUN)])
        csv = way < 0.8
        made = [(path, (_csv if csv else _npy)(rng)) for path in (files if csv else arrays)]
        names: list[object] = ["--scores-out", made[0][0], "--scores-in", made[1][0]]
        return _case(made, [*names, *options, *_method(rng, _OF_SCORES)])

    return make


def _case(files: list[tuple[Path, bytes]], arguments: list[object]) -> Case:
    arguments = ["epsilon", *arguments]

    def attempt() -> str | None:
        for path, content in files:
            path.write_bytes(content)
        said: str | None = command(*arguments)
        return said

    words = [each.name if isinstance(each, Path) else f"{each}" for each in arguments]
    return Case(lambda: f"{words} {[content for _, content in files]}", attempt)


def _options(rng: Random) -> list[object]:
    options: list[object] = []
    if rng.random() < 0.5:
        options.append(f"--confidence={rng.choice(_LEVELS)}")
    if rng.random() < 0.5:
        options.append(f"--delta={rng.choice(_DELTAS)}")
    if rng.random() < 0.3:
        options.append(f"--seed={rng.choice(NUMBERS)}")
    if rng.random() < 0.3:
        options.append("--format=json")
    return options


def _method(rng: Random, names: tuple[str, ...]) -> list[object]:
    way = rng.random()
    if way < 0.2:
        return []
    return [f"--method={rng.choice(TEXTS if way < 0.25 else names)}".replace("\0", "")]


def _number(rng: Random) -> str:
    return f"{rng.choice(_COUNTS if rng.random() < 0.9 else [*NUMBERS, *TEXTS])}".replace("\0", "")


def _csv(rng: Random) -> Any:
    size = rng.choice([0, 1, 2, 5, 20, 60])
    text = "\n".join(f"{value}" for value in _values(rng, size)).encode()
    way = rng.random()
    if way < 0.3:
        return torn(rng, b"score\n" + text)
    if way < 0.4:
        return token(rng) + b"\n" + text
    return b",".join([b"1"] * 1_000_000) if way < 0.402 else text


def _values(rng: Random, size: int) -> list[Any]:
    if rng.random() < 0.3:
        return [rng.choice(_SCORES)] * size
    if rng.random() < 0.3:
        return [rng.choice(_SCORES) for _ in range(size)]
    return [rng.gauss(0, 1) for _ in range(size)]


def _npy(rng: Random) -> Any:
    size = rng.choice([0, 1, 2, 5, 20, 60])
    made = io.BytesIO()
    kind = rng.choice(_TYPES)
    array = np.zeros(size, kind)
    if np.dtype(kind).kind in "fiu":
        with np.errstate(all="ignore"):
            array = np.array(_values(rng, size)).astype(kind)
    if rng.random() < 0.1:
        array = array.reshape(rng.choice([(1, -1), (-1, 1), (1, -1, 1)])) if size else array
    np.save(made, array, allow_pickle=True)
    data = made.getvalue()
    way = rng.random()
    if way < 0.3:
        return torn(rng, data)
    return _headed(rng, data) if way < 0.6 else data


def _headed(rng: Random, data: bytes) -> bytes:
    """The same numbers under a header that is wrong."""
    shape = rng.choice(
        ["(10**18,)", "(1000000000000,)", "(-1,)", "(9" + "9" * 30 + ",)", "()", "(2,"]
    )
    descr = rng.choice(
        ["'<f8'", "'<f8'", "'|O'", "[('a', '<f8')]", "'<M8'", "'\\x1b[1m'", "nan", "'<U9'"]
    )
    order = rng.choice(["False", "True", "'x'", json.dumps("[" * 500)])
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}".encode() + b"\n"
    if rng.random() < 0.1:
        header = b"{" * 5000 + b"\n"
    return data[:8] + len(header).to_bytes(2, "little") + header + data[128:]
