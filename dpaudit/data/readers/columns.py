"""Decide what the columns of a table hold, by their names and by their cells.

Every reader of ids and ratings asks here, so that all of them drop and merge the same, and refuse
what would be read as other data than was meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import listed, show
from dpaudit.data.ratings import Repair
from dpaudit.data.readers import cells, doubts
from dpaudit.data.source_parts import Column

# Names of columns, in lower case, with letters and digits only. Each row lists synonyms; the first
# one that a table has counts. The first row is used if it has a name of the table; otherwise the
# column is clear only if exactly one of the other rows has one.
_USERS = (
    ("userid", "user", "uid", "u", "useridx", "username", "userno", "userhash", "userindex"),
    ("customerid", "custid", "customer", "customerno", "customernumber"),
    ("clientid", "client"),
    ("visitorid", "visitor"),
    ("reviewerid", "reviewer", "reviewername", "reviewprofilename"),
    ("memberid", "member"),
    ("accountid", "account"),
    ("profileid", "profile", "profilename"),
    ("buyerid", "buyer", "shopperid"),
    ("playerid", "player", "steamid"),
    ("viewerid", "viewer", "listenerid", "readerid", "subscriberid", "msno"),
    ("studentid", "learnerid"),
    ("householdid", "householdkey"),
    ("personid", "person"),
)
# A session id stands for the user only if no other column does.
_SESSIONS = ("sessionid", "session")
_ITEMS = (
    ("itemid", "item", "iid", "i", "itemidx", "itemno", "itemindex"),
    ("movieid", "movie", "filmid", "film"),
    ("productid", "product", "pid", "asin", "parentasin", "sku", "skuid", "stockcode", "goodsid"),
    ("artistid", "artist", "artistname"),
    ("songid", "song"),
    ("trackid", "track", "trackname"),
    ("albumid", "album"),
    ("bookid", "isbn", "isbn13", "isbn10", "book"),
    ("gameid", "game", "appid", "app"),
    ("articleid", "article", "clickarticleid", "aid", "newsid", "news", "storyid", "documentid"),
    ("videoid", "video"),
    ("businessid", "business", "venueid", "placeid", "poiid", "poi", "restaurantid", "hotelid"),
    ("locationid", "location"),
    ("animeid", "anime"),
    ("beerid", "beerbeerid", "beer", "beername"),
    ("recipeid", "recipe"),
    ("jokeid", "joke"),
    ("courseid", "course"),
    ("jobid",),
    ("showid", "titleid", "contentid"),
    ("postid", "photoid"),
    ("offerid", "couponid"),
)
_OTHER = {
    "rating": (
        *("rating", "ratings", "stars", "score", "overall", "r", "bookrating", "userrating"),
        *("starrating", "myscore", "reviewoverall", "reviewscore", "movierating"),
    ),
    "value": (*("value", "label", "like", "liked", "click", "clicked", "bought", "purchased"),),
    "count": (
        *("plays", "playcount", "count", "counts", "listens", "clicks", "views", "purchases"),
        *("quantity", "weight", "hours", "playtime"),
    ),
    "time": (
        *("timestamp", "time", "date", "datetime", "ts", "t", "ratedat", "createdat", "tdat"),
        *("unixreviewtime", "reviewtime", "reviewdate", "eventtime", "eventdate", "invoicedate"),
    ),
}
# Names of users and items that are no usual ids.
USUAL = frozenset(
    name
    for row in (*_USERS, _SESSIONS, *_ITEMS)
    for name in row
    if name.endswith("id") or name in {"user", "item"}
)
# The types that RecBole appends to names, as in user_id:token.
_TYPES = (":token", ":token_seq", ":float", ":float_seq")
_SHOWN = 12
_BETWEEN = re.compile(r"[\W_]+")


class UnclearError(DataError):
    """What a file holds is not clear.

    Attributes:
        fault: what is not clear.
        guess: the likeliest, as it is stated.
        remedy: what a program can do.
    """

    fault: str
    guess: str
    remedy: ClassVar[str]


class UnknownColumnsError(UnclearError):
    """No columns, or several, may hold the users or the items; a guess is as in `user=0,item=4`."""

    remedy = "give a data frame with the columns user_id, item_id and perhaps rating"

    def __init__(self, fault: str, remedy: str, columns: Mapping[str, Column]) -> None:
        self.fault = fault
        self.guess = ",".join(f"{what}={column}" for what, column in columns.items())
        keys = ", ".join(
            f"{what} = {column if isinstance(column, int) else show(column)}"
            for what, column in columns.items()
        )
        super().__init__(
            f"{fault}: {remedy}such as --columns {self.guess} for dpaudit init, or "
            f"columns = {{ {keys} }} in [data]"
        )


def bare(name: str) -> str:
    """Return a name in lower case, with letters and digits only and without a type of RecBole."""
    if name.endswith(_TYPES):
        name = name.rpartition(":")[0]
    return _BETWEEN.sub("", name.lower())


def known(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the columns whose names may have each meaning; several if that is not clear."""
    plain: dict[str, str] = {}
    for name in names:
        plain.setdefault(bare(name), name)

    def first(of: Sequence[str]) -> list[str]:
        return [plain[name] for name in of if name in plain][:1]

    def ids(rows: Sequence[Sequence[str]]) -> list[str]:
        return first(rows[0]) or [name for row in rows[1:] for name in first(row)]

    columns = {"user": ids(_USERS) or first(_SESSIONS), "item": ids(_ITEMS)}
    columns |= {what: first(of) for what, of in _OTHER.items()}
    return {what: matches for what, matches in columns.items() if matches}


