"""The layouts of published data sets, which need no more than a path."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from dpaudit.data.source_parts import Column, Columns, RatingScale

Format = Literal[
    "synthetic",
    "movielens-100k",
    "movielens-1m",
    "movielens-csv",
    "filmtrust",
    "ciao",
    "ciaodvd",
    "epinions",
    "delimited",
    "jsonl",
    "parquet",
    "matlab",
]


@dataclass(frozen=True)
class NamedDataSet:
    """The layout of a published data set, and the files of its folder if it has one.

    Attributes:
        format: how its files are laid out.
        columns: the columns of its ratings.
        scale: its rating scale.
        delimiter: the separator of fields.
        header: whether the first line of the ratings contains the names of the columns.
        ratings: the file of ratings in the folder; None if the path is that of a file.
        trust: the file of links in the folder.
        defaults: default values of options.
        time: the column of times; None without one.
    """

    format: Literal["delimited", "matlab"]
    columns: Columns
    scale: RatingScale = field(default_factory=RatingScale)
    delimiter: str | None = None
    header: bool = False
    ratings: str | None = None
    trust: str | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    time: Column | None = None


_TRIPLE = Columns(user=0, item=1, rating=2)
_LAST = {"on_duplicate": "last"}
NAMED: dict[Format, NamedDataSet] = {
    "movielens-100k": NamedDataSet("delimited", _TRIPLE, delimiter="\t", time=3),
    "movielens-1m": NamedDataSet("delimited", _TRIPLE, delimiter="::", time=3),
    "movielens-csv": NamedDataSet(
        "delimited",
        Columns(user="userId", item="movieId", rating="rating"),
        RatingScale(minimum=0.5, maximum=5.0, step=0.5),
        header=True,
        time="timestamp",
    ),
    "filmtrust": NamedDataSet(
        "delimited",
        _TRIPLE,
        RatingScale(minimum=0.5, maximum=4.0, step=0.5),
        " ",
        ratings="ratings.txt",
        trust="trust.txt",
        defaults=_LAST,
    ),
    "ciao": NamedDataSet(
        "matlab",
        Columns(user=0, item=1, category=2, rating=3),
        ratings="rating.mat",
        trust="trustnetwork.mat",
        defaults=_LAST | {"outside_scale": "drop"},
    ),
    "ciaodvd": NamedDataSet(
        "delimited",
        Columns(user=0, item=1, category=2, rating=4),
        ratings="movie-ratings.txt",
        trust="trusts.txt",
        defaults=_LAST,
        time=5,
    ),
    "epinions": NamedDataSet(
        "matlab",
        Columns(user=0, item=1, category=2, rating=3),
        ratings="rating.mat",
        trust="trustnetwork.mat",
        defaults=_LAST,
    ),
}
