"""Find the column that says which rows of a table are interactions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from dpaudit.core.messages import show
from dpaudit.data.readers.cells import RawTable, factorize
from dpaudit.data.readers.columns import yes_or_no
from dpaudit.data.sniff_names import UnknownColumnsError, bare
from dpaudit.data.source_parts import Column

# What happened to an item, 1 in a row or 0, also as `is_click` or `click_bool`; the likeliest
# interaction first.
_ACTS = (
    *("click", "clicked", "like", "liked", "bought", "buy", "purchased", "purchase", "ordered"),
    *("label", "conversion", "converted", "cart", "addtocart", "favorite", "favourite", "collect"),
    *("follow", "followed", "share", "shared", "forward", "comment", "download", "longview"),
    *("watched", "finish", "finished", "viewed", "played", "profileenter", "listened", "completed"),
    *("booking", "booked", "installed", "saved", "bookmarked", "enrolled", "applied", "visited"),
    *("read", "rated", "recommended", "votedup", "upvoted", "target", "feedback", "interaction"),
)
_LABEL = re.compile(f"(?:is|has|was|did)?({'|'.join(_ACTS)})(?:bool|flag)?")
# Columns that say what happened, and what they hold where an item is only shown or is refused.
_EVENTS = re.compile(
    "(event|action|interaction|behaviou?r|feedback|user(event|action))(type|name)?"
)
_NO_ACTS = frozenset(
    (
        *("impression", "impressions", "exposure", "exposed", "show", "shown", "display", "skip"),
        *("displayed", "skipped", "ignore", "ignored", "dismiss", "dismissed", "dislike", "hide"),
        *("disliked", "unlike", "removefromcart", "noclick", "notclicked", "noaction", "nothing"),
    )
)


class UnknownLabelError(UnknownColumnsError):
    """Several columns may say which rows are interactions."""

    remedy = "give a data frame that has the right one alone"


def act_of(name: str) -> str:
    """Return what a column says of an item by 1 or 0, such as `click` of `is_click`, or nothing."""
    label = _LABEL.fullmatch(bare(name))
    return "" if label is None else label[1]


def labelled(
    where: str,
    meanings: dict[str, Column],
    names: Sequence[str],
    read: Callable[[Column], RawTable],
) -> dict[str, Column]:
    """Return the meanings with the column that says by 1 which rows are interactions, if any.

    Ratings on a scale come first, and such a column before counts.

    Args:
        where: what has the columns, for messages.
        meanings: the columns with a known meaning, as in `meanings_of`.
        names: the names of all columns.
        read: returns a table with a column as `rating`.

    Raises:
        UnknownLabelError: several columns may say so.
        DataError: no column does, and one says of rows that an item is only shown, or is refused.
    """

    def binary(column: Column) -> bool:
        return yes_or_no(read(column))

    acts = sorted(filter(act_of, names), key=lambda name: _ACTS.index(act_of(name)))
    taken = meanings.get("rating", meanings.get("value"))
    if taken is not None and (all(act == taken for act in acts) or not binary(taken)):
        return meanings
    able: list[Column] = [act for act in acts if act == taken or binary(act)]
    if taken is not None and taken not in able:
        able.append(taken)
    if len(able) > 1:
        several = f"{', '.join(map(show, able[:-1]))} and {show(able[-1])}"
        raise UnknownLabelError(
            f"{where} has the columns {several} of 0 and 1, and each may say which rows are "
            "interactions",
            "name the right one, ",
            {
                "user": meanings["user"],
                "item": meanings["item"],
                "rating": meanings.get("rating", able[0]),
            },
        )
    if taken is not None:
        return meanings
    if able:
        return {**meanings, "value": able[0]}
    for name in names:
        if _EVENTS.fullmatch(bare(name)):
            _check_events(read(name))
    return meanings


def _check_events(table: RawTable) -> None:
    codes, distinct = factorize(table, "rating")
    shown = [k for k, value in enumerate(distinct) if bare(str(value)) in _NO_ACTS]
    if shown and len(shown) < len(distinct):
        rows = np.isin(codes, shown)
        row, more = int(np.argmax(rows)), int(rows.sum()) - 1
        others = f", as in {more:,} more row{'s' * (more > 1)}" if more else ""
        fault = f"{show(distinct[codes[row]])} is no interaction{others}"
        every = "or remove the column to take every row as an interaction"
        table.refuse([(row, "rating", f"{fault}: leave such rows out, {every}")])
