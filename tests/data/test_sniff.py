"""Layouts of files of interactions are guessed from their first lines and ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.readers.load import load
from dpaudit.data.sniff import sniffed, source_of

ROWS = [(1, 10, 4.0), (1, 11, 3.0), (2, 10, 5.0), (3, 12, 1.0), (3, 11, 2.0)]


def written(folder: Path, separator: str, header: str = "", *, extra: bool = False) -> Path:
    path = folder / "data.txt"
    lines = [header] if header else []
    for user, item, rating in ROWS:
        cells = [str(user), str(item), f"{rating:g}", *(["881250949"] if extra else [])]
        lines.append(separator.join(cells))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("separator", "header", "extra", "format_"),
    [
        ("\t", "", True, "movielens-100k"),
        ("::", "", True, "movielens-1m"),
        (",", "userId,movieId,rating,timestamp", True, "movielens-csv"),
        (",", "", False, "delimited"),
        (";", "Customer;Product;Stars", False, "delimited"),
        ("\t", "user_id\titem_id\trating", False, "delimited"),
        ("|", "uid|iid|score", False, "delimited"),
    ],
)
def test_a_guessed_file_is_read_in_full(
    tmp_path: Path, separator: str, header: str, extra: bool, format_: str
) -> None:
    source = source_of(written(tmp_path, separator, header, extra=extra))
    assert source.format == format_
    ratings = load(source)
    assert (len(ratings), ratings.n_users, ratings.n_items) == (5, 3, 3)
    assert sorted(ratings.value.tolist()) == [1, 2, 3, 4, 5]


def test_counts_and_single_values_are_purchases(tmp_path: Path) -> None:
    path = tmp_path / "plays.csv"
    rows = [f"{n % 7},{n},{n * n}" for n in range(60)]
    path.write_text("user,item,value\n" + "\n".join(rows), encoding="utf-8")
    assert "rating" not in sniffed(path)["columns"]
    assert load(source_of(path)).scale.width == 0


def test_half_stars_have_a_step_of_a_half(tmp_path: Path) -> None:
    path = tmp_path / "half.csv"
    path.write_text("user,item,rating\n1,1,0.5\n1,2,1\n2,1,4.5\n", encoding="utf-8")
    assert sniffed(path)["scale"] == {"minimum": 0.5, "maximum": 4.5, "step": 0.5}


def test_parquet_is_read_by_its_names(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pd.DataFrame(ROWS, columns=["user_id", "item_id", "rating"]).to_parquet(path)
    assert len(load(source_of(path))) == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("who,what\n1,2\n", "none is known to hold the user"),
        ("user,what\n1,2\n", "none is known to hold the item"),
        ("user,item,rating\n1,2,good\n", "holds no ratings"),
    ],
)
def test_what_cannot_be_guessed_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "data.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=said):
        source_of(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path: Any = tmp_path / "none.csv"
    with pytest.raises(DataError, match=r"none\.csv cannot be read"):
        source_of(path)
