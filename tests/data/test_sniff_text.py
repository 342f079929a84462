"""Separators, comments and headers of text are guessed, and the guess is what the reader needs."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.readers.load import load
from dpaudit.data.sniff import StatedLayout, sniff
from dpaudit.data.source_parts import Columns

ROWS = [
    (user, 100 + item, 1 + (user + item) % 5)
    for user in range(12)
    for item in range(20)
    if (user * 3 + item) % 4
]


def lines(form: str) -> str:
    return "".join(form.format(*row) + "\n" for row in ROWS)


@pytest.mark.cases(
    ("text", "keys"),
    [
        (lines("{0}    {1}   {2}"), {"delimiter": "blanks"}),
        (lines("  {0:<5}{1:<9}{2}"), {"delimiter": "blanks"}),
        ("user_id   item_id rating\n" + lines("{0} {1}   {2}"), {"delimiter": "blanks"}),
        (lines("{0}\t\t{1}\t\t{2}"), {"delimiter": "\t\t"}),
        (lines("{0}\t {1}\t {2}"), {"delimiter": "\t"}),
        (lines("{0} {1} {2}"), {"delimiter": " "}),
        (lines("{0} , {1} , {2}"), {"skip": 0}),
        ("% bip weighted\n% 180 12 20\n" + lines("{0} {1} {2} 978824268"), {"skip": 2}),
        ("% bip weighted\n" + lines("{0} {1} {2}"), {"skip": 1, "delimiter": " "}),
        ("% bip\n" + lines("{0} {1}\t{2}\t978824268"), {"skip": 1, "delimiter": "blanks"}),
        ("# made by hand\n\n# 2, 3 and 4\n" + lines("{0},{1},{2}"), {"skip": 3}),
        ("// export\nuser,item,rating\n" + lines("{0},{1},{2}"), {"skip": 1, "header": True}),
        ("#user,item,rating\n" + lines("{0},{1},{2}"), {"skip": 0, "header": True}),
        ("# a, b\n#uid,iid,stars\n" + lines("{0},{1},{2}"), {"skip": 1, "header": True}),
        (lines("#{0},i{1},{2}"), {"skip": 0, "header": False}),
        ("#a,i1,3\n" + lines("u{0},i{1},{2}"), {"skip": 0, "header": False}),
        ("user_id:token\titem_id:token\trating:float\n" + lines("{0}\t{1}\t{2}"), {"header": True}),
        ('"user","item","rating"\n' + lines('"{0}","{1}, ""x""",{2}'), {"header": True}),
        ("user;item;rating\r\n" + lines("{0};{1};{2}").replace("\n", "\r\n"), {"delimiter": ";"}),
        (",user,item,rating\n" + lines("0,{0},{1},{2}"), {"header": True}),
    ],
)
@pytest.mark.cases("packed", [False, True])
def test_a_layout_is_read_as_guessed(
    tmp_path: Path, text: str, keys: dict[str, Any], packed: bool
) -> None:
    path = tmp_path / "r"
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if packed else text.encode())
    guess = sniff(path)
    ratings = load(guess.source)
    extra = text.startswith("#a,")
    assert len(ratings) == len(ROWS) + extra
    assert (ratings.n_users, ratings.n_items) == (12 + extra, 20 + extra)
    assert (ratings.scale.minimum, ratings.scale.maximum) == (1, 5)
    assert {key: getattr(guess.source, key) for key in keys} == keys


RECORDS = [
    {"reviewerID": f"A{user}", "asin": f"B{item}", "helpful": [0, 1], "overall": float(rating)}
    for user, item, rating in ROWS
]


@pytest.mark.cases("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_json_lines(tmp_path: Path, encoding: str) -> None:
    text = "\n".join(map(json.dumps, RECORDS))
    (tmp_path / "r.json").write_bytes(text.encode(encoding))
    guess = sniff(tmp_path / "r.json")
    assert guess.layout.startswith("JSON lines, user = 'reviewerID', item = 'asin', rating = ")
    ratings = load(guess.source)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (len(ROWS), 12, 20)


@pytest.mark.cases("encoding", ["utf-16", "utf-32", "cp1252", "utf-16-le"])
def test_other_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(("user,item,rating\n" + lines("ü{0},{1},{2}")).encode(encoding))
    marked = encoding in {"utf-16", "utf-32"}
    if not marked:
        with pytest.raises(DataError, match="dpaudit init --encoding"):
            load(sniff(path).source)
    guess = sniff(path, StatedLayout(encoding=None if marked else encoding))
    assert guess.source.encoding == (None if marked else encoding)
    ratings = load(guess.source)
    assert len(ratings) == len(ROWS)
    assert ratings.user_ids is not None
    assert ratings.user_ids[0] == "ü0"


def test_a_header_that_is_repeated_is_still_one(tmp_path: Path) -> None:
    rows = lines("{0},{1},{2}")
    (tmp_path / "r.csv").write_text(f"who,what,how\n{rows}who,what,how\n{rows}")
    guess = sniff(tmp_path / "r.csv", StatedLayout(Columns(user=0, item=1, rating=2)))
    assert guess.source.header
    assert [repair.count for repair in load(guess.source).repairs] == [1, len(ROWS)]


def test_thousands_of_columns_with_names(tmp_path: Path) -> None:
    names = ["user", *(f"x{n}" for n in range(5000)), "item"]
    rows = ["1," + "0," * 5000 + f"{item}" for item in range(4)]
    (tmp_path / "r.csv").write_text("\n".join([",".join(names), *rows]))
    assert len(load(sniff(tmp_path / "r.csv").source)) == 4
