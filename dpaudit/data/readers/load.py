"""Load a data source: read its tables, check every row, and number users and items."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place
from dpaudit.data import limits
from dpaudit.data.ratings import Ratings, Repair, Scale
from dpaudit.data.readers.binary import read_matlab, read_parquet
from dpaudit.data.readers.cells import RawTable
from dpaudit.data.readers.columns import without_headers
from dpaudit.data.readers.delimited import read_delimited
from dpaudit.data.readers.folder import parquet_files, unread_parts
from dpaudit.data.readers.json_lines import read_json_lines
from dpaudit.data.readers.rows import Rows, checked_rows, drawn, rated_by, without_repeats
from dpaudit.data.readers.scales import MOST_VALUES, likely_ratings, occurring, possible_scale
from dpaudit.data.readers.side_tables import budgets_of, features_of, friends_of
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import FeatureSource, Layout, expanded
from dpaudit.data.synthetic import generate

# With so many rows, a column of which almost all values occur once is likely to hold no items.
_ENOUGH, _ALMOST_ALL = 100, 0.9
_PURCHASES = Scale(1.0, 1.0, 1.0)
# In the edition of 770,000 rows, the rows of this user repeat those of the previous user.
_TWICE = 2809


def load(source: DataSource) -> Ratings:
    """Read or generate the ratings, links and budgets that `source` describes.

    Users and items are numbered by their sorted ids: sorted as numbers if all ids are integers,
    else as text.

    Raises:
        DataError: the data cannot be read or are invalid; the message names the place, the value
            and the remedy.
    """
    ratings = generate(source.synthetic) if source.format == "synthetic" else _read(source)
    if source.binarize is not None:
        ratings = _purchases(ratings, source.binarize)
    return ratings if source.sensitive is None else drawn(ratings, source.sensitive)


def _read(source: DataSource) -> Ratings:
    plain = source.plain
    path, folder = source.file(), expanded(source.path or "", "data.path")
    if folder != path and folder.is_file():
        raise DataError(
            f"{place(folder)} is a file and format {source.format!r} reads a folder: set data.path "
            f"to the one that contains {path.name}"
        )
    ratings = _ratings(path, plain, repaired=source.format == "epinions")
    if ratings.user_ids is not None and plain.budgets is not None:
        key = "data.budgets.path"
        file = expanded(plain.budgets.path, key)
        budgets, others = budgets_of(
            _read_file(file, key, "budgets", plain.budgets.layout),
            ratings.user_ids,
            path,
            markers=plain.missing_ids == "keep",
        )
        repairs = (*ratings.repairs, *_counted([others]))
        ratings = replace(ratings, budgets=budgets, repairs=repairs)
    ratings = _with_features(ratings, plain)
    if plain.trust is None or ratings.user_ids is None:
        return ratings
    key = "data.path" if folder != path else "data.trust.path"
    file = expanded(plain.trust.path or "", key)
    friends, left_out = friends_of(
        _read_file(file, key, "links", plain.trust.layout),
        ratings.user_ids,
        path,
        mutual=plain.trust.mutual,
        missing_ids=plain.missing_ids,
    )
    return replace(ratings, friends=friends, repairs=(*ratings.repairs, *_counted(left_out)))


def _counted(repairs: Iterable[Repair]) -> tuple[Repair, ...]:
    """Return the repairs with a count above 0."""
    return tuple(repair for repair in repairs if repair.count)


def read_columns(path: Path, source: DataSource) -> RawTable:
    """Read the columns of a file of ratings, as they are, without repeated headers.

    Raises:
        DataError: the file cannot be read, lacks a column, or has a row of names of other columns.
    """
    table = without_headers(_read_file(path, "data.path", "ratings", source.layout))
    try:
        return replace(table, repairs=(unread_parts(path), *table.repairs))
    except OSError as error:
        raise unreadable(path, error) from error


def _read_file(path: Path, key: str, content: str, layout: Layout) -> RawTable:
    """Read the needed columns of a file; only ratings may be a folder of Parquet files.

    Args:
        path: the file.
        key: the config key that names it.
        content: what it should hold, such as `ratings`.
        layout: how it is laid out.

    Raises:
        DataError: it cannot be read, or lacks a column.
    """
    try:
        if layout.format == "parquet" and content == "ratings":
            check_files(path, key)
        else:
            check_file(path, key, content)
        if layout.format == "parquet":
            return read_parquet(path, layout.columns, layout.table)
        if layout.format == "matlab":
            return read_matlab(path, layout.columns, layout.variable, layout.table)
        if layout.format == "jsonl":
            return read_json_lines(path, layout.columns, layout.encoding, layout.table)
        return read_delimited(path, layout)
    except OSError as error:
        raise unreadable(path, error) from error


def _with_features(ratings: Ratings, source: DataSource) -> Ratings:
    """Return the ratings with what the tables of features say of their users and items."""
    tables: list[tuple[Literal["user", "item"], FeatureSource | None, Any]]
    tables = [("user", source.users, ratings.user_ids), ("item", source.items, ratings.item_ids)]
    for what, features, ids in tables:
        if features is None or ids is None:
            continue
        key, layout = f"data.{what}s.path", features.layout(f"data.{what}s")
        frame, left_out = features_of(
            _read_file(expanded(features.path, key), key, "features", layout),
            ids,
            what,
            drop=features.unknown == "drop",
            markers=source.missing_ids == "keep",
        )
        repairs = (*ratings.repairs, *_counted(left_out))
        ratings = replace(ratings, repairs=repairs, **{f"{what}_features": frame})
    return ratings


def unreadable(path: Path, error: OSError) -> DataError:
    """Return the error for a file that the system refuses to read."""
    return DataError(f"{place(path)} cannot be read ({error.strerror or error}): make it readable")


def check_files(path: Path, field: str) -> None:
    """Refuse what is neither a Parquet file nor a folder of them; arguments as in `check_file`.

    Raises:
        DataError: as `check_file` and `parquet_files`.
        OSError: the folder cannot be read.
    """
    for file in parquet_files(path):
        check_file(file, field, "ratings")


def check_file(path: Path, field: str, content: str) -> None:
    """Refuse what is not a regular file; opening a pipe or a device could block.

    Args:
        path: the file.
        field: what names it, such as `data.path`.
        content: what it should hold, such as `ratings`.

    Raises:
        DataError: there is no such file, or it is empty or too large.
    """
    try:
        about = path.stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # a NUL cannot be in a path
        raise DataError(
            f"{place(path)} does not exist: correct {field} or download the data set"
        ) from None
    if stat.S_ISDIR(about.st_mode):
        raise DataError(
            f"{place(path)} is a folder: set {field} to the file of {content} inside it"
        )
    if not stat.S_ISREG(about.st_mode):
        raise DataError(f"{place(path)} is a pipe or a device: set {field} to a file of {content}")
    if not about.st_size:
        raise DataError(f"{place(path)} is empty: give a file with {content}")
    if about.st_size > limits.LARGEST:
        raise DataError(
            f"{place(path)} is larger than the limit of {limits.LARGEST // limits.GIB} GiB: "
            "keep the part that the audit needs"
        )


def _ratings(path: Path, source: DataSource, *, repaired: bool) -> Ratings:
    table, repairs = read_columns(path, source), list[Repair]()
    if repaired:
        table, repairs = _epinions(table)
    rated = "rating" in table.cells
    # Large files: each step frees what the one before it made.
    table, rows, dropped = checked_rows(table, source)
    if not len(rows):
        raise DataError(f"{table.path} holds no ratings: give a file with ratings")
    scale = source.rating_scale
    if not rated:
        scale = _PURCHASES
    elif scale is None and source.binarize is not None:
        _check_marks(table.path, rows, source.binarize)
        # Any scale will do, as these ratings are converted to purchases.
        scale = Scale(float(rows.levels.min()), float(rows.levels.max()), 1.0)
    elif scale is None:
        raise DataError(_scale_missing(table.path, rows))
    rows, merged = without_repeats(table, rows, source.on_duplicate)
    merged.append(_single(rows))
    if source.least_raters > 1:
        rows, rare = rated_by(table, rows, source.least_raters)
        merged = [*merged, rare]
    return Ratings.build(
        rows.user,
        rows.item,
        rows.levels.astype(np.float32)[rows.level],
        len(rows.user_ids),
        len(rows.item_ids),
        scale,
        rows.user_ids,
        rows.item_ids,
        rows.sensitive,
        repairs=_counted([*repairs, *dropped, *merged]),
        time=rows.time,
        ordered=True,
    )


def _epinions(table: RawTable) -> tuple[RawTable, list[Repair]]:
    """Repair the ratings of Epinions so that their user ids agree with the links.

    One user occurs twice in this edition: the rows of user 2809 repeat those of user 2808, and all
    later ids are one higher than in the links. The rows of user 2809 are dropped, and later ids are
    lowered by 1.

    Raises:
        DataError: the rows of the two users differ, so this is another edition.
    """
    user = np.asarray(table.cells["user"])
    others = [np.asarray(cells) for what, cells in table.cells.items() if what != "user"]
    rows = np.column_stack(others)
    first, second = rows[user == _TWICE - 1], rows[user == _TWICE]
    if not len(second) or not np.array_equal(first, second):
        raise DataError(
            f"{table.path}: the rows of user {_TWICE} do not repeat those of user {_TWICE - 1}, so "
            "this is another edition, and this repair does not apply: check its ids against "
            "the links and read it with format = 'matlab' and data.trust"
        )
    late = user > _TWICE
    repaired = table.changed(user != _TWICE, user=np.where(late, user - 1, user))
    return repaired, [
        Repair(f"rows of user {_TWICE}, a repeat of user {_TWICE - 1}", len(second)),
        Repair(f"users after {_TWICE}, whose id was lowered by 1", len(np.unique(user[late]))),
    ]


def _single(rows: Rows) -> Repair:
    """Count items with one interaction if almost all have one, so that they may be no items."""
    counts = np.bincount(rows.item)
    single = int((counts == 1).sum())
    few = len(rows) < _ENOUGH or single < _ALMOST_ALL * (counts > 0).sum()
    return Repair("items with one interaction, as if they were lists or rows", 0 if few else single)


def _check_marks(path: str, rows: Rows, threshold: float) -> None:
    """Refuse to make purchases of values that may mark "not rated".

    Raises:
        DataError: there are some; the message names the first.
    """
    levels, counts = occurring(rows.levels, rows.level)
    likely = likely_ratings(levels, counts)
    marks = levels[(levels > likely[-1]) & (levels >= threshold)]
    # Counts have many values and none below 0, and the largest is often far from the others.
    if len(marks) and (levels[0] < 0 or len(levels) <= MOST_VALUES):
        raise DataError(
            f'{path}: {marks[0]:g} may mark "not rated" beside the ratings {likely[0]:g} to '
            f"{likely[-1]:g}, and data.binarize = {threshold:g} would make it a purchase: set "
            "scale to the range of the ratings, and outside_scale = 'drop' to leave out the others"
        )


def _scale_missing(path: str, rows: Rows) -> str:
    levels, counts = occurring(rows.levels, rows.level)
    likely = likely_ratings(levels, counts)
    extent = f"{levels[0]:.10g} to {levels[-1]:.10g}"
    begin = f"data.scale is missing and {path} holds ratings from {extent}: "
    scale = possible_scale(likely)
    if scale is None:
        return (
            f"{begin}set scale to the range that the raters could use, set binarize to the least "
            "rating of a purchase, or remove columns.rating to take every row as a purchase"
        )
    keys = (f"{name} = {value:.10g}" for name, value in scale if name != "round")
    rounded = ", round = true" if scale.round else ""
    marks = [f"{level:g}" for level in levels if level not in likely]
    dropped = ""
    if marks:
        dropped = f' and outside_scale = "drop", as {" and ".join(marks)} may mark "not rated",'
    return (
        f"{begin}set scale = {{ {', '.join(keys)}{rounded} }}{dropped} or the range that the "
        "raters could use"
    )


def _purchases(ratings: Ratings, threshold: float) -> Ratings:
    kept = ratings.value >= threshold
    if not kept.any():
        raise DataError(
            f"data.binarize = {threshold:g} lies above every rating (the highest is "
            f"{ratings.value.max():g}): lower it"
        )
    bought = ratings.only(kept)
    ones = np.ones(len(bought), np.float32)
    ones.setflags(write=False)
    below = Repair(f"rows with a rating below {threshold:g}, no interactions", int((~kept).sum()))
    repairs = (*ratings.repairs, *_counted([below]))
    return replace(bought, value=ones, scale=_PURCHASES, repairs=repairs)
