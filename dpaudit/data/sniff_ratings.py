"""Guess what the ratings of a file mean: values on a scale, counts, or likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.messages import show
from dpaudit.data.readers.binary import read_parquet
from dpaudit.data.readers.cells import Table, factorize, identifier, number
from dpaudit.data.readers.delimited import read_text
from dpaudit.data.source import DataSource, Layout
from dpaudit.data.source_parts import Column

# A column of an unknown name with more values than this holds counts or weights.
_MOST_VALUES = 21
# The usual steps of scales, the most steps of one, and the largest rating.
_STEPS, _MOST_STEPS, _LARGEST = (1.0, 0.5, 0.25, 0.2, 0.1, 0.05, 0.01), 2000, 1000


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


def meaning_of(path: Path, source: DataSource, column: Column, kind: str) -> Meaning:
    """Read a column of ratings and guess what it means.

    Args:
        path: the file.
        source: its layout, without the ratings.
        column: the column.
        kind: `rating` or `count` if its name says so, else `value`.

    Raises:
        DataError: a rating is missing or no number, while others are.
    """
    columns = {"rating": column}
    if source.format == "parquet":
        table = read_parquet(path, columns)
    else:
        table = read_text(path, Layout(source.delimiter or ",", source.header, columns))
    codes, distinct = factorize(table, "rating")
    numbers = np.array([*map(number, distinct), np.nan])
    blank = np.array([*(not identifier(value) for value in distinct), True])
    label = table.label("rating")
    label = f"{label[0].upper()}{label[1:]}"
    if blank[codes].all():
        return Meaning(said=f"{label} is empty, so every row is an interaction.")
    finite = np.isfinite(numbers)
    if kind != "rating" and not finite.any():
        return Meaning(said=f"{label} holds no numbers, so every row is an interaction.")
    if not finite[codes].all():
        _refuse(table, distinct, ~finite[codes], codes)
    return _meaning(np.unique(numbers[finite]), column, kind, label)


def _meaning(values: NDArray[np.float64], column: Column, kind: str, label: str) -> Meaning:
    low, high = float(values[0]), float(values[-1])
    every = "so every row is an interaction"
    if kind == "count":
        return Meaning(said=f"{label} holds counts or weights, {every}.")
    if len(values) == 1:
        return Meaning(said=f"{label} holds {low:g} alone, {every}.")
    if len(values) == 2 and low <= 0:
        said = f"{label} holds {low:g} and {high:g}: a row with {high:g} is an interaction."
        return Meaning(column, {"binarize": high}, said)
    if len(values) == 2:
        return Meaning(said=f"{label} holds {low:g} and {high:g} alone, {every}.")
    step = _step(values)
    # A scale from 0 to 100 has many values.
    known = kind == "rating" or len(values) <= _MOST_VALUES or (low >= 0 and high == 100)
    if step is None or not known:
        return Meaning(
            said=f"{label} holds {len(values)} values from {low:g} to {high:g}, which are taken as "
            f"counts or weights, {every}."
        )
    scale = {"minimum": low, "maximum": high, "step": step}
    return Meaning(column, {"scale": scale}, f"The ratings are {low:g} to {high:g} by {step:g}.")


def _step(values: NDArray[np.float64]) -> float | None:
    """Return the largest usual step of these values, None for other numbers."""
    if np.abs(values).max() > _LARGEST:
        return None
    for step in _STEPS:
        steps = (values - values[0]) / step
        if steps[-1] <= _MOST_STEPS and np.allclose(steps, np.round(steps), rtol=0, atol=1e-4):
            return step
    return None


def _refuse(
    table: Table, distinct: list[Any], wrong: NDArray[np.bool_], codes: NDArray[np.int32]
) -> NoReturn:
    """Report the first rating that is missing or no number.

    Raises:
        DataError: always.
    """
    row, others = int(np.argmax(wrong)), int(wrong.sum()) - 1
    value = distinct[codes[row]] if codes[row] >= 0 else ""
    if np.isfinite(number(str(value).replace(",", ".", 1))):
        fault = f"the rating {show(value)} is not a number: write decimals with a point"
        table.refuse([(row, "rating", fault)])
    fault, remedy = "the rating is missing", "complete or remove"
    if identifier(value):
        fault, remedy = f"the rating {show(value)} is not a finite number", "correct or remove"
    more = f", as in {others:,} more row{'s' if others > 1 else ''}" if others else ""
    fault = f"{fault}{more}: {remedy} {'these rows' if others else 'this row'}"
    every = "or remove the column to take every row as an interaction"
    table.refuse([(row, "rating", f"{fault}, {every}")])
