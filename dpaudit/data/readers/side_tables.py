"""Read the tables beside the ratings: links between users, budgets, and features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.ratings import Friends, Ratings, Repair
from dpaudit.data.readers import cells
from dpaudit.data.readers.columns import IdColumn, missing, unsorted_ids
from dpaudit.data.source import MissingIds

Numbers = NDArray[np.int64]
# The most ids in a message.
_SHOWN = 3
_SHARE = "give the share of ε that the user accepts, the user's own ε divided by the model's"


def with_friends(
    ratings: Ratings, table: cells.RawTable, file: Path, mutual: bool, missing_ids: MissingIds
) -> Ratings:
    """Return the ratings with the links between their users, and count those left out.

    Left out are, in this order, links without an end if `missing_ids` is `drop`, self-links,
    repeats, and links with an end that is not among the users.

    Args:
        ratings: the ratings, with ids.
        table: the links, with the columns `truster` and `trustee`.
        file: the file of the ratings, for messages.
        mutual: whether every link counts in both directions.
        missing_ids: what to do with a link without an end, as in `DataSource`.

    Raises:
        DataError: an id is missing, or no link is left.
    """
    index_of = {str(name): index for index, name in enumerate(_known(ratings.user_ids))}
    known = len(index_of)
    ends, faults = [], list[cells.Fault]()
    for what in ("truster", "trustee"):
        column = unsorted_ids(table, what, markers=missing_ids == "keep")
        if missing_ids != "drop":
            faults += missing(table, column.codes, what)
        # Unknown names get the numbers that follow.
        of_name = [index_of.setdefault(name, len(index_of)) for name in column.names]
        ends.append(np.array([*of_name, -1], np.int64)[column.codes])
    table.refuse(faults)
    left, right = ends
    whole = (left >= 0) & (right >= 0)
    other = whole & (left != right)
    # Encode each pair of names as one number; the names of users come first.
    pairs = np.unique(left[other] * len(index_of) + right[other])
    kept = (pairs // len(index_of) < known) & (pairs % len(index_of) < known)
    if not kept.any():
        raise DataError(_none_left(table, other, _known(ratings.user_ids), file))
    truster, trustee = pairs[kept] // len(index_of), pairs[kept] % len(index_of)
    if mutual:
        both = np.concatenate((truster * known + trustee, trustee * known + truster))
        truster, trustee = np.divmod(np.unique(both), known)
    return ratings.repaired(
        Repair("links without an end", int((~whole).sum())),
        Repair("links of a user to themselves", int((whole & ~other).sum())),
        Repair("repeated links", int(other.sum()) - len(pairs)),
        Repair("links with an end that is not among the raters", int((~kept).sum())),
        friends=Friends.build(truster, trustee, known),
    )


def _known(ids: NDArray[np.object_] | None) -> NDArray[np.object_]:
    return np.empty(0, object) if ids is None else ids


def _none_left(
    table: cells.RawTable, other: cells.Mask, user_ids: NDArray[np.object_], file: Path
) -> str:
    """Say why no link is left; `other` is the mask of links that are not self-links `(n,)`."""
    count = len(other)
    if not count:
        return f"{table.path} holds no links: give a file with links"
    if not other.any():
        return (
            f"{table.path}: every one of its {count} links leads from a user to themselves: "
            "give a file of links between users"
        )
    row = int(np.argmax(other))
    pair = (cells.identifier(table.coded(end).cell(row)) for end in ("truster", "trustee"))
    users = ", ".join(map(show, user_ids[:_SHOWN]))
    link = " and ".join(map(show, pair))
    return (
        f"{table.path}: none of its {count} links leads from one user of {place(file)} to "
        f"another: its ids are such as {users}, and a link is between {link}; "
        "most likely the files belong to different data sets, so give the files of one"
    )


def with_budgets(ratings: Ratings, table: cells.RawTable, file: Path, *, markers: bool) -> Ratings:
    """Return the ratings with the budget of each user, and count the rows of other users.

    Args:
        ratings: the ratings, with ids.
        table: the budgets, with the columns `user` and `budget`.
        file: the file of the ratings, for messages.
        markers: whether markers of missing values are ids like others.

    Raises:
        DataError: an id is missing, a budget is not a number above 0 and at most 1, a user has two
            rows, or a user of the ratings has none.
    """
    user_ids = _known(ratings.user_ids)
    users, column = unsorted_ids(table, "user", markers=markers), table.coded("budget")
    values = column.per_row(map(cells.number, column.distinct), np.nan)
    faults = missing(table, users.codes, "user")
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        value = column.cell(row)
        fault = f"the budget {show(value)} is no number above 0 and at most 1"
        fault = fault if cells.identifier(value) else "the budget is missing"
        hint = ", or set data.budgets.header = true" if row == 0 and np.isnan(values[0]) else ""
        faults.append((row, "budget", f"{fault}: {_SHARE}{hint}"))
    faults = faults or _repeated(users, "user", "user", "budget")
    table.refuse(faults)
    rows = _rows_of(users, user_ids)
    if (rows < 0).any():
        user, count = user_ids[int(np.argmin(rows))], int((rows < 0).sum())
        raise DataError(
            f"{table.path}, {table.label('user')}: {count} of the {len(rows)} users of "
            f"{place(file)} have no budget, such as user {show(user)}: add a row for each, with "
            "the budget 1 where all of ε may be used"
        )
    budgets = values[rows]
    budgets.setflags(write=False)
    unused = Repair("budgets of users without ratings", len(values) - len(rows))
    return ratings.repaired(unused, budgets=budgets)


def with_features(
    ratings: Ratings, table: cells.RawTable, what: str, *, drop: bool, markers: bool
) -> Ratings:
    """Return the ratings with features, and count the rows and ids that are left out.

    Row `i` is of the user or item `i`; one without a row in the file has no value, which is NaN in
    a column of numbers and None in one of text.

    Args:
        ratings: the ratings, with ids.
        table: the ids in the column `id`, and the features in all others.
        what: what has the ids, `user` or `item`.
        drop: whether rows of other ids are dropped instead of refused.
        markers: whether markers of missing values are ids like others.

    Raises:
        DataError: an id is missing, unknown or has two rows; names the first such row.
    """
    import pandas as pd

    ids = _known(ratings.user_ids if what == "user" else ratings.item_ids)
    column = unsorted_ids(table, "id", markers=markers)
    faults = missing(table, column.codes, "id", of=what)
    faults += _repeated(column, "id", what, "row")
    known = set(map(str, ids))
    unknown = np.array([*(name not in known for name in column.names), False])[column.codes]
    if unknown.any() and not drop:
        row, more = cells.first_of(unknown)
        fault = f"{what} {show(column.names[column.codes[row]])} has no interaction{more}"
        remedy = f"correct the id, or set data.{what}s.unknown = 'drop' to leave such rows out"
        faults.append((row, "id", f"{fault}: {remedy}"))
    table.refuse(faults)
    rows = _rows_of(column, ids)
    frame = pd.DataFrame(
        {name: _column(table, name)[rows] for name in table.columns if name != "id"}
    )
    return ratings.repaired(
        Repair(f"rows of {what}s without interactions in data.{what}s", int(unknown.sum())),
        Repair(f"{what}s without a row in data.{what}s", int((rows < 0).sum())),
        **{f"{what}_features": frame},
    )


def _repeated(column: IdColumn, meaning: str, what: str, content: str) -> list[cells.Fault]:
    """Return the fault of the first row whose id another row has above it, if any."""
    first = np.unique(column.codes, return_index=True)[1]
    again = np.setdiff1d(np.flatnonzero(column.codes >= 0), first)
    if not len(again):
        return []
    row = int(again[0])
    fault = f"{what} {show(column.names[column.codes[row]])} has a {content} already"
    return [(row, meaning, f"{fault}: keep one row of each {what}")]


def _rows_of(column: IdColumn, ids: NDArray[np.object_]) -> Numbers:
    """Return the row of each id `(N,)`, −1 for none; no id of the column is missing."""
    row_of = {column.names[code]: row for row, code in enumerate(column.codes)}
    return np.array([row_of.get(str(name), -1) for name in ids], np.int64)


def _column(table: cells.RawTable, name: str) -> NDArray[Any]:
    """Return the numbers or the texts of a column, and no value behind the last `(n + 1,)`."""
    column = table.coded(name)
    texts = [cells.identifier(value) for value in column.distinct]
    absent = [cells.is_missing(text) for text in texts]
    numbers = [cells.number(value) for value in column.distinct]
    behind = np.append(column.codes, -1)
    if all(gone or not np.isnan(value) for value, gone in zip(numbers, absent, strict=True)):
        values = np.where([*absent, True], np.nan, [*numbers, np.nan])
        return values[behind]
    named = [None if gone else text for text, gone in zip(texts, absent, strict=True)]
    return np.array([*named, None], object)[behind]
