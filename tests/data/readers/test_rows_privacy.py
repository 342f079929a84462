from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpaudit.core.errors import DataError
from dpaudit.data import DataSource, Ratings, SyntheticParams, load

SMALL = SyntheticParams(n_users=30, n_items=20, mean_per_user=8, minimum_per_user=5)
# user, item, rating, category, setting
ROWS = "1,5,3,health,0\n1,6,3,books,1\n2,5,4,health,1\n2,7,4,,0\n3,6,1,family,0\n"


def read(folder: Path, content: str = ROWS, columns: Any = None, **options: Any) -> Ratings:
    (folder / "r.csv").write_text(content)
    source = {
        "format": "delimited",
        "path": str(folder / "r.csv"),
        "columns": {"user": 0, "item": 1, "rating": 2, **(columns or {})},
        "scale": {},
    }
    return load(DataSource.model_validate(source | options))


def private(ratings: Ratings) -> set[tuple[str, str]]:
    assert ratings.sensitive is not None
    assert ratings.user_ids is not None
    assert ratings.item_ids is not None
    users = ratings.user_ids[ratings.user[ratings.sensitive]].tolist()
    return set(zip(users, ratings.item_ids[ratings.item[ratings.sensitive]].tolist(), strict=True))


def shared(**sensitive: Any) -> Ratings:
    return load(DataSource.model_validate({"synthetic": SMALL, "sensitive": sensitive}))


# --- a random share


def test_nobody_says_so_by_default(tmp_path: Path) -> None:
    assert load(DataSource(synthetic=SMALL)).sensitive is None
    assert read(tmp_path, columns={"category": 3}).sensitive is None


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 2**40))
def test_a_share_is_exact_and_holds_the_smaller(one: float, two: float, seed: int) -> None:
    less, more = (shared(share=share, seed=seed) for share in sorted((one, two)))
    for ratings, share in ((less, min(one, two)), (more, max(one, two))):
        assert ratings.kept_private.sum() == round(share * len(ratings))
    assert not (less.kept_private & ~more.kept_private).any()
    assert less.value.tolist() == more.value.tolist()


def test_a_share_takes_every_rating_equally_often() -> None:
    drawn: Iterable[Ratings] = (shared(share=0.25, seed=seed) for seed in range(400))
    counts = np.sum([ratings.kept_private for ratings in drawn], axis=0)
    # Binomial(400, 1/4) for each of some 250 ratings, with these seeds: sd 8.7.
    assert 60 < counts.min() <= counts.max() < 140
    assert 7 < counts.std() < 10.5


def test_the_seed_decides() -> None:
    one, again, other = (shared(share=0.3, seed=seed) for seed in (1, 1, 2))
    assert one.digest == again.digest != other.digest
    assert shared(share=0).kept_private.sum() == 0
    assert shared(share=1).kept_private.all()


def test_a_share_is_of_the_purchases_that_are_left() -> None:
    source = {"synthetic": SMALL, "sensitive": {"share": 0.5}, "binarize": 4}
    ratings = load(DataSource.model_validate(source))
    assert ratings.kept_private.sum() == round(0.5 * len(ratings))


# --- categories


def test_categories(tmp_path: Path) -> None:
    def of(*names: Any, **options: Any) -> Ratings:
        return read(tmp_path, columns={"category": 3}, sensitive={"categories": names, **options})

    assert private(of("health")) == {("1", "5"), ("2", "5")}
    assert private(of("family", "books")) == {("1", "6"), ("3", "6")}
    repairs = of("health").repairs
    assert [(repair.what, repair.count) for repair in repairs] == [
        ("rows without a category, taken as not sensitive", 1)
    ]
    random = of("health", "family", matched_random=True, seed=4)
    assert random.kept_private.sum() == 3
    several = [private(of("health", matched_random=True, seed=seed)) for seed in range(20)]
    assert len({frozenset(one) for one in several}) > 3
    assert set().union(*several) == {("1", "5"), ("1", "6"), ("2", "5"), ("2", "7"), ("3", "6")}


def test_categories_are_as_the_file_writes_them(tmp_path: Path) -> None:
    content = "1,5,3,07\n1,6,3,7\n"
    for name, expected in (("07", {("1", "5")}), ("7", {("1", "6")}), (7, {("1", "6")})):
        ratings = read(tmp_path, content, {"category": 3}, sensitive={"categories": [name]})
        assert private(ratings) == expected


