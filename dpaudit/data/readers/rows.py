"""The rows of a file of ratings: numbered, checked, and with repeats merged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import listed, quoted, show
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings, Repair
from dpaudit.data.readers.cells import Codes, Fault, Mask, RawTable, identifier, looked_up, times_of
from dpaudit.data.readers.columns import missing, not_a_number, ratings, users_and_items
from dpaudit.data.readers.text_pieces import blanks_repeat
from dpaudit.data.source import DataSource, OnDuplicate
from dpaudit.data.source_parts import RatingScale, SensitiveSource

Values = NDArray[np.float64]
Names = NDArray[np.object_]
_DROP = ", or set data.missing_ids (dpaudit init --missing-ids) to 'drop' to leave such rows out"
_MISSING = "the rating is missing: complete or remove it"
_KEEP = ", or to 'keep' where a marker is an id"
# Ratings are stored in single precision, in which larger values are infinite.
LARGEST = float(np.finfo(np.float32).max)
# The most categories in a message.
_SHOWN = 40


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table, numbered, in the order of the file.

    Attributes:
        user: the user `(n,)`.
        item: the item `(n,)`.
        level: the index of the rating in `levels` `(n,)`.
        levels: the values of the ratings; 1 if the table has no ratings.
        sensitive: whether the rating is sensitive by its column or category `(n,)`; None if there
            is neither.
        time: when it happened `(n,)`; None if the source does not say.
        user_ids: the sorted ids of all users, also of dropped rows.
        item_ids: the sorted ids of all items, also of dropped rows.
    """

    user: Codes
    item: Codes
    level: Codes
    levels: Values
    sensitive: Mask | None
    time: Values | None
    user_ids: Names
    item_ids: Names

    def __len__(self) -> int:
        return len(self.user)

    @property
    def value(self) -> Values:
        """The rating `(n,)`."""
        return self.levels[self.level]

    def take(self, rows: Codes | Mask) -> Rows:
        """Return some of the rows; the ids stay."""

        def taken(codes: Codes) -> Codes:
            mask = rows.dtype == np.bool_
            return codes[rows] if mask else looked_up(codes, cast(Codes, rows))

        return replace(
            self,
            user=taken(self.user),
            item=taken(self.item),
            level=taken(self.level),
            sensitive=None if self.sensitive is None else self.sensitive[rows],
            time=None if self.time is None else self.time[rows],
        )


def checked_rows(table: RawTable, source: DataSource) -> tuple[RawTable, Rows, list[Repair]]:
    """Number the ids, convert the ratings, and count dropped rows and missing categories.

    The returned table has no columns, and names the places of the returned rows.

    Raises:
        DataError: a row is invalid; the message names the first one.
    """
    keep, drop = source.missing_ids == "keep", source.missing_ids == "drop"
    users, items = users_and_items(table, markers=keep)
    user, item = users.codes, items.codes
    faults: list[Fault] = []
    if not drop:
        faults = _unnamed(table, user, "user", source) + _unnamed(table, item, "item", source)
    level, levels, outside = np.zeros(len(user), np.int32), np.ones(1), None
    sensitive, repairs = None, [*table.repairs, *users.repairs("user"), *items.repairs("item")]
    if "rating" in table.cells:
        level, levels, outside, fault = _convert(table, source)
        faults += fault
        scale = source.scale
        if scale is not None and scale.round:
            steps = (levels - scale.minimum) / scale.step
            nearest = np.round(steps)
            levels, between = scale.minimum + scale.step * nearest, np.abs(steps - nearest) > 1e-4
            repairs.append(
                Repair("ratings rounded to a step of the scale", int(between[level].sum()))
            )
    if "sensitive" in table.cells:
        sensitive, fault = _settings(table)
        faults += fault
    elif source.sensitive is not None and source.sensitive.categories is not None:
        sensitive, without = _of_categories(table, source.sensitive.categories)
        repairs.append(without)
    time: Values | None = np.arange(len(user), dtype=np.float64) if source.in_order else None
    if "time" in table.cells:
        time, fault = times_of(table)
        faults += fault
    table.refuse(faults)
    nameless = drop and min(user.min(initial=0), item.min(initial=0)) < 0
    dropped = {
        "rows without a user or an item": (user < 0) | (item < 0) if nameless else None,
        "rows with a rating outside the scale": outside,
    }
    names = (np.array(column.names, object) for column in (users, items))
    rows = Rows(user, item, level, levels, sensitive, time, *names)
    # The table is for messages from here on, so that its columns can be freed.
    table, kept, counts = replace(table, cells={}), np.ones(len(rows), np.bool_), list[Repair]()
    for what, mask in dropped.items():
        if mask is not None:
            # A row counts for the first mask that drops it.
            counts.append(Repair(what, int((kept & mask).sum())))
            kept &= ~mask
    if counts:
        table, rows = table.changed(kept), rows.take(kept)
    return table, rows, [*counts, *repairs]


