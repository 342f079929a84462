from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.data import DataSource, Ratings, load

OUTSIDE = "rows with a rating outside the scale"
SAME = "rows that repeat a user, an item and their rating"
LAST = "rows that repeat a user and an item with another rating, where the last counts"
MEAN = "rows that repeat a user and an item with another rating, where the mean counts"


def counts(ratings: Ratings) -> dict[str, int]:
    return {repair.what: repair.count for repair in ratings.repairs}


def triples(ratings: Ratings) -> set[tuple[str, str, float]]:
    assert ratings.user_ids is not None
    assert ratings.item_ids is not None
    users, items = ratings.user_ids[ratings.user], ratings.item_ids[ratings.item]
    return {(str(u), str(i), float(r)) for u, i, r in zip(users, items, ratings.value, strict=True)}


# --- ratings outside the scale, and repeats


def read(folder: Path, content: str, **options: Any) -> Ratings:
    (folder / "r.csv").write_text(content)
    source = {
        "format": "delimited",
        "path": str(folder / "r.csv"),
        "columns": {"user": 0, "item": 1, "rating": 2},
        "scale": {},
    }
    return load(DataSource.model_validate(source | options))


def test_rows_outside_the_scale_are_dropped_on_request(tmp_path: Path) -> None:
    content = "1,5,0\n1,6,3\n2,7,6\n3,6,-1\n1,5,4\n"
    with pytest.raises(DataError, match=r"line 1.*'0' .*data\.outside_scale = 'drop'"):
        read(tmp_path, content)
    ratings = read(tmp_path, content, outside_scale="drop")
    assert triples(ratings) == {("1", "6", 3), ("1", "5", 4)}
    assert counts(ratings) == {OUTSIDE: 3}
    assert (ratings.n_users, ratings.n_items) == (3, 3)  # users and items without ratings stay


@pytest.mark.cases(
    ("content", "message"),
    [
        ("1,5,0\n1,6,x\n", "line 2.*'x' is not a finite number"),
        ("1,5,0\n1,6,inf\n", "line 2.*'inf' is not a finite number"),
        ("1,5,0\n1,6,2.5\n", r"line 2.*'2\.5' is not a step"),
        ("1,5,0\n1,6,\n", "line 2.*the rating is missing"),
        ("1,5,0\n,6,9\n", "line 2.*the user id is missing"),
        ("1,5,0\n1,6,9\n", "holds no ratings"),
        ("0,5,0\n1,6,3\n2,2,2\n1,6,3\n", r"line 2 and line 4"),
    ],
)
def test_other_faults_stay_faults(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, content, outside_scale="drop", on_duplicate="error")


def test_exact_repeats_are_counted_apart(tmp_path: Path) -> None:
    content = "1,5,3\n1,5,2\n2,5,4\n1,5,3\n2,5,4\n3,5,1\n2,6,1\n2,6,2\n"
    ratings = read(tmp_path, content, on_duplicate="last")
    assert triples(ratings) == {("1", "5", 3), ("2", "5", 4), ("3", "5", 1), ("2", "6", 2)}
    assert counts(ratings) == {SAME: 2, LAST: 2}
    assert counts(read(tmp_path, content, on_duplicate="mean")) == {SAME: 2, MEAN: 2}
    assert read(tmp_path, "1,5,3\n", on_duplicate="last").repairs == ()


RARE = "ratings of items with fewer than 2 raters"


def test_items_of_few_raters_and_who_rated_nothing_else_are_dropped(tmp_path: Path) -> None:
    content = "1,5,3\n1,6,2\n2,5,4\n3,7,1\n1,6,2\n"
    ratings = read(tmp_path, content, on_duplicate="last", least_raters=2)
    assert triples(ratings) == {("1", "5", 3), ("2", "5", 4)}
    assert (ratings.n_users, ratings.n_items) == (2, 1)
    # A user who rates an item twice is one rater.
    assert counts(ratings) == {SAME: 1, RARE: 2}
    assert counts(read(tmp_path, content, on_duplicate="last", least_raters=1)) == {SAME: 1}