def meanings_of(where: str, names: Sequence[str]) -> dict[str, Column]:
    """Return the columns with a known meaning, among them the user and the item.

    Args:
        where: what has the columns, for messages.
        names: their names.

    Raises:
        UnknownColumnsError: none is known to hold the user, or the item, or several are.
    """
    columns = known(names)
    absent = [what for what in ("user", "item") if what not in columns]
    guess = {what: columns.get(what, ["NAME"])[0] for what in ("user", "item")}
    if absent:
        columns_shown = listed([*map(show, names)], _SHOWN)
        raise UnknownColumnsError(
            f"{where} has the columns {columns_shown}, and none is known to hold the "
            f"{' or the '.join(absent)}",
            f"rename {'one' if len(absent) == 1 else 'two'} to "
            f"{' and '.join(f'{what}_id' for what in absent)}, or name them, ",
            guess,
        )
    for what in ("user", "item"):
        if len(columns[what]) > 1:
            several = " and ".join(map(show, columns[what]))
            raise UnknownColumnsError(
                f"{where} has the columns {several}, and each may hold the {what}",
                "name the right ones, ",
                guess,
            )
    return {what: matches[0] for what, matches in columns.items()}


# Python refuses to convert very long integers, so longer numbers are sorted as text.
_INTEGER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
# Words of yes and no, and the numbers that may stand beside them.
_YES_NO = ({"true", "false"}, {"t", "f"}, {"yes", "no"}, {"y", "n"})
_YES = {"true", "t", "yes", "y"}
_ONE, _ZERO = {"1", "1.0"}, {"0", "0.0"}
# The largest share of lists that several users or items have.
_SHARED = 0.1
# Shorter words are likelier ids than names of columns; no name is as long as this.
_SHORT, _LONG = 2, 100
# What clients of databases draw below the names.
_RULE = re.compile(r":?[-=─═+]{2,}:?")


@dataclass(frozen=True, eq=False)
class IdColumn:
    """A column of ids.

    Attributes:
        codes: the index of the id of each row in `names`, −1 if it is missing `(n,)`.
        names: the distinct ids, of one writing each.
        merged: the number of other writings of these ids.
    """

    codes: cells.Codes
    names: Sequence[str]
    merged: int

    def repairs(self, what: str) -> list[Repair]:
        """Count the ids of `what`, such as `user`, that are merged, or that others are alike."""
        apart = len(self.names) - len({*map(doubts.look, self.names)})
        return [
            Repair(f"{what} ids that differ {doubts.WRITING}, taken as one", self.merged),
            Repair(f"{what} ids that differ from others {doubts.ALIKE}, kept apart", apart),
        ]


