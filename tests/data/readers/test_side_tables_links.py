from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpaudit.core.errors import DataError
from dpaudit.data import DataSource, Ratings, load
from dpaudit.data.readers.cells import is_missing

# Users a, b, c and d; e is not among them.
RATINGS = "a,x,3\nb,x,4\nc,x,5\nd,y,1\n"
relaxed = settings(
    deadline=None,
    max_examples=50,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read(
    folder: Path, links: str | bytes, ratings: str = RATINGS, more: Any = None, **trust: Any
) -> Ratings:
    (folder / "r.csv").write_text(ratings)
    path = folder / "t.csv"
    path.write_bytes(links if isinstance(links, bytes) else links.encode())
    source = {
        "format": "delimited",
        "path": str(folder / "r.csv"),
        "columns": {"user": 0, "item": 1, "rating": 2},
        "scale": {},
        "trust": {"path": str(path), **trust},
    }
    return load(DataSource.model_validate(source | (more or {})))


def matlab(folder: Path, rows: list[tuple[int, int]], **others: Any) -> str:
    from scipy.io import savemat

    savemat(folder / "t.mat", {"links": np.array(rows, np.uint16).reshape(-1, 2), **others})
    return str(folder / "t.mat")


def pairs(ratings: Ratings) -> set[tuple[str, str]]:
    assert ratings.friends is not None
    assert ratings.user_ids is not None
    ids, friends = ratings.user_ids, ratings.friends
    return set(zip(ids[friends.users].tolist(), ids[friends.friend].tolist(), strict=True))


def repairs(ratings: Ratings) -> dict[str, int]:
    return {repair.what: repair.count for repair in ratings.repairs}


# --- what is read


@pytest.mark.cases(
    ("content", "options"),
    [
        ("a,b\nb,d\n", {}),
        ("a,b,1\nb,d,1\n", {}),
        ("\r\na,b\r\n\r\nb,d\r\n", {}),
        (" a , b\n b,d \n", {}),
        ("a b 1\nb d 1\n", {"delimiter": " "}),
        ("a::b\nb::d\n", {"delimiter": "::"}),
        ("who,whom\na,b\nb,d\n", {"header": True}),
        (
            "day,whom,who\n1,b,a\n1,d,b\n",
            {"header": True, "columns": {"truster": "who", "trustee": "whom"}},
        ),
        ("b,1,a\nd,1,b\n", {"columns": {"truster": 2, "trustee": 0}}),
    ],
)
def test_text_formats(tmp_path: Path, content: str, options: dict[str, Any]) -> None:
    ratings = read(tmp_path, content, **options)
    assert pairs(ratings) == {("a", "b"), ("b", "d")}
    assert ratings.repairs == ()


@pytest.mark.long
def test_matlab(tmp_path: Path) -> None:
    path = matlab(tmp_path, [(10, 9), (9, 7)])
    ratings = read(tmp_path, "", "9,x,3\n10,x,3\n7,x,3\n", path=path, format="matlab")
    assert pairs(ratings) == {("10", "9"), ("9", "7")}
    assert ratings.friends is not None
    assert ratings.friends.users.tolist() == [1, 2]  # ids in the order of their numbers
    matlab(tmp_path, [(10, 9)], more=np.ones((3, 3)))
    with pytest.raises(DataError, match=r"data\.trust\.variable .*'links', 'more'"):
        read(tmp_path, "", "9,x,3\n10,x,3\n", path=path, format="matlab")
    trust = {"path": path, "format": "matlab", "variable": "links"}
    assert len(read(tmp_path, "", "9,x,3\n10,x,3\n", **trust).friends or ()) == 1


def test_links_of_purchases_and_of_other_formats(tmp_path: Path) -> None:
    more = {"columns": {"user": 0, "item": 1}, "scale": None}
    assert pairs(read(tmp_path, "a,b\n", more=more)) == {("a", "b")}
    binarized = read(tmp_path, "a,b\n", more={"binarize": 4})
    assert pairs(binarized) == {("a", "b")}
    assert len(binarized) == 2
    movielens = {"format": "movielens-1m", "columns": None, "scale": None}
    assert pairs(read(tmp_path, "1,2\n", "1::5::3\n2::5::3\n", movielens)) == {("1", "2")}


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    content = "a,b\na,a\ne,e\na,b\nb,a\na,b\nc,e\ne,f\nc,e\nf,c\n"
    ratings = read(tmp_path, content)
    assert pairs(ratings) == {("a", "b"), ("b", "a")}
    assert repairs(ratings) == {
        "links of a user to themselves": 2,
        "repeated links": 3,
        "links with an end that is not among the raters": 3,
    }


def test_mutual_links_count_in_both_directions(tmp_path: Path) -> None:
    ratings = read(tmp_path, "a,b\nb,a\nc,d\na,d\n", mutual=True)
    one_way = {("a", "b"), ("c", "d"), ("a", "d")}
    assert pairs(ratings) == one_way | {(right, left) for left, right in one_way}
    assert ratings.repairs == ()


@pytest.mark.long
@relaxed
@given(st.data())
def test_round_trip(tmp_path: Path, data: st.DataObject) -> None:
    name = st.text(st.characters(codec="utf-8", exclude_characters=',"\r\n'), min_size=1).filter(
        lambda text: (
            text.strip() == text
            and "\x00" not in text
            and len(text.splitlines()) == 1
            and not is_missing(text)
        )
    )
    users = data.draw(st.lists(name, min_size=2, max_size=6, unique=True))
    known = users[: data.draw(st.integers(2, len(users)))]
    rows = data.draw(st.lists(st.tuples(*[st.sampled_from(users)] * 2), max_size=15))
    rows.append((known[0], known[1]))
    mutual = data.draw(st.booleans())
    ratings = read(
        tmp_path,
        "".join(f"{left},{right}\n" for left, right in rows),
        "".join(f"{user},x,3\n" for user in known),
        mutual=mutual,
    )
    expected = {(l_, r) for l_, r in rows if l_ != r and l_ in known and r in known}
    assert pairs(ratings) == expected | ({(r, l_) for l_, r in expected} if mutual else set())
    assert sum(repairs(ratings).values()) == len(rows) - len(expected)


# --- what is refused, and where


@pytest.mark.cases(
    ("content", "options", "message"),
    [
        ("", {}, "t.csv is empty: give a file with links"),
        ("\n\n", {}, "t.csv is empty"),
        ("who,whom\n", {"header": True}, "t.csv holds no links: give a file with links"),
        ("a,b\n,d\n", {}, r"t.csv, line 2, column 0 \(.*\): the truster id is missing: complete"),
        ("a,b\nb, \n", {}, r"t.csv, line 2, column 1 \(.*\): the trustee id is missing: complete"),
        ("a,b\nb,\n,d\n", {}, "line 2, column 1 .*the trustee id is missing"),
        ("a;b\n", {}, r"set data.trust.delimiter, or data.trust.format, to .* such as ';'"),
        ("a,b\nb\n", {}, "t.csv, line 2: the line does not have the 2 fields"),
        ("a,b\n", {"columns": {"trustee": 2}}, "has no column 2: .*set data.trust.format"),
        (
            "a,a\na,e\ne,f\nf,e\n",
            {},
            r"t.csv: none of its 4 links leads from one user of .*r\.csv to another: its ids are "
            r"such as 'a', 'b', 'c', and a link is between 'a' and 'e'; most likely the files "
            "belong to different data sets",
        ),
        (
            "a,a\nb,b\ne,e\n",
            {},
            "t.csv: every one of its 3 links leads from a user to themselves: give a file of l",
        ),
    ],
)
def test_text_errors(tmp_path: Path, content: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path, content, **options)
    assert "\n" not in str(caught.value)


def test_missing_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, message in [
        (tmp_path / "none", r"none does not exist: correct data\.trust\.path"),
        (tmp_path, r"is a folder: set data\.trust\.path to the file of links inside it"),
        ("${NO_SUCH_FOLDER}/t", r"data\.trust\.path uses the environment variable NO_SUCH_FOLDER"),
    ]:
        with pytest.raises(DataError, match=message):
            read(tmp_path, "", path=str(path))
    monkeypatch.setenv("DPAUDIT_FOLDER", str(tmp_path))
    assert pairs(read(tmp_path, "a,b\n", path="${DPAUDIT_FOLDER}/t.csv")) == {("a", "b")}
    (tmp_path / "t.mat").write_bytes(b"no")
    with pytest.raises(DataError, match=r"t\.mat .* readable MATLAB"):
        read(tmp_path, "", path=str(tmp_path / "t.mat"), format="matlab")
