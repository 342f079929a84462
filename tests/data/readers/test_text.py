"""The quick reader of usual text gives what the reader of any text gives, or leaves the file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpaudit.core.errors import DataError
from dpaudit.data import DataSource, Ratings, limits, load
from dpaudit.data.readers import text
from dpaudit.data.readers.cells import RawTable
from dpaudit.data.source_parts import Layout

COLUMNS: dict[str, Any] = {"user": 0, "item": 1, "rating": 2}
relaxed = settings(
    deadline=None,
    max_examples=300,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
WORDS = [
    "1", "2", "30", "-4", "007", "3.5", "abc", "é", "\u3000", " ", "", "\x1c", "\x1f", "\0", '"',
    '""', '"a"', '"a,b"', '"1', 'b"', "\ufeff", "\r", "\r\n", "\n", ",", "::", "::1", "x" * 5000,
    "\u2028",
]  # fmt: skip
LAYOUTS = [
    Layout(",", True, {"user": "1", "item": 1}),
    Layout("::", False, COLUMNS),
    *(
        pytest.param(layout, marks=pytest.mark.long)
        for layout in (
            Layout(",", False, COLUMNS),
            Layout(";", False, {"user": 1, "item": 0}),
            Layout(" ", False, COLUMNS),
            Layout("\t", True, {"user": 1, "item": 0, "rating": 2}),
            Layout("\u2028", False, COLUMNS),
            Layout("blanks", False, COLUMNS),
            Layout(",", True, {"user": 1, "item": 0, "rating": 2}, skip=2),
        )
    ),
]


def outcome(table: RawTable) -> dict[str, Any]:
    cells = {what: np.asarray(cells).tolist() for what, cells in table.cells.items()}
    count = len(cells["user"])
    return cells | {"places": [table.place(row) for row in range(count)], "path": table.path}


def same(path: Path, layout: Layout) -> bool:
    """Whether the text is usual; if so, both readers must agree."""
    table = text.read_usual(path, layout)
    if table is None:
        return False
    assert outcome(table) == outcome(text.read_any(path, layout))
    return True


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
@relaxed
@given(
    lines=st.lists(st.lists(st.sampled_from(WORDS), min_size=2, max_size=4), max_size=6),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    last=st.booleans(),
)
def test_hostile_text(
    tmp_path: Path, layout: Layout, lines: list[list[str]], end: str, last: bool
) -> None:
    text = end.join(layout.delimiter.join(line) for line in lines) + end * last
    (tmp_path / "r").write_bytes(text.encode())
    same(tmp_path / "r", layout)


@pytest.mark.long
@pytest.mark.parametrize("layout", LAYOUTS)
@relaxed
@given(
    content=st.text("12.é abX-", max_size=3).flatmap(
        lambda head: st.lists(st.tuples(*[st.text("12.é abX-", max_size=4)] * 3), min_size=1)
    ),
    noise=st.lists(st.tuples(st.integers(0, 200), st.binary(min_size=1, max_size=2)), max_size=1),
)
def test_text_with_stray_bytes(
    tmp_path: Path,
    layout: Layout,
    content: list[tuple[str, str, str]],
    noise: list[tuple[int, bytes]],
) -> None:
    head = "1" + layout.delimiter + "b" + layout.delimiter + "c\n"
    text = (head + "".join(layout.delimiter.join(line) + "\n" for line in content)).encode()
    for at, stray in noise:
        text = text[:at] + stray + text[at:]
    (tmp_path / "r").write_bytes(text)
    same(tmp_path / "r", layout)


@pytest.mark.long
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("line", [60, 1000, 2**20])
def test_many_parts_and_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quote: str, end: str, line: int
) -> None:
    monkeypatch.setattr(limits, "LINE", line)
    draws = np.random.default_rng(line)
    users, items = draws.integers(0, 10**9, (2, 1500)).tolist()
    rows = [
        f"{user},{quote}é{item}-{'x' * (item % 20)}{quote},{item % 9}{end}"
        for user, item in zip(users, items, strict=True)
    ]
    (tmp_path / "r").write_text("".join(rows), newline="")
    assert same(tmp_path / "r", Layout(",", False, COLUMNS))


def test_values_that_share_a_hash_are_read_as_any_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text._Values, "add", lambda *_: False)
    (tmp_path / "r").write_text("1,2,3\n")
    assert not same(tmp_path / "r", Layout(",", False, COLUMNS))
    assert len(read(tmp_path / "r")) == 1


# --- the whole of loading, both ways


def read(path: Path, **options: Any) -> Ratings:
    known = {"format": "delimited", "path": str(path), "columns": COLUMNS, "scale": {}}
    return load(DataSource.model_validate(known | options))


def loaded(path: Path, **options: Any) -> Any:
    """What loading gives: the ratings, or the sentence of the refusal."""
    try:
        ratings = read(path, **options)
    except DataError as error:
        return str(error)
    assert ratings.user_ids is not None
    assert ratings.item_ids is not None
    return ratings.digest, ratings.user_ids.tolist(), ratings.item_ids.tolist(), ratings.repairs


def both_ways(path: Path, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Any:
    quickly = loaded(path, **options)
    with monkeypatch.context() as patch:
        patch.setattr(text, "read_usual", lambda *_: None)
        assert loaded(path, **options) == quickly
    return quickly


BAD_LINES = [
    "7,8,x", "7,8,", "7,,3", " ,8,3", "7,8,9", "7,8,2.5", "7,8", "7,8,3,4", "7,8,nan", "7,8,1_0",
    "1,1,3", "\x7f,8,inf", '7,8,"3', '7,"8""",x', "", "7,8,\0", "7,8,3\r9", "7,8,1e999", "u,i,r",
]  # fmt: skip


