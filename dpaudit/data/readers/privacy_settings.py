"""The privacy setting of each rating: whether its user keeps it private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpaudit.core.errors import DataError
from dpaudit.core.messages import quoted, show
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings, Repair
from dpaudit.data.readers.cells import Fault, Mask, RawTable, factorize, identifier
from dpaudit.data.readers.columns import ratings
from dpaudit.data.source_social import SensitiveSource

_SHOWN = 40


def stated(table: RawTable) -> tuple[Mask, list[Fault]]:
    """Return the column `sensitive` as a mask `(n,)`, and the first value that is not 0 or 1."""
    codes, distinct, numbered = ratings(table, "sensitive")
    numbers = np.array([*numbered, np.nan])[codes]
    faulty = (numbers != 0) & (numbers != 1)
    if not faulty.any():
        return numbers == 1, []
    row = int(np.argmax(faulty))
    value = distinct[codes[row]] if codes[row] >= 0 else ""
    said = f"the setting {show(value)} is" if identifier(value) else "the setting is missing,"
    fault = f"{said} neither 0 nor 1: give 1 where the rating is sensitive and 0 where it is not"
    return numbers == 1, [(row, "sensitive", fault)]


def of_categories(table: RawTable, wanted: Sequence[str | int]) -> tuple[Mask, Repair]:
    """Return the mask of rows with a wanted category `(n,)`; count rows without a category.

    Raises:
        DataError: a wanted category, or any category, occurs in no row.
    """
    codes, distinct = factorize(table, "category")
    names = np.array([*map(identifier, distinct), ""], dtype=object)
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
        given = ", ".join(map(quoted, ordered[:_SHOWN]))
        more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
        raise DataError(
            f"{table.path}, {table.label('category')}: no row has the category "
            f"{show(unknown[0])} of data.sensitive.categories: choose from {given}{more}"
        )
    without = Repair(
        "rows without a category, taken as not sensitive", int((names == "")[codes].sum())
    )
    return np.isin(names, asked)[codes], without


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
