"""Decide what the columns of a table hold: ids or ratings.

Every reader of ids and ratings asks here, so that all of them drop and merge the same, and refuse
what would be read as other data than was meant.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.messages import show
from dpaudit.data.ratings import Repair
from dpaudit.data.readers import doubts
from dpaudit.data.readers.cells import (
    Codes,
    Fault,
    RawTable,
    factorize,
    identifier,
    looked_up,
    number,
)
from dpaudit.data.readers.missing import is_missing, missing_among

# Python refuses to convert very long integers, so longer numbers are sorted as text.
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
# Words of yes and no, and the numbers that may stand beside them.
_YES_NO = ({"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"})
_YES = {"true", "t", "yes", "y"}
_ONE, _ZERO = {"1", "1.0"}, {"0", "0.0"}
# The largest share of lists that several users or items have.
_SHARED = 0.1


@dataclass(frozen=True, eq=False)
class IdColumn:
    """A column of ids.

    Attributes:
        codes: the index of the id of each row in `names`, −1 if it is missing `(n,)`.
        names: the distinct ids, of one writing each.
        merged: the number of other writings of these ids.
    """

    codes: Codes
    names: Sequence[str]
    merged: int

    def repairs(self, what: str) -> list[Repair]:
        """Count the ids of `what`, such as `user`, that are merged, or that others are alike."""
        apart = len(self.names) - len({*map(doubts.look, self.names)})
        return [
            Repair(f"{what} ids that differ {doubts.WRITING}, taken as one", self.merged),
            Repair(f"{what} ids that differ from others {doubts.ALIKE}, kept apart", apart),
        ]


def unsorted_ids(table: RawTable, what: str, *, markers: bool = False) -> IdColumn:
    """Return a column of ids, which take the form of `doubts.one_writing`.

    Args:
        table: the table.
        what: the meaning of the column.
        markers: whether markers of missing values, such as `NaN`, are ids like others.

    Raises:
        DataError: the ids have lost digits, or each is a list; the message names the first.
    """
    codes, distinct = factorize(table, what)
    read = [table.name(value) for value in distinct]
    names = doubts.one_writing(read)
    fault = doubts.lost_digits(distinct, names) or doubts.bracketed(names)
    fault = fault or doubts.clicked(names)
    if fault is not None:
        name = "id" if what == "id" else f"{what} id"
        table.refuse([(int(np.argmax(codes == fault[0])), what, f"the {name} {fault[1]}")])
    absent = {""} if markers else missing_among(names)
    order = [name for name in dict.fromkeys(names) if name not in absent]
    writings = {
        str(value) for value, name in zip(distinct, names, strict=True) if name not in absent
    }
    return IdColumn(_numbered(codes, names, order), order, len(writings) - len(order))


def ids(table: RawTable, what: str, *, markers: bool = False) -> IdColumn:
    """Return a column of ids that are sorted: as numbers if all are integers, else as text.

    Arguments and errors are those of `unsorted_ids`.
    """
    column = unsorted_ids(table, what, markers=markers)
    order = sorted(column.names)
    if all(_INTEGER.fullmatch(name) for name in order):
        order.sort(key=int)
    return replace(column, codes=_numbered(column.codes, column.names, order), names=order)


def users_and_items(table: RawTable, *, markers: bool = False) -> tuple[IdColumn, IdColumn]:
    """Return the sorted ids of users and of items.

    Raises:
        DataError: as `unsorted_ids`; also if the ids of a column are lists with a separator.
    """
    user, item = (ids(table, what, markers=markers) for what in ("user", "item"))
    for what, column, other in (("item", item, user), ("user", user, item)):
        separator = doubts.separated(column.names)
        if separator is None:
            continue
        lists = np.array([separator in name for name in column.names])
        uneven = doubts.uneven(column.names, separator)
        if not uneven and _shared(column, other)[lists].mean() > _SHARED:
            continue
        row = int(np.argmax(np.append(lists, [False])[column.codes]))
        fault = f"the {what} id {doubts.a_list(column.names[column.codes[row]])}"
        table.refuse([(row, what, fault)])
    return user, item


def _shared(column: IdColumn, other: IdColumn) -> NDArray[np.bool_]:
    """Return whether each id stands beside several ids of the other column."""
    whole = (column.codes >= 0) & (other.codes >= 0)
    pairs = np.unique(column.codes[whole].astype(np.int64) * len(other.names) + other.codes[whole])
    return np.bincount(pairs // max(1, len(other.names)), minlength=len(column.names)) > 1


class RatingColumn(NamedTuple):
    """A column of ratings.

    Attributes:
        codes: the index of each row in `distinct`, −1 for a null `(n,)`.
        distinct: the distinct cells.
        numbers: the number of each, NaN if it is none.
    """

    codes: Codes
    distinct: list[Any]
    numbers: list[float]


def ratings(table: RawTable, what: str = "rating") -> RatingColumn:
    """Return a column of ratings; those of yes and no alone are 1 and 0.

    Raises:
        DataError: its numbers look like others with points between thousands; names the first.
    """
    codes, distinct = factorize(table, what)
    point = doubts.pointed(distinct)
    if point is not None:
        fault = not_a_number(what, distinct[point], distinct)
        table.refuse([(int(np.argmax(codes == point)), what, fault)])
    words = {text for value in distinct if not is_missing(text := identifier(value).lower())}
    for pair in _YES_NO:
        if words & pair and words <= pair | _ONE | _ZERO:
            texts = (identifier(value).lower() for value in distinct)
            numbers = [float(text in _YES | _ONE) if text in words else np.nan for text in texts]
            return RatingColumn(codes, distinct, numbers)
    return RatingColumn(codes, distinct, [*map(number, distinct)])


def yes_or_no(table: RawTable) -> bool:
    """Whether the column of ratings holds 0 and 1, or words for them, and nothing else."""
    numbers = ratings(table).numbers
    return bool(numbers) and {*numbers} <= {0.0, 1.0}


def not_a_number(what: str, value: Any, distinct: Sequence[Any]) -> str:
    """Say why a rating is no number, and what to write instead.

    Args:
        what: what the column holds, such as `rating`.
        value: the rating.
        distinct: all values of its column.
    """
    wrong = f"the {what} {show(value)} is not a finite number: correct it"
    return doubts.punctuated(f"the {what} {show(value)}", value, distinct) or wrong


def _numbered(codes: Codes, names: Sequence[str], order: Sequence[str]) -> Codes:
    """Return the index in `order` of the name of each code, −1 for another name and code −1."""
    number = {name: index for index, name in enumerate(order)}
    return looked_up(np.array([*(number.get(name, -1) for name in names), -1], np.int32), codes)


def missing(
    table: RawTable, codes: Codes, what: str, option: str = "", marked: str = "", of: str = ""
) -> list[Fault]:
    """Return the fault of the first row whose id is missing, if any.

    Args:
        table: the table.
        codes: the code of each row, −1 if its id is missing `(n,)`.
        what: the meaning of the column.
        option: a second remedy for the message, beside a correction of the file.
        marked: a further remedy, given only if the id is a marker of a missing value.
        of: whose ids they are, if the column does not mean it.
    """
    if codes.min(initial=0) >= 0:
        return []
    absent = codes < 0
    row, more = int(np.argmax(absent)), int(absent.sum()) - 1
    read, distinct = factorize(table, what)
    value = distinct[read[row]] if read[row] >= 0 else ""
    fault = f"the {of or what} id is missing"
    if identifier(value):
        fault = f"the {of or what} id {show(value)} marks a missing value"
        option = f"{option}{marked}"
    if more:
        fault = f"{fault}, as in {more:,} more row{'s' if more > 1 else ''}"
    return [(row, what, f"{fault}: complete or remove {'these rows' if more else 'it'}{option}")]
