"""Stores that others have made: with other tables, other types, and trees that never end."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import numpy as np

from dpaudit.execution.store import NAME, opened

IDENTITY = {"code": "a", "seed": "7"}
META = "create table meta (name text primary key, value text not null);"
RESULTS = """create table results (
    key text primary key, stage text not null, size integer not null, seconds real not null,
    kind text not null, value blob not null, digest blob not null"""
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select "
COLUMNS = "i as key, 's' as stage, i as size, 1.0 as seconds, 'k' as kind, x'' as value, x'' as d"
DELETE = "delete from meta"
DEAR = "(length(hex(zeroblob(100000000))))"

# Schemas that run something as soon as they are read or written.
SCHEMAS = {
    "results are a view": f"{META} create view results as {ENDLESS} {COLUMNS} from n;",
    "words are a view": f"{RESULTS}); create view meta as {ENDLESS} i as name, i as value from n;",
    "a further view": f"{META} {RESULTS}); create view more as {ENDLESS} i from n;",
    "a virtual table": f"{META} create virtual table results using fts5(key);",
    "a trigger": f"{META} {RESULTS}); create trigger t after update on meta begin {DELETE}; end;",
    "a generated column": f"{META} {RESULTS}, more as {DEAR});",
    "a check": f"{META} {RESULTS}, check {DEAR});",
    "an index of an expression": f"{META} {RESULTS}); create index i on results (key || stage);",
    "a default": f"{META} {RESULTS}, more default {DEAR});",
    "no tables": "",
}


def filled(folder: Path, count: int = 3) -> Path:
    """Make a store with results."""
    with opened(folder, IDENTITY) as store:
        for number in range(count):
            store.put(f"key {number}", "stage", 1, 0.5, np.arange(5.0))
    return folder / NAME


def made(folder: Path, schema: str) -> Path:
    """Make a file with a schema."""
    with closing(sqlite3.connect(folder / NAME)) as file, file:
        file.executescript(f"create table first (x); drop table first; {schema}")
    return folder / NAME


def endless(folder: Path) -> Path:
    """Make a store whose tree of results has few pages and more rows than anybody can read."""
    path = filled(folder, 2_000)
    with closing(sqlite3.connect(path)) as file:
        [(size,)] = file.execute("pragma page_size").fetchall()
        [(root,)] = file.execute("select rootpage from sqlite_master where name = 'results'")
    pages = bytearray(path.read_bytes())
    count = len(pages) // size
    page = bytes(pages[(root - 1) * size : root * size])
    assert page[0] == 5  # it has children
    places = [int.from_bytes(page[12 + 2 * i : 14 + 2 * i], "big")
              for i in range(int.from_bytes(page[3:5], "big"))]  # fmt: skip
    leaf = page[places[0] : places[0] + 4]
    for depth in range(12):
        child = leaf if depth == 11 else struct.pack(">I", count + depth + 1)
        copy = bytearray(page)
        for place in [8, *places]:
            copy[place : place + 4] = child
        at = (root if depth == 0 else count + depth) - 1
        pages[at * size : (at + 1) * size] = copy
    pages[28:32] = struct.pack(">I", len(pages) // size)
    path.write_bytes(bytes(pages))
    return path


def interrupted(folder: Path, victim: Path | None = None) -> Path:
    """Copy a store as a kill in the midst of a commit leaves it.

    Args:
        folder: a store of it is in its folder `live`, the copy in `cut`.
        victim: a file that the journal names as its super-journal.
    """
    live, cut = filled(folder / "live"), folder / "cut"
    cut.mkdir()
    with closing(sqlite3.connect(live)) as file:
        file.execute("pragma cache_size = 1")
        file.execute("insert into results select key || 'x', stage, size, seconds, kind, "
                     "zeroblob(100000), digest from results")  # fmt: skip
        for path in live.parent.glob(f"{NAME}*"):
            (cut / path.name).write_bytes(path.read_bytes())
    if victim is not None:
        name = str(victim).encode()
        end = struct.pack(">II", len(name), sum(name)) + bytes.fromhex("d9d505f920a163d7")
        with (cut / f"{NAME}-journal").open("ab") as journal:
            journal.write(struct.pack(">I", 2**30 // 4096 + 1) + name + end)
    return cut / NAME
