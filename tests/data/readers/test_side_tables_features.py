"""What is known of users and of items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource


def read(folder: Path, text: str, **options: Any) -> Ratings:
    """Two users, a and b, and a table of users with these rows."""
    (folder / "x.csv").write_text("b,i\na,i\na,j\n")
    (folder / "users.csv").write_text(text, encoding="utf-8")
    users = {"path": str(folder / "users.csv"), "columns": {"age": 1, "place": 2}, **options}
    columns = {"user": 0, "item": 1}
    source = {"format": "delimited", "path": str(folder / "x.csv"), "columns": columns}
    return load(DataSource.model_validate({**source, "users": users}))


def frame(ratings: Ratings) -> pd.DataFrame:
    assert ratings.user_features is not None
    return ratings.user_features


def test_rows_are_those_of_the_indices(tmp_path: Path) -> None:
    features = frame(read(tmp_path, "b,30,Rome\na,20,Oslo\n"))
    assert features.index.tolist() == [0, 1]
    assert features.to_dict("list") == {"age": [20.0, 30.0], "place": ["Oslo", "Rome"]}


def test_missing_cells_and_rows_have_no_value(tmp_path: Path) -> None:
    ratings = read(tmp_path, "b,,NaN\n")
    assert frame(ratings)["age"].isna().tolist() == [True, True]
    assert (
        frame(ratings)["place"].tolist() == [None, None]
        or np.isnan(frame(ratings)["place"].astype(float)).all()
    )
    assert [(repair.what, repair.count) for repair in ratings.repairs] == [
        ("users without a row in data.users", 1)
    ]


def test_a_number_in_every_row_is_a_number(tmp_path: Path) -> None:
    features = frame(read(tmp_path, "b,30,7\na,x,\n"))
    assert features["age"].tolist() == ["x", "30"]
    assert features["place"].dtype == np.float64


@pytest.mark.cases(
    ("text", "said"),
    [
        ("a,1,x\nc,2,y\n", "users.csv, line 2, .*user 'c' has no interaction: correct the id"),
        ("a,1,x\nb,1,x\na,2,y\n", "line 3, .*user 'a' has a row already: keep one row"),
        ("a,1,x\n,2,y\n", "line 2, .*the user id is missing"),
        ("", "is empty"),
        ("a,1\n", "line 1|has no column"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path, text)


def test_a_column_that_the_file_lacks_names_those_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(DataError) as caught:
        read(tmp_path, "id,age\na,1\n", header=True, columns={"zip": "zip"})
    assert str(caught.value).startswith("data.users: ")
    assert "no column 'zip': give one of its names ('id', 'age')" in str(caught.value)


@pytest.mark.cases(("format_", "text"), [("delimited", "a,1,Nîmes\n"), ("jsonl", '{"id":"é"}\n')])
def test_another_encoding_names_the_key_that_sets_it(
    tmp_path: Path, format_: str, text: str
) -> None:
    path = tmp_path / "latin"
    path.write_text(text, encoding="latin-1")
    columns = {"age": 1, "place": 2} if format_ == "delimited" else {"age": "age"}
    names = {"id": "id"} if format_ == "jsonl" else {}
    with pytest.raises(DataError, match=r"line 1: .*data\.users\.encoding"):
        read(tmp_path, "", path=str(path), format=format_, columns=columns, **names)


def test_rows_of_other_ids_may_be_dropped(tmp_path: Path) -> None:
    ratings = read(tmp_path, "a,1,x\nc,2,y\nd,2,y\nb,3,z\n", unknown="drop")
    assert frame(ratings)["age"].tolist() == [1, 3]
    assert [(repair.what, repair.count) for repair in ratings.repairs] == [
        ("rows of users without interactions in data.users", 2)
    ]


def test_columns_have_names_or_positions(tmp_path: Path) -> None:
    text = "id,age,place\na,1,x\nb,2,y\n"
    named = {"age": "age", "place": "place"}
    assert frame(read(tmp_path, text, header=True, columns=named))["age"].tolist() == [1, 2]
    with pytest.raises(ValueError, match="header is false"):
        read(tmp_path, text, columns=named)
    with pytest.raises(ValueError, match="cannot have the name 'id'"):
        read(tmp_path, text, columns={"id": 1})


def test_features_change_the_digest(tmp_path: Path) -> None:
    one, other = (read(tmp_path, f"a,{age},x\nb,2,y\n").digest for age in (1, 3))
    assert one != other


@pytest.mark.parametrize("format_", ["parquet", "jsonl"])
def test_other_formats(tmp_path: Path, format_: str) -> None:
    users = pd.DataFrame({"who": ["b", "a"], "age": [3, 4], "place": ["x", None]})
    path = tmp_path / f"users.{format_}"
    if format_ == "parquet":
        users.to_parquet(path)
    else:
        users.to_json(path, orient="records", lines=True)
    options = {"path": str(path), "format": format_, "id": "who"}
    columns = {"age": "age", "place": "place"}
    features = frame(read(tmp_path, "-", **options, columns=columns))
    assert features["age"].tolist() == [4, 3]
    assert features["place"].tolist()[1] == "x"
