"""The parts of the `[data]` table of a config, and the tables in it, as frozen models."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    model_validator,
)

from dpaudit.core.errors import DataError
from dpaudit.core.messages import show
from dpaudit.data import limits
from dpaudit.data.ratings import Scale

Number = Annotated[float, Field(ge=-1e6, le=1e6)]
Seed = Annotated[int, Field(ge=0, lt=2**64)]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("the text contains a NUL character: remove it")
    return text


def _separating(text: str) -> str:
    if not {"\n", "\r", '"'}.isdisjoint(text):
        raise ValueError(f"{show(text)} cannot separate fields: give no line end and no quote")
    return text


def _text_encoding(name: str) -> str:
    try:
        known = codecs.lookup(name)._is_text_encoding
    except (LookupError, ValueError):
        known = False
    if not known:
        raise ValueError(f"{show(name)} is no encoding of text: give one such as 'cp1252'")
    return name


Position = Annotated[StrictInt, Field(ge=0, lt=limits.COLUMNS)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=4096), AfterValidator(_without_nul)]
Delimiter = Annotated[Name, AfterValidator(_separating)]
Encoding = Annotated[Name, AfterValidator(_text_encoding)]
Column = Position | Name

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class Frozen(BaseModel):
    """A table of the config, which does not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RatingScale(Frozen):
    """The possible ratings of a source: `minimum, minimum + step, …, maximum`.

    Attributes:
        minimum: the lowest rating.
        maximum: the highest rating.
        step: the difference of two neighbouring ratings.
        round: whether a rating between two of these is rounded to the nearer one, else refused.
    """

    minimum: Number = 1.0
    maximum: Number = 5.0
    step: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    round: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.minimum > self.maximum:
            raise ValueError(
                f"minimum {self.minimum:g} lies above maximum {self.maximum:g}: swap them"
            )
        if self.minimum == self.maximum != 1:
            raise ValueError(
                f"minimum and maximum are both {self.minimum:g}: give the range that the raters "
                "could use, or 1 for both where every rating is a purchase"
            )
        largest = max(-self.minimum, self.maximum)
        if self.step < largest * 2**-20:
            raise ValueError(
                f"step {self.step:g} is too small for ratings as large as {largest:g}: give a "
                "larger step or ratings nearer to 0"
            )
        steps = (self.maximum - self.minimum) / self.step
        if steps > 10_000:
            raise ValueError(
                f"step {self.step:g} makes more than 10000 ratings: give a larger step, and "
                "round = true to round the ratings to it"
            )
        if abs(steps - round(steps)) > 1e-6:
            raise ValueError(
                f"step {self.step:g} does not lead from minimum {self.minimum:g} to maximum "
                f"{self.maximum:g}: give a step that divides the range"
            )
        return self

    def to_scale(self) -> Scale:
        """Return the scale as a `Scale`."""
        return Scale(self.minimum, self.maximum, self.step)


class _Columns(Frozen):
    """Columns of a table, each given by its name or its position, counted from 0."""

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
        """The given columns, by their meaning."""
        return {what: column for what, column in self if column is not None}


class Columns(_Columns):
    """The columns of a table of ratings, each given by its name or position, counted from 0.

    Attributes:
        user: the user's id.
        item: the item's id.
        rating: the rating; without it every row is a purchase.
        category: the category of the item, as in `sensitive.categories`.
        sensitive: 1 where the user keeps the rating private, else 0.
        time: when the interaction happened: numbers, or dates as in ISO 8601, such as
            `2026-01-31T12:00:00Z`, which are in UTC unless they say otherwise.
    """

    user: Column
    item: Column
    rating: Column | None = None
    category: Column | None = None
    sensitive: Column | None = None
    time: Column | None = None


class TrustColumns(_Columns):
    """The columns of a table of links: the user who trusts or names a friend, and whom.

    Attributes:
        truster: the user who trusts.
        trustee: the user who is trusted.
    """

    truster: Column = 0
    trustee: Column = 1


class BudgetColumns(_Columns):
    """The columns of a table of users: who, and which budget.

    Attributes:
        user: the user's id.
        budget: the user's budget.
    """

    user: Column = 0
    budget: Column = 1


