"""Guess what the ratings of a file mean: values on a scale, counts, or likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import show
from dpaudit.data.readers import doubts
from dpaudit.data.readers.cells import RawTable, identifier
from dpaudit.data.readers.columns import ratings
from dpaudit.data.readers.load import read_columns
from dpaudit.data.readers.scales import MOST_VALUES, likely_ratings, occurring, usual_scale
from dpaudit.data.sniff_labels import act_of
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import Column, RatingScale


class UnknownScaleError(DataError):
    """Some values of a column of ratings may be no ratings.

    Attributes:
        fault: what is not clear.
        guess: the likely range of the ratings, as in `1..10`.
    """

    def __init__(self, label: str, likely: NDArray[np.float64], marks: str, whole: str) -> None:
        low, high = f"{likely[0]:.10g}", f"{likely[-1]:.10g}"
        self.guess = f"{low}..{high}"
        self.fault = f'{label}: {marks} may mark "not rated" beside the ratings {low} to {high}'
        super().__init__(
            f"{self.fault}: state the range of the ratings by dpaudit init --scale, {self.guess} "
            f"to leave such rows out or {whole} if they are ratings, or by scale and outside_scale "
            "of [data]"
        )


@dataclass(frozen=True)
class Meaning:
    """What the ratings of a file mean.

    Attributes:
        column: the column of the ratings; None if every row is an interaction.
        keys: the keys of `[data]` that describe them.
        said: the same in words.
    """

    column: Column | None = None
    keys: dict[str, Any] = field(default_factory=dict)
    said: str = "No column holds ratings, so every row is an interaction."


def meaning_of(
    path: Path, source: DataSource, kind: str, extent: tuple[float, float] | None
) -> Meaning:
    """Read a column of ratings and guess what it means.

    Args:
        path: the file.
        source: its layout, with the column of the ratings.
        kind: `rating` or `count` if its name says so, else `value`.
        extent: the lowest and the highest rating; None if they are not stated.

    Raises:
        UnknownScaleError: some values may mark "not rated".
        DataError: a rating is missing or no number, while others are; or none is in `extent`.
    """
    table = read_columns(path, source)
    column = table.columns["rating"]
    codes, distinct, read = ratings(table)
    numbers = np.array([*read, np.nan])
    blank = np.array([*(not identifier(value) for value in distinct), True])
    label = table.label("rating")
    label = f"{label[0].upper()}{label[1:]}"
    if blank[codes].all():
        return Meaning(said=f"{label} is empty, so every row is an interaction.")
    finite = np.isfinite(numbers)
    texts = [value for value in distinct if identifier(value)]
    act = kind == "value" and act_of(str(column)) not in {"", "label"}
    if (act or kind == "rating") and not finite.any() and len(texts) == 2:
        raise DataError(
            f"{table.path}, {table.label('rating')}: the column holds {show(texts[0])} and "
            f"{show(texts[1])}: write 1 where the row is an interaction and 0 where it is none"
        )
    marked = texts and doubts.punctuated("", texts[0], distinct)
    if kind != "rating" and not finite.any() and not marked:
        return Meaning(said=f"{label} holds no numbers, so every row is an interaction.")
    if not finite[codes].all():
        _refuse(table, distinct, ~finite[codes], codes)
    values, rows = occurring(numbers[:-1], codes)
    if extent is not None:
        return _stated(f"{table.path}, {table.label('rating')}", values, column, extent)
    check_marks(f"{table.path}, {table.label('rating')}", values, rows, kind)
    return _meaning(values, column, kind, label, table.path)


def check_marks(
    label: str, values: NDArray[np.float64], rows: NDArray[np.int64], kind: str
) -> None:
    """Refuse ratings beside values that may mark "not rated".

    Args:
        label: the column, for messages.
        values: its distinct values, sorted `(n,)`.
        rows: the number of rows that have each `(n,)`.
        kind: `rating` or `count` if its name says so, else `value`.

    Raises:
        UnknownScaleError: there are such values.
    """
    if kind != "rating" and (len(values) < 3 or _scale(values, kind) is None):
        return
    likely = likely_ratings(values, rows)
    if len(likely) < len(values) and usual_scale(likely) is not None:
        marked = [
            f"{value:.10g} (in {count:,} row{'s' * (count > 1)})"
            for value, count in zip(values, rows.tolist(), strict=True)
            if value not in likely
        ]
        whole = f"{values[0]:.10g}..{values[-1]:.10g}"
        raise UnknownScaleError(label, likely, " and ".join(marked), whole)


def _stated(
    label: str, values: NDArray[np.float64], column: Column, extent: tuple[float, float]
) -> Meaning:
    """Return the scale of a stated range.

    Raises:
        DataError: no rating is in the range, or the range has no usual steps.
    """
    low, high = extent
    inside = values[(values >= low) & (values <= high)]
    scale = usual_scale(np.unique([low, *inside, high]))
    if not len(inside) or scale is None:
        fault = "has no usual steps" if len(inside) else "holds none of them"
        raise DataError(
            f"{label}: the values are {values[0]:.10g} to {values[-1]:.10g}, and the stated range "
            f"{low:.10g}..{high:.10g} {fault}: correct --scale"
        )
    keys: dict[str, Any] = {"scale": scale.model_dump(exclude_unset=True)}
    said = f"The ratings are {low:.10g} to {high:.10g}, as stated"
    if len(inside) == len(values):
        return Meaning(column, keys, f"{said}.")
    said = f"{said}; rows with another value are left out."
    return Meaning(column, keys | {"outside_scale": "drop"}, said)


def _meaning(
    values: NDArray[np.float64], column: Column, kind: str, label: str, where: str
) -> Meaning:
    low, high = float(values[0]), float(values[-1])
    every = "so every row is an interaction"
    if len(values) == 1 and kind == "value" and low == 0:
        raise DataError(
            f"{where}: {label[0].lower()}{label[1:]} holds 0 alone, so no row is an interaction: "
            "name another column, or users and items alone, such as --columns user=A,item=B"
        )
    if len(values) == 1:
        return Meaning(said=f"{label} holds {low:.10g} alone, {every}.")
    if kind == "count" and low > 0:
        return Meaning(said=f"{label} holds counts or weights, {every}.")
    if len(values) == 2 and low > 0:
        return Meaning(said=f"{label} holds {low:.10g} and {high:.10g} alone, {every}.")
    scale = _scale(values, kind) if len(values) > 2 else None
    if scale is not None:
        steps = (
            f", rounded to steps of {scale.step:.10g}" if scale.round else f" by {scale.step:.10g}"
        )
        said = f"The ratings are {low:.10g} to {high:.10g}{steps}."
        return Meaning(column, {"scale": scale.model_dump(exclude_unset=True)}, said)
    if high > 0 and (len(values) == 2 or low < 0 or kind == "count"):
        least = float(values[values > 0][0])
        between = f"and {high:.10g}: a row with {high:.10g}"
        if len(values) > 2:
            between = f"to {high:.10g}: a row with {least:.10g} or more"
        said = f"{label} holds {low:.10g} {between} is an interaction."
        return Meaning(column, {"binarize": least}, said)
    return Meaning(
        said=f"{label} holds {len(values)} values from {low:.10g} to {high:.10g}, which are taken "
        f"as counts or weights, {every}."
    )


def _scale(values: NDArray[np.float64], kind: str) -> RatingScale | None:
    """Return the scale of three values or more; None if they are counts or weights."""
    low, high = values[0], values[-1]
    # A scale from 0 to 100 has many values, and counts are not below 0.
    known = len(values) <= MOST_VALUES or (low >= 0 and high == 100) or low < 0
    scale = usual_scale(values) if kind == "rating" or (kind == "value" and known) else None
    return None if scale and scale.round and kind != "rating" and low >= 0 else scale


def _refuse(
    table: RawTable, distinct: list[Any], wrong: NDArray[np.bool_], codes: NDArray[np.int32]
) -> NoReturn:
    """Report the first rating that is missing or no number.

    Raises:
        DataError: always.
    """
    row, others = int(np.argmax(wrong)), int(wrong.sum()) - 1
    value = distinct[codes[row]] if codes[row] >= 0 else ""
    if punctuated := doubts.punctuated(f"the rating {show(value)}", value, distinct):
        table.refuse([(row, "rating", punctuated)])
    fault, remedy = "the rating is missing", "complete or remove"
    if identifier(value):
        fault, remedy = f"the rating {show(value)} is not a finite number", "correct or remove"
    more = f", as in {others:,} more row{'s' if others > 1 else ''}" if others else ""
    fault = f"{fault}{more}: {remedy} {'these rows' if others else 'this row'}"
    every = "or remove the column to take every row as an interaction"
    table.refuse([(row, "rating", f"{fault}, {every}")])
