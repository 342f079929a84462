"""Repairs of published data sets with errors in the distributed files."""

from __future__ import annotations

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.data.ratings import Repair
from dpaudit.data.readers.cells import RawTable

# In the edition of 770,000 rows, the rows of this user repeat those of the previous user.
_TWICE = 2809


def epinions(table: RawTable) -> tuple[RawTable, list[Repair]]:
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