class SyntheticParams(Frozen):
    """The parameters of generated ratings; `dpaudit.data.synthetic.generate` states the model.

    Attributes:
        n_users: the number of users.
        n_items: the number of items.
        mean_per_user: the mean number of ratings of a user.
        minimum_per_user: the least number of ratings of a user.
        rank: the number of factors of users and items.
        noise: the standard deviation of the normal noise of a rating, before it is rounded.
        scale: the rating scale.
        seed: the seed of the generator.
        mean_friends: the mean number of users whom a user names as friends; 0 for no links.
    """

    n_users: Annotated[int, Field(ge=1, le=10_000_000)] = 600
    n_items: Annotated[int, Field(ge=1, le=10_000_000)] = 300
    mean_per_user: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 45.0
    minimum_per_user: Annotated[int, Field(ge=1, le=10_000_000)] = 20
    rank: Annotated[int, Field(ge=1, le=10_000)] = 6
    noise: Annotated[float, Field(ge=0, le=1e6)] = 0.7
    scale: RatingScale = RatingScale()
    seed: Seed = 0
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
                f"mean_friends {self.mean_friends:g} is more than the {self.n_users - 1} other "
                "users: lower it, or raise n_users"
            )
        others = self.n_users if self.mean_friends else 0
        for what, size, most in (
            ("n_users × mean_per_user", self.n_users * self.mean_per_user, limits.DRAWN),
            ("n_users × mean_friends", self.n_users * self.mean_friends, limits.DRAWN),
            ("(n_users + n_items) × rank", (self.n_users + self.n_items) * self.rank, limits.DRAWN),
            ("n_users × n_items", self.n_users * self.n_items, limits.DRAWN_FROM),
            ("n_users × n_users for friends", self.n_users * others, limits.DRAWN_FROM),
        ):
            if size > most:
                raise ValueError(f"{what} is {size:.3g}, more than {most:.0g}: ask for fewer")
        return self


def check_positions(columns: Mapping[str, Column], format_: str, header: bool) -> None:
    """Check that columns can be given by name, or by position, in this format.

    Raises:
        ValueError: one cannot.
    """
    named = [column for column in columns.values() if isinstance(column, str)]
    if named and format_ == "matlab":
        raise ValueError(f"column {show(named[0])} is a name: give its position, counted from 0")
    placed = [column for column in columns.values() if isinstance(column, int)]
    if placed and format_ == "jsonl":
        raise ValueError(f"column {placed[0]} is a position, and a record has none: give its key")
    if named and format_ == "delimited" and not header:
        raise ValueError(
            f"column {show(named[0])} is a name but header is false: set header = true, or give "
            "the position, counted from 0"
        )


def expanded(path: str, field: str) -> Path:
    """Return the path with `${NAME}` and a leading `~` replaced.

    Messages with the path would reveal the value, so a config may read only variables whose name
    begins with `DPAUDIT_` or is listed in `DPAUDIT_ALLOW_ENV`.

    Raises:
        DataError: an environment variable is not set, or a config may not read it; the message
            names `field`.
    """
    allowed = [name.strip() for name in os.environ.get("DPAUDIT_ALLOW_ENV", "").split(",")]

    def environment(match: re.Match[str]) -> str:
        name = match[1]
        if not name.startswith("DPAUDIT_") and name not in allowed:
            raise DataError(
                f"{field} uses the environment variable {name}, which a config may not read: "
                f"rename it to DPAUDIT_{name}, or list it in DPAUDIT_ALLOW_ENV"
            )
        value = os.environ.get(name)
        if not value:
            raise DataError(
                f"{field} uses the environment variable {name}, which is not set: set {name} to "
                "the folder of your data sets"
            )
        return value

    return Path(os.path.expanduser(_VARIABLE.sub(environment, path)))


@dataclass(frozen=True)
class Layout:
    """The layout of a table in a file.

    Attributes:
        delimiter: the separator of fields of a text.
        header: whether the first line contains the names of the columns.
        columns: the needed columns, by their meaning.
        table: the config table that describes the file, for messages.
        encoding: the encoding of the text; None for UTF-8, and for a mark at its beginning.
        skip: the number of first lines to leave out.
        format: what kind of file it is.
        variable: the MATLAB variable; None if it is the only array.
    """

    delimiter: str
    header: bool
    columns: dict[str, Column]
    table: str = "data"
    encoding: str | None = None
    skip: int = 0
    format: str = "delimited"
    variable: str | None = None


