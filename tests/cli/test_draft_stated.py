"""What options and a person at the terminal say of a file goes before what is guessed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from configs import load_as  # type: ignore[import-not-found]

from dpaudit.cli import draft, main
from dpaudit.config.tables import DataConfig
from dpaudit.data import Columns

ROWS = [(user, item) for user in range(60) for item in range(40) if (user * 7 + item * 3) % 5 < 2]


def call(*arguments: object, answer: str = "") -> Result:
    command = [*map(str, arguments)]
    return CliRunner().invoke(main, command, input=answer, env={"COLUMNS": "400"})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file whose item stands behind its genre."""
    lines = [f"{user},{1 + item % 17},{900 + item},{1 + (user + item) % 5}" for user, item in ROWS]
    path = tmp_path / "ratings.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_choice_is_refused_without_a_terminal(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "dpaudit.toml"
    result = call("init", config, "--data", data)
    assert result.exit_code == 2
    assert "--columns user=0,item=1,rating=3 for dpaudit init" in result.output
    assert result.output.count("\n") == 1
    assert not config.exists()


def test_columns_are_stated(data: Path, tmp_path: Path) -> None:
    config = tmp_path / "dpaudit.toml"
    result = call("init", config, "--data", data, "--columns", "user=0, item=2, rating=3")
    assert result.exit_code == 0, result.output
    assert load_as(DataConfig, config).data.columns == Columns(user=0, item=2, rating=3)
    assert f"{len(ROWS)} ratings of 60 users" in result.output


@pytest.mark.parametrize(
    ("answer", "columns"),
    [("user=0,item=2\n", Columns(user=0, item=2)), ("\n", Columns(user=0, item=1, rating=3))],
)
def test_a_terminal_is_asked(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, columns: Columns
) -> None:
    monkeypatch.setattr(draft, "_asks", lambda: True)
    config = tmp_path / "dpaudit.toml"
    result = call("init", config, "--data", data, answer=answer)
    assert result.exit_code == 0, result.output
    assert load_as(DataConfig, config).data.columns == columns


def test_rows_without_an_id_are_refused_dropped_or_kept(tmp_path: Path) -> None:
    path, config = tmp_path / "r.csv", tmp_path / "dpaudit.toml"
    lines = [f"{user if item % 9 else 'NA'},{item}" for user, item in ROWS]
    path.write_text("user,item\n" + "\n".join(lines) + "\n", encoding="utf-8")
    absent = sum(item % 9 == 0 for _, item in ROWS)
    result = call("init", config, "--data", path)
    assert result.exit_code == 2
    assert re.search(rf"user id 'NA' .* in {absent - 1} more rows", result.output)
    result = call("init", config, "--data", path, "--missing-ids", "drop")
    assert result.exit_code == 0, result.output
    assert f"a user or an item: {absent}." in result.output
    assert load_as(DataConfig, config).data.missing_ids == "drop"
    config.unlink()
    assert "of 61 users" in call("init", config, "--data", path, "--missing-ids", "keep").output


def test_values_that_may_mark_not_rated_need_a_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, config = tmp_path / "r.csv", tmp_path / "dpaudit.toml"
    stars = [(user + item) % 10 + 1 if item % 9 else -1 for user, item in ROWS]
    lines = [f"{user},{item},{star}" for (user, item), star in zip(ROWS, stars, strict=True)]
    path.write_text("user_id,anime_id,rating\n" + "\n".join(lines) + "\n", encoding="utf-8")
    unrated = stars.count(-1)
    result = call("init", config, "--data", path)
    assert result.exit_code == 2
    mark = (
        f'-1 (in {unrated} rows) may mark "not rated" beside the ratings 1 to 10: state the range'
    )
    assert mark in result.output
    assert not config.exists()
    result = call("init", config, "--data", path, "--scale", "1..10")
    assert "The ratings are 1 to 10, as stated" in result.output
    assert f"a rating outside the scale: {unrated}." in result.output
    assert load_as(DataConfig, config).data.outside_scale == "drop"
    config.unlink()
    call("init", config, "--data", path, "--scale", "-1..10")
    assert load_as(DataConfig, config).data.outside_scale == "error"
    config.unlink()
    monkeypatch.setattr(draft, "_asks", lambda: True)
    assert "1 to 10, as stated" in call("init", config, "--data", path, answer="\n").output


@pytest.mark.cases(
    ("options", "said"),
    [
        (("--scale", "1-5"), "--scale '1-5' is not the lowest and the highest rating: write such"),
        (("--scale", "5..1"), "--scale '5..1' is not the lowest and the highest rating"),
        (("--scale", "1_0..20"), "--scale '1_0..20' is not the lowest and the highest rating"),
        (
            ("--columns", "user=0,item=2,rating=3", "--scale", "7..9"),
            "the values are 1 to 5, and the stated range 7..9 holds none of them: correct --scale",
        ),
        (
            ("--columns", "user=0,item=2", "--scale", "1..5"),
            "the ratings that --scale states: name it, such as --columns user=0,item=2,rating",
        ),
        (("--columns", "0,2"), "--columns '0,2' does not name a user and another item: write such"),
        (("--columns", "user=0,item=0"), "does not name a user and another item"),
        (("--columns", "user=0,item=2,raiting=3"), "does not name a user and another item"),
        (("--columns", "user=0,item=9"), "has no column 9: give a position from 0 to 3"),
        (("--columns", "user=a,item=2"), "has no column 'a': give one of its names"),
        (("--encoding", "utf-99"), "--encoding 'utf-99' is no encoding of text"),
        (("--encoding", "base64"), "--encoding 'base64' is no encoding of text"),
    ],
)
def test_wrong_statements_are_one_sentence(
    data: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    result = call("init", tmp_path / "dpaudit.toml", "--data", data, *options)
    assert result.exit_code == 2
    assert said in result.output
    assert result.output.count("\n") == 1
    assert not (tmp_path / "dpaudit.toml").exists()


def test_statements_need_a_file(tmp_path: Path) -> None:
    result = call("init", tmp_path / "dpaudit.toml", "--columns", "user=0,item=1")
    assert result.exit_code == 2
    assert "describe a file: give --data" in result.output