def unsorted_ids(table: cells.RawTable, what: str, *, markers: bool = False) -> IdColumn:
    """Return a column of ids, which take the form of `doubts.one_writing`.

    Args:
        table: the table.
        what: the meaning of the column.
        markers: whether markers of missing values, such as `NaN`, are ids like others.

    Raises:
        DataError: the ids have lost digits, or each is a list; the message names the first.
    """
    column = table.coded(what)
    codes, distinct = column.codes, column.distinct
    names = doubts.one_writing([table.name(value) for value in distinct])
    doubt = doubts.lost_digits(distinct, names) or doubts.bracketed(names) or doubts.clicked(names)
    if doubt is not None:
        name = "id" if what == "id" else f"{what} id"
        table.refuse([(int(np.argmax(codes == doubt[0])), what, f"the {name} {doubt[1]}")])
    absent = {""} if markers else cells.missing_among(names)
    order = [name for name in dict.fromkeys(names) if name not in absent]
    writings = {
        str(value) for value, name in zip(distinct, names, strict=True) if name not in absent
    }
    return IdColumn(_numbered(codes, names, order), order, len(writings) - len(order))


def ids(table: cells.RawTable, what: str, *, markers: bool = False) -> IdColumn:
    """Return a column of ids that are sorted: as numbers if all are integers, else as text.

    Arguments and errors are those of `unsorted_ids`.
    """
    column = unsorted_ids(table, what, markers=markers)
    order = sorted(column.names)
    if all(_INTEGER.fullmatch(name) for name in order):
        order.sort(key=int)
    return replace(column, codes=_numbered(column.codes, column.names, order), names=order)


