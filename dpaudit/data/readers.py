"""Load a data source: read its table, check every row, and number the users and the items."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.source import Column, DataSource, OnDuplicate
from dpaudit.data.synthetic import generate
from dpaudit.data.tables import Table, read_matlab, read_parquet, read_text
from dpaudit.errors import DataError

Codes = NDArray[np.int64]
Values = NDArray[np.float64]

_PURCHASES = Scale(1.0, 1.0, 1.0)
# Python refuses to convert endless digits, so longer numbers are sorted as text.
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)


def load(source: DataSource) -> Ratings:
    """Read or generate the ratings that `source` describes.

    Users and items are numbered by their sorted ids: by number where all ids are integers, else as
    text.

    Raises:
        DataError: the data cannot be read or break a rule; the message names the place, the value
            and the remedy.
    """
    if source.format == "synthetic":
        ratings = generate(source.synthetic)
    else:
        ratings = _ratings(_table(source), source)
    return ratings if source.binarize is None else _purchases(ratings, source.binarize)


def _table(source: DataSource) -> Table:
    path = source.file()
    try:
        _check_file(path)
        if source.format == "parquet" and source.columns is not None:
            return read_parquet(path, source.columns)
        if source.format == "matlab" and source.columns is not None:
            return read_matlab(path, source.columns, source.variable)
        return read_text(path, source.layout)
    except OSError as error:
        raise DataError(
            f"{path} cannot be read ({error.strerror or error}): make it readable"
        ) from error


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise DataError(f"{path} is a folder: set data.path to the file of ratings inside it")
    if not path.exists():
        raise DataError(f"{path} does not exist: correct data.path or fetch the data set")
    if not path.stat().st_size:
        raise DataError(f"{path} is empty: give a file with ratings")


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of a table, numbered, in the order of the file."""

    user: Codes
    item: Codes
    value: Values
    user_ids: NDArray[np.object_]
    item_ids: NDArray[np.object_]


def _ratings(table: Table, source: DataSource) -> Ratings:
    scale = source.rating_scale
    rows = _checked(table, scale)
    if not len(rows.user):
        raise DataError(f"{table.path} holds no ratings: give a file with ratings")
    if table.rating is None:
        scale = _PURCHASES
    elif scale is None and source.binarize is not None:
        # Any scale will do, since these ratings only live until they become purchases.
        scale = Scale(float(rows.value.min()), float(rows.value.max()), 1.0)
    elif scale is None:
        raise DataError(_scale_missing(table.path, rows.value))
    kept, value = _distinct(table, rows, source.on_duplicate)
    return Ratings.build(
        rows.user[kept],
        rows.item[kept],
        value,
        len(rows.user_ids),
        len(rows.item_ids),
        scale,
        rows.user_ids,
        rows.item_ids,
    )


def _checked(table: Table, scale: Scale | None) -> _Rows:
    """Number the ids and convert the ratings, or name the first row that allows neither."""
    user, user_ids = _number_ids(table, table.user, table.columns.user)
    item, item_ids = _number_ids(table, table.item, table.columns.item)
    faults = [
        (int(np.argmax(codes < 0)), column, f"the {name} id is missing: complete or remove it")
        for codes, column, name in (
            (user, table.columns.user, "user"),
            (item, table.columns.item, "item"),
        )
        if (codes < 0).any()
    ]
    value = np.ones(len(user))
    if table.rating is not None and table.columns.rating is not None:
        value, fault = _convert(table, table.rating, table.columns.rating, scale)
        faults += [] if fault is None else [(fault[0], table.columns.rating, fault[1])]
    if faults:
        row, column, fault_text = min(faults, key=lambda found: found[0])
        raise DataError(f"{table.path}, {table.place(row)}, {_label(column)}: {fault_text}")
    return _Rows(user, item, value, user_ids, item_ids)


def _label(column: Column) -> str:
    return f"column {column!r}" + (" (counted from 0)" if isinstance(column, int) else "")


def _factorize(table: Table, values: Any, column: Column) -> tuple[Codes, list[Any]]:
    """Number the distinct values; -1 is a null."""
    import pandas as pd

    try:
        codes, distinct = pd.factorize(values)
    except TypeError:
        raise DataError(
            f"{table.path}, {_label(column)}: the column holds lists or records: give a column of "
            "plain values"
        ) from None
    return codes.astype(np.int64), np.asarray(distinct).tolist()


