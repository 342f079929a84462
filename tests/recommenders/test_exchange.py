"""The files of one training: what they hold, and what is wrong in those of the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array

from dpaudit.core.errors import RunError
from dpaudit.data.interactions import Interactions
from dpaudit.recommenders.base import Answer, Deletion, Query
from dpaudit.recommenders.exchange import Exchange, Format
from dpaudit.recommenders.histories import Histories
from tests.support.trained_on import trained_on

DATA = csr_array(np.array([[5, 0, 1], [0, 0, 0], [0.5, 2, 0]], dtype=np.float32))
SCORES, LISTS = "user,item,score\n0,1,4\n", "user,rank,item\n0,1,1\n2,1,2\n2,2,0\n"
FACTORS = "a,b\n1,2\n3,4\n5,6\n"


def files(folder: Path, factors: bool = False, suffix: Format = "csv") -> Exchange:
    users, items = np.array([0, 2, 0], np.int32), np.array([1, 2, 1], np.int32)
    asked = Query(users, items, np.array([2, 0], np.int32), 2, factors)
    return Exchange(folder, suffix, (3, 3), asked)


def read(folder: Path, factors: bool = False, **texts: str) -> Answer:
    """Read what a command has written: these texts."""
    for name, text in {"scores": SCORES, "lists": LISTS, **texts}.items():
        (folder / f"{name}.csv").write_text(text)
    return files(folder, factors).read()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_task_names_tables_with_what_is_asked(tmp_path: Path, suffix: Format) -> None:
    exchange = files(tmp_path, suffix=suffix)
    exchange.write(trained_on(DATA), 3)
    task = json.loads(exchange.task.read_text())
    tables = ("interactions", "pairs", "users", "scores", "lists")
    assert task == {
        "seed": 3, "k": 2, "n_users": 3, "n_items": 3, "factors": None,
        **{name: str(tmp_path / f"{name}.{suffix}") for name in tables},
        **dict.fromkeys(("forget", "kept", "histories", "after", "after_scores")),
        **dict.fromkeys(("user_ids", "item_ids", "user_features", "item_features")),
    }  # fmt: skip
    load = pd.read_csv if suffix == "csv" else pd.read_parquet
    rows = [[0, 0, 5], [0, 2, 1], [2, 0, 0.5], [2, 1, 2]]
    assert load(task["interactions"]).to_numpy().tolist() == rows
    assert list(load(task["interactions"])) == ["user", "item", "rating"]
    # A pair that is asked twice is written once.
    assert load(task["pairs"]).to_dict("list") == {"user": [0, 2], "item": [1, 2]}
    assert load(task["users"]).to_dict("list") == {"user": [2, 0]}
    with_factors = files(tmp_path, True, suffix)
    with_factors.write(trained_on(DATA), 3)
    assert json.loads(exchange.task.read_text())["factors"] == {
        "items": str(tmp_path / f"item_factors.{suffix}"),
        "users": str(tmp_path / f"user_factors.{suffix}"),
    }


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_request_names_what_goes_and_what_stays_and_removes_what_was_shown(
    tmp_path: Path, suffix: Format
) -> None:
    exchange = files(tmp_path, True, suffix)
    every = trained_on(DATA)
    exchange.write(every, 3)
    before = json.loads(exchange.task.read_text())
    (tmp_path / "model").touch()
    shown = ("scores", "lists", "item_factors", "user_factors")
    for name in shown:
        (tmp_path / f"{name}.{suffix}").touch()
    left = Interactions.of(every.ratings, np.array([True, False, True, False]))
    exchange.write(every, 3, Deletion("own", left, np.array([[0, 2], [2, 1]], np.int32)))
    tables = {name: str(tmp_path / f"{name}.{suffix}") for name in ("forget", "kept")}
    assert json.loads(exchange.task.read_text()) == {**before, **tables}
    load = pd.read_csv if suffix == "csv" else pd.read_parquet
    assert load(tables["forget"]).to_dict("list") == {"user": [0, 2], "item": [2, 1]}
    assert load(tables["kept"]).to_numpy().tolist() == [[0, 0, 5], [2, 0, 0.5]]
    assert len(load(before["interactions"])) == 4
    assert not any((tmp_path / f"{name}.{suffix}").exists() for name in shown)
    assert (tmp_path / "model").exists()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_times_features_and_ids_are_written(tmp_path: Path, suffix: Format) -> None:
    given = trained_on(DATA).ratings
    given = replace(
        given,
        time=np.array([4.0, 3, 2, 1e9 + 0.25]),
        user_ids=np.array(["u", "v", "w"], object),
        user_features=pd.DataFrame({"age": [1.0, np.nan, 3.0], "place": ["a, b", None, "c"]}),
    )
    exchange = files(tmp_path, suffix=suffix)
    exchange.write(Interactions(given), 3)
    task = json.loads(exchange.task.read_text())
    load = pd.read_csv if suffix == "csv" else pd.read_parquet
    rows = load(task["interactions"])
    assert list(rows) == ["user", "item", "rating", "time"]
    assert rows["time"].tolist() == [2, 3, 4, 1e9 + 0.25]
    assert rows["item"].tolist() == [0, 2, 0, 1]
    assert load(task["user_ids"])["id"].tolist() == ["u", "v", "w"]
    features = load(task["user_features"])
    assert features["age"].isna().tolist() == [False, True, False]
    assert features["place"].isna().tolist() == [False, True, False]
    assert features["place"][0] == "a, b"
    assert task["item_ids"] is None
    assert task["item_features"] is None
    assert exchange.still_holds(Interactions(given))
    moved = Interactions(replace(given, time=np.array([4.0, 3, 2, 1])))
    assert not exchange.still_holds(moved)


def test_what_is_left_out_is_nan_or_no_item(tmp_path: Path) -> None:
    shown = read(tmp_path, scores="score,item,x,user\n4.5,1,9,0\n")
    np.testing.assert_array_equal(shown.scores, np.array([4.5, np.nan, 4.5], np.float32))
    np.testing.assert_array_equal(shown.lists, [[2, 0], [1, -1]])
    assert shown.factors is None
    np.testing.assert_array_equal(read(tmp_path, lists="user,rank,item\n").lists, [[-1, -1]] * 2)


def test_factors_of_users_may_be_missing(tmp_path: Path) -> None:
    factors = read(tmp_path, True, item_factors=FACTORS).factors
    assert factors is not None
    np.testing.assert_array_equal(factors.items, [[1, 2], [3, 4], [5, 6]])
    assert factors.users is None
    factors = read(tmp_path, True, item_factors=FACTORS, user_factors="a\n1\n2\n3\n").factors
    assert factors is not None
    assert factors.users is not None
    np.testing.assert_array_equal(factors.users, [[1], [2], [3]])


@pytest.mark.cases(
    ("rows", "said"),
    [
        ("0,1,1\n-1,1,1\n", "line 3: user = -1 is none of 0 to 2: write the indices of interact"),
        ("0,3,1\n", "scores.csv, line 2: item = 3 is none of 0 to 2"),
        ("1,0,1\n", "line 2: the score of user 1 and item 0 is not asked: write the pairs of pa"),
        ("2,2,1\n0,1,2\n2,2,1\n", "line 4: user 2 and item 2 stand there a second time"),
        ("0,1,1e39\n", "score = 1e+39 is no finite number"),
        ("0,1,-inf\n", "score = -inf is no finite number"),
        ("", "all 3 scores are NaN"),
    ],
)
def test_wrong_scores_are_one_sentence(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(RunError) as raised:
        read(tmp_path, scores="user,item,score\n" + rows)
    assert said in str(raised.value)


@pytest.mark.cases(
    ("rows", "said"),
    [
        ("0,0,1\n", "lists.csv, line 2: rank = 0, and lists of 2 items are asked: write ranks 1"),
        ("0,3,1\n", "lists.csv, line 2: rank = 3, and lists of 2 items"),
        ("0,1,-1\n", "lists.csv, line 2: item = -1 is none of 0 to 2"),
        ("1,1,0\n", "lists.csv, line 2: the list of user 1 is not asked: write those of users.csv"),
        ("0,1,1\n0,1,2\n", "lists.csv, line 3: user 0 has a second item of rank 1"),
        ("0,1,1\n0,2,1\n", "line 3: item 1 stands in the list of user 0 a second time"),
        ("0,2,1\n", "lists.csv: user 0 has an item of rank 2 and none of rank 1: count ranks"),
        ("0,first,1\n", "lists.csv, line 2: rank = 'first' is no index"),
    ],
)
def test_wrong_lists_are_one_sentence(tmp_path: Path, rows: str, said: str) -> None:
    with pytest.raises(RunError) as raised:
        read(tmp_path, lists="user,rank,item\n" + rows)
    assert said in str(raised.value)


@pytest.mark.cases(
    ("text", "said"),
    [
        ("a\n1\n2\n", "item_factors.csv has 2 rows below its header"),
        ("a\n1\n2\nnan\n", "factors of items hold NaN or infinity"),
        ("a\n1\n2\n1e300\n", "factors of items hold NaN or infinity"),
    ],
)
def test_wrong_factors_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(RunError) as raised:
        read(tmp_path, True, item_factors=text)
    assert said in str(raised.value)


SENT = Histories(
    np.array([[-1, 2], [0, 1], [-1, -1]], np.int32), np.array([[2, 0], [1, 1], [0, 2]], np.int32)
)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_histories_are_written_row_by_row_and_their_scores_read(
    tmp_path: Path, suffix: Format
) -> None:
    exchange = files(tmp_path, suffix=suffix)
    exchange = replace(exchange, query=replace(exchange.query, after=SENT))
    exchange.write(trained_on(DATA), 3)
    task = json.loads(exchange.task.read_text())
    load = pd.read_csv if suffix == "csv" else pd.read_parquet
    assert load(task["histories"]).to_dict("list") == {"history": [0, 1, 1], "item": [2, 0, 1]}
    asked = load(task["after"])
    assert asked.to_dict("list") == {"history": [0, 0, 1, 2, 2], "item": [0, 2, 1, 0, 2]}
    scored = asked.assign(score=10 * asked.history + asked.item)[::-1].iloc[:-1]
    lists = pd.DataFrame({"user": [0], "rank": [1], "item": [1]})
    pairs = load(task["pairs"]).assign(score=1.0)
    for name, table in (("after_scores", scored), ("lists", lists), ("scores", pairs)):
        write = table.to_csv if suffix == "csv" else table.to_parquet
        write(task[name], index=False)
    after = exchange.read().after
    np.testing.assert_array_equal(after, [[2, np.nan], [11, 11], [20, 22]])
    # What a model showed before it forgets is gone.
    gone = Deletion("own", trained_on(DATA), np.array([[0, 0]], np.int32))
    exchange.write(trained_on(DATA), 3, gone)
    assert not Path(task["after_scores"]).exists()


@pytest.mark.cases(
    ("rows", "said"),
    [
        (
            "3,1,1\n",
            "after_scores.csv, line 2: history = 3 is none of 0 to 2: write the indices of h",
        ),
        ("0,1,1\n", "the score of history 0 and item 1 is not asked: write the pairs of after.csv"),
        ("0,2,1\n0,2,1\n", "line 3: history 0 and item 2 stand there a second time"),
    ],
)
def test_wrong_scores_after_histories_are_one_sentence(
    tmp_path: Path, rows: str, said: str
) -> None:
    exchange = files(tmp_path)
    exchange = replace(exchange, query=replace(exchange.query, after=SENT))
    (tmp_path / "after_scores.csv").write_text("history,item,score\n" + rows)
    (tmp_path / "scores.csv").write_text(SCORES)
    (tmp_path / "lists.csv").write_text(LISTS)
    with pytest.raises(RunError) as raised:
        exchange.read()
    assert said in str(raised.value)
