"""The source of ratings: the `[data]` table of a config, as frozen models.

The models only describe the source; `dpaudit.data.load` reads it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from dpaudit.data import source_parts as parts

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
    columns: parts.Columns
    scale: parts.RatingScale = field(default_factory=parts.RatingScale)
    delimiter: str | None = None
    header: bool = False
    ratings: str | None = None
    trust: str | None = None
    defaults: dict[str, Any] = field(default_factory=dict)
    time: parts.Column | None = None


_TRIPLE = parts.Columns(user=0, item=1, rating=2)
_LAST = {"on_duplicate": "last"}
_ARRAYS = NamedDataSet(
    "matlab",
    parts.Columns(user=0, item=1, category=2, rating=3),
    ratings="rating.mat",
    trust="trustnetwork.mat",
    defaults=_LAST,
)
NAMED: dict[Format, NamedDataSet] = {
    "movielens-100k": NamedDataSet("delimited", _TRIPLE, delimiter="\t", time=3),
    "movielens-1m": NamedDataSet("delimited", _TRIPLE, delimiter="::", time=3),
    "movielens-csv": NamedDataSet(
        "delimited",
        parts.Columns(user="userId", item="movieId", rating="rating"),
        parts.RatingScale(minimum=0.5, maximum=5.0, step=0.5),
        header=True,
        time="timestamp",
    ),
    "filmtrust": NamedDataSet(
        "delimited",
        _TRIPLE,
        parts.RatingScale(minimum=0.5, maximum=4.0, step=0.5),
        " ",
        ratings="ratings.txt",
        trust="trust.txt",
        defaults=_LAST,
    ),
    "ciao": replace(_ARRAYS, defaults=_LAST | {"outside_scale": "drop"}),
    "ciaodvd": NamedDataSet(
        "delimited",
        parts.Columns(user=0, item=1, category=2, rating=4),
        ratings="movie-ratings.txt",
        trust="trusts.txt",
        defaults=_LAST,
        time=5,
    ),
    "epinions": _ARRAYS,
}


OnDuplicate = Literal["error", "last", "mean"]
OutsideScale = Literal["error", "drop"]
MissingIds = Literal["error", "drop", "keep"]


# The options of each format; all formats have `format` and `sensitive`.
_ANY_FILE = {
    "path", "scale", "on_duplicate", "missing_ids", "outside_scale", "least_raters", "binarize",
    "trust", "budgets", "in_order", "users", "items",
}  # fmt: skip
_OPTIONS: dict[Format, set[str]] = {
    **dict.fromkeys(NAMED, _ANY_FILE | {"timed"}),
    "synthetic": {"synthetic", "binarize"},
    "delimited": _ANY_FILE | {"columns", "delimiter", "header", "skip", "encoding"},
    "jsonl": _ANY_FILE | {"columns", "encoding"},
    "parquet": _ANY_FILE | {"columns"},
    "matlab": _ANY_FILE | {"columns", "variable"},
}


class DataSource(parts.FileSource):
    """One source of ratings.

    Attributes:
        format: the layout of the file, or `synthetic` for generated ratings.
        path: the file, or the folder of `filmtrust`, `ciao`, `ciaodvd` and `epinions`, or a folder
            of files of one `parquet` table; `${NAME}`
            stands for an environment variable whose name begins with `DPAUDIT_` or is listed in
            `DPAUDIT_ALLOW_ENV`, and is replaced on loading.
        delimiter: the separator of fields in a delimited file, or `blanks` for any number of spaces
            and tabs; a comma if absent.
        header: whether the first line of a delimited file contains the names of the columns.
        skip: the number of lines above the header or the first row, such as comments.
        encoding: the encoding of a text file, such as `cp1252`; if absent, UTF-8, or UTF-16 if a
            mark at the beginning of the file says so.
        columns: the columns of the user, the item and the rating.
        variable: the MATLAB variable; if absent, the only two-dimensional numeric array.
        scale: the rating scale; the named formats have their own.
        on_duplicate: what to do with a repeated (user, item): refuse, keep the last, or average;
            formats that are read from a folder keep the last.
        outside_scale: what to do with a rating outside the scale: refuse, or drop its row; its
            user and its item stay. `ciao` drops.
        missing_ids: what to do with a row whose user or item is empty or a marker of a missing
            value, such as `NaN`, `null`, `?` or `-1`: refuse, drop the row, or keep the marker as
            an id; an empty id is always refused or dropped.
        least_raters: items with fewer raters are left out with their ratings, and so are users who
            rated nothing else; counted before `binarize`.
        binarize: ratings of at least this become purchases and the others are dropped; users and
            items that lose all their ratings stay.
        synthetic: the parameters of generated ratings.
        trust: the links between users; for formats read from a folder, only `mutual` can be set.
        sensitive: which ratings their users keep private, if no column says so.
        budgets: the share of ε that each user accepts, for models with `params.budgets`.
        timed: whether the times of a named format are read, for models that need the order.
        in_order: whether the rows are in the order of time, so that the number of a row is its
            time.
        users: what is known of each user, for models with features.
        items: what is known of each item, for models with features.
    """

    format: Format = "synthetic"
    path: parts.Name | None = None
    delimiter: parts.Delimiter | None = None
    header: bool = False
    skip: Annotated[int, Field(ge=0, le=10_000)] = 0
    encoding: parts.Encoding | None = None
    columns: parts.Columns | None = None
    variable: parts.Name | None = None
    scale: parts.RatingScale | None = None
    on_duplicate: OnDuplicate = "error"
    outside_scale: OutsideScale = "error"
    missing_ids: MissingIds = "error"
    least_raters: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    binarize: parts.Number | None = None
    synthetic: parts.SyntheticParams = parts.SyntheticParams()
    trust: parts.TrustSource | None = None
    sensitive: parts.SensitiveSource | None = None
    budgets: parts.BudgetSource | None = None
    timed: bool = False
    in_order: bool = False
    users: parts.FeatureSource | None = None
    items: parts.FeatureSource | None = None

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        named = next((named for name, named in NAMED.items() if values.get("format") == name), None)
        return {**named.defaults, **values} if named else values

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        if self.path is not None and "format" not in self.model_fields_set:
            raise ValueError(
                f"format is missing: name the layout of {self.path!r}, such as 'movielens-csv', "
                "'delimited' or 'parquet'; 'dpaudit init --data FILE' guesses it"
            )
        for name, option in type(self).model_fields.items():
            foreign = name not in {"format", "sensitive"} | _OPTIONS[self.format]
            if foreign and getattr(self, name) != option.default:
                raise ValueError(f"{name} does not belong to format {self.format!r}: remove it")
        if self.format != "synthetic" and self.path is None:
            raise ValueError(f"path is missing: format {self.format!r} needs the file's path")
        return self

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if "columns" not in _OPTIONS[self.format]:
            return self
        if self.columns is None:
            raise ValueError(
                f"columns is missing: format {self.format!r} needs the columns of user, item and, "
                "unless every row is a purchase, rating"
            )
        parts.check_positions(self.columns.used, self.format, self.header)
        for option in ("scale", "binarize", "on_duplicate", "outside_scale"):
            of_ratings = getattr(self, option) not in (None, "error", "last")
            if self.columns.rating is None and of_ratings:
                raise ValueError(
                    f"{option} = {getattr(self, option)!r} needs a rating column: remove it or "
                    "name columns.rating"
                )
        return self

    @model_validator(mode="after")
    def _check_time(self) -> Self:
        named = NAMED.get(self.format)
        if self.timed and named is not None and named.time is None:
            raise ValueError(f"format {self.format!r} has no times: remove timed")
        if self.in_order and (self.timed or (self.columns and self.columns.time is not None)):
            raise ValueError(
                "in_order takes the number of a row for its time, and the data have times: remove "
                "in_order, or what names the times"
            )
        return self

    @model_validator(mode="after")
    def _check_social(self) -> Self:
        named = NAMED.get(self.format)
        if self.trust is not None:
            folder = named is not None and named.trust is not None
            if not folder and self.trust.path is None:
                raise ValueError("trust.path is missing: name the file of links")
            if folder and self.trust != parts.TrustSource(mutual=self.trust.mutual):
                raise ValueError(
                    f"trust of format {self.format!r} is in its folder: set only trust.mutual"
                )
        columns = named.columns if named else self.columns
        if self.sensitive is None:
            return self
        if columns is not None and columns.sensitive is not None:
            raise ValueError(
                "sensitive and columns.sensitive exclude each other: remove one of them"
            )
        if self.sensitive.categories and (columns is None or columns.category is None):
            remedy = "name columns.category" if self.columns else "give sensitive.share instead"
            raise ValueError(f"sensitive.categories needs a column of categories: {remedy}")
        return self

    @property
    def plain(self) -> DataSource:
        """The same source, with a named data set replaced by its layout and files."""
        named = NAMED.get(self.format)
        if named is None:
            return self
        path, trust = self.path, self.trust
        if named.ratings is not None:
            path = f"{self.path}/{named.ratings}"
            trust = parts.TrustSource(
                path=f"{self.path}/{named.trust}",
                format=named.format,
                delimiter=named.delimiter,
                mutual=trust is not None and trust.mutual,
            )
        content = {
            "format": named.format,
            "columns": named.columns.model_copy(
                update={"time": named.time if self.timed else None}
            ),
            "scale": self.scale or named.scale,
        }
        how = {"delimiter": named.delimiter, "header": named.header}
        return self.model_copy(update={**content, **how, "path": path, "trust": trust})

    def file(self) -> Path:
        """Return the path of the file of ratings, with `${NAME}` and a leading `~` replaced.

        Raises:
            DataError: an environment variable is not set, or a config may not read it.
        """
        return parts.expanded(self.plain.path or "", "data.path")
