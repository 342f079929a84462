"""Names of columns in the middle of a table are no users and no items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.interactions import given_ratings
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.sniff import sniff
from dpaudit.data.source import DataSource

ROWS = ["1,10,4", "1,11,3", "2,10,5", "3,12,1"]


def loaded(folder: Path, lines: list[str], **options: Any) -> Ratings:
    path = folder / "r.csv"
    path.write_bytes("\n".join(lines).encode())
    return load(
        DataSource(format="delimited", path=str(path), **options) if options else sniff(path).source
    )


@pytest.mark.cases(
    "again",
    [
        "user_id,item_id,rating",
        "User_ID, item_id ,RATING",
        "\ufeffuser_id,item_id,rating",
        '"user_id","item_id","rating"',
        "userId,itemId,rating",
    ],
)
@pytest.mark.cases("columns", [3, 2])
def test_a_repeated_header_is_left_out_and_counted(
    tmp_path: Path, again: str, columns: int
) -> None:
    lines = ["user_id,item_id,rating", *ROWS[:2], again, *ROWS[2:], again]
    ratings = loaded(tmp_path, [line.rsplit(",", 3 - columns)[0] for line in lines])
    assert (len(ratings), ratings.n_users, ratings.n_items) == (4, 3, 3)
    [repair] = ratings.repairs
    assert (repair.what, repair.count) == ("lines that hold the names of the columns again", 2)


@pytest.mark.cases(
    ("header", "again", "named"),
    [
        ("user_id,item_id,x", "item_id,user_id,x", "line 4, .*'item_id' and 'user_id'"),
        ("user_id,item_id,kind", "kind,user_id,item_id", "line 4"),
        ("user_id,item_id,x", "customer_id,movie_id,x", "line 4"),
        ("", "user_id,item_id,x", "line 3, .*remove it"),
        ("", "user,item,x", "line 3"),
    ],
)
def test_other_names_of_columns_are_refused(
    tmp_path: Path, header: str, again: str, named: str
) -> None:
    lines = [*filter(None, [header]), *ROWS[:2], again, *ROWS[2:]]
    with pytest.raises(DataError, match=named):
        loaded(tmp_path, lines, header=bool(header), columns={"user": 0, "item": 1})


def test_a_header_that_the_config_denies_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1, .*set data\.header = true"):
        loaded(tmp_path, ["user_id,item_id,x", *ROWS], columns={"user": 0, "item": 1})


@pytest.mark.cases("rule", ["-------,-------,------", "---,:---:,---:", "=======,=======,======"])
def test_a_rule_below_the_names_is_left_out(tmp_path: Path, rule: str) -> None:
    ratings = loaded(tmp_path, ["user_id,item_id,rating", rule, *ROWS])
    assert (len(ratings), ratings.n_users, ratings.repairs[0].count) == (4, 3, 1)
    assert len(loaded(tmp_path, ["user_id,item_id", "--,1", "a,--", "b,c"])) == 3


@pytest.mark.cases("row", ["u,i", "user,1", "1,item", "player,book", "user,user"])
def test_ids_that_look_like_names_are_ids(tmp_path: Path, row: str) -> None:
    assert len(loaded(tmp_path, ["user_id,item_id", "1,2", "a,b", row])) == 3
    assert len(loaded(tmp_path, ["u,i", "a,b", "b,c", row])) == 3


def test_a_repeated_header_of_a_frame_is_left_out(tmp_path: Path) -> None:
    names = ["user_id", "item_id", "rating"]
    frame = pd.DataFrame([["1", "2", "4"], names, ["2", "3", "5"]], columns=names)
    ratings = given_ratings(frame)
    assert (ratings.n_users, ratings.repairs[0].count) == (2, 1)
    path = tmp_path / "r.parquet"
    frame.to_parquet(path)
    assert load(sniff(path).source).repairs == ratings.repairs
