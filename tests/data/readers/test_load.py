from __future__ import annotations

import gzip
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpaudit.core.errors import DataError
from dpaudit.data import DataSource, Ratings, Scale, load
from dpaudit.data.readers.cells import is_missing

COLUMNS: dict[str, Any] = {"user": 0, "item": 1, "rating": 2}
NAMED: dict[str, Any] = {"user": "u", "item": "i", "rating": "r"}
JSONL: dict[str, Any] = {"format": "jsonl", "columns": NAMED, "scale": {}}
relaxed = settings(
    deadline=None,
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read(folder: Path, content: str | bytes, name: str = "r.csv", **options: Any) -> Ratings:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    known: dict[str, Any] = {"format": "delimited", "path": str(path)}
    if options.get("format", "delimited") == "delimited":
        known |= {"columns": COLUMNS, "scale": {}}
    return load(DataSource.model_validate(known | options))


def triples(ratings: Ratings) -> set[tuple[str, str, float]]:
    assert ratings.user_ids is not None
    assert ratings.item_ids is not None
    users, items = ratings.user_ids[ratings.user], ratings.item_ids[ratings.item]
    return {
        (str(user), str(item), float(value))
        for user, item, value in zip(users, items, ratings.value, strict=True)
    }


# --- what is read


@pytest.mark.cases(
    ("content", "options"),
    [
        ("1,2,3\n1,3,4\n", {}),
        ("\n1,2,3\n  \n\n1,3,4", {}),
        ("1,2,3\r\n1,3,4\r\n", {}),
        ("\ufeff1,2,3\n1,3,4\n", {}),
        ("1, 2 ,3\n1,3, 4.0\n", {}),
        ('"1","2","3"\n1,3,4\n', {}),
        ("1\t2\t3\n1\t3\t4\n", {"delimiter": "\t"}),
        ("1;2;3\n1;3;4\n", {"delimiter": ";"}),
        ("1 2 3 x\n1 3 4 y\n", {"delimiter": " "}),
        ("1§2§3\n1§3§4\n", {"delimiter": "§"}),
        ("r,u,t,i\n3,1,,2\n4,1,,3\n", {"header": True, "columns": NAMED}),
        ("\nr,u,i\n3,1,2\n4,1,3\n", {"header": True, "columns": {**COLUMNS, **NAMED}}),
        ("x,y,z\n1,2,3\n1,3,4\n", {"header": True}),
        ("1\t2\t3\t9\n1\t3\t4\t9\n", {"format": "movielens-100k"}),
        ("1::2::3::9\n1::3::4::9\n", {"format": "movielens-1m"}),
        ("userId,movieId,rating,timestamp\n1,2,3.0,9\n1,3,4.0,9\n", {"format": "movielens-csv"}),
        ("1   2 3\n  1\t3   4  \n", {"delimiter": "blanks"}),
        ("u\t\ti\tr \r\n1\t \t2  3\r\n\r\n1 3 4", {"delimiter": "blanks", "header": True}),
        ("% a\n% b, c, d, e\n1,2,3\n1,3,4\n", {"skip": 2}),
        ('\ufeff# a "b\n\nr,u,i\n3,1,2\n4,1,3\n', {"skip": 1, "header": True, "columns": NAMED}),
        ("# a\r1,2,3\r1,3,4\r", {"skip": 1}),
        ("1,2,3\n1,3,4\n".encode("utf-16"), {}),
        ("1,2,3\r\n1,3,4\r\n".encode("utf-32"), {}),
        (gzip.compress("1,2,3\n1,3,4\n".encode("utf-16"), mtime=0), {}),
        ("1,2,3\n1,3,4\n".encode("utf-16-be"), {"encoding": "utf-16-be"}),
        ('{"u": 1, "i": "2", "r": 3.0, "t": [1]}\n\n{"u": 1.0, "i": 3, "r": "4"}\n', JSONL),
        ('\ufeff{"u": 1, "i": 2, "r": 3}\r\n{"i": 3, "r": 4, "u": 1}', JSONL),
        (gzip.compress(b'{"u":1,"i":2,"r":3}\n{"u":1,"i":3,"r":4}', mtime=0), JSONL),
        ('{"u":1,"i":2,"r":3}\n{"u":1,"i":3,"r":4}'.encode("utf-16"), JSONL),
        (gzip.compress(b"1,2,3\n1,3,4\n", mtime=0), {"name": "r.csv.gz"}),
        (gzip.compress(b"1::2::3\n1::3::4\n", mtime=0), {"name": "r.gz", "format": "movielens-1m"}),
        (gzip.compress(b"1,2,3\n1,3,4\n", mtime=0), {"name": "not-called-gz.csv"}),
    ],
)
def test_text_formats(tmp_path: Path, content: str | bytes, options: dict[str, Any]) -> None:
    ratings = read(tmp_path, content, **options)
    assert triples(ratings) == {("1", "2", 3), ("1", "3", 4)}
    assert (ratings.n_users, ratings.n_items) == (1, 2)


@pytest.mark.cases("encoding", ["latin-1", "cp1252", "utf-16", "cp1251", "shift_jis"])
def test_text_of_another_encoding(tmp_path: Path, encoding: str) -> None:
    name = {"cp1251": "Жанна", "shift_jis": "花子"}.get(encoding, "Zoë")
    content = f'user,item,rating\n{name},"a, b",3\n{name},3,4\n'
    columns = {"user": "user", "item": "item", "rating": "rating"}
    options: dict[str, Any] = {"header": True, "columns": columns, "encoding": encoding}
    assert triples(read(tmp_path, content.encode(encoding), **options)) == {
        (name, "a, b", 3),
        (name, "3", 4),
    }


def test_many_lines_of_another_encoding(tmp_path: Path) -> None:
    content = "".join(f"ü{user},{item},3\n" for user in range(400) for item in range(400))
    assert len(read(tmp_path, content.encode("utf-16"))) == 160_000
    damaged = content.encode("cp1252") + b"\x81,2,3\n"
    with pytest.raises(DataError, match="line 160001: the byte 0x81 is not cp1252"):
        read(tmp_path, damaged, encoding="cp1252")


def test_scale_is_carried(tmp_path: Path) -> None:
    ratings = read(tmp_path, "1,2,3\n", scale={"minimum": 0, "maximum": 3, "step": 0.25})
    assert ratings.scale == Scale(0, 3, 0.25)


def test_integer_ids_sort_by_number(tmp_path: Path) -> None:
    ratings = read(tmp_path, "10,b,3\n9,a,3\n-2,10,3\n01,9,1\n1,c,1\n")
    assert ratings.user_ids is not None
    assert ratings.item_ids is not None
    assert ratings.user_ids.tolist() == ["-2", "01", "1", "9", "10"]
    assert ratings.item_ids.tolist() == ["10", "9", "a", "b", "c"]


def test_endless_digits_are_an_id(tmp_path: Path) -> None:
    ratings = read(tmp_path, f"{'9' * 5000},2,3\n8,2,3\n")
    assert ratings.n_users == 2


def test_no_rating_column_means_purchases(tmp_path: Path) -> None:
    columns = {"user": 0, "item": 1}
    ratings = read(tmp_path, "1,2\n2,2\n", columns=columns, scale=None)
    assert ratings.scale == Scale(1, 1, 1)
    assert ratings.value.tolist() == [1, 1]


@pytest.mark.parametrize("scale", [None, {}])
def test_binarize(tmp_path: Path, scale: dict[str, float] | None) -> None:
    ratings = read(tmp_path, "1,2,3\n1,3,4\n2,2,5\n", binarize=4, scale=scale)
    assert triples(ratings) == {("1", "3", 1), ("2", "2", 1)}
    assert ratings.scale == Scale(1, 1, 1)
    with pytest.raises(DataError, match=r"data\.binarize = 6 .* 5"):
        read(tmp_path, "1,2,3\n1,3,5\n", binarize=6, scale=scale)


@pytest.mark.cases(
    "ratings",
    [
        [-9.998, 0.123, 4.5671, 10],
        [2.8978, 3.1, 3.00001],
        [1, 2, 5000],
        [0.1 + 0.2, 1 / 3, 2.5],
        [-3, 4000],
        [1, 2, 4],
    ],
)
def test_the_advised_scale_is_accepted(tmp_path: Path, ratings: list[float]) -> None:
    content = "".join(f"{user},2,{rating}\n" for user, rating in enumerate(ratings))
    with pytest.raises(DataError, match=r"data\.scale is missing") as caught:
        read(tmp_path, content, scale=None)
    advice = str(caught.value).partition("set scale = ")[2].partition(" or the range")[0]
    loaded = read(tmp_path, content, **tomllib.loads(f"scale = {advice}"))
    assert loaded.value == pytest.approx(ratings, abs=loaded.scale.step / 2 + 1e-6)
    assert sum(repair.count for repair in loaded.repairs) in {0, 1, 2, 3}


UNRATED = "".join(f"{user},2,{rating}\n" for user, rating in enumerate([99, 1, 2, 3, 4, 5]))


def test_the_advised_scale_has_no_marks_of_what_is_not_rated(tmp_path: Path) -> None:
    with pytest.raises(DataError, match='outside_scale = "drop", as 99 '):
        read(tmp_path, UNRATED, scale=None)


def test_a_mark_of_what_is_not_rated_becomes_no_purchase(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"99 .* data\.binarize = 4 "):
        read(tmp_path, UNRATED, scale=None, binarize=4)
    kept = read(tmp_path, UNRATED, binarize=4, outside_scale="drop")
    assert len(kept) == 2
    assert len(read(tmp_path, UNRATED.replace("99", "-1"), scale=None, binarize=4)) == 2


@pytest.mark.cases("ratings", [[3, 3], [0.5, 1e9], [1, 1 + 1e-9, 5000]])
def test_ratings_on_no_scale_have_other_remedies(tmp_path: Path, ratings: list[float]) -> None:
    content = "".join(f"{user},2,{rating!r}\n" for user, rating in enumerate(ratings))
    with pytest.raises(DataError, match=r"binarize .* or remove columns\.rating"):
        read(tmp_path, content, scale=None)


def test_duplicates(tmp_path: Path) -> None:
    content = "1,2,5\n1,3,4\n1,2,2\n1,2,3\n1,3,4\n2,2,1\n"
    with pytest.raises(DataError) as caught:
        read(tmp_path, content)
    assert "2 (user, item) pairs are repeated" in str(caught.value)
    assert "user '1', item '2' at line 1 and line 3" in str(caught.value)
    assert "user '1', item '3' at line 2 and line 5" in str(caught.value)
    assert "data.on_duplicate to 'last' or 'mean'" in str(caught.value)
    last = read(tmp_path, content, on_duplicate="last")
    assert triples(last) == {("1", "2", 3), ("1", "3", 4), ("2", "2", 1)}
    mean = read(tmp_path, "1,2,5\n1,2,2\n2,2,1\n", on_duplicate="mean")
    assert triples(mean) == {("1", "2", 3.5), ("2", "2", 1)}


def test_only_three_duplicates_are_shown(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, "".join(f"{user},7,3\n" for user in range(9)) * 2)
    assert "9 (user, item) pairs" in str(caught.value)
    assert str(caught.value).count("user '") == 3


MARKED = "1,2,3\nNA,2,3\n1,3,4\n,3,4\n2,\\N,5\n2,2,5\nNA,4,5\n"


def test_rows_of_missing_ids_are_refused_dropped_with_a_count_or_kept(tmp_path: Path) -> None:
    marked = (
        "line 2, column 0 .*: the user id 'NA' marks a missing value, as in 2 more rows: .*drop"
    )
    with pytest.raises(DataError, match=marked):
        read(tmp_path, MARKED)
    dropped = read(tmp_path, MARKED, missing_ids="drop")
    assert triples(dropped) == {("1", "2", 3), ("1", "3", 4), ("2", "2", 5)}
    assert [(repair.what, repair.count) for repair in dropped.repairs] == [
        ("rows without a user or an item", 4)
    ]
    with pytest.raises(DataError, match=r"line 4, column 0 .*: the user id is missing"):
        read(tmp_path, MARKED, missing_ids="keep")
    kept = read(tmp_path, MARKED.replace("\n,", "\nb,"), missing_ids="keep")
    assert kept.user_ids is not None
    assert kept.user_ids.tolist() == ["1", "2", "NA", "b"]


def test_a_dropped_row_counts_once(tmp_path: Path) -> None:
    options = {"missing_ids": "drop", "outside_scale": "drop"}
    ratings = read(tmp_path, "1,2,3\nnull,2,9\n1,3,9\n", **options)
    assert {repair.what: repair.count for repair in ratings.repairs} == {
        "rows without a user or an item": 1,
        "rows with a rating outside the scale": 1,
    }


# --- what is refused, and where

NOT_A_NUMBER = "is not a finite number: correct it"
CSV = ("userId,movieId,rating\n", {"format": "movielens-csv"})


@pytest.mark.cases(
    ("content", "options", "message"),
    [
        ("", {}, "is empty"),
        ("\n \n\n", {}, "is empty"),
        ("u,i,r\n", {"header": True}, "holds no ratings"),
        ("1;2;3\n", {}, "the delimiter ',' does not split the first line.*such as ';'"),
        ("1,2,3\n", {"format": "movielens-1m"}, "the delimiter '::' does not.*such as ','"),
        ("1::2::3\n", {}, "the delimiter ',' does not split the first line.*such as '::'"),
        ("word\n", {}, "what separates its fields$"),
        ("1,2,3\n\n4,5,6,7\n", {}, "line 3: the line does not have the 3 fields"),
        ("1,2,3\n\n4,5\n", {}, "line 3: the line does not have the 3 fields"),
        ("1,2,3,9\n1,3,3\n", {}, "line 2: the line does not have the 4 fields"),
        ("1,2,3,9\n,,\n1,3,3\n", {}, "line 3: the line does not have the 4 fields"),
        ("1\t2\t3\t9\n1\t3\t3\n", {"format": "movielens-100k"}, "line 2.*the 4 fields"),
        ("1::2::3::9\n1:3:3:9\n", {"format": "movielens-1m"}, "line 2.*the 4 fields"),
        ("1,2,3\n1,3,x\n", {}, f"line 2, column 2 .*: the rating 'x' {NOT_A_NUMBER}$"),
        ("u,i,r\n1,3,3\n", {}, f"line 1.*'r' {NOT_A_NUMBER}, or set data.header = true"),
        ("1,2,3\n1,3,nan\n", {}, f"line 2.*'nan' {NOT_A_NUMBER}$"),
        ("1,2,3\n1,3,-inf\n", {}, f"line 2.*'-inf' {NOT_A_NUMBER}$"),
        ("1,2,3\n1,3,1_0\n", {"scale": {"maximum": 10}}, f"line 2.*'1_0' {NOT_A_NUMBER}$"),
        ("1,2,3\n1,3,4\x00\n", {}, rf"line 2.*'4\\x00' {NOT_A_NUMBER}$"),
        ("1,2,3\n1,3,\n", {}, "line 2, column 2 .*: the rating is missing: complete or remove"),
        ("1,2, \n1,3,\n", {}, "line 1, column 2 .*: the rating is missing"),
        ("1,2,3\n1,3,6\n", {}, "line 2.*the rating '6' lies outside the scale 1..5: correct"),
        ("1,2,3\n1,3,3.5\n", {}, "line 2.*'3.5' is not a step of the scale 1..5 with step 1"),
        ("1,2,3\n,3,3\n", {}, "line 2, column 0 .*: the user id is missing"),
        ("1,2,3\n1, ,3\n", {}, "line 2, column 1 .*: the item id is missing"),
        (CSV[0] + "1,2,5.5\n", CSV[1], "line 2, column 'rating': the rating '5.5' lies outside"),
        ("userId,movieID,rating\n1,2,3\n", CSV[1], "no column 'movieId'.*mean 'movieID'"),
        ("u,i,r,r\n1,2,3,3\n", {"header": True, "columns": NAMED}, "several columns 'r'"),
        ("1,2,3\n", {"columns": {**COLUMNS, "rating": 3}}, "no column 3: give a position from 0"),
        ("1,2,3\n1,\udcff,3\n", {}, "line 2: the byte 0xff is not UTF-8: save the file as UTF-8"),
        ("1,2,3\n1,3,3\n", {"scale": None}, "data.scale is missing.*from 3 to 3"),
        ("1  2  3\n1  3  3\n", {"delimiter": " "}, "item id is missing.*delimiter = 'blanks'"),
        ("1 2 3\n1  3 3\n", {"delimiter": " "}, "line 2.*the 3 fields.*delimiter = 'blanks'"),
        ("1,2,3\n1,\udcff,3\n", {}, "is not UTF-8.*, or set data.encoding .*such as 'cp1252'"),
        ("1,2,3\n1,\udcff,3\n", {"encoding": "ascii"}, "line 2: the byte 0xff is not ascii"),
        ("# a\n1,2,3\n1,3,x\n", {"skip": 1}, "line 3, column 2 .*: the rating 'x' is not a"),
        ("# a\n1,2,3\n\n1,3\n", {"skip": 1}, "line 4: the line does not have the 3 fields"),
        ("# a\n", {"skip": 1}, "is empty"),
        ("# a\n", {"skip": 9}, "is empty"),
        ('{"u": 1, "i": 2, "r": 3}\n\n[1]\n', JSONL, "line 3: the line is no JSON record"),
        ('[{"u": 1, "i": 2, "r": 3},\n', JSONL, "line 1: the line is no JSON record.*jq -c"),
        ("{'u': 1, 'i': 2, 'r': 3}\n", JSONL, "line 1: the line is no JSON record"),
        ("[" * 90_000, JSONL, "line 1: the line is no JSON record"),
        ('{"u": {"id": 1}, "i": 2, "r": 3}\n', JSONL, "line 1, column 'u': the value is a record"),
        ('{"u": 1, "i": [2], "r": 3}\n', JSONL, "line 1, column 'i': the value is a list: give"),
        ('{"u": 1, "i": 2}\n', JSONL, "no column 'r': give one of its names"),
        ('{"u": 1, "i": 2, "r": 3}\n{"u": 1, "r": 3}\n', JSONL, "line 2.*the item id is missing"),
        ('\n{"u": null, "i": 2, "r": 3}\n', JSONL, "line 2, column 'u': the user id is missing"),
        ('{"u": 1, "i": 2, "r": 3}\n{"u": "\udcff"}', JSONL, "line 2: the byte 0xff is not UTF-8"),
        ('\n{"u": NaN, "i": 2, "r": 3}\n', JSONL, "line 2, column 'u': the user id 'nan' marks"),
        ("\n\n", JSONL, "holds no ratings|is empty|no column 'u'"),
        (
            "1,2,0.5\n1,3,3\n1,4,3.5\n",
            {"scale": None},
            "scale = { minimum = 0.5, maximum = 3.5, step = 0.5 }",
        ),
        ("1,2,3\n1,3,x\n,4,3\n", {}, "line 2"),
        ("1,2,3\n,3,3\n1,4,x\n", {}, "line 2"),
        ('1,"2,3\n1,3,3\n', {}, "line 1: the quote that opens in it is never closed"),
        ('1,2,3\n1,"3,3\n1,4,3\n', {}, "line 2.*or opens a quote that is never closed"),
        ('1,2,3\n1,"3,3\n' + "1,4,3\n" * 30_000, {}, "line 2: the quote .* is never closed"),
        ('1,"a\nb",3\n1,"c,d",7\n', {}, "line 3.*'7' lies outside"),
        ('1,"a\nb",3,4\n1,"c,d",2\n', {}, "line 3: the line does not have the 4 fields"),
        ('1,"a\nb",3\n1,2,3,4\n', {}, "line 3: the line does not have the 3 fields"),
    ],
)
def test_text_errors(tmp_path: Path, content: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, content.encode("utf-8", "surrogateescape"), **options)
    assert "r.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_long_values_are_cut(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, f"1,2,{'x' * 9000}\n")
    assert len(str(caught.value)) < 400 + len(str(tmp_path))


@pytest.mark.parametrize("content", [b"no gzip", gzip.compress(b"1,2,3\n" * 99, mtime=0)[:-9]])
def test_damaged_gzip(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DataError, match=r"r\.gz .* complete gzip"):
        read(tmp_path, content, "r.gz")


def test_gzip_with_flipped_bits(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(b"1,2,3\n" * 99, mtime=0))
    content[15] ^= 255
    with pytest.raises(DataError, match=r"r\.gz .* complete gzip"):
        read(tmp_path, bytes(content), "r.gz")


def test_path_errors(tmp_path: Path) -> None:
    missing = DataSource(format="movielens-100k", path=str(tmp_path / "none"))
    with pytest.raises(DataError, match=r"none does not exist: correct data\.path"):
        load(missing)
    with pytest.raises(DataError, match="is a folder"):
        load(DataSource(format="movielens-100k", path=str(tmp_path)))


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    path = tmp_path / "r.csv"
    path.write_bytes(b"1,2,3\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(DataError, match=r"r\.csv .*\(Permission denied\)"):
        load(DataSource(format="movielens-100k", path=str(path)))


# --- parquet


def parquet(folder: Path, **columns: Any) -> str:
    import pandas as pd

    path = folder / "r.parquet"
    pd.DataFrame(columns).to_parquet(path)
    return str(path)


def read_parquet(path: str, **options: Any) -> Ratings:
    known = {"format": "parquet", "path": path, "columns": NAMED, "scale": {}}
    return load(DataSource.model_validate(known | options))


@pytest.mark.long
@pytest.mark.parametrize("columns", [NAMED, COLUMNS, {**NAMED, "rating": 2}])
def test_parquet(tmp_path: Path, columns: dict[str, Any]) -> None:
    path = parquet(tmp_path, u=[3, 1], i=["a", "b"], r=[4.0, 2.0], t=[0, 0])
    assert triples(read_parquet(path, columns=columns)) == {("3", "a", 4), ("1", "b", 2)}


@pytest.mark.long
def test_parquet_with_an_index_and_categories(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "r.parquet"
    frame = pd.DataFrame({"u": [3, 1, 7], "i": pd.Categorical(["a", "b", "a"]), "r": [4, 2, 5]})
    frame.set_index("u").to_parquet(path)
    assert triples(read_parquet(str(path))) == {("3", "a", 4), ("1", "b", 2), ("7", "a", 5)}


@pytest.mark.long
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"u": [1, None], "i": [1, 2], "r": [1.0, 2.0]}, "row 2, column 'u': the user id is mis"),
        ({"u": [1, 2], "i": ["a", None], "r": [1.0, 2.0]}, "row 2, column 'i': the item id is"),
        ({"u": [1, 2], "i": [1, 2], "r": [1.0, None]}, "row 2, column 'r': the rating is missing"),
        ({"u": [1, 2], "i": [1, 2], "r": [1.0, np.inf]}, "row 2, column 'r': the rating inf is"),
        ({"u": [1, 2], "i": [1, 2], "r": ["1", "x"]}, "row 2, column 'r': the rating 'x' is not"),
        ({"u": [1, 2], "i": [1, 2], "r": [9, 2]}, "row 1, column 'r': the rating 9 lies outside"),
        ({"u": [1, 2], "i": [[1], [2]], "r": [1, 2]}, "column 'i': the column holds lists"),
        ({"user": [1, 2], "i": [1, 2], "r": [1, 2]}, "no column 'u': give one of its names"),
        ({"u": [], "i": [], "r": []}, "holds no ratings"),
        ({"u": [1, 1], "i": [1, 1], "r": [1, 2]}, "at row 1 and row 2"),
    ],
)
def test_parquet_errors(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_parquet(parquet(tmp_path, **columns))
    assert "r.parquet" in str(caught.value)


@pytest.mark.long
def test_large_integer_ids_with_a_gap_stay_exact(tmp_path: Path) -> None:
    import pandas as pd

    ids = pd.array([2**53 + 1, None], dtype="Int64")
    with pytest.raises(DataError, match="row 2, column 'i'"):
        read_parquet(parquet(tmp_path, u=[1, 2], i=ids, r=[1, 2]))
    kept = read_parquet(parquet(tmp_path, u=[1], i=ids[:1], r=[1]))
    assert triples(kept) == {("1", str(2**53 + 1), 1)}


def test_damaged_parquet(tmp_path: Path) -> None:
    path = Path(parquet(tmp_path, u=[1], i=[1], r=[1]))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match=r"r\.parquet .* readable parquet"):
        read_parquet(str(path))


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = parquet(tmp_path, u=[1], i=[1], r=[1])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataError, match=r"pip install 'pyarrow>="):
        read_parquet(path)