def users_and_items(table: cells.RawTable, *, markers: bool = False) -> tuple[IdColumn, IdColumn]:
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
        if not doubts.uneven(column.names, separator):
            # Whether each id stands beside several ids of the other column.
            whole, count = (column.codes >= 0) & (other.codes >= 0), len(other.names)
            pairs = np.unique(column.codes[whole].astype(np.int64) * count + other.codes[whole])
            shared = np.bincount(pairs // max(1, count), minlength=len(column.names)) > 1
            if shared[lists].mean() > _SHARED:
                continue
        row = int(np.argmax(np.append(lists, [False])[column.codes]))
        fault = f"the {what} id {doubts.a_list(column.names[column.codes[row]])}"
        table.refuse([(row, what, fault)])
    return user, item


@dataclass(frozen=True, eq=False)
class RatingColumn(cells.Coded):
    """A column of ratings.

    Attributes:
        numbers: the number of each distinct value, NaN if it is none.
    """

    numbers: list[float]

    @property
    def values(self) -> NDArray[np.float64]:
        """The number of each row `(n,)`."""
        return self.per_row(self.numbers, np.nan)


def ratings(table: cells.RawTable, what: str = "rating") -> RatingColumn:
    """Return a column of ratings; those of yes and no alone are 1 and 0.

    Raises:
        DataError: its numbers look like others with points between thousands; names the first.
    """
    column = table.coded(what)
    codes, distinct = column.codes, column.distinct
    point = doubts.pointed(distinct)
    if point is not None:
        fault = not_a_number(what, distinct[point], distinct)
        table.refuse([(int(np.argmax(codes == point)), what, fault)])
    words = {
        text for value in distinct if not cells.is_missing(text := cells.identifier(value).lower())
    }
    for pair in _YES_NO:
        if words & pair and words <= pair | _ONE | _ZERO:
            texts = (cells.identifier(value).lower() for value in distinct)
            numbers = [float(text in _YES | _ONE) if text in words else np.nan for text in texts]
            return RatingColumn(codes, distinct, numbers)
    return RatingColumn(codes, distinct, [*map(cells.number, distinct)])


def not_a_number(what: str, value: Any, distinct: Sequence[Any]) -> str:
    """Say why a rating is no number, and what to write instead.

    Args:
        what: what the column holds, such as `rating`.
        value: the rating.
        distinct: all values of its column.
    """
    wrong = f"the {what} {show(value)} is not a finite number: correct it"
    return doubts.punctuated(f"the {what} {show(value)}", value, distinct) or wrong


def _numbered(codes: cells.Codes, names: Sequence[str], order: Sequence[str]) -> cells.Codes:
    """Return the index in `order` of the name of each code, −1 for another name and code −1."""
    index_of = {name: index for index, name in enumerate(order)}
    indices = np.array([*(index_of.get(name, -1) for name in names), -1], np.int32)
    return cells.looked_up(indices, codes)


def missing(
    table: cells.RawTable,
    codes: cells.Codes,
    what: str,
    option: str = "",
    marked: str = "",
    of: str = "",
) -> list[cells.Fault]:
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
    row, more = cells.first_of(absent)
    value = table.coded(what).cell(row)
    fault = f"the {of or what} id is missing"
    if cells.identifier(value):
        fault = f"the {of or what} id {show(value)} marks a missing value"
        option = f"{option}{marked}"
    remedy = f"complete or remove {'these rows' if more else 'it'}{option}"
    return [(row, what, f"{fault}{more}: {remedy}")]


def without_headers(table: cells.RawTable) -> cells.RawTable:
    """Leave out the rows of a table of ratings that repeat the names of its columns, or underline.

    Raises:
        DataError: a row holds names of columns in another order, or the table has no names.
    """
    if any(getattr(column, "dtype", None) is not None for column in table.cells.values()):
        return table  # numbers of MATLAB
    own = {what: bare(_name(table, what)) for what in table.cells}
    names = {name for name in (*map(bare, table.names), *own.values()) if len(name) >= _SHORT}
    names = {name for name in names if not name.isdecimal()} | USUAL
    columns = {what: table.coded(what) for what in table.cells}
    # The other column is read only if this one, with fewer values, holds a name.
    first = min((columns["user"], columns["item"]), key=lambda column: len(column.distinct))
    named = [
        k
        for k, value in enumerate(first.distinct)
        if _is_name(value, names) or (isinstance(value, str) and _RULE.fullmatch(value.strip()))
    ]
    kept, rules = np.ones(len(first.codes), np.bool_), 0
    for row in np.flatnonzero(np.isin(first.codes, named)) if named else ():
        values = {what: column.cell(int(row)) for what, column in columns.items()}
        rule = all(_RULE.fullmatch(str(cell).strip()) for cell in values.values())
        both = _is_name(values["user"], names) and _is_name(values["item"], names)
        if not rule and (not both or values["user"] == values["item"]):
            continue
        if not rule and any(bare(str(cell)) != own[what] for what, cell in values.items()):
            fault = f"the {table.unit} holds the names {show(values['user'])} and "
            fault += f"{show(values['item'])} of columns"
            if not table.names and table.unit == "line":
                remedy = "set data.header = true" if row == 0 else "remove it"
            else:
                fault = f"{fault} that are not those of its header"
                remedy = "join files whose columns are the same and in the same order"
            table.refuse([(int(row), "user", f"{fault}: {remedy}")])
        kept[row] = False
        rules += rule
    if kept.all():
        return table
    again = Repair("lines that hold the names of the columns again", int((~kept).sum()) - rules)
    drawn = Repair("lines drawn below the names of the columns", rules)
    return replace(table.changed(kept), repairs=(*table.repairs, again, drawn))


def _name(table: cells.RawTable, what: str) -> str:
    column = table.columns[what]
    if isinstance(column, int):
        return table.names[column] if column < len(table.names) else ""
    return column


def _is_name(value: object, names: set[str]) -> bool:
    return isinstance(value, str) and len(value) <= _LONG and bare(value) in names