class FileSource(Frozen):
    """A file with a table; its fields say how it is laid out."""

    @property
    def used(self) -> dict[str, Column]:
        """The needed columns, by their meaning."""
        return dict(self)["columns"].used

    def layout(self, table: str = "data") -> Layout:
        """Return the layout of the file; `table` is the config table."""
        names = ("delimiter", "header", "encoding", "skip", "format", "variable")
        stated: dict[str, Any] = {"delimiter": ",", "header": False}
        stated |= {name: value for name, value in self if name in names and value}
        return Layout(**stated, columns=self.used, table=table)


class FeatureSource(FileSource):
    """A file with a row for each user, or each item, and what is known of them.

    Attributes:
        path: the file, as in `data.path`.
        format: `delimited`, `jsonl` or `parquet`.
        delimiter: the separator of fields of a delimited file; a comma if absent.
        header: whether the first line of a delimited file contains the names of the columns.
        encoding: the encoding of a text file, as in `data.encoding`.
        id: the column of the ids, as in the file of interactions.
        columns: the columns of the features, by their names. A column of numbers is read as
            numbers, any other as text.
        unknown: what to do with a row whose id has no interaction: refuse it, or drop it.
    """

    path: Name
    format: Literal["delimited", "jsonl", "parquet"] = "delimited"
    delimiter: Delimiter | None = None
    header: bool = False
    encoding: Encoding | None = None
    id: Column = 0
    columns: Annotated[dict[Name, Column], Field(min_length=1)]
    unknown: Literal["error", "drop"] = "error"

    @model_validator(mode="after")
    def _check(self) -> Self:
        if "id" in self.columns:
            raise ValueError("a feature cannot have the name 'id': rename it, or set id alone")
        check_positions(self.used, self.format, self.header)
        return self

    @property
    def used(self) -> dict[str, Column]:
        """The column of the ids and those of the features, by their meaning."""
        return {"id": self.id, **self.columns}


_Category = Annotated[StrictInt, Field(ge=-(10**18), le=10**18)]
_DELIMITED, _MATLAB = {"delimiter", "header"}, {"variable"}


class TrustSource(FileSource):
    """A file of links, one per row, from a user to one whom they trust.

    Attributes:
        path: the file, as in `data.path`; not needed if `data.path` is a folder.
        format: the layout of the file.
        delimiter: the separator of fields in a delimited file; a comma if absent.
        header: whether the first line of a delimited file contains the names of the columns.
        columns: the columns of the two users; other columns are ignored.
        variable: the MATLAB variable; if absent, the only two-dimensional numeric array.
        mutual: whether every link counts in both directions.
    """

    path: Name | None = None
    format: Literal["delimited", "matlab"] = "delimited"
    delimiter: Delimiter | None = None
    header: bool = False
    columns: TrustColumns = TrustColumns()
    variable: Name | None = None
    mutual: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name in _MATLAB if self.format == "delimited" else _DELIMITED:
            if getattr(self, name):
                raise ValueError(f"{name} does not belong to format {self.format!r}: remove it")
        check_positions(self.used, self.format, self.header)
        return self


class BudgetSource(FileSource):
    """A delimited file of users, one per row, with the budget of each.

    A budget is the share of ε that the user accepts, above 0 and at most 1. It must not depend on
    the user's ratings, because claims treat it as public.

    Attributes:
        path: the file, as in `data.path`.
        delimiter: the separator of fields; a comma if absent.
        header: whether the first line contains the names of the columns.
        columns: the columns of the user and of the budget; other columns are ignored.
    """

    path: Name
    delimiter: Delimiter | None = None
    header: bool = False
    columns: BudgetColumns = BudgetColumns()

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_positions(self.used, "delimited", self.header)
        return self


class SensitiveSource(Frozen):
    """The ratings that their users keep private: a random share, or those of some categories.

    Attributes:
        share: the share of all ratings, drawn at random; a larger share contains a smaller one.
        categories: the values of `columns.category`, as written in the file.
        matched_random: draw as many ratings as these categories have at random instead.
        seed: the seed of the draw.
    """

    share: Annotated[float, Field(ge=0, le=1)] | None = None
    categories: Annotated[tuple[Name | _Category, ...], Field(min_length=1)] | None = None
    matched_random: bool = False
    seed: Seed = 0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.share is None) == (self.categories is None):
            both = "both are given" if self.categories else "neither is given"
            raise ValueError(f"share and categories exclude each other and {both}: give one")
        if self.matched_random and self.categories is None:
            raise ValueError("matched_random needs categories: name them or remove it")
        if self.seed and self.categories is not None and not self.matched_random:
            raise ValueError("seed has no effect: remove it or set matched_random = true")
        return self