# --- MATLAB


def matlab(folder: Path, **variables: Any) -> str:
    from scipy.io import savemat

    path = folder / "r.mat"
    savemat(path, variables)
    return str(path)


def read_matlab(path: str, **options: Any) -> Ratings:
    known = {"format": "matlab", "path": path, "columns": COLUMNS, "scale": {}}
    return load(DataSource.model_validate(known | options))


ROWS = np.array([[3, 9, 4], [1, 8, 2]])


@pytest.mark.long
@pytest.mark.parametrize("dtype", [np.int32, np.float64, np.uint8])
def test_matlab(tmp_path: Path, dtype: Any) -> None:
    expected = {("3", "9", 4), ("1", "8", 2)}
    assert triples(read_matlab(matlab(tmp_path, x=ROWS.astype(dtype)))) == expected
    path = matlab(tmp_path, x=ROWS.astype(dtype), y=ROWS + 1, name="text")
    assert triples(read_matlab(path, variable="x")) == expected


@pytest.mark.long
@pytest.mark.parametrize(
    ("variables", "options", "message"),
    [
        ({"x": ROWS, "y": ROWS}, {}, "not hold the only .* set data.variable to one of 'x', 'y'"),
        ({"x": ROWS}, {"variable": "z"}, "not hold the variable 'z' .* one of 'x'"),
        ({"x": "text"}, {}, "of which it has none"),
        ({"x": ROWS[:, :2]}, {}, "no column 2: give a position from 0 to 1"),
        ({"x": [[1, 2, np.nan]]}, {}, "row 1, column 2 .*: the rating is missing"),
        ({"x": [[1, 2, 3], [1, 3, np.inf]]}, {}, "row 2, column 2 .*: the rating inf is not"),
        ({"x": [[1, 2, 3], [np.nan, 3, 3]]}, {}, "row 2, column 0 .*: the user id is missing"),
        ({"x": [[1, 2, 3], [1, 3, 0]]}, {}, "row 2, column 2 .*: the rating 0 lies outside"),
        ({"x": [[1, 2, 3], [1, 3, 4]]}, {"scale": None}, "holds ratings from 3 to 4"),
    ],
)
def test_matlab_errors(
    tmp_path: Path, variables: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read_matlab(matlab(tmp_path, **variables), **options)
    assert "r.mat" in str(caught.value)


@pytest.mark.cases(
    ("content", "message"),
    [
        (b"junk", "is not a readable MATLAB file"),
        (b"MATLAB 5.0" + b"x" * 900, "is not a readable MATLAB file"),
        (b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM" + b"x" * 99, "option -v7"),
    ],
)
def test_damaged_matlab(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "r.mat"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_matlab(str(path))


# --- properties

TEXT_FORMATS: list[dict[str, Any]] = [
    {"delimiter": ","},
    {"delimiter": ";", "header": True, "columns": NAMED},
    {"delimiter": "\t", "name": "r.tsv.gz"},
    {"delimiter": "::"},
    {"delimiter": "|"},
    {"delimiter": " "},
    {"format": "movielens-100k"},
    {"format": "movielens-1m"},
    {"format": "movielens-csv", "scale": {}},
]
ID = st.text("abcXYZ019_-é", min_size=1, max_size=4).filter(lambda name: not is_missing(name))
TABLES = st.dictionaries(st.tuples(ID, ID), st.integers(1, 5), min_size=1, max_size=30)
Lines = list[list[str]]


def write(lines: Lines, options: dict[str, Any], blank_before: int = 0) -> bytes:
    """The lines in the format that the options describe, and blank lines before them."""
    delimiter = {
        "movielens-100k": "\t",
        "movielens-1m": "::",
        "movielens-csv": ",",
        "delimited": options.get("delimiter", ","),
    }[options.get("format", "delimited")]
    header = []
    if options.get("header"):
        header = [["u", "i", "r", "t"]]
    if options.get("format") == "movielens-csv":
        header = [["userId", "movieId", "rating", "timestamp"]]
    text = "\n" * blank_before + "".join(f"{delimiter.join(line)}\n" for line in header + lines)
    content = text.encode()
    return (
        gzip.compress(content, mtime=0) if str(options.get("name", "")).endswith(".gz") else content
    )


def first_line(options: dict[str, Any], blank_before: int) -> int:
    named = options.get("header") or options.get("format") == "movielens-csv"
    return 1 + blank_before + bool(named)


@pytest.mark.long
@pytest.mark.parametrize("options", TEXT_FORMATS)
@relaxed
@given(table=TABLES, blank=st.integers(0, 2))
def test_text_round_trip(
    tmp_path: Path, options: dict[str, Any], table: dict[tuple[str, str], int], blank: int
) -> None:
    lines = [[user, item, str(value), "0"] for (user, item), value in table.items()]
    ratings = read(tmp_path, write(lines, options, blank), **options)
    assert triples(ratings) == {(user, item, value) for (user, item), value in table.items()}
    assert ratings.n_users == len({user for user, _ in table})
    assert ratings.n_items == len({item for _, item in table})
    assert ratings.scale == Scale()


@pytest.mark.long
@pytest.mark.parametrize("options", TEXT_FORMATS)
@relaxed
@given(
    table=TABLES,
    blank=st.integers(0, 2),
    where=st.integers(0, 10**6),
    kind=st.sampled_from(["word", "range", "grid", "blank", "no user", "short", "long"]),
)
def test_one_corrupt_line_is_named(
    tmp_path: Path,
    options: dict[str, Any],
    table: dict[tuple[str, str], int],
    blank: int,
    where: int,
    kind: str,
) -> None:
    lines = [[user, item, str(value), "0"] for (user, item), value in table.items()]
    # The first line sets the number of fields, so a whole one goes before.
    lines.insert(0, ["first", "first", "3", "0"])
    row = 1 + where % len(table)
    line = lines[row]
    replacement = {"word": "bad", "range": "7", "grid": "3.25", "blank": ""}
    if kind in replacement:
        line[2] = replacement[kind]
    elif kind == "no user":
        line[0] = ""
    elif kind == "short":
        line.pop()
    else:
        line.append("0")
    with pytest.raises(DataError) as caught:
        read(tmp_path, write(lines, options, blank), **options)
    assert f", line {first_line(options, blank) + row}" in str(caught.value)


@pytest.mark.long
@settings(relaxed, max_examples=10)  # each starts two processes
@given(table=TABLES)
def test_parquet_and_matlab_round_trip(tmp_path: Path, table: dict[tuple[str, str], int]) -> None:
    users, items = zip(*table, strict=True)
    path = parquet(tmp_path, u=users, i=items, r=list(table.values()))
    expected = {(user, item, value) for (user, item), value in table.items()}
    assert triples(read_parquet(path)) == expected
    number = {name: index for index, name in enumerate(sorted({*users, *items}))}
    rows = [[number[user], number[item], value] for (user, item), value in table.items()]
    assert triples(read_matlab(matlab(tmp_path, x=np.array(rows)))) == {
        (str(user), str(item), value) for user, item, value in rows
    }


# --- real data, found only through the environment

DATA = os.environ.get("DPAUDIT_DATA")


def real(name: str, **options: Any) -> DataSource:
    if not DATA:
        pytest.skip("DPAUDIT_DATA is not set to a folder of data sets")
    if not (Path(DATA) / name).is_file():
        pytest.skip(f"{name} is not in the folder DPAUDIT_DATA")
    return DataSource.model_validate({"path": "${DPAUDIT_DATA}/" + name, **options})


def summary(ratings: Ratings) -> tuple[int, int, int, float]:
    mean = float(ratings.value.mean(dtype=np.float64))
    return len(ratings), ratings.n_users, ratings.n_items, round(mean, 5)


def test_movielens_100k() -> None:
    ratings = load(real("ml-100k/u.data", format="movielens-100k"))
    assert summary(ratings) == (100_000, 943, 1_682, 3.52986)
    assert np.diff(ratings.by_user.start).min() == 20
    assert np.diff(ratings.by_user.start).max() == 737
    assert ratings.user_ids is not None
    assert ratings.user_ids.tolist() == [str(user) for user in range(1, 944)]


def test_movielens_1m() -> None:
    source = real(
        "ml-1m/ratings_no_timestamp.tsv.gz",
        format="delimited",
        delimiter="\t",
        columns=COLUMNS,
        scale={},
    )
    ratings = load(source)
    assert summary(ratings) == (1_000_209, 6_040, 3_706, 3.58156)
    counts = np.bincount(ratings.value.astype(int))[1:].tolist()
    assert counts == [56_174, 107_557, 261_197, 348_971, 226_310]


def test_movielens_latest_small() -> None:
    ratings = load(real("ml-latest-small/ratings.csv", format="movielens-csv"))
    assert summary(ratings) == (100_004, 671, 9_066, 3.54361)


def test_filmtrust() -> None:
    options = {"format": "delimited", "delimiter": " ", "columns": COLUMNS}
    scale = {"minimum": 0.5, "maximum": 4, "step": 0.5}
    with pytest.raises(DataError, match=r"minimum = 0\.5, maximum = 4, step = 0\.5"):
        load(real("filmtrust/ratings.txt", **options))
    with pytest.raises(DataError, match=r"3 \(user, item\) .*7411 .* 7437"):
        load(real("filmtrust/ratings.txt", **options, scale=scale))
    for policy in ("last", "mean"):
        ratings = load(real("filmtrust/ratings.txt", **options, scale=scale, on_duplicate=policy))
        assert summary(ratings)[:3] == (35_494, 1_508, 2_071)


@pytest.mark.long
def test_ciao() -> None:
    options = {"format": "matlab", "columns": {"user": 0, "item": 1, "rating": 3}}
    name = "ciao/rating.mat"
    with pytest.raises(DataError, match=r"row 18076, column 3 .*rating 0 "):
        load(real(name, **options, scale={}))
    with pytest.raises(DataError, match=r"\(user, item\) pairs are repeated"):
        load(real(name, **options, scale={"minimum": 0}))
    ratings = load(real(name, **options, scale={"minimum": 0}, on_duplicate="mean"))
    assert summary(ratings)[:3] == (284_086 - 1_436, 7_375, 105_114)


@pytest.mark.long
def test_epinions() -> None:
    columns = {"user": 0, "item": 1, "rating": 3}
    source = real(
        "epinions/rating.mat", format="matlab", columns=columns, scale={}, on_duplicate="last"
    )
    assert summary(load(source))[:3] == (770_000 - 8_205, 18_564, 262_614)


def test_ciaodvd_and_lastfm() -> None:
    source = real(
        "ciaodvd/movie-ratings.txt",
        format="delimited",
        columns={"user": 0, "item": 1, "rating": 4},
        scale={},
        on_duplicate="last",
    )
    assert summary(load(source))[:3] == (72_665 - 320, 17_615, 16_121)
    source = real(
        "lastfm-hetrec2011/user_artists.dat",
        format="delimited",
        delimiter="\t",
        header=True,
        columns={"user": "userID", "item": "artistID"},
    )
    assert summary(load(source)) == (92_834, 1_892, 17_632, 1)
