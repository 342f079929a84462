"""Load a data source: read its tables, check every row, and find the scale of its ratings."""

from __future__ import annotations

import math
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place
from dpaudit.data import limits
from dpaudit.data.ratings import Ratings, Repair, Scale
from dpaudit.data.readers.binary import parquet_files, read_matlab, read_parquet, unread_parts
from dpaudit.data.readers.cells import RawTable
from dpaudit.data.readers.columns import without_headers
from dpaudit.data.readers.rows import Rows, Values, checked_rows, drawn, rated_by, without_repeats
from dpaudit.data.readers.side_tables import with_budgets, with_features, with_friends
from dpaudit.data.readers.text import read_delimited, read_json_lines
from dpaudit.data.source import DataSource
from dpaudit.data.source_parts import FileSource, Layout, RatingScale, expanded
from dpaudit.data.synthetic import generate

# With so many rows, a column of which almost all values occur once is likely to hold no items.
_ENOUGH, _ALMOST_ALL = 100, 0.9
_PURCHASES = Scale(1.0, 1.0, 1.0)
_READERS = {
    "delimited": read_delimited,
    "jsonl": read_json_lines,
    "matlab": read_matlab,
    "parquet": read_parquet,
}
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
    least = source.binarize
    if least is not None:
        kept = ratings.value >= least
        if not kept.any():
            raise DataError(
                f"data.binarize = {least:g} lies above every rating (the highest is "
                f"{ratings.value.max():g}): lower it"
            )
        bought = ratings.only(kept)
        ones = np.ones(len(bought), np.float32)
        ones.setflags(write=False)
        below = Repair(f"rows with a rating below {least:g}, no interactions", int((~kept).sum()))
        ratings = bought.repaired(below, value=ones, scale=_PURCHASES)
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
    keep = plain.missing_ids == "keep"
    if plain.budgets is not None:
        table = _side_table(plain.budgets, "budgets", "data.budgets")
        ratings = with_budgets(ratings, table, path, markers=keep)
    for what, features in (("user", plain.users), ("item", plain.items)):
        if features is not None:
            table = _side_table(features, "features", f"data.{what}s")
            drop = features.unknown == "drop"
            ratings = with_features(ratings, table, what, drop=drop, markers=keep)
    if plain.trust is None:
        return ratings
    table = _side_table(plain.trust, "links", "data.trust", "data.path" if folder != path else "")
    return with_friends(ratings, table, path, plain.trust.mutual, plain.missing_ids)


def _side_table(source: FileSource, content: str, table: str, key: str = "") -> RawTable:
    """Read the file of another config table than `data`; arguments as in `_read_file`."""
    key = key or f"{table}.path"
    path = expanded(dict(source)["path"] or "", key)
    return _read_file(path, key, content, source.layout(table))


def read_columns(path: Path, source: DataSource) -> RawTable:
    """Read the columns of a file of ratings, as they are, without repeated headers.

    Raises:
        DataError: the file cannot be read, lacks a column, or has a row of names of other columns.
    """
    table = without_headers(_read_file(path, "data.path", "ratings", source.plain.layout()))
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
        several = layout.format == "parquet" and content == "ratings"
        for file in parquet_files(path) if several else [path]:
            check_file(file, key, content)
        return _READERS[layout.format](path, layout)
    except OSError as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: OSError) -> DataError:
    """Return the error for a file that the system refuses to read."""
    return DataError(f"{place(path)} cannot be read ({error.strerror or error}): make it readable")


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
    scale = None if source.scale is None else source.scale.to_scale()
    if not rated:
        scale = _PURCHASES
    elif scale is None:
        scale = _unstated_scale(table.path, rows, source.binarize)
    rows, merged = without_repeats(table, rows, source.on_duplicate)
    counts = np.bincount(rows.item)
    single = int((counts == 1).sum())
    # If almost all items have one interaction, they may be no items.
    few = len(rows) < _ENOUGH or single < _ALMOST_ALL * (counts > 0).sum()
    one = Repair("items with one interaction, as if they were lists or rows", 0 if few else single)
    merged.append(one)
    if source.least_raters > 1:
        rows, rare = rated_by(table, rows, source.least_raters)
        merged.append(rare)
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
        time=rows.time,
        ordered=True,
    ).repaired(*repairs, *dropped, *merged)


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


def _unstated_scale(path: str, rows: Rows, threshold: float | None) -> Scale:
    """Return a scale of ratings that are converted to purchases.

    Raises:
        DataError: they are not, or some may mark "not rated"; the message says what to state.
    """
    levels, counts = occurring(rows.levels, rows.level)
    likely = likely_ratings(levels, counts)
    if threshold is not None:
        above = levels[(levels > likely[-1]) & (levels >= threshold)]
        # Counts have many values and none below 0, and the largest is often far from the others.
        if len(above) and (levels[0] < 0 or len(levels) <= MOST_VALUES):
            raise DataError(
                f'{path}: {above[0]:g} may mark "not rated" beside the ratings {likely[0]:g} to '
                f"{likely[-1]:g}, and data.binarize = {threshold:g} would make it a purchase: set "
                "scale to the range of the ratings, and outside_scale = 'drop' to leave out the "
                "others"
            )
        # Any scale will do.
        return Scale(float(rows.levels.min()), float(rows.levels.max()), 1.0)
    extent = f"{levels[0]:.10g} to {levels[-1]:.10g}"
    begin = f"data.scale is missing and {path} holds ratings from {extent}: "
    scale = possible_scale(likely)
    if scale is None:
        raise DataError(
            f"{begin}set scale to the range that the raters could use, set binarize to the least "
            "rating of a purchase, or remove columns.rating to take every row as a purchase"
        )
    keys = (f"{name} = {value:.10g}" for name, value in scale if name != "round")
    rounded = ", round = true" if scale.round else ""
    marks = [f"{level:g}" for level in levels if level not in likely]
    dropped = ""
    if marks:
        dropped = f' and outside_scale = "drop", as {" and ".join(marks)} may mark "not rated",'
    raise DataError(
        f"{begin}set scale = {{ {', '.join(keys)}{rounded} }}{dropped} or the range that the "
        "raters could use"
    )


