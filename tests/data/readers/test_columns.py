"""What is decided of columns, in files, frames and tables that are joined to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpaudit.core.errors import DataError
from dpaudit.data.interactions import given_ratings
from dpaudit.data.readers.load import load
from dpaudit.data.sniff import sniff
from dpaudit.data.source import DataSource

ACCENTED = ["\u00e9", "\u00fc", "\u00f1"]


def csv(folder: Path, rows: Sequence[Sequence[object]], name: str = "r.csv") -> Path:
    path = folder / name
    pd.DataFrame(rows[1:], columns=list(rows[0])).to_csv(path, index=False)
    return path


@pytest.mark.cases("column", [0, 1])
def test_ids_in_two_unicode_forms_are_merged_and_counted(tmp_path: Path, column: int) -> None:
    import unicodedata

    rows = [[f"{name}{n}", f"x{n}"] for n in range(3) for name in ACCENTED]
    rows += [[unicodedata.normalize("NFD", a), f"{b}y"] for a, b in rows]
    rows = [row if column == 0 else row[::-1] for row in rows]
    names = ("user_id", "item_id")
    path = csv(tmp_path, [names, *rows])
    ratings = load(sniff(path).source)
    assert (ratings.n_users, ratings.n_items)[column] == 9
    [repair] = ratings.repairs
    assert repair.what.startswith(f"{('user', 'item')[column]} ids that differ only in")
    assert repair.count == 9
    assert given_ratings(pd.DataFrame(rows, columns=names)).repairs == ratings.repairs


@pytest.mark.cases(
    "pair", [("Ann", "ann"), ("007", "7"), ("a", "a "), ("a b", "a  b"), ("\uff21", "a")]
)
def test_ids_that_are_almost_alike_are_kept_apart_and_counted(
    tmp_path: Path, pair: tuple[str, str]
) -> None:
    frame = pd.DataFrame({"user_id": [*pair, "x"], "item_id": ["1", "2", "3"]})
    frame.to_parquet(tmp_path / "r.parquet")
    for ratings in given_ratings(frame), load(sniff(tmp_path / "r.parquet").source):
        [repair] = ratings.repairs
        assert (ratings.n_users, repair.count) == (3, 1)
        assert repair.what.startswith("user ids that differ from others only in capitals")


@pytest.mark.cases(
    ("names", "lists"),
    [
        (["1|2", "2|3|1", "3", "1|3|4|2", "4|1"], True),
        (["1|2", "2|1", "1", "2"], True),
        (["1|2", "2|3", "3|4", "4|1"], False),
        (["1,234", "2,345", "1,234,567", "2,345,678", "999"], False),
    ],
)
def test_lists_are_refused_also_if_users_share_them(
    tmp_path: Path, names: list[str], lists: bool
) -> None:
    rows = [(f"u{user}", name) for user in range(6) for name in names]
    path = csv(tmp_path, [("user_id", "item_id"), *rows])
    if not lists:
        assert load(sniff(path).source).n_items == len(names)
        return
    with pytest.raises(DataError, match=r"column 'item_id': .* is a list"):
        load(sniff(path).source)


def test_tables_are_joined_whatever_the_unicode_form(tmp_path: Path) -> None:
    rows = [[f"e\u0301{n}", n % 4] for n in range(8)]
    csv(tmp_path, [("id", "age"), *([f"\u00e9{n}", 20 + n] for n in range(8))], "users.csv")
    csv(tmp_path, [("a", "b"), ("\u00e90", "e\u03011")], "links.csv")
    csv(tmp_path, [("user", "budget"), *([f"\u00e9{n}", 0.5] for n in range(8))], "budgets.csv")
    source = DataSource.model_validate(
        {
            "format": "delimited",
            "path": str(csv(tmp_path, [("user", "item"), *rows])),
            "header": True,
            "columns": {"user": "user", "item": "item"},
            "users": {
                "path": str(tmp_path / "users.csv"),
                "header": True,
                "id": "id",
                "columns": {"age": "age"},
            },
            "trust": {"path": str(tmp_path / "links.csv"), "header": True},
            "budgets": {"path": str(tmp_path / "budgets.csv"), "header": True},
        }
    )
    ratings = load(source)
    assert ratings.repairs == ()
    assert ratings.user_features is not None
    assert ratings.user_features["age"].tolist() == [*range(20, 28)]
    assert ratings.friends is not None
    assert len(ratings.friends) == 1


@pytest.mark.cases(
    ("yes", "no"),
    [
        ("True", "False"), ("TRUE", "FALSE"), ("true", "0"), ("1", "False"),
        ("Yes", "No"), ("Y", "N"), ("t", "f"), ("1", "0"),
    ],
)  # fmt: skip
@pytest.mark.cases("name", ["click", "is_click", "rating", "label"])
def test_words_of_yes_and_no_are_1_and_0(tmp_path: Path, yes: str, no: str, name: str) -> None:
    rows = [[n % 9, n, yes if n % 3 else no] for n in range(30)]
    guess = sniff(csv(tmp_path, [("user", "item", name), *rows]))
    assert guess.source.binarize == 1
    assert len(load(guess.source)) == 20
    with pytest.raises(DataError, match="is no interaction"):
        given_ratings(pd.DataFrame(rows, columns=["user", "item", name]))


def test_booleans_of_types_are_1_and_0(tmp_path: Path) -> None:
    rows = [{"user": n % 9, "item": n, "click": n % 3 > 0} for n in range(30)]
    pd.DataFrame(rows).to_parquet(tmp_path / "r.parquet")
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for name in ("r.parquet", "r.jsonl"):
        assert len(load(sniff(tmp_path / name).source)) == 20


@pytest.mark.cases(("name", "fails"), [("click", True), ("label", False)])
def test_two_words_of_an_act_are_asked_for(tmp_path: Path, name: str, fails: bool) -> None:
    path = csv(
        tmp_path, [("user", "item", name), *([n, n, ["on", "off"][n % 2]] for n in range(9))]
    )
    if not fails:
        assert "every row is an interaction" in sniff(path).ratings
        return
    with pytest.raises(DataError, match=f"column '{name}': .*'on' and 'off'"):
        sniff(path)


def test_words_beside_yes_and_no_are_no_numbers(tmp_path: Path) -> None:
    rows = [[n, n, ["yes", "no", "maybe"][n % 3]] for n in range(9)]
    with pytest.raises(DataError, match="rating 'yes'"):
        sniff(csv(tmp_path, [("user", "item", "rating"), *rows]))


def test_settings_may_be_words_of_yes_and_no(tmp_path: Path) -> None:
    path = csv(tmp_path, [("u", "i", "s"), (1, 2, "True"), (1, 3, "False")])
    columns = {"user": "u", "item": "i", "sensitive": "s"}
    source = DataSource.model_validate(
        {"format": "delimited", "path": str(path), "header": True, "columns": columns}
    )
    assert load(source).kept_private.tolist() == [True, False]


@pytest.mark.cases("plays", [["2,564", "12"], ["1.234.567", "12"], ["1'234", "7"]])
def test_no_advice_makes_decimals_of_thousands(tmp_path: Path, plays: list[str]) -> None:
    rows = [[n, n, plays[n % 2]] for n in range(8)]
    path = csv(tmp_path, [("user", "item", "plays"), *rows])
    columns = {"user": "user", "item": "item", "rating": "plays"}
    source = {"format": "delimited", "path": str(path), "header": True, "columns": columns}
    for read in (
        lambda: sniff(path),
        lambda: load(DataSource.model_validate({**source, "binarize": 1})),
    ):
        with pytest.raises(DataError, match=r"line 2, column 'plays'.* separator of thousands"):
            read()


def histories(form: str, rows: int = 60) -> list[list[Any]]:
    draws = np.random.default_rng(1)
    lists = [[f"N{k}" for k in draws.choice(80, 4, replace=False)] for _ in range(rows)]
    return [[f"u{n % 20}", eval(form, {"a": items})] for n, items in enumerate(lists)]  # noqa: S307


@pytest.mark.cases(
    "form",
    [
        "' '.join(a)", "'|'.join(a)", "','.join(a)", "', '.join(a)", "';'.join(a)", "str(a)",
        "' '.join(f'{x}-{k % 2}' for k, x in enumerate(a))", "'{' + ','.join(a) + '}'",
        "str([int(x[1:]) for x in a])", "' '.join(x[1:] for x in a)",
    ],
)  # fmt: skip
@pytest.mark.cases("column", ["item", "user"])
def test_a_list_is_no_id(tmp_path: Path, form: str, column: str) -> None:
    other = "user" if column == "item" else "item"
    path = csv(tmp_path, [(other, column), *histories(form)])
    with pytest.raises(DataError, match=rf"line 2, column '{column}': .* is a list"):
        load(sniff(path).source)


def test_lists_beside_single_ids_are_no_ids(tmp_path: Path) -> None:
    lists = enumerate(histories("' '.join(a)", 300))
    rows = [[user, items.split(" ")[0] if n % 3 else items] for n, (user, items) in lists]
    path = csv(tmp_path, [("user", "item"), *rows])
    with pytest.raises(DataError, match=r"line 2, column 'item': .* is a list"):
        load(sniff(path).source)


def test_items_of_one_interaction_are_in_doubt(tmp_path: Path) -> None:
    rows = [[n % 9, f"a story of {n // (1 + (n > 110))}"] for n in range(120)]
    [repair] = load(sniff(csv(tmp_path, [("user", "item"), *rows])).source).repairs
    assert (repair.what.split(",")[0], repair.count) == ("items with one interaction", 106)
    rows = [[n % 9, f"a story of {n // 2}"] for n in range(120)]
    assert load(sniff(csv(tmp_path, [("user", "item"), *rows])).source).repairs == ()


@pytest.mark.cases("form", ["f'{a[0][1]}|{a[1][1]}'", "f'{a[0][1]} {a[1][1]}'", "f'The {a[0]}'"])
def test_ids_of_several_parts_that_users_share_are_no_lists(tmp_path: Path, form: str) -> None:
    path = csv(tmp_path, [("user", "item"), *histories(form, 400)])
    assert load(sniff(path).source).n_users == 20


def test_floats_of_json_that_have_lost_digits_are_no_ids(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text("".join(f'{{"user": {1e17 + k * 1e4!r}, "item": {k}.0}}\n' for k in range(9)))
    with pytest.raises(DataError, match=r"line 1, column 'user': .*'1e\+17'"):
        load(sniff(path).source)
    path.write_text("".join(f'{{"user": {k}.0, "item": {k}}}\n' for k in range(9)))
    assert load(sniff(path).source).n_users == 9