@pytest.mark.cases("header", [False, True])
@pytest.mark.cases("bad", BAD_LINES)
def test_one_bad_line_gives_the_same_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str, header: bool
) -> None:
    rows = [f"{user},{item},{1 + (user + item) % 5}" for user in range(30) for item in range(30)]
    for at in (0, 431, len(rows)):
        lines = ["u,i,r"] * header + [*rows[:at], bad, *rows[at:]]
        (tmp_path / "r").write_text("\n".join(lines) + "\n", newline="")
        both_ways(tmp_path / "r", monkeypatch, header=header)


TOKENS = st.sampled_from(["1", "2", "3", "4", "05", "a", "b ", " b", "", "é", "3.0", "9"])


@pytest.mark.long
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scale": None},
        {"scale": None, "binarize": 3},
        {"on_duplicate": "last"},
        {"on_duplicate": "mean"},
        {"outside_scale": "drop", "on_duplicate": "mean", "least_raters": 2},
        {"columns": {**COLUMNS, "sensitive": 3}, "on_duplicate": "mean"},
        {"columns": {**COLUMNS, "category": 3}, "sensitive": {"categories": [1]}},
    ],
)
@settings(relaxed, max_examples=60)
@given(
    rows=st.lists(
        st.tuples(TOKENS, TOKENS, st.sampled_from("1234455"), st.sampled_from(["0", "1"])),
        min_size=1,
        max_size=12,
    ),
    broken=st.lists(st.tuples(st.integers(0, 11), TOKENS), max_size=1),
)
def test_loading_both_ways(
    tmp_path: Path,
    options: dict[str, Any],
    rows: list[tuple[str, str, str, str]],
    broken: list[tuple[int, str]],
) -> None:
    lines = [list(row) for row in rows]
    for at, token in broken:
        lines[at % len(lines)][2] = token
    (tmp_path / "r").write_text("".join(",".join(line) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        both_ways(tmp_path / "r", patch, **options)


# --- Parquet


def wide(draws: np.random.Generator) -> list[Any]:
    return [value * 10**15 for value in draws.integers(0, 30, 200).tolist()]


COLUMN_KINDS: dict[str, Callable[[np.random.Generator], Any]] = {
    "near": lambda draws: draws.integers(-20, 20, 200),
    "unsigned": lambda draws: draws.integers(0, 40, 200).astype(np.uint64) + np.uint64(2**63),
    "wide": wide,
    "text": lambda draws: [f"u{value}" for value in draws.integers(0, 40, 200)],
    "floats": lambda draws: draws.integers(0, 40, 200).astype(np.float64),
}


@pytest.mark.long
@pytest.mark.parametrize("kind", COLUMN_KINDS)
def test_parquet_is_read_as_the_same_text(tmp_path: Path, kind: str) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    draws = np.random.default_rng(1)
    users, items = COLUMN_KINDS[kind](draws), draws.integers(1, 90, 200)
    ratings = draws.integers(1, 6, 200)
    table = pa.table({"u": users, "i": items, "r": ratings})
    pq.write_table(table, tmp_path / "r.parquet", row_group_size=70)
    named = [int(user) if isinstance(user, float) else user for user in table["u"].to_pylist()]
    rows = zip(named, items.tolist(), ratings.tolist(), strict=True)
    (tmp_path / "r").write_text("".join(f"{user},{item},{value}\n" for user, item, value in rows))
    options: dict[str, Any] = {"on_duplicate": "last"}
    content = loaded(tmp_path / "r.parquet", format="parquet", **options)
    assert content == loaded(tmp_path / "r", **options)


@pytest.mark.long
def test_parquet_values_without_a_row_are_no_users(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    users = pa.DictionaryArray.from_arrays(pa.array([2, 0, 2, 3]), ["a", "unused", "b", "b"])
    table = pa.table({"u": users, "i": [9, 4, 7, 2000], "r": [1, 2, 3, 5]})
    pq.write_table(table, tmp_path / "r")
    ratings = read(tmp_path / "r", format="parquet")
    assert ratings.user_ids is not None
    assert ratings.item_ids is not None
    assert ratings.user_ids.tolist() == ["a", "b"]
    assert ratings.item_ids.tolist() == ["4", "7", "9", "2000"]
    assert ratings.value.tolist() == [2, 3, 1, 5]


def test_codes_of_a_reader_that_lead_nowhere_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "r").write_text("x")
    columns = '"distinct": [[1], [1]], "arrays": [["<i4", 1], ["<i4", 1]]'
    head = '{"names": ["u", "i"], "width": 2, ' + columns + "}\n"
    script = tmp_path / "child.py"
    for code in (1, -2):
        reply = head.encode() + np.array([0, code], np.int32).tobytes()
        script.write_text(f"import sys; sys.stdout.buffer.write({reply!r})")
        monkeypatch.setattr("dpaudit.data.readers.binary._SCRIPT", script)
        assert "(its reader crashed)" in loaded(
            tmp_path / "r", format="parquet", columns={"user": 0, "item": 1}, scale=None
        )
