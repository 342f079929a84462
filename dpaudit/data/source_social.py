"""What is known of users: `[data.trust]`, `[data.sensitive]` and `[data.budgets]`."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, StrictInt, model_validator

from dpaudit.data.source_parts import (
    FROZEN,
    BudgetColumns,
    Delimiter,
    Name,
    Seed,
    TrustColumns,
    position_needed,
)

TrustFormat = Literal["delimited", "matlab"]

_Category = Annotated[StrictInt, Field(ge=-(10**18), le=10**18)]
_DELIMITED, _MATLAB = {"delimiter", "header"}, {"variable"}


class TrustSource(BaseModel):
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

    model_config = FROZEN

    path: Name | None = None
    format: TrustFormat = "delimited"
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
        problem = position_needed(self.columns.used, self.format, self.header)
        if problem:
            raise ValueError(problem)
        return self


class BudgetSource(BaseModel):
    """A delimited file of users, one per row, with the budget of each.

    A budget is the share of ε that the user accepts, above 0 and at most 1. It must not depend on
    the user's ratings, because claims treat it as public.

    Attributes:
        path: the file, as in `data.path`.
        delimiter: the separator of fields; a comma if absent.
        header: whether the first line contains the names of the columns.
        columns: the columns of the user and of the budget; other columns are ignored.
    """

    model_config = FROZEN

    path: Name
    delimiter: Delimiter | None = None
    header: bool = False
    columns: BudgetColumns = BudgetColumns()

    @model_validator(mode="after")
    def _check(self) -> Self:
        problem = position_needed(self.columns.used, "delimited", self.header)
        if problem:
            raise ValueError(problem)
        return self


class SensitiveSource(BaseModel):
    """The ratings that their users keep private: a random share, or those of some categories.

    Attributes:
        share: the share of all ratings, drawn at random; a larger share contains a smaller one.
        categories: the values of `columns.category`, as written in the file.
        matched_random: draw as many ratings as these categories have at random instead.
        seed: the seed of the draw.
    """

    model_config = FROZEN

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
