"""Times of interactions: numbers and dates."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.data.source import DataSource


def read(folder: Path, *rows: str, **options: Any) -> Ratings:
    """A file of users, items, ratings and times, without a header."""
    path = folder / "x.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    columns = {"user": 0, "item": 1, "rating": 2, "time": 3}
    return load(
        DataSource.model_validate(
            {"format": "delimited", "path": str(path), "columns": columns, "scale": {}, **options}
        )
    )


@pytest.mark.cases(
    ("cell", "seconds"),
    [
        ("881250949", 881250949),
        ("1.5", 1.5),
        ("-3", -3),
        ("1970-01-02", 86400),
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1970-01-01 00:00:00.5", 0.5),
        ("1970-01-01 00:01:00.25 UTC", 60.25),
    ],
)
def test_numbers_stay_and_dates_are_seconds(tmp_path: Path, cell: str, seconds: float) -> None:
    ratings = read(tmp_path, f"u,i,5,{cell}")
    assert ratings.time is not None
    assert ratings.time.tolist() == [seconds]


@pytest.mark.cases(
    ("cell", "said"),
    [
        ("soon", "line 2, column 3 .*the time 'soon' is neither a number nor a date such as"),
        ("31/01/2020", "the time '31/01/2020' is neither"),
        ("1e999", "the time '1e999' is neither"),
        ("", "the time is missing: complete or remove the row"),
        ("NaN", "the time is missing"),
        # Among numbers a date has another unit.
        ("2020-01-01", "the time '2020-01-01' is neither"),
    ],
)
def test_what_is_no_time_is_named_with_its_line(tmp_path: Path, cell: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read(tmp_path, "u,i,5,1", f"u,j,5,{cell}", "u,k,5,2")


def test_times_follow_their_rows(tmp_path: Path) -> None:
    ratings = read(tmp_path, "v,i,5,30", "u,j,4,20", "u,i,3,10")
    assert ratings.time is not None
    assert list(zip(ratings.user, ratings.item, ratings.time, strict=True)) == [
        (0, 0, 10),
        (0, 1, 20),
        (1, 0, 30),
    ]


SECOND = 1_700_000_000


@pytest.mark.cases(
    ("times", "wrong"),
    [
        ([SECOND, SECOND + 1, SECOND * 1000], "line 3, .*looks like milliseconds, and most .* sec"),
        ([SECOND * 10**6, SECOND, SECOND], "line 1, .*looks like microseconds"),
        ([SECOND * 10**9, SECOND * 10**6, SECOND * 10**9], "line 2, .*most others like nanosec"),
    ],
)
def test_times_of_two_units_are_refused(tmp_path: Path, times: list[int], wrong: str) -> None:
    with pytest.raises(DataError, match=wrong):
        read(tmp_path, *(f"u,{n},1,{time}" for n, time in enumerate(times)))


@pytest.mark.cases(
    "times",
    [[1, SECOND, 10**6, SECOND * 1000, 3], [SECOND, 0, -1, SECOND + 9], [20240131, 20240201]],
)
def test_numbers_that_are_no_times_of_two_units_are_read(tmp_path: Path, times: list[int]) -> None:
    ratings = read(tmp_path, *(f"u,{n},1,{time}" for n, time in enumerate(times)))
    assert ratings.time is not None
    assert ratings.time.tolist() == times


def test_the_number_of_a_row_may_be_its_time(tmp_path: Path) -> None:
    columns = {"user": 0, "item": 1, "rating": 2}
    rows = ("v,i,5,-", "u,j,9,-", "u,i,3,-")
    ratings = read(tmp_path, *rows, columns=columns, in_order=True, outside_scale="drop")
    assert ratings.time is not None
    assert ratings.time.tolist() == [2, 0]
    with pytest.raises(ValueError, match="in_order takes"):
        read(tmp_path, *rows, in_order=True)


def test_the_last_of_repeated_rows_is_the_last_in_time(tmp_path: Path) -> None:
    rows = ("u,i,1,9", "u,i,5,8", "u,j,2,1")
    ratings = read(tmp_path, *rows, on_duplicate="last")
    assert ratings.value.tolist() == [1, 2]
    assert ratings.time is not None
    assert ratings.time.tolist() == [9, 1]
    mean = read(tmp_path, *rows, on_duplicate="mean")
    assert mean.value.tolist() == [3, 2]
    assert mean.time is not None
    assert mean.time.tolist() == [9, 1]


@pytest.mark.cases("kind", ["datetime64[ns]", "datetime64[ns, UTC]", "date", "int64"])
def test_parquet_columns_of_times(tmp_path: Path, kind: str) -> None:
    days = [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)]
    values: Any = pd.Series(pd.to_datetime(pd.Series(days)))
    if kind == "date":
        values = days
    elif kind == "int64":
        values = [2, 1]
    elif "UTC" in kind:
        values = values.dt.tz_localize("UTC")
    path = tmp_path / "x.parquet"
    pd.DataFrame({"u": ["a", "a"], "i": ["b", "c"], "t": values}).to_parquet(path)
    columns = {"user": "u", "item": "i", "time": "t"}
    source = {"format": "parquet", "path": str(path), "columns": columns}
    ratings = load(DataSource.model_validate(source))
    assert ratings.time is not None
    assert np.argsort(ratings.time).tolist() == [1, 0]


def test_named_data_have_times_if_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "u.data"
    path.write_text("1\t1\t5\t881250949\n1\t2\t4\t881250940\n")
    source = {"format": "movielens-100k", "path": str(path)}
    plain = load(DataSource.model_validate(source))
    timed = load(DataSource.model_validate({**source, "timed": True}))
    assert plain.time is None
    assert timed.time is not None
    assert timed.time.tolist() == [881250949, 881250940]
    assert timed.digest != plain.digest
    with pytest.raises(ValueError, match="format 'filmtrust' has no times"):
        DataSource.model_validate({"format": "filmtrust", "path": "x", "timed": True})
