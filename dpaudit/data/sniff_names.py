"""Know the columns of a table of interactions by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dpaudit.core.errors import DataError
from dpaudit.core.messages import listed, show
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


class UnknownColumnsError(DataError):
    """No columns, or several, may hold the users or the items.

    Attributes:
        fault: what is not clear.
        guess: how the columns are stated, filled with the likeliest, as in `user=0,item=4`.
        remedy: what a program can do that gives a data frame.
    """

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
