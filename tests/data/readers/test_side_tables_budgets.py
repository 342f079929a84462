from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data import DataSource, Ratings, load
from dpaudit.data.neighbors import RatingRemoved, UserReplaced, apply
from dpaudit.data.ratings import Scale

RATINGS = "10,x,3\n9,x,4\n7,y,5\n"


def read(folder: Path, budgets: str, ratings: str = RATINGS, **options: Any) -> Ratings:
    (folder / "r.csv").write_text(ratings)
    (folder / "b.csv").write_text(budgets)
    more = options.pop("more", {})
    source = {
        "format": "delimited",
        "path": str(folder / "r.csv"),
        "columns": {"user": 0, "item": 1, "rating": 2},
        "scale": {},
        "budgets": {"path": str(folder / "b.csv"), **options},
    }
    return load(DataSource.model_validate(source | more))


@pytest.mark.cases(
    ("content", "options"),
    [
        ("10,1\n9,.5\n7,1e-3\n", {}),
        ("7;0.001\n10;1.0\n9;0.5\n", {"delimiter": ";"}),
        (
            "plan,share,who\na,1,10\nb,0.5,9\nc,0.001,7\n",
            {"header": True, "columns": {"user": "who", "budget": "share"}},
        ),
        ("x,1,10\nx,0.5,9\nx,0.001,7\n", {"columns": {"user": 2, "budget": 1}}),
    ],
)
def test_each_user_has_the_budget_of_their_row(
    tmp_path: Path, content: str, options: dict[str, Any]
) -> None:
    ratings = read(tmp_path, content, **options)
    assert ratings.budgets is not None
    assert ratings.budgets.tolist() == [0.001, 0.5, 1.0]  # users 7, 9 and 10
    assert ratings.repairs == ()
    assert ratings.digest != read(tmp_path, "10,1\n9,1\n7,1\n").digest


def test_users_without_ratings_are_counted(tmp_path: Path) -> None:
    ratings = read(tmp_path, "10,1\n8,.1\n9,.5\n6,.1\n7,.2\n")
    assert ratings.budgets is not None
    assert ratings.budgets.tolist() == [0.2, 0.5, 1.0]
    assert [(repair.what, repair.count) for repair in ratings.repairs] == [
        ("budgets of users without ratings", 2)
    ]
    few = read(tmp_path, "10,1\n9,.5\n7,.2\n", more={"least_raters": 2})
    assert few.budgets is not None
    assert few.budgets.tolist() == [0.5, 1.0]


@pytest.mark.cases(
    ("row", "message"),
    [
        ("9,0", "line 2, column 1 .*: the budget '0' is no number above 0 and at most 1: give"),
        ("9,-0.5", "line 2, column 1 .*: the budget '-0.5' is no number"),
        ("9,1.01", "line 2, column 1 .*: the budget '1.01' is no number"),
        ("9,nan", "line 2, column 1 .*: the budget 'nan' is no number"),
        ("9,inf", "line 2, column 1 .*: the budget 'inf' is no number"),
        ("9,low", "line 2, column 1 .*: the budget 'low' is no number"),
        ("9,", "line 2, column 1 .*: the budget is missing: give the share of ε"),
        (",1", "line 2, column 0 .*: the user id is missing"),
        ("10,1", "line 2, column 0 .*: user '10' has a budget already: keep one row"),
        ("8,1", "column 0 .*: 1 of the 3 users of .*r.csv have no budget, such as user '9': add"),
    ],
)
def test_wrong_rows_are_refused_with_their_place(tmp_path: Path, row: str, message: str) -> None:
    with pytest.raises(DataError, match=rf"b\.csv, {message}"):
        read(tmp_path, f"10,1\n{row}\n7,1\n")


def test_names_of_columns_in_the_first_row_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1, .*data\.budgets\.header = true"):
        read(tmp_path, "user,budget\n10,1\n9,1\n7,1\n")
    with pytest.raises(DataError, match=r"does not exist: correct data\.budgets\.path"):
        read(tmp_path, "", path=str(tmp_path / "none.csv"))


def test_users_keep_their_budgets_in_neighbouring_data_sets() -> None:
    budgets = np.array([0.5, 0.25])
    ratings = Ratings.build(
        np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1.0, 2, 3]), 2, 2, Scale(),
        budgets=budgets,
    )  # fmt: skip
    items, values = np.array([1], np.int32), np.array([5], np.float32)
    for change in (RatingRemoved(0, 1), UserReplaced(0, items, values)):
        same = apply(ratings, change).budgets
        assert same is not None
        assert same.tolist() == [0.5, 0.25]
    for wrong in (np.array([0.5]), np.array([0.5, 0.0]), np.array([0.5, np.nan])):
        with pytest.raises(DataError, match="at most 1 for each of 2"):
            Ratings.build(ratings.user, ratings.item, ratings.value, 2, 2, Scale(), budgets=wrong)
