"""Layouts of files of interactions are guessed from their first lines and ratings."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.readers.load import load
from dpaudit.data.sniff import sniff
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import Columns

ROWS = [(1, 10, 4.0), (1, 11, 3.0), (2, 10, 5.0), (3, 12, 1.0), (3, 11, 2.0)]
CSV = "user,item,rating\n" + "".join(f"{u},{i},{r:g}\n" for u, i, r in ROWS)


def write(folder: Path, text: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def table(separator: str, header: str, cells: str) -> str:
    """Return a table whose rows are the names in `cells`: u, i, r, and any text."""
    rows = ([header] if header else []) + [
        separator.join(
            {"u": str(user), "i": str(item), "r": f"{rating:g}"}.get(name, name)
            for name in cells.split("/")
        )
        for user, item, rating in ROWS
    ]
    return "\n".join(rows) + "\n"


@pytest.mark.cases(
    ("separator", "header", "cells", "layout"),
    [
        (
            *("\t", "", "u/i/r/881250949"),
            "separator tab, no header, user = column 0, item = column 1, rating = column 2, time = "
            "column 3",
        ),
        ("::", "", "u/i/r", "separator '::', no header, "),
        (
            ";",
            "Customer;Product;Stars",
            "u/i/r",
            "';', header, user = 'Customer', item = 'Product'",
        ),
        ("|", "uid|iid|score", "u/i/r", "separator '|', header, user = 'uid', item = 'iid'"),
        (" ", "", "u/i/r", "separator space, no header, user = column 0"),
        (",", "", "user 1/book u/r", ""),
        (
            *(",", "stars,ts,product_id,uid", "r/2020-01-01 10:00:00/i/u"),
            "user = 'uid', item = 'product_id', rating = 'stars', time = 'ts'",
        ),
        (",", "", "u/i/2020-01-01 10:00:00/r", "rating = column 3, time = column 2"),
        (",", '"user","title","item","rating"', '"u"/"a, ""b"""/i/r', "not used: 'title'"),
        (",", "a,b,userId,c,d,movieId,rating", "x/x/u/x/x/i/r", "not used: 'a', 'b', 'c', …"),
    ],
)
def test_a_guessed_file_is_read_in_full(
    tmp_path: Path, separator: str, header: str, cells: str, layout: str
) -> None:
    cells = cells.replace('"u"', "u").replace("user 1", "u").replace("book u", "i")
    guess = sniff(write(tmp_path, table(separator, header, cells)))
    assert layout in guess.layout
    assert guess.ratings == "The ratings are 1 to 5 by 1."
    ratings = load(guess.source)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (5, 3, 3)
    assert sorted(ratings.value.tolist()) == [1, 2, 3, 4, 5]


@pytest.mark.cases(
    "packed",
    [
        CSV.encode("utf-8-sig"),
        CSV.replace("\n", "\r\n").encode(),
        CSV.replace("\n", "\r").encode(),
        gzip.compress(CSV.encode(), mtime=0),
        ("\n\n" + CSV).encode(),
        ("sep=,\n" + CSV).encode(),
        ("\ufeffSEP=;\r\n" + CSV.replace(",", ";")).encode(),
        ('"sep=,"\n' + CSV.partition("\n")[2]).encode(),
    ],
    ids=["bom", "crlf", "cr", "gzip", "blank lines", "sep", "sep and bom", "sep and no header"],
)
def test_encodings_and_line_ends_change_nothing(tmp_path: Path, packed: bytes) -> None:
    assert len(load(sniff(write(tmp_path, packed)).source)) == 5


def test_ids_of_words_without_a_header_are_no_header(tmp_path: Path) -> None:
    path = write(tmp_path, "ann,emma\nann,ulysses\nbob,emma\n")
    assert not sniff(path).source.header
    assert len(load(sniff(path).source)) == 3


def values(folder: Path, name: str, ratings: Sequence[object]) -> Path:
    """Write a file with these ratings in a column of this name, or without a header."""
    rows = [f"{n % 7},{n},{rating}" for n, rating in enumerate(ratings)]
    return write(folder, "\n".join([*([f"user,item,{name}"] if name else []), *rows]))


@pytest.mark.cases(
    ("name", "ratings", "scale"),
    [
        ("rating", [0.5, 1, 4.5], (0.5, 4.5, 0.5)),
        ("rating", [*range(101)], (0, 100, 1)),
        ("", [*range(101)], (0, 100, 1)),
        ("rating", [-9.99, 0, 9.5], (-9.99, 9.5, 0.01)),
        ("value", [1, 2, 5], (1, 5, 1)),
        ("rating", [-1, 1, 0], (-1, 1, 1)),
    ],
)
def test_a_scale_has_the_ends_and_the_step_of_the_ratings(
    tmp_path: Path, name: str, ratings: list[float], scale: tuple[float, float, float]
) -> None:
    source = sniff(values(tmp_path, name, ratings)).source
    assert source.scale is not None
    assert (source.scale.minimum, source.scale.maximum, source.scale.step) == scale
    assert load(source).scale.width == scale[1] - scale[0]