def _number_ids(table: Table, values: Any, column: Column) -> tuple[Codes, NDArray[np.object_]]:
    """Number the ids in sorted order; -1 is a missing id."""
    codes, distinct = _factorize(table, values, column)
    names = [_id(value) for value in distinct]
    ids = sorted({name for name in names if name})
    if all(_INTEGER.fullmatch(name) for name in ids):
        ids.sort(key=int)
    position = {name: index for index, name in enumerate(ids)}
    lookup = np.array([*(position.get(name, -1) for name in names), -1])
    return lookup[codes], np.array(ids, dtype=object)


def _id(value: object) -> str:
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _convert(
    table: Table, values: Any, column: Column, scale: Scale | None
) -> tuple[Values, tuple[int, str] | None]:
    """Convert the ratings; also give the first row with a fault, and the fault."""
    codes, distinct = _factorize(table, values, column)
    numbers = [_number(value) for value in distinct]
    faults = [_fault(value, number, scale) for value, number in zip(distinct, numbers, strict=True)]
    faults.append("the rating is missing: complete or remove it")
    faulty = np.array([fault is not None for fault in faults])[codes]
    value = np.array([*numbers, np.nan])[codes]
    if not faulty.any():
        return value, None
    row = int(np.argmax(faulty))
    # A text's first line without a number is often a header.
    words = table.unit == "line" and str(distinct[codes[row]]).strip()
    header = row == 0 and words and np.isnan(value[0])
    hint = ", or set data.header = true if the line holds the columns' names" if header else ""
    return value, (row, f"{faults[codes[row]]}{hint}")


def _show(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:40]}…"


def _number(value: Any) -> float:
    try:
        return np.nan if "_" in str(value) else float(value)
    except (TypeError, ValueError):
        return np.nan


def _fault(value: object, number: float, scale: Scale | None) -> str | None:
    if isinstance(value, str) and not value.strip():
        return "the rating is missing: complete or remove it"
    shown = _show(value)
    if not np.isfinite(number):
        return f"the rating {shown} is not a finite number: correct it"
    if scale is None:
        return None
    extent = f"{scale.minimum:g}..{scale.maximum:g}"
    if not scale.minimum <= number <= scale.maximum:
        return f"the rating {shown} lies outside the scale {extent}: correct it or set data.scale"
    steps = (number - scale.minimum) / scale.step
    if abs(steps - round(steps)) > 1e-4:
        return (
            f"the rating {shown} is no step of the scale {extent} with step {scale.step:g}: "
            "correct it or set data.scale"
        )
    return None


def _scale_missing(path: Path, value: Values) -> str:
    levels = np.unique(value)
    step = float(np.diff(levels).min()) if len(levels) > 1 else 1.0
    return (
        f"data.scale is missing and {path} holds ratings from {levels[0]:g} to {levels[-1]:g}: "
        f"set scale = {{ minimum = {levels[0]:g}, maximum = {levels[-1]:g}, step = {step:g} }} or "
        "the range that the raters could use"
    )


def _distinct(table: Table, rows: _Rows, on_duplicate: OnDuplicate) -> tuple[Codes, Values]:
    """One row per (user, item), and its rating."""
    pair = rows.user * len(rows.item_ids) + rows.item
    order = np.argsort(pair, kind="stable")
    starts = np.flatnonzero(np.diff(pair[order], prepend=-1))
    if len(starts) == len(pair):
        return np.arange(len(pair)), rows.value
    counts = np.diff(starts, append=len(pair))
    last = order[starts + counts - 1]
    if on_duplicate == "last":
        return last, rows.value[last]
    if on_duplicate == "mean":
        return last, np.add.reduceat(rows.value[order], starts) / counts
    repeated = starts[counts > 1]
    firsts = repeated[np.argsort(order[repeated])][:3]
    shown = "; ".join(
        f"user {_show(rows.user_ids[rows.user[order[first]]])}, item "
        f"{_show(rows.item_ids[rows.item[order[first]]])} at {table.place(order[first])} and "
        f"{table.place(order[first + 1])}"
        for first in firsts
    )
    pairs = "pair is" if len(repeated) == 1 else "pairs are"
    raise DataError(
        f"{table.path}: {len(repeated)} (user, item) {pairs} repeated ({shown}): remove the "
        "repeats or set data.on_duplicate to 'last' or 'mean'"
    )


def _purchases(ratings: Ratings, threshold: float) -> Ratings:
    kept = ratings.value >= threshold
    if not kept.any():
        raise DataError(
            f"data.binarize = {threshold:g} lies above every rating (the highest is "
            f"{ratings.value.max():g}): lower it"
        )
    return Ratings.build(
        ratings.user[kept],
        ratings.item[kept],
        np.ones(kept.sum()),
        ratings.n_users,
        ratings.n_items,
        _PURCHASES,
        ratings.user_ids,
        ratings.item_ids,
    )
