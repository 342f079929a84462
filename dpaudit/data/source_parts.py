"""The parts of the `[data]` table of a config, as frozen models."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator

from dpaudit.data.ratings import Scale
from dpaudit.errors import DataError

Number = Annotated[float, Field(ge=-1e6, le=1e6)]
Position = Annotated[StrictInt, Field(ge=0)]
Name = Annotated[StrictStr, Field(min_length=1)]
Column = Position | Name

FROZEN = ConfigDict(frozen=True, extra="forbid")
_VARIABLE = re.compile(r"\$\{(\w+)\}")


class RatingScale(BaseModel):
    """The ratings that a source may hold: `minimum, minimum + step, …, maximum`."""

    model_config = FROZEN

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


class _Columns(BaseModel):
    """Columns of a table, each by its name or its position counted from 0."""

    model_config = FROZEN

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.used.values())) < len(self.used):
            *most, last = self.used
            raise ValueError(
                f"{', '.join(most)} and {last} must be different columns: correct one of them"
            )
        return self

    @property
    def used(self) -> dict[str, Column]:
        """The columns that are given, by what they hold."""
        return {what: column for what, column in self if column is not None}


class Columns(_Columns):
    """The columns of a table of ratings, each by its name or its position counted from 0.

    Attributes:
        user: the user's id.
        item: the item's id.
        rating: the rating; without it every row is a purchase.
        category: what kind of item it is, as `sensitive.categories` names it.
        sensitive: 1 where the user keeps the rating to herself, else 0.
    """

    user: Column
    item: Column
    rating: Column | None = None
    category: Column | None = None
    sensitive: Column | None = None


class TrustColumns(_Columns):
    """The columns of a table of links: who trusts, or names a friend, and whom."""

    truster: Column = 0
    trustee: Column = 1


class SyntheticParams(BaseModel):
    """The sizes and the strength of generated ratings; `dpaudit.data.generate` states the model.

    With `mean_friends` above 0 there are links between users too.
    """

    model_config = FROZEN

    n_users: Annotated[int, Field(ge=1, le=10_000_000)] = 600
    n_items: Annotated[int, Field(ge=1, le=10_000_000)] = 300
    mean_per_user: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 45.0
    minimum_per_user: Annotated[int, Field(ge=1)] = 20
    rank: Annotated[int, Field(ge=1)] = 6
    noise: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.7
    scale: RatingScale = RatingScale()
    seed: Annotated[int, Field(ge=0)] = 0
    mean_friends: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.minimum_per_user <= self.mean_per_user <= self.n_items:
            raise ValueError(
                f"mean_per_user {self.mean_per_user:g} lies outside minimum_per_user "
                f"{self.minimum_per_user} to n_items {self.n_items}: correct one of the three"
            )
        if self.mean_friends > self.n_users - 1:
            raise ValueError(
                f"mean_friends {self.mean_friends:g} is more than the {self.n_users - 1} others "
                "there are: lower it, or raise n_users"
            )
        return self


def position_needed(columns: _Columns, format_: str, header: bool) -> str | None:
    """Why a column cannot be given by its name in a file of this format, if it cannot."""
    named = [column for column in columns.used.values() if isinstance(column, str)]
    if named and format_ == "matlab":
        return f"column {named[0]!r} is a name: give its position, counted from 0"
    if named and format_ == "delimited" and not header:
        return (
            f"column {named[0]!r} is a name but header is false: set header = true, or give "
            "the position, counted from 0"
        )
    return None


def expanded(path: str, field: str) -> Path:
    """The path with `${NAME}` and a leading `~` replaced.

    Raises:
        DataError: an environment variable is not set; `field` is what the message calls the path.
    """

    def environment(match: re.Match[str]) -> str:
        name = match[1]
        value = os.environ.get(name)
        if not value:
            raise DataError(
                f"{field} uses the environment variable {name}, which is not set: set {name} to "
                "the folder of your data sets"
            )
        return value

    return Path(os.path.expanduser(_VARIABLE.sub(environment, path)))