def test_raters_are_counted_before_ratings_become_purchases(tmp_path: Path) -> None:
    ratings = read(tmp_path, "1,5,1\n2,5,4\n2,6,4\n", least_raters=2, binarize=4)
    assert triples(ratings) == {("2", "5", 1)}
    assert (ratings.n_users, ratings.n_items) == (2, 1)


def test_no_item_with_so_many_raters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"data\.least_raters = 3 .* has 2"):
        read(tmp_path, "1,5,3\n2,5,4\n", least_raters=3)


def test_purchases_keep_the_count(tmp_path: Path) -> None:
    ratings = read(tmp_path, "1,5,0\n1,6,4\n", outside_scale="drop", binarize=4)
    assert counts(ratings) == {OUTSIDE: 1}


# --- published data sets read from a folder


def epinions(
    folder: Path, rows: Sequence[tuple[int, ...]], links: Sequence[tuple[int, int]]
) -> DataSource:
    from scipy.io import savemat

    savemat(folder / "rating.mat", {"rating": np.array(rows, np.int32)})
    savemat(folder / "trustnetwork.mat", {"trustnetwork": np.array(links, np.uint16)})
    return DataSource(format="epinions", path=str(folder))


# user, item, category, rating; the links know the last user as 2810.
TWICE = [(7, 1, 3, 5), (2808, 1, 3, 4), (2808, 2, 4, 1), (2809, 1, 3, 4), (2809, 2, 4, 1)]
LATE = [(2810, 1, 3, 2), (2811, 2, 4, 3)]


@pytest.mark.long
def test_epinions_is_repaired(tmp_path: Path) -> None:
    links = [(2810, 7), (2809, 2808), (2811, 7), (2808, 2808), (2810, 7)]
    ratings = load(epinions(tmp_path, TWICE + LATE, links))
    assert triples(ratings) == {
        ("7", "1", 5),
        ("2808", "1", 4),
        ("2808", "2", 1),
        ("2809", "1", 2),
        ("2810", "2", 3),
    }
    assert ratings.friends is not None
    assert ratings.user_ids is not None
    ends = ratings.user_ids[ratings.friends.users], ratings.user_ids[ratings.friends.friend]
    assert set(zip(*(end.tolist() for end in ends), strict=True)) == {
        ("2810", "7"),
        ("2809", "2808"),
    }
    assert list(counts(ratings).values()) == [2, 2, 1, 1, 1]


@pytest.mark.long
@pytest.mark.parametrize(
    "rows",
    [
        TWICE[:3] + LATE,
        TWICE[3:] + LATE,
        [*TWICE[:4], *LATE],
        [*TWICE[:4], (2809, 2, 4, 2), *LATE],
        [*TWICE[:4], (2809, 2, 5, 1), *LATE],
    ],
)
def test_another_edition_of_epinions_is_refused(
    tmp_path: Path, rows: list[tuple[int, ...]]
) -> None:
    source = epinions(tmp_path, rows, [(2810, 7)])
    with pytest.raises(DataError, match=r"rating\.mat: .*2809 .*2808"):
        load(source)


@pytest.mark.long
def test_faults_of_repaired_rows_have_the_file_s_numbers(tmp_path: Path) -> None:
    source = epinions(tmp_path, [*TWICE, *LATE, (2812, 1, 1, 6)], [(2810, 7)])
    with pytest.raises(DataError, match=r"rating\.mat, row 8, column 3 .*rating 6 "):
        load(source)


