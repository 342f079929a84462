"""Prints how fast large files of ratings are read, and the memory that it takes.

    python bench/big_data.py [--users 138493] [--items 26744] [--ratings 20000000] [--folder DIR]

Skewed ratings are written as csv and Parquet, at random and sorted by user, with integer ids and
with ids of text. Each file is read by `load`, and by pyarrow into a table, which is the limit. Each
measurement is a fresh process that first reads a small file, so that imports and compilation do not
count. Rows per second are per second of CPU time, of the process and of those that it starts.
Memory is the peak above that of the small file, over 12 bytes a row: the final columns.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

NAMES = {"user": "user", "item": "item", "rating": "rating"}
SCALE = {"minimum": 0.5, "maximum": 5, "step": 0.5}
Integers = NDArray[np.int64]


def skewed(draws: np.random.Generator, n_users: int, n_items: int, count: int) -> Integers:
    """Distinct pairs `user · n_items + item`, sorted; activity and popularity are power laws."""
    active = np.cumsum(draws.pareto(1.2, n_users) + 1)
    popular = np.cumsum(1 / np.arange(1, n_items + 1) ** 0.8)
    pairs = np.empty(0, np.int64)
    while len(pairs) < count:
        missing = int(1.3 * (count - len(pairs))) + 1000
        user, item = (
            np.searchsorted(weights, draws.random(missing) * weights[-1]).clip(0, len(weights) - 1)
            for weights in (active, popular)
        )
        pairs = np.unique(np.concatenate((pairs, user * n_items + item)))
    kept = np.zeros(len(pairs), np.bool_)
    kept[draws.choice(len(pairs), count, replace=False)] = True
    return pairs[kept]


def write(folder: Path, n_users: int, n_items: int, count: int) -> list[Path]:
    """Write the files; return their paths."""
    draws = np.random.default_rng(1)
    pairs = skewed(draws, n_users, n_items, count)
    items = draws.permutation(n_items)[pairs % n_items] + 1
    ratings = pa.array((draws.integers(1, 11, count) / 2).astype(np.float32))
    ordered = pa.table({"user": pairs // n_items + 1, "item": items, "rating": ratings})
    random = ordered.take(pa.array(draws.permutation(count)))
    named = random
    for column, prefix in (("user", "u"), ("item", "item-")):
        text = pc.binary_join_element_wise(prefix, random[column].cast(pa.string()), "")
        named = named.set_column(named.schema.get_field_index(column), column, text)
    paths = []
    for name, table in (("sorted", ordered), ("random", random), ("random, text", named)):
        plain = pa.csv.WriteOptions(quoting_style="none")
        pa.csv.write_csv(table, folder / f"{name}.csv", plain)
        pq.write_table(table, folder / f"{name}.parquet")
        paths += [folder / f"{name}.csv", folder / f"{name}.parquet"]
    return paths


def ours(path: Path) -> int:
    """Load ratings; return their number."""
    from dpaudit.data.readers.load import load
    from dpaudit.data.source import DataSource

    text = {"format": "delimited", "header": True} if path.suffix == ".csv" else {}
    options = {"format": "parquet", "columns": NAMES, "scale": SCALE, **text}
    return len(load(DataSource.model_validate({**options, "path": str(path)})))


def limit(path: Path) -> int:
    """Read a file with pyarrow on one thread; return the number of rows."""
    if path.suffix == ".csv":
        return len(pa.csv.read_csv(path, pa.csv.ReadOptions(use_threads=False)))
    return len(pq.read_table(path, use_threads=False))


READERS: dict[str, Callable[[Path], int]] = {"dpaudit": ours, "pyarrow": limit}


def used() -> float:
    """Seconds of CPU time of this process and of its ended children."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, kinds))


def resident(what: str) -> int:
    """Bytes of memory of this process: `VmRSS` now, `VmHWM` at its peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))


def measure(path: Path, reader: str) -> None:
    """Print the rows, the seconds and the bytes that reading takes, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / f"small{path.suffix}"
        table = pa.table({"user": [1, 2], "item": [2, 1], "rating": [3.0, 4.0]})
        if path.suffix == ".csv":
            pa.csv.write_csv(table, small)
        else:
            pq.write_table(table, small)
        READERS[reader](small)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # forget the peak
    cpu, start = used(), time.perf_counter()
    rows = READERS[reader](path)
    wall, cpu = time.perf_counter() - start, used() - cpu
    peak = resident("VmHWM") - before
    child = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    found = {"rows": rows, "cpu": cpu, "wall": wall, "peak": peak, "child": child}
    print(json.dumps(found))


def measured(path: Path, reader: str) -> dict[str, Any]:
    """Measure in a fresh process."""
    command = [sys.executable, __file__, "--measure", str(path), reader]
    found: dict[str, Any] = json.loads(
        subprocess.run(command, capture_output=True, check=True).stdout
    )
    return found


def compare(path: Path, rounds: int, rows: int) -> None:
    """Print the medians of the measurements of a file, in turn with the limit; both read all."""
    turns = [{reader: measured(path, reader) for reader in READERS} for _ in range(rounds)]
    for reader in READERS:
        cpu, wall, peak, child = (
            np.median([turn[reader][what] for turn in turns])
            for what in ("cpu", "wall", "peak", "child")
        )
        assert {turn[reader]["rows"] for turn in turns} == {rows}
        print(
            f"{path.name:22}{reader:10}{rows / cpu / 1e6:8.2f} M rows/s of CPU time"
            f"{rows / wall / 1e6:8.2f} of wall time{peak / (12 * rows):8.2f} × the columns"
            f"{child / 1e6:8.0f} MB in the separate process",
            flush=True,
        )


def main() -> None:
    """Write the files, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=138_493)
    parser.add_argument("--items", type=int, default=26_744)
    parser.add_argument("--ratings", type=int, default=20_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where the files are kept")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        measure(Path(asked.measure[0]), asked.measure[1])
        return
    print(f"{asked.users} users × {asked.items} items, {asked.ratings} ratings")
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder /= f"{asked.users}-{asked.items}-{asked.ratings}"
        folder.mkdir(parents=True, exist_ok=True)
        paths = sorted(folder.glob("*.csv")) + sorted(folder.glob("*.parquet"))
        for path in paths or write(folder, asked.users, asked.items, asked.ratings):
            compare(path, asked.rounds, asked.ratings)


if __name__ == "__main__":
    main()
