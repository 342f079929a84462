"""Read the links between users from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import place, show
from dpaudit.data.ratings import Friends, Repair
from dpaudit.data.readers.cells import Mask, RawTable, identifier
from dpaudit.data.readers.columns import missing, unsorted_ids
from dpaudit.data.source import MissingIds

Numbers = NDArray[np.int64]

_SHOWN = 3


def friends_of(
    table: RawTable,
    user_ids: NDArray[np.object_],
    ratings: Path,
    *,
    mutual: bool,
    missing_ids: MissingIds = "error",
) -> tuple[Friends, list[Repair]]:
    """Return the links between the users of some ratings, and count those left out.

    Left out are, in this order, links without an end if `missing_ids` is `drop`, self-links,
    repeats, and links with an end that is not among the users.

    Args:
        table: the links, with the columns `truster` and `trustee`.
        user_ids: the ids of the users, in their order.
        ratings: the file of the ids, for messages.
        mutual: whether every link counts in both directions.
        missing_ids: what to do with a link without an end, as in `DataSource`.

    Raises:
        DataError: an id is missing, or no link is left.
    """
    known = len(user_ids)
    number = {str(name): index for index, name in enumerate(user_ids)}
    left, right = _ends(table, number, missing_ids)
    whole = (left >= 0) & (right >= 0)
    other = whole & (left != right)
    # Encode each pair of names as one number; the names of users come first.
    pairs = np.unique(left[other] * len(number) + right[other])
    kept = (pairs // len(number) < known) & (pairs % len(number) < known)
    if not kept.any():
        raise DataError(_none_left(table, other, user_ids, ratings))
    truster, trustee = pairs[kept] // len(number), pairs[kept] % len(number)
    if mutual:
        both = np.concatenate((truster * known + trustee, trustee * known + truster))
        truster, trustee = np.divmod(np.unique(both), known)
    repairs = [
        Repair("links without an end", int((~whole).sum())),
        Repair("links of a user to themselves", int((whole & ~other).sum())),
        Repair("repeated links", int(other.sum()) - len(pairs)),
        Repair("links with an end that is not among the raters", int((~kept).sum())),
    ]
    return Friends.build(truster, trustee, known), repairs


def _ends(
    table: RawTable, number: dict[str, int], missing_ids: MissingIds
) -> tuple[Numbers, Numbers]:
    """Return the numbers of both ends of each link, −1 for none; `number` gets unknown names."""
    ends = []
    faults = []
    for what in ("truster", "trustee"):
        column = unsorted_ids(table, what, markers=missing_ids == "keep")
        if missing_ids != "drop":
            faults += missing(table, column.codes, what)
        of_name = [number.setdefault(name, len(number)) for name in column.names]
        ends.append(np.array([*of_name, -1], np.int64)[column.codes])
    if faults:
        table.refuse(faults)
    return ends[0], ends[1]


def _none_left(table: RawTable, other: Mask, user_ids: NDArray[np.object_], ratings: Path) -> str:
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
    ends = ("truster", "trustee")
    pair = (identifier(np.asarray(table.cells[end])[row]) for end in ends)
    users = ", ".join(map(show, user_ids[:_SHOWN]))
    link = " and ".join(map(show, pair))
    return (
        f"{table.path}: none of its {count} links leads from one user of {place(ratings)} to "
        f"another: its ids are such as {users}, and a link is between {link}; "
        "most likely the files belong to different data sets, so give the files of one"
    )
