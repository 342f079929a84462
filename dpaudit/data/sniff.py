"""Guess how a file of interactions is laid out, for a first config."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.messages import show
from dpaudit.data.source import DataSource

# Names of columns, in lower case without separators; the first that a file has is used.
_NAMES = {
    "user": (
        "userid",
        "user",
        "uid",
        "customerid",
        "customer",
        "visitorid",
        "sessionid",
        "useridx",
    ),
    "item": (
        *("itemid", "item", "iid", "movieid", "movie", "productid", "product", "artistid"),
        *("songid", "trackid", "bookid", "isbn", "gameid", "itemidx"),
    ),
    "rating": ("rating", "ratings", "score", "stars", "value"),
}
_LINES = 50
# Ratings with more values than this are counts or weights, and every row is a purchase.
_MOST_VALUES = 21
_STEPS = (1.0, 0.5, 0.25, 0.1)


def sniffed(path: Path) -> dict[str, Any]:
    """Return the keys of `[data]` that describe a file, guessed from its first lines and ratings.

    Args:
        path: a text file with a row for each interaction, or a Parquet file.

    Raises:
        DataError: the file cannot be read, or its columns cannot be guessed.
    """
    if path.suffix in {".parquet", ".pq"}:
        return _parquet(path)
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            lines = [line.rstrip("\r\n") for _, line in zip(range(_LINES), file, strict=False)]
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise DataError(f"{path} is empty: give a file with a row for each interaction")
    if "::" in lines[0]:
        return {"format": "movielens-1m"}
    delimiter = _delimiter(path, lines)
    first = [field.strip() for field in lines[0].split(delimiter)]
    if first[:3] == ["userId", "movieId", "rating"]:
        return {"format": "movielens-csv"}
    # Names are words; ids and ratings without a header mostly are not.
    header = not any(_number(field) for field in first)
    if not header and delimiter == "\t" and len(first) == 4 and all(map(_number, first)):
        return {"format": "movielens-100k"}
    if header:
        columns = columns_of(str(path), first)
    else:
        third = len(first) > 2 and all(_number(line.split(delimiter)[2]) for line in lines[1:])
        columns = {"user": 0, "item": 1, **({"rating": 2} if third else {})}
    found: dict[str, Any] = {"format": "delimited", "header": header, "columns": columns}
    if delimiter != ",":
        found["delimiter"] = delimiter
    return _rated(found, path)


def _parquet(path: Path) -> dict[str, Any]:
    try:
        from pyarrow.parquet import read_schema
    except ImportError as error:
        raise DataError(
            f"{path} is a Parquet file: python -m pip install 'dpaudit[parquet]'"
        ) from error
    try:
        names = read_schema(path).names
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as Parquet: {error}") from error
    columns = columns_of(str(path), names)
    return _rated({"format": "parquet", "columns": columns}, path)


def columns_of(place: str, names: Sequence[str]) -> dict[str, Any]:
    """Return which of the named columns hold the user, the item and perhaps the rating.

    Raises:
        DataError: none is known to hold the user, or the item.
    """
    plain = {"".join(c for c in name.lower() if c.isalnum()): name for name in names}
    found: dict[str, Any] = {}
    for what, known in _NAMES.items():
        name = next((plain[each] for each in known if each in plain), None)
        if name is not None:
            found[what] = name
    missing = [what for what in ("user", "item") if what not in found]
    if missing:
        raise DataError(
            f"{place} has the columns {', '.join(map(show, names))}, and none is known to hold the "
            f"{missing[0]}: name it in columns of [data], or rename it to {missing[0]}_id"
        )
    return found


def _rated(found: dict[str, Any], path: Path) -> dict[str, Any]:
    """Add the rating scale, or leave out a column of counts or weights."""
    column = found["columns"].get("rating")
    if column is None:
        return found
    values = _distinct(found, path, column)
    scale = _scale(values) if len(values) <= _MOST_VALUES else None
    if scale is None:
        return {**found, "columns": {k: v for k, v in found["columns"].items() if k != "rating"}}
    return {**found, "scale": scale}


def _distinct(found: dict[str, Any], path: Path, column: str | int) -> np.ndarray[Any, Any]:
    import pandas as pd

    try:
        if found["format"] == "parquet":
            values = pd.read_parquet(path, columns=[str(column)]).iloc[:, 0]
        else:
            values = pd.read_csv(
                path,
                sep=found.get("delimiter", ","),
                header=0 if found["header"] else None,
                usecols=[column],
                engine="c",
            ).iloc[:, 0]
        return np.unique(values.to_numpy(np.float64))
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{path}: column {column!r} holds no ratings ({reason})") from error


def _scale(values: np.ndarray[Any, Any]) -> dict[str, float] | None:
    """Return the scale of the smallest usual step, or None for other numbers or a single one."""
    if len(values) < 2 or not np.isfinite(values).all() or np.abs(values).max() > 1000:
        return None
    low, high = float(values[0]), float(values[-1])
    for step in _STEPS:
        steps = (values - low) / step
        if np.allclose(steps, np.round(steps)) and (high - low) / step <= 1000:
            return {"minimum": low, "maximum": high, "step": step}
    return None


def _delimiter(path: Path, lines: Iterable[str]) -> str:
    try:
        return csv.Sniffer().sniff("\n".join(lines), delimiters=",;\t| ").delimiter
    except csv.Error as error:
        raise DataError(
            f"{path}: the separator of its columns cannot be guessed: give a csv with a header "
            "such as user_id,item_id,rating"
        ) from error


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def source_of(path: Path) -> DataSource:
    """Return the source that `sniffed` describes.

    Raises:
        DataError: as `sniffed`.
    """
    return DataSource(**{**sniffed(path), "path": str(path), "on_duplicate": "last"})