# The usual steps of scales, and the most steps of one.
_STEPS, _MOST_STEPS = (1.0, 0.5, 0.25, 0.2, 0.1, 0.05, 0.01), 2000
# The largest rating, and the least difference of the lowest and the highest.
_LARGEST, _LEAST = 1000, 1e-3
# The highest ratings of usual scales that begin above 0.
_HIGHEST = (5.0, 10.0)
# A column of an unknown name with more values than this holds counts or weights.
MOST_VALUES = 21
# The most values that mark what is not rated, such as 98 and 99.
_MARKS = 3


def usual_scale(values: Values) -> RatingScale | None:
    """Return the scale of these ratings, which rounds them if they are on no usual steps.

    Args:
        values: at least two ratings, distinct and sorted.

    Returns:
        The scale, from the lowest rating to the highest by the largest usual step that leads to all
        of them; else by a power of ten, from a step below to a step above. None for ratings above
        1000, and for ratings that hardly differ.
    """
    low, high = float(values[0]), float(values[-1])
    if max(-low, high) > _LARGEST or high - low < _LEAST:
        return None
    for step in _STEPS:
        steps = (values - low) / step
        if steps[-1] <= _MOST_STEPS and np.allclose(steps, np.round(steps), rtol=0, atol=1e-4):
            return RatingScale(minimum=low, maximum=high, step=step)
    digits = -math.ceil(math.log10((high - low) / _MOST_STEPS))
    step = 10.0**-digits
    ends = (
        round(math.floor(low / step) * step, digits),
        round(math.ceil(high / step) * step, digits),
    )
    return _valid(*ends, step, rounded=True)


def possible_scale(values: Values) -> RatingScale | None:
    """Return `usual_scale`, else a valid scale in steps of the least difference of two ratings."""
    if len(values) < 2:
        return None
    step = float(np.diff(values).min())
    return usual_scale(values) or _valid(float(values[0]), float(values[-1]), step, rounded=False)


def occurring(numbers: Values, codes: NDArray[np.int32]) -> tuple[Values, NDArray[np.int64]]:
    """Return the distinct finite values of a column, sorted, and the number of rows of each.

    Args:
        numbers: the number of each code; several codes may have the same.
        codes: the code of each row, −1 if it has none.
    """
    counts = np.bincount(codes[codes >= 0], minlength=len(numbers))
    known = np.isfinite(numbers) & (counts > 0)
    values, index = np.unique(numbers[known], return_inverse=True)
    return values, np.bincount(index, counts[known], len(values)).astype(np.int64)


def likely_ratings(values: Values, rows: NDArray[np.int64]) -> Values:
    """Return the values without those at the ends that may mark "not rated".

    Such are −1 beside 1 to 10, 99 beside −10 to 10, 0 beside 1 to 5. A value may be one if it is

    - far from three others or more: by more than half of their range, if these are five or more,
      else by ten times their range;
    - the only one below 0, an integer, and less far from 0 than the highest;
    - 0 beside few positive values that end at 5 or 10, or in more rows than each of four others.

    Args:
        values: distinct values, sorted `(n,)`.
        rows: the number of rows that have each `(n,)`.
    """
    count = len(values)
    for cut in range(1, min(_MARKS, count - 2) + 1):
        for low, high in ((cut, count), (0, count - cut)):
            gap = values[cut] - values[cut - 1] if low else values[high] - values[high - 1]
            extent, others = values[high - 1] - values[low], high - low
            far = others >= 3 and gap > (extent / 2 if others >= 5 else 10 * extent)
            if far or (low == 1 and _odd_first(values, rows)):
                return likely_ratings(values[low:high], rows[low:high])
    return values


def _odd_first(values: Values, rows: NDArray[np.int64]) -> bool:
    """Whether the lowest of three values or more may mark "not rated" by its sign or as 0."""
    first, second, last = values[0], values[1], values[-1]
    if first < 0:
        return bool(second >= 0 and first.is_integer() and last > -first)
    usual = len(values) > 3 and len(values) <= MOST_VALUES and last in _HIGHEST
    return bool(first == 0 and (usual or (len(values) > 4 and rows[0] > rows[1:].max())))


def _valid(minimum: float, maximum: float, step: float, *, rounded: bool) -> RatingScale | None:
    options = {"round": True} if rounded else {}
    try:
        return RatingScale(minimum=minimum, maximum=maximum, step=step, **options)
    except ValidationError:
        return None