def test_purchases_keep_their_categories(tmp_path: Path) -> None:
    ratings = read(
        tmp_path, columns={"category": 3}, binarize=4, sensitive={"categories": ["health"]}
    )
    assert private(ratings) == {("2", "5")}
    assert len(ratings) == 2


def test_unknown_categories_are_refused(tmp_path: Path) -> None:
    message = (
        r"r.csv, column 3 \(counted from 0\): no row has the category 'adult' of "
        r"data.sensitive.categories: choose from books, family, health$"
    )
    with pytest.raises(DataError, match=message):
        read(tmp_path, columns={"category": 3}, sensitive={"categories": ["health", "adult"]})
    blank = r"no row has a category: correct data\.columns\.category, or set data\.sensitive\.share"
    with pytest.raises(DataError, match=blank):
        read(tmp_path, "1,5,3,\n1,6,3, \n", {"category": 3}, sensitive={"categories": ["x"]})
    many = "".join(f"1,{item},3,{item}\n" for item in range(60))
    with pytest.raises(DataError, match=r"choose from 0, 1, .*, 39 and 20 more$"):
        read(tmp_path, many, {"category": 3}, sensitive={"categories": ["x"]})


# --- a column


def test_a_column_of_settings(tmp_path: Path) -> None:
    expected = {("1", "6"), ("2", "5")}
    assert private(read(tmp_path, columns={"sensitive": 4})) == expected
    spaced = ROWS.replace(",0\n", ", 0.0 \n").replace(",1\n", ", 1\n")
    assert private(read(tmp_path, spaced, {"sensitive": 4})) == expected


@pytest.mark.cases(
    ("setting", "said"),
    [
        ("2", "'2' is"),
        ("yes", "'yes' is"),
        ("", "is missing,"),
        ("nan", "'nan' is"),
        ("-1", "'-1'"),
    ],
)
def test_other_settings_are_refused(tmp_path: Path, setting: str, said: str) -> None:
    with pytest.raises(DataError, match=rf"r\.csv, line 2, column 3 .*: the setting {said}"):
        read(tmp_path, f"1,5,3,0\n1,6,3,{setting}\n1,7,3,x\n", {"sensitive": 3})


def test_the_first_faulty_row_is_named_whatever_its_fault(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"line 1.*the setting 'x'"):
        read(tmp_path, "1,5,3,x\n1,6,9,0\n", {"sensitive": 3})
    with pytest.raises(DataError, match=r"line 1.*the rating '9'"):
        read(tmp_path, "1,5,9,0\n1,6,3,x\n", {"sensitive": 3})


@pytest.mark.long
def test_parquet_and_matlab_have_settings_and_categories(tmp_path: Path) -> None:
    import pandas as pd
    from scipy.io import savemat

    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {"u": [1, 1, 2], "i": [5, 6, 5], "c": [7, 8, None], "s": [True, False, True]}
    )
    frame.to_parquet(tmp_path / "r.parquet")
    savemat(tmp_path / "r.mat", {"r": frame.astype(float).to_numpy()})
    columns = {"user": "u", "item": "i"}
    for name, format_, settings_, category in (
        ("r.parquet", "parquet", "s", "c"),
        ("r.mat", "matlab", 3, 2),
    ):
        known = columns if format_ == "parquet" else {"user": 0, "item": 1}
        source = {"format": format_, "path": str(tmp_path / name)}
        by_column = source | {"columns": {**known, "sensitive": settings_}}
        assert private(load(DataSource.model_validate(by_column))) == {("1", "5"), ("2", "5")}
        by_category = source | {
            "columns": {**known, "category": category},
            "sensitive": {"categories": [8]},
        }
        ratings = load(DataSource.model_validate(by_category))
        assert private(ratings) == {("1", "6")}
        assert ratings.repairs[0].count == 1


# --- repeats


@pytest.mark.parametrize(
    ("on_duplicate", "expected"), [("last", {("2", "6")}), ("mean", {("1", "5"), ("2", "6")})]
)
def test_a_repeated_rating_has_one_setting(
    tmp_path: Path, on_duplicate: str, expected: set[tuple[str, str]]
) -> None:
    content = "1,5,3,1\n2,6,3,0\n1,5,4,0\n2,6,3,1\n1,6,3,0\n"
    ratings = read(tmp_path, content, {"sensitive": 3}, on_duplicate=on_duplicate)
    assert private(ratings) == expected
