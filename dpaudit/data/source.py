"""Where ratings come from: the `[data]` table of a config, as frozen models.

The models only describe; `dpaudit.data.load` reads.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from dpaudit.data.ratings import Scale
from dpaudit.errors import DataError

Format = Literal[
    "synthetic",
    "movielens-100k",
    "movielens-1m",
    "movielens-csv",
    "delimited",
    "parquet",
    "matlab",
]
OnDuplicate = Literal["error", "last", "mean"]
Number = Annotated[float, Field(ge=-1e6, le=1e6)]
Position = Annotated[StrictInt, Field(ge=0)]
Name = Annotated[StrictStr, Field(min_length=1)]
Column = Position | Name

_FROZEN = ConfigDict(frozen=True, extra="forbid")
_VARIABLE = re.compile(r"\$\{(\w+)\}")

# The options that each format understands; `format` itself belongs to all.
_FILE_OPTIONS = {"path", "scale", "on_duplicate", "binarize"}
_OPTIONS: dict[Format, set[str]] = {
    "synthetic": {"synthetic", "binarize"},
    "movielens-100k": _FILE_OPTIONS,
    "movielens-1m": _FILE_OPTIONS,
    "movielens-csv": _FILE_OPTIONS,
    "delimited": _FILE_OPTIONS | {"columns", "delimiter", "header"},
    "parquet": _FILE_OPTIONS | {"columns"},
    "matlab": _FILE_OPTIONS | {"columns", "variable"},
}


class RatingScale(BaseModel):
    """The ratings that a source may hold: `minimum, minimum + step, …, maximum`."""

    model_config = _FROZEN

    minimum: Number = 1.0
    maximum: Number = 5.0
    step: Annotated[Number, Field(gt=0)] = 1.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(
                f"minimum {self.minimum:g} lies above maximum {self.maximum:g}: swap them"
            )
        steps = (self.maximum - self.minimum) / self.step
        if steps > 10_000:
            raise ValueError(
                f"step {self.step:g} makes more than 10000 ratings: give a larger step"
            )
        if abs(steps - round(steps)) > 1e-6:
            raise ValueError(
                f"step {self.step:g} does not lead from minimum {self.minimum:g} to maximum "
                f"{self.maximum:g}: give a step that divides the range"
            )
        return self

    def to_scale(self) -> Scale:
        """The same scale as the ratings carry it."""
        return Scale(self.minimum, self.maximum, self.step)


class Columns(BaseModel):
    """The columns of a table, each by its name or its position counted from 0.

    Without a rating column every row is a purchase.
    """

    model_config = _FROZEN

    user: Column
    item: Column
    rating: Column | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        used = [column for _, column in self if column is not None]
        if len(set(used)) < len(used):
            raise ValueError("user, item and rating must be different columns: correct one of them")
        return self


class SyntheticParams(BaseModel):
    """The sizes and the strength of generated ratings; `dpaudit.data.generate` states the model."""

    model_config = _FROZEN

    n_users: Annotated[int, Field(ge=1, le=10_000_000)] = 600
    n_items: Annotated[int, Field(ge=1, le=10_000_000)] = 300
    mean_per_user: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 45.0
    minimum_per_user: Annotated[int, Field(ge=1)] = 20
    rank: Annotated[int, Field(ge=1)] = 6
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.7
    scale: RatingScale = RatingScale()
    seed: Annotated[int, Field(ge=0)] = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.minimum_per_user <= self.mean_per_user <= self.n_items:
            raise ValueError(
                f"mean_per_user {self.mean_per_user:g} lies outside minimum_per_user "
                f"{self.minimum_per_user} to n_items {self.n_items}: correct one of the three"
            )
        return self


@dataclass(frozen=True)
class Layout:
    """How a text file holds its table."""

    delimiter: str
    header: bool
    columns: Columns


_MOVIELENS: dict[Format, tuple[Layout, RatingScale]] = {
    "movielens-100k": (
        Layout("\t", False, Columns(user=0, item=1, rating=2)),
        RatingScale(),
    ),
    "movielens-1m": (
        Layout("::", False, Columns(user=0, item=1, rating=2)),
        RatingScale(),
    ),
    "movielens-csv": (
        Layout(",", True, Columns(user="userId", item="movieId", rating="rating")),
        RatingScale(minimum=0.5, maximum=5.0, step=0.5),
    ),
}


class DataSource(BaseModel):
    """One source of ratings.

    Attributes:
        format: how the file is laid out, or `synthetic` for generated ratings.
        path: the file; `${NAME}` stands for an environment variable and is replaced on loading.
        delimiter: what separates the fields of a delimited file; a comma if absent.
        header: whether the first line of a delimited file holds the columns' names.
        columns: which columns hold the user, the item and the rating.
        variable: the MATLAB variable; if absent, the only two-dimensional numeric array.
        scale: the rating scale; the MovieLens formats have their own.
        on_duplicate: what to do with a repeated (user, item): refuse, keep the last, or average.
        binarize: ratings of at least this become purchases and the others are dropped; users and
            items that lose all their ratings stay.
        synthetic: the parameters of generated ratings.
    """

    model_config = _FROZEN

    format: Format = "synthetic"
    path: Name | None = None
    delimiter: Name | None = None
    header: bool = False
    columns: Columns | None = None
    variable: Name | None = None
    scale: RatingScale | None = None
    on_duplicate: OnDuplicate = "error"
    binarize: Number | None = None
    synthetic: SyntheticParams = SyntheticParams()

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        for name, field in type(self).model_fields.items():
            foreign = name != "format" and name not in _OPTIONS[self.format]
            if foreign and getattr(self, name) != field.default:
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
        named = [column for _, column in self.columns if isinstance(column, str)]
        if named and self.format == "matlab":
            raise ValueError(f"column {named[0]!r} is a name: give its position, counted from 0")
        if named and self.format == "delimited" and not self.header:
            raise ValueError(
                f"column {named[0]!r} is a name but header is false: set header = true, or give "
                "the position, counted from 0"
            )
        for option in ("scale", "binarize", "on_duplicate"):
            mean_or_set = getattr(self, option) not in (None, "error", "last")
            if self.columns.rating is None and mean_or_set:
                raise ValueError(
                    f"{option} = {getattr(self, option)!r} needs a rating column: remove it or "
                    "name columns.rating"
                )
        return self

    @property
    def layout(self) -> Layout:
        """How the text file holds its table.

        Raises:
            ValueError: the format is not a text format.
        """
        if self.format in _MOVIELENS:
            return _MOVIELENS[self.format][0]
        if self.format != "delimited" or self.columns is None:
            raise ValueError(f"format {self.format!r} is not a text format")
        delimiter = "," if self.delimiter is None else self.delimiter
        return Layout(delimiter, self.header, self.columns)

    @property
    def rating_scale(self) -> Scale | None:
        """The stated scale, else the format's own, else `None`."""
        if self.scale is None and self.format in _MOVIELENS:
            return _MOVIELENS[self.format][1].to_scale()
        return None if self.scale is None else self.scale.to_scale()

    def file(self) -> Path:
        """The file's path with `${NAME}` and a leading `~` replaced.

        Raises:
            DataError: an environment variable is not set.
        """
        expanded = _VARIABLE.sub(_environment, self.path or "")
        return Path(os.path.expanduser(expanded))


def _environment(match: re.Match[str]) -> str:
    name = match[1]
    value = os.environ.get(name)
    if not value:
        raise DataError(
            f"data.path uses the environment variable {name}, which is not set: set {name} to the "
            "folder of your data sets"
        )
    return value
