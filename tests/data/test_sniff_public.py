"""What is taken for what in public data sets, as documentation lays them out; rows are made up."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from dpaudit.cli import main


@dataclass(frozen=True)
class Row:
    """One made-up interaction: numbers of a user and an item, a rating, and seconds since 1970."""

    user: int
    item: int
    rating: int
    time: int

    @property
    def day(self) -> datetime:
        return datetime.fromtimestamp(self.time, UTC)

    @property
    def asin(self) -> str:
        return f"B00{self.item * 37:05d}XY"

    @property
    def reviewer(self) -> str:
        return f"A{self.user * 7919:010d}ZQ"

    @property
    def mbid(self) -> str:
        return f"{self.item * 104729:08d}-9d5d-4be5-a67a-0a5d6e4e9b07"

    @property
    def artist(self) -> str:
        names = ("The Beatles", "AC/DC", "Earth, Wind & Fire", "mum|mom")
        return f"{names[self.item % 4]} {self.item}"


@dataclass(frozen=True)
class Layout:
    """A file of a public data set.

    Attributes:
        file: its name.
        line: the text of a row.
        taken: the columns that are taken.
        head: its first line, if it is a header.
        columns: what `--columns` states, where `init` asks.
        ratings: whether it holds ratings rather than interactions.
    """

    file: str
    line: Callable[[Row], str]
    taken: dict[str, Any]
    head: str = ""
    columns: str = ""
    ratings: bool = False


def iso(row: Row) -> str:
    return row.day.strftime("%Y-%m-%dT%H:%M:%SZ")


BY_PLACE = {"user": 0, "item": 1, "rating": 2, "time": 3}
LAYOUTS = {
    "MovieLens 100K": Layout(
        "u.data", lambda r: f"{r.user}\t{r.item}\t{r.rating}\t{r.time}", BY_PLACE, ratings=True
    ),
    "MovieLens 1M": Layout(
        "ratings.dat", lambda r: f"{r.user}::{r.item}::{r.rating}::{r.time}", BY_PLACE, ratings=True
    ),
    "MovieLens 32M": Layout(
        "ratings.csv",
        lambda r: f"{r.user},{r.item},{r.rating - 0.5},{r.time}",
        {"user": "userId", "item": "movieId", "rating": "rating", "time": "timestamp"},
        head="userId,movieId,rating,timestamp",
        ratings=True,
    ),
    "Amazon, ratings only": Layout(
        "ratings_Books.csv",
        lambda r: f"{r.reviewer},{r.asin},{r.rating}.0,{r.time}",
        BY_PLACE,
        ratings=True,
    ),
    "Amazon reviews 2014": Layout(
        "reviews_Books_5.json",
        lambda r: json.dumps(
            {
                "reviewerID": r.reviewer,
                "asin": r.asin,
                "reviewerName": "Joe, J.",
                "helpful": [0, 0],
                "reviewText": "nice | good",
                "overall": float(r.rating),
                "unixReviewTime": r.time,
                "reviewTime": "09 13, 2009",
            }
        ),
        {"user": "reviewerID", "item": "asin", "rating": "overall", "time": "unixReviewTime"},
        ratings=True,
    ),
    "Steam": Layout(
        "steam-200k.csv",
        lambda r: (
            f'{151603712 + r.user},"{r.artist}",'
            + (f"play,{r.time % 3000 / 10},0" if r.rating > 2 else "purchase,1.0,0")
        ),
        {"user": 0, "item": 1},
        columns="user=0,item=1",
    ),
    "Last.fm 360K": Layout(
        "usersha1-artmbid-artname-plays.tsv",
        lambda r: f"{r.user * 104729:040x}\t{r.mbid}\t{r.artist}\t{r.rating * 700}",
        {"user": 0, "item": 1},
        columns="user=0,item=1",
    ),
    "HetRec Last.fm": Layout(
        "user_artists.dat",
        lambda r: f"{r.user}\t{r.item}\t{r.rating * 700}",
        {"user": "userID", "item": "artistID"},
        head="userID\tartistID\tweight",
    ),
    "Tenrec": Layout(
        "ctr_data_1M.csv",
        lambda r: (
            f"{r.user},{r.item},{int(r.rating > 2)},{int(r.rating > 4)},0,{r.item % 2},1,2,1,3"
        ),
        {"user": "user_id", "item": "item_id", "rating": "click"},
        head="user_id,item_id,click,follow,like,share,video_category,watching_times,gender,age",
        columns="user=user_id,item=item_id,rating=click",
    ),
    "Yelp": Layout(
        "yelp_academic_dataset_review.json",
        lambda r: json.dumps(
            {
                "review_id": f"r{r.user}-{r.item}",
                "user_id": r.reviewer,
                "business_id": r.asin,
                "stars": float(r.rating),
                "useful": 0,
                "text": "x",
                "date": iso(r).replace("T", " ").rstrip("Z"),
            }
        ),
        {"user": "user_id", "item": "business_id", "rating": "stars", "time": "date"},
        ratings=True,
    ),
    "H&M": Layout(
        "transactions_train.csv",
        lambda r: f"{iso(r)[:10]},{r.user * 104729:064x},0{663713000 + r.item},0.0{r.rating}3,2",
        {"user": "customer_id", "item": "article_id", "time": "t_dat"},
        head="t_dat,customer_id,article_id,price,sales_channel_id",
    ),
    "Gowalla": Layout(
        "loc-gowalla_totalCheckins.txt",
        lambda r: f"{r.user}\t{iso(r)}\t30.{r.time}\t-97.{r.time}\t{22800 + r.item}",
        {"user": 0, "item": 4, "time": 1},
        columns="user=0,item=4,time=1",
    ),
}


def rows() -> list[Row]:
    rng = np.random.default_rng(3)
    pairs = rng.permutation(np.argwhere(rng.random((60, 60)) < 0.3))
    return [
        Row(int(u) + 1, int(i) + 1, int(rng.integers(1, 6)), int(rng.integers(10**9, 2 * 10**9)))
        for u, i in pairs
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(layout: Layout) -> Result:
    """Write a file of the layout, and return what `init` says."""
    lines = [*filter(None, [layout.head]), *map(layout.line, rows())]
    Path(layout.file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["init", "audit.toml", "--data", layout.file, "--recommender", "most-popular"]
    asked = CliRunner().invoke(main, words)
    if not layout.columns:
        return asked
    assert asked.exit_code == 2
    assert "--columns" in asked.stderr
    return CliRunner().invoke(main, [*words, "--columns", layout.columns])


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_is_taken_for_what(folder: Path, name: str) -> None:
    layout = LAYOUTS[name]
    said = written(layout)
    assert said.exit_code == 0, said.stderr
    data = tomllib.loads((folder / "audit.toml").read_text(encoding="utf-8"))["data"]
    assert data["columns"] == layout.taken
    assert (" ratings of 60 users with 60 items" in " ".join(said.stdout.split())) == layout.ratings


@pytest.mark.long
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_config_runs(folder: Path, name: str) -> None:
    written(LAYOUTS[name])
    run = CliRunner().invoke(main, ["run", "audit.toml", "-o", "out", "--workers", "1", "-q"])
    assert run.exit_code in {0, 1, 4}, run.stderr
    record = json.loads((folder / "out" / "record.json").read_text(encoding="utf-8"))
    assert record["data"]["users"] == 60


@pytest.mark.parametrize("column", [3, 4])
def test_lists_of_mind_are_refused(folder: Path, column: int) -> None:
    rng = np.random.default_rng(3)
    lines = []
    for k in range(200):
        seen = " ".join(f"N{item}" for item in rng.integers(400, size=4))
        shown = " ".join(f"N{item}-{item % 2}" for item in rng.integers(400, size=5))
        lines.append(f"{k}\tU{rng.integers(60)}\t11/12/2019 9:{k % 60:02d}:07 AM\t{seen}\t{shown}")
    Path("behaviors.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = ["init", "audit.toml", "--data", "behaviors.tsv"]
    assert CliRunner().invoke(main, words).exit_code == 2
    said = CliRunner().invoke(main, [*words, "--columns", f"user=1,item={column}"])
    assert said.exit_code == 2
    assert "is a list" in said.stderr
    assert f"column {column}" in said.stderr