def _unnamed(table: RawTable, codes: Codes, what: str, source: DataSource) -> list[Fault]:
    """Return the fault of the first row without an id, if any."""
    # If several blanks separate the columns, no row has an id.
    padded = source.delimiter == "\t" and (codes < 0).all()
    if padded or source.delimiter == " ":
        return missing(table, codes, what, blanks_repeat("data"))
    return missing(table, codes, what, _DROP, _KEEP)


def _convert(table: RawTable, source: DataSource) -> tuple[Codes, Values, Mask | None, list[Fault]]:
    """Return the level of each row, the levels, the mask of rows to drop, and the first fault.

    The mask is None if no row is dropped. The level of a dropped row is NaN.
    """
    scale, drop = source.scale, source.outside_scale == "drop"
    column = ratings(table)
    codes, distinct, numbers = column.codes, column.distinct, column.numbers
    outside = [drop and _outside(rating, scale) for rating in numbers]
    faults = [
        None if gone else _fault(value, rating, scale, distinct)
        for value, rating, gone in zip(distinct, numbers, outside, strict=True)
    ]
    levels = np.where(outside, np.nan, numbers)
    dropped = column.per_row(outside, False) if any(outside) else None
    if not any(faults) and codes.min(initial=0) >= 0:
        return codes, levels, dropped, []
    row = int(np.argmax(column.per_row((fault is not None for fault in faults), True)))
    fault = [*faults, _MISSING][codes[row]]
    # A first line of text without a number is often a header.
    words = table.unit == "line" and str(column.cell(row)).strip()
    header = row == 0 and words and np.isnan([*numbers, np.nan][codes[0]])
    hint = ", or set data.header = true if the line holds the columns' names" if header else ""
    return codes, levels, dropped, [(row, "rating", f"{fault}{hint}")]


def _outside(rating: float, scale: RatingScale | None) -> bool:
    if scale is None or not np.isfinite(rating):
        return False
    return not scale.minimum <= rating <= scale.maximum


def _fault(
    value: object, rating: float, scale: RatingScale | None, distinct: list[Any]
) -> str | None:
    if isinstance(value, str) and not value.strip():
        return _MISSING
    shown = show(value)
    if not abs(rating) <= LARGEST:
        return not_a_number("rating", value, distinct)
    if scale is None:
        return None
    extent = f"{scale.minimum:g}..{scale.maximum:g}"
    if _outside(rating, scale):
        return (
            f"the rating {shown} lies outside the scale {extent}: correct it, set data.scale, or "
            "set data.outside_scale = 'drop'"
        )
    steps = (rating - scale.minimum) / scale.step
    if not scale.round and abs(steps - round(steps)) > 1e-4:
        return (
            f"the rating {shown} is not a step of the scale {extent} with step {scale.step:g}: "
            "correct it or set data.scale, with round = true to round such ratings"
        )
    return None


def _settings(table: RawTable) -> tuple[Mask, list[Fault]]:
    """Return the column `sensitive` as a mask `(n,)`, and the first value that is not 0 or 1."""
    column = ratings(table, "sensitive")
    numbers = column.values
    wrong = (numbers != 0) & (numbers != 1)
    if not wrong.any():
        return numbers == 1, []
    row = int(np.argmax(wrong))
    value = column.cell(row)
    fault = f"the setting {show(value)} is" if identifier(value) else "the setting is missing,"
    fault += " neither 0 nor 1: give 1 where the rating is sensitive and 0 where it is not"
    return numbers == 1, [(row, "sensitive", fault)]


def _of_categories(table: RawTable, wanted: Sequence[str | int]) -> tuple[Mask, Repair]:
    """Return the mask of rows with a wanted category `(n,)`; count rows without a category.

    Raises:
        DataError: a wanted category, or any category, occurs in no row.
    """
    column = table.coded("category")
    names = [*map(identifier, column.distinct)]
    known = list(dict.fromkeys(filter(None, names)))
    if not known:
        raise DataError(
            f"{table.path}, {table.label('category')}: no row has a category: correct "
            "data.columns.category, or set data.sensitive.share instead of categories"
        )
    asked = [str(name) for name in wanted]
    unknown = [name for name in asked if name not in known]
    if unknown:
        ordered = sorted(known, key=lambda name: (len(name), name))
        raise DataError(
            f"{table.path}, {table.label('category')}: no row has the category "
            f"{show(unknown[0])} of data.sensitive.categories: choose from "
            f"{listed([*map(quoted, ordered)], _SHOWN)}"
        )
    without = column.per_row((not name for name in names), True)
    repair = Repair("rows without a category, taken as not sensitive", int(without.sum()))
    return column.per_row((name in asked for name in names), False), repair


