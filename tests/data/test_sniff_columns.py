"""Columns without names are guessed by what they hold; where several orders are likely, none is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dpaudit.data.readers.columns import UnknownColumnsError
from dpaudit.data.sniff import is_time, positions_of

Cell = Callable[[int, int], object]

BUYER: Cell = lambda user, item: f"A{user:012}"  # noqa: E731
GOODS: Cell = lambda user, item: f"B0{item:08}" if item % 3 else f"03128532{item:02}"  # noqa: E731
USER: Cell = lambda user, item: user  # noqa: E731
ITEM: Cell = lambda user, item: 500 + item  # noqa: E731
STARS: Cell = lambda user, item: 1 + (user * 7 + item * 3) % 5  # noqa: E731
HALVES: Cell = lambda user, item: 0.5 + (user * 7 + item * 3) % 10 / 2  # noqa: E731
GENRE: Cell = lambda user, item: 1 + item % 17  # noqa: E731
REVIEW: Cell = lambda user, item: 1000 * user + item  # noqa: E731
PLAYS: Cell = lambda user, item: (user * 31 + item * 17) % 400  # noqa: E731
NAME: Cell = lambda user, item: f"artist {item}"  # noqa: E731
EMPTY: Cell = lambda user, item: ""  # noqa: E731
DAY: Cell = lambda user, item: f"2005-{1 + item % 12:02}-06"  # noqa: E731
STAMP: Cell = lambda user, item: f"2010-10-{1 + item % 28:02}T23:01:27Z"  # noqa: E731
CLOCK: Cell = lambda user, item: f"11/{1 + item % 28}/2019 9:05:58 AM"  # noqa: E731
SECONDS: Cell = lambda user, item: 881_250_949 + 60 * item + user  # noqa: E731
MILLIS: Cell = lambda user, item: 1_659_304_800_025 + 60 * item + user  # noqa: E731
LATITUDE: Cell = lambda user, item: 30.2359 + item / 1000  # noqa: E731
WEIGHT: Cell = lambda user, item: (user * 31 + item * 17) % 400 / 399 - 0.5  # noqa: E731


def rows(*cells: Cell) -> list[list[str]]:
    return [
        [str(cell(user, item)) for cell in cells]
        for user in range(40)
        for item in range(60)
        if (user * 13 + item * 7) % 5 < 2
    ]


def constant(value: object) -> Cell:
    return lambda user, item: value


@pytest.mark.cases(
    ("cells", "meanings"),
    [
        ([USER, ITEM], {"user": 0, "item": 1}),
        ([BUYER, GOODS, STARS, SECONDS], {"user": 0, "item": 1, "value": 2, "time": 3}),
        ([GOODS, BUYER, STARS, SECONDS], {"user": 1, "item": 0, "value": 2, "time": 3}),
        ([GOODS, BUYER], {"user": 1, "item": 0}),
        ([USER, ITEM, STARS], {"user": 0, "item": 1, "value": 2}),
        ([USER, ITEM, HALVES, SECONDS], {"user": 0, "item": 1, "value": 2, "time": 3}),
        ([USER, ITEM, SECONDS, STARS], {"user": 0, "item": 1, "value": 3, "time": 2}),
        ([USER, ITEM, PLAYS], {"user": 0, "item": 1, "value": 2}),
        ([USER, ITEM, WEIGHT], {"user": 0, "item": 1, "value": 2}),
        ([USER, ITEM, MILLIS], {"user": 0, "item": 1, "time": 2}),
        ([USER, STARS, DAY, ITEM], {"user": 0, "item": 3, "value": 1, "time": 2}),
        ([USER, HALVES, ITEM], {"user": 0, "item": 2, "value": 1}),
        ([USER, STAMP, NAME], {"user": 0, "item": 2, "time": 1}),
        ([STAMP, USER, ITEM], {"user": 1, "item": 2, "time": 0}),
        ([MILLIS, USER, ITEM, STARS], {"user": 1, "item": 2, "value": 3, "time": 0}),
        ([USER, NAME, EMPTY, STARS], {"user": 0, "item": 1, "value": 3}),
        (
            [USER, NAME, constant("purchase"), PLAYS, constant(0)],
            {"user": 0, "item": 1, "value": 3},
        ),
        ([constant("u1"), ITEM, STARS], {"user": 0, "item": 1, "value": 2}),
        ([USER, constant(9), STARS], {"user": 0, "item": 1, "value": 2}),
    ],
)
def test_what_is_clear_is_guessed(cells: list[Cell], meanings: dict[str, Any]) -> None:
    assert positions_of("r.csv", rows(*cells)) == meanings


@pytest.mark.cases(
    ("cells", "guess"),
    [
        ([USER, ITEM, GENRE, REVIEW, STARS, DAY], "user=0,item=1,rating=4"),
        ([USER, STAMP, LATITUDE, LATITUDE, ITEM], "user=0,item=4"),
        ([USER, STAMP, ITEM, NAME, EMPTY, NAME], "user=0,item=2"),
        ([REVIEW, USER, CLOCK, NAME, NAME], "user=1,item=3"),
        ([REVIEW, USER, ITEM], "user=1,item=2"),
        ([STARS, USER, PLAYS], "user=1,item=2,rating=0"),
        ([USER, GENRE, DAY, ITEM], "user=0,item=1"),
        ([USER, STARS, DAY], "user=0,item=NUMBER,rating=1"),
        ([USER, SECONDS], "user=0,item=NUMBER"),
        ([STAMP, MILLIS], "user=NUMBER,item=NUMBER"),
        ([USER, LATITUDE, DAY], "user=0,item=NUMBER"),
        ([USER, ITEM, NAME], "user=0,item=1"),
        ([USER, NAME, lambda user, item: ("buy", "play")[item % 2], PLAYS], "user=0,item=1"),
    ],
)
def test_what_is_not_clear_needs_a_choice(cells: list[Cell], guess: str) -> None:
    with pytest.raises(UnknownColumnsError, match=r"r\.csv has no header") as caught:
        positions_of("r.csv", rows(*cells))
    assert caught.value.guess == guess
    assert f"--columns {guess} for dpaudit init" in str(caught.value)


@pytest.mark.cases(
    "cell",
    [
        *("2010-10-01T23:01:27Z", "2005-09-06", "2005/9/6 1:02", "2020.01.31", "31.01.2020"),
        *("11/11/2019 9:05:58 AM", "1/31/20", "31-01-2020 12:00", "12:00:01", "1364505600"),
        *("1659304800.5", "1659304800025", "1659304800025000", "Fri Jan 31 12:00:00 +0000 2020"),
        *("31 Jan 2020", "January 31, 2020", "Fri, 31 Jan 2020 12:00:00 GMT", "09 13, 2009"),
        *("2020-01-01 10:00:00", "20141206", "20141206120000", "2014-12-06 02"),
    ],
)
def test_times_are_known(cell: str) -> None:
    assert is_time(cell)


@pytest.mark.cases(
    "cell",
    [
        *("1", "500", "104000100188", "0312853238", "B00005N5PF", "user_000001", "2.5", "1/2", ""),
        *(
            "978-0316769488",
            "20141306",
            "30141206",
            "track 12",
            "f9e2-11-02",
            "1-2-3-4",
            "99999999999999999999",
        ),
    ],
)
def test_other_cells_are_no_times(cell: str) -> None:
    assert not is_time(cell)
