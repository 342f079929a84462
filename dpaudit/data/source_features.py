"""The tables of features in the `[data]` table of a config, as frozen models."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator

from dpaudit.data.source_parts import (
    FROZEN,
    Column,
    Delimiter,
    Encoding,
    Name,
    position_needed,
)


class FeatureSource(BaseModel):
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

    model_config = FROZEN

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
        if problem := position_needed(self.used, self.format, self.header):
            raise ValueError(problem)
        return self

    @property
    def used(self) -> dict[str, Column]:
        """The column of the ids and those of the features, by their meaning."""
        return {"id": self.id, **self.columns}