def without_repeats(
    table: RawTable, rows: Rows, on_duplicate: OnDuplicate
) -> tuple[Rows, list[Repair]]:
    """Return one row per (user, item), sorted by them, and count the merged ones.

    The last row is the last in time if times are known. The kept row has its time and is sensitive
    if it is; a mean is sensitive if any of its ratings is.

    Raises:
        DataError: a pair is repeated and `on_duplicate` is `error`.
    """
    from dpaudit.kernels.text_fields import increasing, sort_pairs

    if increasing(rows.user, rows.item):
        return rows, []
    if rows.time is not None and on_duplicate != "error":
        rows = rows.take(np.argsort(rows.time, kind="stable").astype(np.int32))
    order = np.empty(len(rows), np.int32)
    starts, marks = (np.zeros(len(ids) + 1, np.int64) for ids in (rows.user_ids, rows.item_ids))
    # By user, then item, then place.
    sort_pairs(rows.user, rows.item, starts, marks, order)
    ordered = rows.take(order)
    if increasing(ordered.user, ordered.item):
        return ordered, []
    new = (np.diff(ordered.user) != 0) | (np.diff(ordered.item) != 0)
    starts = np.append(0, np.flatnonzero(new) + 1)
    counts = np.diff(starts, append=len(rows))
    if on_duplicate == "error":
        repeated = starts[counts > 1]
        firsts = repeated[np.argsort(order[repeated])][:3]
        examples = "; ".join(
            f"user {show(rows.user_ids[rows.user[row]])}, item "
            f"{show(rows.item_ids[rows.item[row]])} at {table.place(int(row))} and "
            f"{table.place(int(again))}"
            for row, again in zip(order[firsts], order[firsts + 1], strict=True)
        )
        pairs = "pair is" if len(repeated) == 1 else "pairs are"
        raise DataError(
            f"{table.path}: {len(repeated)} (user, item) {pairs} repeated ({examples}): remove the "
            "repeats or set data.on_duplicate to 'last' or 'mean'"
        )
    kept, value = ordered.take((starts + counts - 1).astype(np.int32)), ordered.value
    same = int((value == np.repeat(kept.value, counts)).sum()) - len(kept)
    other = len(rows) - len(kept) - same
    if on_duplicate == "mean":
        flags = ordered.sensitive
        kept = replace(
            kept,
            level=np.arange(len(kept), dtype=np.int32),
            levels=np.add.reduceat(value, starts) / counts,
            sensitive=None if flags is None else np.logical_or.reduceat(flags, starts),
        )
    fate = "the last counts" if on_duplicate == "last" else "the mean counts"
    return kept, [
        Repair("rows that repeat a user, an item and their rating", same),
        Repair(f"rows that repeat a user and an item with another rating, where {fate}", other),
    ]


def rated_by(table: RawTable, rows: Rows, least: int) -> tuple[Rows, Repair]:
    """Keep the ratings of items with at least `least` raters, and count the dropped ones.

    Users and items without ratings are removed, and the others are renumbered.

    Args:
        table: the file, for messages.
        rows: rows without repeated (user, item).
        least: the least number of raters, at least 1.

    Raises:
        DataError: no item has that many raters.
    """
    raters = np.bincount(rows.item, minlength=len(rows.item_ids))
    kept = rows.take(raters[rows.item] >= least)
    if not len(kept):
        raise DataError(
            f"{table.path}: data.least_raters = {least} leaves no item, as the one with the most "
            f"raters has {raters.max()}: lower it"
        )
    users, user = np.unique(kept.user, return_inverse=True)
    items, item = np.unique(kept.item, return_inverse=True)
    dropped = Repair(f"ratings of items with fewer than {least} raters", len(rows) - len(kept))
    left = replace(
        kept,
        user=user.astype(np.int32),
        item=item.astype(np.int32),
        user_ids=rows.user_ids[users],
        item_ids=rows.item_ids[items],
    )
    return left, dropped


def drawn(ratings: Ratings, settings: SensitiveSource) -> Ratings:
    """Mark randomly drawn ratings as sensitive, if `settings` ask for it.

    Each rating has a random draw, and the ratings with the smallest draws are sensitive:
    `round(share · R)` of them, or as many as are sensitive by category. So for the same seed, a
    larger share contains a smaller one.
    """
    if settings.share is not None:
        count = round(settings.share * len(ratings))
    elif settings.matched_random:
        count = int(ratings.kept_private.sum())
    else:
        return ratings
    stream = generator(settings.seed, "sensitive")
    sensitive = np.zeros(len(ratings), np.bool_)
    sensitive[np.argsort(stream.random(len(ratings)), kind="stable")[:count]] = True
    sensitive.setflags(write=False)
    return replace(ratings, sensitive=sensitive)