@pytest.mark.cases(
    ("name", "ratings", "said"),
    [
        ("value", [n * n for n in range(60)], "holds 60 values from 0 to 3481"),
        ("value", [1 / (n + 3) for n in range(60)], "holds 60 values from"),
        ("rating", [10**9, 10**9 + 1, 10**9 + 5], "holds 3 values from 1000000000 to"),
        ("plays", [1, 2, 3], "Column 'plays' holds counts or weights"),
        ("rating", [5, 5, 5], "Column 'rating' holds 5 alone"),
        ("rating", [4, 5, 5], "Column 'rating' holds 4 and 5 alone"),
        ("rating", ["", "", ""], "Column 'rating' is empty"),
        ("label", ["news", "sport", "news"], "Column 'label' holds no numbers"),
        ("note", [1, 2, 3], "No column holds ratings"),
    ],
)
def test_counts_and_single_values_are_interactions(
    tmp_path: Path, name: str, ratings: list[object], said: str
) -> None:
    guess = sniff(values(tmp_path, name, ratings))
    assert said in guess.ratings
    assert guess.ratings.endswith("every row is an interaction.")
    assert load(guess.source).scale.width == 0
    assert len(load(guess.source)) == len(ratings)


@pytest.mark.cases(
    ("name", "ratings", "scale"),
    [
        ("rating", [n / 1000 for n in range(-9998, 10001, 7)], (-10, 10, 0.01)),
        ("", [n / 1000 for n in range(-9998, 10001, 7)], (-10, 10, 0.01)),
        ("rating", [1 / (n + 3) for n in range(60)], (0.016, 0.334, 0.001)),
        ("stars", [1 + 4 * n / 997 for n in range(998)], (1, 5, 0.01)),
    ],
)
def test_continuous_ratings_are_rounded_to_a_step(
    tmp_path: Path, name: str, ratings: list[float], scale: tuple[float, float, float]
) -> None:
    guess = sniff(values(tmp_path, name, ratings))
    assert "rounded to steps of" in guess.ratings
    assert guess.source.scale is not None
    assert guess.source.scale.round
    rounded = load(guess.source)
    assert (rounded.scale.minimum, rounded.scale.maximum, rounded.scale.step) == scale
    assert sorted(rounded.value) == pytest.approx(sorted(ratings), abs=scale[2] / 2 + 1e-6)
    steps = (rounded.value - scale[0]) / scale[2]
    assert steps == pytest.approx(steps.round(), abs=1e-3)


@pytest.mark.cases(
    ("name", "least"), [("plays", 1.0), ("quantity", 1.0), ("score", 2.0), ("", 2.0)]
)
def test_what_is_below_0_is_no_count(tmp_path: Path, name: str, least: float) -> None:
    numbers = [-5, 0, *([1] if least == 1 else []), *range(2, 3000)]
    guess = sniff(values(tmp_path, name, numbers))
    assert f"holds -5 to 2999: a row with {least:g} or more" in guess.ratings
    assert len(load(guess.source)) == len(numbers) - 2


@pytest.mark.cases(("name", "low"), [("rating", 0), ("clicked", 0), ("rating", -1)])
def test_likes_are_interactions_and_dislikes_are_not(tmp_path: Path, name: str, low: int) -> None:
    guess = sniff(values(tmp_path, name, [low, 1, 1]))
    assert guess.ratings.startswith(f"Column {name!r} holds {low} and 1: a row with 1 ")
    assert len(load(guess.source)) == 2


@pytest.mark.cases("plays", [["1.847,00", "847,00"], ["1,200", "2,000"]])
def test_counts_with_marks_are_numbers(tmp_path: Path, plays: list[str]) -> None:
    rows = [f"{n % 7}\t{n}\t{plays[n % 2]}" for n in range(30)]
    path = write(tmp_path, "\n".join(["user\titem\tplays", *rows]))
    with pytest.raises(DataError, match=f"line 2, column 'plays': .*'{plays[0]}'"):
        sniff(path)


def test_the_unit_of_times_is_said(tmp_path: Path) -> None:
    rows = [f"{n % 7},{n},{1_700_000_000_000 + n}" for n in range(30)]
    text = "\n".join(["user,item,timestamp", *rows])
    assert "time = 'timestamp' in milliseconds" in sniff(write(tmp_path, text)).layout
    guess = sniff(write(tmp_path, f"{text}\n1,40,1700000000"))
    assert "(not used, line 32: the time '1700000000'" in guess.layout


