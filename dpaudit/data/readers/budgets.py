"""Read the budgets of users from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.ratings import Repair
from dpaudit.data.readers.cells import (
    RawTable,
    factorize,
    identifier,
    number,
)
from dpaudit.data.readers.columns import missing, unsorted_ids

_SHARE = "give the share of ε that the user accepts, the user's own ε divided by the model's"


def budgets_of(
    table: RawTable, user_ids: NDArray[np.object_], ratings: Path, *, markers: bool = False
) -> tuple[NDArray[np.float64], Repair]:
    """Return the budget of each user of some ratings `(N,)`, and count the rows of other users.

    Args:
        table: the budgets, with the columns `user` and `budget`.
        user_ids: the ids of the users, in their order.
        ratings: the file of the ids, for messages.
        markers: whether markers of missing values are ids like others.

    Raises:
        DataError: an id is missing, a budget is not a number above 0 and at most 1, a user has two
            rows, or a user of the ratings has none.
    """
    column = unsorted_ids(table, "user", markers=markers)
    codes, names = column.codes, column.names
    read, distinct = factorize(table, "budget")
    values = np.array([*map(number, distinct), np.nan])[read]
    faults = missing(table, codes, "user")
    wrong = ~((values > 0) & (values <= 1))
    if wrong.any():
        row = int(np.argmax(wrong))
        value = distinct[read[row]] if read[row] >= 0 else ""
        said = f"the budget {show(value)} is no number above 0 and at most 1"
        hint = ", or set data.budgets.header = true" if row == 0 and np.isnan(values[0]) else ""
        said = said if identifier(value) else "the budget is missing"
        faults.append((row, "budget", f"{said}: {_SHARE}{hint}"))
    first = np.unique(codes, return_index=True)[1]
    again = np.setdiff1d(np.arange(len(codes)), first)
    if len(again) and not faults:
        row = int(again[0])
        user = show(names[codes[row]])
        faults.append((row, "user", f"user {user} has a budget already: keep one row of each user"))
    if faults:
        table.refuse(faults)
    row_of = {names[code]: row for row, code in enumerate(codes)}
    rows = np.array([row_of.get(str(name), -1) for name in user_ids], np.int64)
    if (rows < 0).any():
        one, count = user_ids[int(np.argmin(rows))], int((rows < 0).sum())
        raise DataError(
            f"{table.path}, {table.label('user')}: {count} of the {len(rows)} users of "
            f"{place(ratings)} have no budget, such as user {show(one)}: add a row for each, with "
            "the budget 1 where all of ε may be used"
        )
    budgets = values[rows]
    budgets.setflags(write=False)
    return budgets, Repair("budgets of users without ratings", len(codes) - len(rows))
