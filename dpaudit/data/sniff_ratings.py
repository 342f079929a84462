"""Guess what the ratings of a file mean: values on a scale, counts, or likes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import capitalised, show
from dpaudit.data.readers import columns, doubts
from dpaudit.data.readers.cells import RawTable, first_of, identifier
from dpaudit.data.readers.load import MOST_VALUES, likely_ratings, occurring, usual_scale
from dpaudit.data.source_parts import Column, RatingScale

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


_EVERY = "or remove the column to take every row as an interaction"


class UnknownLabelError(columns.UnknownColumnsError):
    """Several columns may say which rows are interactions."""

    remedy = "give a data frame that has the right one alone"


class UnknownScaleError(columns.UnclearError):
    """Some values of a column of ratings may be no ratings; a guess is as in `1..10`."""

    remedy = (
        "leave these rows out, or if they are ratings, give dpaudit.data.Ratings.build(…) with "
        "their scale"
    )

    def __init__(self, label: str, likely: NDArray[np.float64], marks: str, whole: str) -> None:
        low, high = f"{likely[0]:.10g}", f"{likely[-1]:.10g}"
        self.guess = f"{low}..{high}"
        self.fault = f'{label}: {marks} may mark "not rated" beside the ratings {low} to {high}'
        super().__init__(
            f"{self.fault}: state the range of the ratings by dpaudit init --scale, {self.guess} "
            f"to leave such rows out or {whole} if they are ratings, or by scale and outside_scale "
            "of [data]"
        )


@dataclass(frozen=True)
class Meaning:
    """What the ratings of a file mean.

    Attributes:
        column: the column of the ratings; None if every row is an interaction.
        keys: the keys of `[data]` that describe them.
        words: the same in words.
    """

    column: Column | None = None
    keys: dict[str, Any] = field(default_factory=dict)
    words: str = "No column holds ratings, so every row is an interaction."


def act_of(name: str) -> str:
    """Return what a column says of an item by 1 or 0, such as `click` of `is_click`, or nothing."""
    label = _LABEL.fullmatch(columns.bare(name))
    return "" if label is None else label[1]


def labelled(
    where: str, names: Sequence[str], read: Callable[[Mapping[str, Column]], RawTable]
) -> dict[str, Column]:
    """Return `meanings_of`, with the column that says by 1 which rows are interactions, if any.

    Ratings on a scale come first, and such a column before counts.

    Args:
        where: what has the columns, for messages.
        names: the names of all columns.
        read: returns a table of the users, of the items, and of a column as `rating`.

    Raises:
        UnknownColumnsError: as in `meanings_of`.
        UnknownLabelError: several columns may say so.
        DataError: no column does, and one says of rows that an item is only shown, or is refused.
    """
    meanings = columns.meanings_of(where, names)
    ids = {what: meanings[what] for what in ("user", "item")}

    def binary(column: Column) -> bool:
        numbers = columns.ratings(read({**ids, "rating": column})).numbers
        return bool(numbers) and {*numbers} <= {0.0, 1.0}

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
            {**ids, "rating": meanings.get("rating", able[0])},
        )
    if taken is not None:
        return meanings
    if able:
        return {**meanings, "value": able[0]}
    for name in names:
        if _EVENTS.fullmatch(columns.bare(name)):
            table = read({**ids, "rating": name})
            column = table.coded("rating")
            refused = [
                k for k, value in enumerate(column.distinct) if columns.bare(str(value)) in _NO_ACTS
            ]
            if refused and len(refused) < len(column.distinct):
                row, more = first_of(np.isin(column.codes, refused))
                fault = f"{show(column.cell(row))} is no interaction{more}"
                table.refuse([(row, "rating", f"{fault}: leave such rows out, {_EVERY}")])
    return meanings


def meaning_of(table: RawTable, kind: str, extent: tuple[float, float] | None) -> Meaning:
    """Guess what a column of ratings means.

    Args:
        table: the file, with the column as `rating`.
        kind: `rating` or `count` if its name says so, else `value`.
        extent: the lowest and the highest rating; None if they are not stated.

    Raises:
        UnknownScaleError: some values may mark "not rated".
        DataError: a rating is missing or no number, while others are; or none is in `extent`.
    """
    name, column = table.columns["rating"], columns.ratings(table)
    label, where = capitalised(table.label("rating")), f"{table.path}, {table.label('rating')}"
    texts = [value for value in column.distinct if identifier(value)]
    if not texts:
        return Meaning(words=f"{label} is empty, so every row is an interaction.")
    numeric = np.isfinite(column.numbers).any()
    act = kind == "value" and act_of(str(name)) not in {"", "label"}
    if (act or kind == "rating") and not numeric and len(texts) == 2:
        raise DataError(
            f"{where}: the column holds {show(texts[0])} and {show(texts[1])}: write 1 where the "
            "row is an interaction and 0 where it is none"
        )
    if kind != "rating" and not numeric and not doubts.punctuated("", texts[0], column.distinct):
        return Meaning(words=f"{label} holds no numbers, so every row is an interaction.")
    wrong = ~np.isfinite(column.values)
    if wrong.any():
        row, more = first_of(wrong)
        value = column.cell(row)
        fault, remedy = "the rating is missing", "complete or remove"
        if identifier(value):
            fault, remedy = f"the rating {show(value)} is not a finite number", "correct or remove"
        which = "these rows" if more else "this row"
        sentence = doubts.punctuated(f"the rating {show(value)}", value, column.distinct)
        sentence = sentence or f"{fault}{more}: {remedy} {which}, {_EVERY}"
        table.refuse([(row, "rating", sentence)])
    values, rows = occurring(np.array(column.numbers), column.codes)
    if extent is not None:
        return _stated(where, values, name, extent)
    check_marks(where, values, rows, kind)
    return _meaning(values, name, kind, label, table.path)


def check_marks(
    label: str, values: NDArray[np.float64], rows: NDArray[np.int64], kind: str
) -> None:
    """Refuse ratings beside values that may mark "not rated".

    Args:
        label: the column, for messages.
        values: its distinct values, sorted `(n,)`.
        rows: the number of rows that have each `(n,)`.
        kind: `rating` or `count` if its name says so, else `value`.

    Raises:
        UnknownScaleError: there are such values.
    """
    if kind != "rating" and (len(values) < 3 or _scale(values, kind) is None):
        return
    likely = likely_ratings(values, rows)
    if len(likely) < len(values) and usual_scale(likely) is not None:
        marked = [
            f"{value:.10g} (in {count:,} row{'s' * (count > 1)})"
            for value, count in zip(values, rows.tolist(), strict=True)
            if value not in likely
        ]
        whole = f"{values[0]:.10g}..{values[-1]:.10g}"
        raise UnknownScaleError(label, likely, " and ".join(marked), whole)


def _stated(
    label: str, values: NDArray[np.float64], column: Column, extent: tuple[float, float]
) -> Meaning:
    """Return the scale of a stated range.

    Raises:
        DataError: no rating is in the range, or the range has no usual steps.
    """
    low, high = extent
    inside = values[(values >= low) & (values <= high)]
    scale = usual_scale(np.unique([low, *inside, high]))
    if not len(inside) or scale is None:
        fault = "has no usual steps" if len(inside) else "holds none of them"
        raise DataError(
            f"{label}: the values are {values[0]:.10g} to {values[-1]:.10g}, and the stated range "
            f"{low:.10g}..{high:.10g} {fault}: correct --scale"
        )
    keys: dict[str, Any] = {"scale": scale.model_dump(exclude_unset=True)}
    sentence = f"The ratings are {low:.10g} to {high:.10g}, as stated"
    if len(inside) == len(values):
        return Meaning(column, keys, f"{sentence}.")
    sentence = f"{sentence}; rows with another value are left out."
    return Meaning(column, keys | {"outside_scale": "drop"}, sentence)


def _meaning(
    values: NDArray[np.float64], column: Column, kind: str, label: str, where: str
) -> Meaning:
    low, high = float(values[0]), float(values[-1])
    every = "so every row is an interaction"
    if len(values) == 1 and kind == "value" and low == 0:
        raise DataError(
            f"{where}: {label[0].lower()}{label[1:]} holds 0 alone, so no row is an interaction: "
            "name another column, or users and items alone, such as --columns user=A,item=B"
        )
    if len(values) == 1:
        return Meaning(words=f"{label} holds {low:.10g} alone, {every}.")
    if kind == "count" and low > 0:
        return Meaning(words=f"{label} holds counts or weights, {every}.")
    if len(values) == 2 and low > 0:
        return Meaning(words=f"{label} holds {low:.10g} and {high:.10g} alone, {every}.")
    scale = _scale(values, kind) if len(values) > 2 else None
    if scale is not None:
        steps = (
            f", rounded to steps of {scale.step:.10g}" if scale.round else f" by {scale.step:.10g}"
        )
        sentence = f"The ratings are {low:.10g} to {high:.10g}{steps}."
        return Meaning(column, {"scale": scale.model_dump(exclude_unset=True)}, sentence)
    if high > 0 and (len(values) == 2 or low < 0 or kind == "count"):
        least = float(values[values > 0][0])
        between = f"and {high:.10g}: a row with {high:.10g}"
        if len(values) > 2:
            between = f"to {high:.10g}: a row with {least:.10g} or more"
        sentence = f"{label} holds {low:.10g} {between} is an interaction."
        return Meaning(column, {"binarize": least}, sentence)
    return Meaning(
        words=f"{label} holds {len(values)} values from {low:.10g} to {high:.10g}, which are taken "
        f"as counts or weights, {every}."
    )


def _scale(values: NDArray[np.float64], kind: str) -> RatingScale | None:
    """Return the scale of three values or more; None if they are counts or weights."""
    low, high = values[0], values[-1]
    # A scale from 0 to 100 has many values, and counts are not below 0.
    known = len(values) <= MOST_VALUES or (low >= 0 and high == 100) or low < 0
    scale = usual_scale(values) if kind == "rating" or (kind == "value" and known) else None
    return None if scale and scale.round and kind != "rating" and low >= 0 else scale