@pytest.mark.long
def test_parquet_is_read_by_its_names(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    pd.DataFrame(ROWS, columns=["user_id", "item_id", "rating"]).to_parquet(path)
    assert len(load(sniff(path).source)) == 5


@pytest.mark.cases("blank", ["", " ", "NaN", "n/a"])
@pytest.mark.cases("name", ["rating", "value", "plays", ""])
def test_partly_missing_ratings_are_no_interactions(tmp_path: Path, name: str, blank: str) -> None:
    path = values(tmp_path, name, [4, 3, blank, 5, blank])
    where = f"line 4, column '{name}'" if name else r"line 3, column 2 \(counted from 0\)"
    with pytest.raises(DataError, match=f"{where}: .* in 1 more row: "):
        sniff(path)


@pytest.mark.long
def test_a_missing_rating_of_parquet_is_named_by_its_row(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    frame = pd.DataFrame(ROWS, columns=["user_id", "item_id", "rating"])
    frame.loc[2, "rating"] = None
    frame.to_parquet(path)
    with pytest.raises(DataError, match="row 3, column 'rating': the rating is missing"):
        sniff(path)


@pytest.mark.cases(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("user,item,rating\n", "has a header and no rows"),
        ("1\n2\n3\n", "has one column"),
        ("who,what\n1,2\n", "hold the user or the item: rename two to user_id and item_id"),
        ("user,what\n1,2\n", "hold the item: rename one to item_id"),
        ("user,item,rating\n1,2,good\n", r"line 2, column 'rating': the rating 'good' is not a"),
        ("user;item;rating\n1;2;4,5\n", "'4,5' is not a number: write decimals with a point"),
        (CSV + "1,13,4,9\n", "line 7: the line does not have the 3 fields"),
        (CSV.encode("utf-16-le"), "holds NUL bytes"),
        (b"PK\x03\x04..", "is a zip archive or a spreadsheet"),
        (b"ARROW1\0\0", "is a Feather .Arrow. file: save it as Parquet"),
        (b"\x80\x04\x95\0\0", "is a pickle, which can run code and is not read: save its table"),
        (b"\x93NUMPY\x01\0v\0", "is a npy file: save it as csv"),
        (b"MATLAB 5.0 MAT-file\0", "is a MATLAB file: write .data. with format = 'matlab'"),
        (b"SQLite format 3\0", "is a database of SQLite: export its table as csv"),
        ('{}\n{"user": 1, "item": 2}\n', "line 1: the record is empty: remove the line"),
        ("ORC,CDF\n1,2\n", "hold the user or the item: rename two"),
        ('[{"user": 1, "item": 2}]\n', "holds JSON: write one record a line"),
        ('{\n"user": 1, "item": 2}\n', "line 1: the line is no JSON record"),
        ("{'user': 1, 'item': 2}\n", "line 1: the line is no JSON record"),
        ('{"user": {"id": 1}, "item": 2}\n', "line 1, column 'user': the value is a record"),
        ('{"user": 1, "movie": "a", "song": "b"}\n', "columns 'movie' and 'song', and each may"),
        ("a,movie_id,song\n1,2,3\n", "none is known to hold the user: rename one to user_id"),
        ("customer,visitor_id,item\n1,2,3\n", "'customer' and 'visitor_id', and each may hold"),
        (b"user,item,rating\nus\xe9,1,2\nbob,1,3\n", "line 2: the byte 0xe9 is not UTF-8"),
        (gzip.compress(CSV.encode(), mtime=0)[:-9], "is not a complete gzip file"),
        (" ".join("12345" * 4) + "\n" + " ".join("54321" * 4), "has 20 columns and no header"),
        ("INSERT INTO clicks VALUES\n(1, 2),\n(1, 3);\n", "is a dump of a database: export"),
        ("--\n-- PostgreSQL database dump\n--\nCOPY x FROM stdin;\n1\t2\n", "is a dump of a data"),
        ("+---+---+\n| u | i |\n+---+---+\n| 1 | 2 |\n+---+---+\n", "as a database shows it: exp"),
        (b"PAR1 and no more", "is not a readable parquet file"),
    ],
)
def test_what_cannot_be_guessed_is_one_sentence(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        load(sniff(write(tmp_path, text)).source)
    assert "\n" not in str(caught.value)


def test_a_path_that_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"none\.csv does not exist"):
        sniff(tmp_path / "none.csv")
    with pytest.raises(DataError, match="folder without Parquet files"):
        sniff(tmp_path)


def test_the_ends_of_a_range_are_two_numbers(tmp_path: Path) -> None:
    guess = sniff(values(tmp_path, "rating", [4.0000001, 4.0000002, 4.0000003]))
    assert "3 values from 4.0000001 to 4.0000003, " in guess.ratings


@pytest.mark.cases(
    ("rows", "remedy"),
    [
        ("a\t\tx\nb\tm\ty\n", "'drop' to leave such rows out$"),
        ("a\tNA\tx\nb\tm\ty\n", "leave such rows out, or to 'keep' where a marker is an id$"),
        ("a\t\tx\nb\t\ty\n", "delimiter = 'blanks' where several blanks separate two fields$"),
    ],
)
def test_an_empty_id_has_the_remedies_that_help(tmp_path: Path, rows: str, remedy: str) -> None:
    path = write(tmp_path, rows)
    source = DataSource(
        format="delimited", path=str(path), delimiter="\t", columns=Columns(user=0, item=1)
    )
    with pytest.raises(DataError, match=remedy):
        load(source)