def test_folders_that_are_none_or_lack_a_file(tmp_path: Path) -> None:
    source = DataSource(format="filmtrust", path=str(tmp_path))
    with pytest.raises(DataError, match=r"ratings\.txt does not exist"):
        load(source)
    (tmp_path / "ratings.txt").write_text("\n1 1 0.5\n2 1 4\n")
    with pytest.raises(DataError, match=r"trust\.txt does not exist"):
        load(source)
    (tmp_path / "trust.txt").write_text("1 2 1\n")
    ratings = load(source)
    assert ratings.friends is not None
    assert ratings.friends.users.tolist() == [0]
    file = DataSource(format="filmtrust", path=str(tmp_path / "ratings.txt"))
    with pytest.raises(DataError, match=r"ratings\.txt is a file .*'filmtrust'"):
        load(file)


# --- the published sets themselves


def published(name: str, folder: Path, **options: Any) -> DataSource:
    if not (folder / name).is_dir():
        pytest.skip(f"{name} is not in the folder DPAUDIT_DATA")
    return DataSource.model_validate({"format": name, "path": str(folder / name), **options})


def sizes(ratings: Ratings) -> tuple[int, int, int, int]:
    assert ratings.friends is not None
    return len(ratings), ratings.n_users, ratings.n_items, len(ratings.friends)


def test_filmtrust(real_data: Path) -> None:
    ratings = load(published("filmtrust", real_data))
    assert sizes(ratings) == (35_497 - 3, 1_508, 2_071, 1_632)
    strangers = "links with an end that is not among the raters"
    assert counts(ratings) == {SAME: 1, LAST: 2, strangers: 1_853 - 1_632}
    mutual = load(published("filmtrust", real_data, trust={"mutual": True}))
    assert mutual.friends is not None
    assert 1_632 < len(mutual.friends) <= 2 * 1_632
    assert (
        np.bincount(mutual.friends.friend, minlength=1_508) == np.diff(mutual.friends.start)
    ).all()


@pytest.mark.long
def test_ciao(real_data: Path) -> None:
    ratings = load(published("ciao", real_data, sensitive={"categories": [19, 27]}))
    assert sizes(ratings)[1:] == (7_375, 105_114, 111_781)
    numbers = counts(ratings)
    assert list(numbers) == [OUTSIDE, SAME, LAST]
    assert numbers[OUTSIDE] == 34
    assert len(ratings) + sum(numbers.values()) == 284_086
    # Before repeats are merged the two categories have 4,258 and 390 rows.
    assert 4_500 < ratings.kept_private.sum() <= 4_258 + 390
    with pytest.raises(DataError, match=r"row 18076.*the rating 0 lies outside"):
        load(published("ciao", real_data, outside_scale="error"))


def test_ciaodvd(real_data: Path) -> None:
    ratings = load(published("ciaodvd", real_data))
    assert sizes(ratings) == (72_665 - 320, 17_615, 16_121, 22_484)


@pytest.mark.long
def test_epinions(real_data: Path) -> None:
    ratings = load(published("epinions", real_data))
    assert sizes(ratings)[1:] == (18_563, 262_614, 249_971)
    numbers = counts(ratings)
    assert len(ratings) + numbers[SAME] + numbers[LAST] == 769_983
    assert numbers["rows of user 2809, a repeat of user 2808"] == 17
    assert numbers["links of a user to themselves"] == 224
    assert numbers["repeated links"] == 355_754 - 355_727
    # Friends rate the same items more often than users who are not: the ids are the same ones.
    assert ratings.friends is not None
    rng = np.random.default_rng(0)
    some = rng.choice(len(ratings.friends), 20_000, replace=False)
    left, right = ratings.friends.users[some], ratings.friends.friend[some]
    assert common(ratings, left, right) > 1.8
    assert common(ratings, left, rng.permutation(right)) < 1.3


def common(ratings: Ratings, left: NDArray[np.int32], right: NDArray[np.int32]) -> float:
    """The mean number of items that both ends of a link rated."""
    from scipy.sparse import csr_array

    cells = np.ones(len(ratings)), ratings.item, ratings.by_user.start
    rated = csr_array(cells, shape=(ratings.n_users, ratings.n_items))
    apart = left != right
    return float((rated[left[apart]] * rated[right[apart]]).sum() / apart.sum())
