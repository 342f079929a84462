"""The classes of users by a column of their features, and the folds of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import DataError
from dpaudit.core.messages import show
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings

Classes = NDArray[np.int64]
Folds = NDArray[np.int64]

# The folds of users. The attacker knows the attributes of half of the users, and guesses the others
# in two folds; for each there is a training without it.
FOLDS = 4
GUESSED = (2, 3)
# The fewest users of a class: five in each fold.
FEWEST = 20


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute of users.

    Attributes:
        name: its column.
        classes: the class of each user, 0 to C - 1, or -1 if it is unknown `(N,)`.
    """

    name: str
    classes: Classes

    @cached_property
    def counts(self) -> NDArray[np.int64]:
        """The number of users of each class `(C,)`."""
        return np.bincount(self.classes[self.known])

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """Mask of the users whose class is known `(N,)`."""
        return self.classes >= 0


def attribute_of(ratings: Ratings, name: str, bounds: Sequence[float] | None) -> Attribute:
    """Return an attribute of users.

    Args:
        ratings: the data.
        name: the column of the users' features.
        bounds: the bounds between classes of numbers; None for their median.

    Raises:
        DataError: the column has one class, a class with too few users, or no numbers for `bounds`.
    """
    place = f"attributes.column = {name!r}"
    if ratings.user_features is None or name not in ratings.user_features:
        raise DataError(
            f"{place} is no column of the users' features: add it to data.users.columns, or name "
            "another"
        )
    column = ratings.user_features[name]
    absent = column.isna().to_numpy()
    values = column[~absent]
    if values.dtype.kind not in "biuf":
        if bounds is not None:
            raise DataError(
                f"attributes.classes.{name} has bounds, and the column {name!r} of data.users "
                "holds texts: remove the bounds, as texts are classes"
            )
        texts, ids = np.unique(values.to_numpy().astype(str), return_inverse=True)
        names, other = [show(str(text)) for text in texts], ""
    else:
        numbers = values.to_numpy().astype(np.float64)
        ids = _classes_of_numbers(numbers, bounds)
        names = [_range(numbers[ids == one]) for one in np.unique(ids)]
        other = f", or set attributes.classes.{name} to other bounds"
    distinct, ids = np.unique(ids, return_inverse=True)
    if len(distinct) < 2:
        raise DataError(
            f"{place} has {len(distinct)} class{'es' * (len(distinct) != 1)} of users, and only "
            f"two or more can be told apart: name another column{other}"
        )
    counts = np.bincount(ids)
    fewest = int(counts.min())
    if fewest < FEWEST:
        rare = names[int(counts.argmin())]
        raise DataError(
            f"{place} has {len(distinct)} classes, one of them with {fewest} "
            f"user{'s' * (fewest > 1)}, and each needs {FEWEST}: merge {rare} with another in the "
            f"file, leave its cells empty, or name another column{other}"
        )
    classes = np.full(len(column), -1)
    classes[~absent] = ids
    return Attribute(name, classes)


def _range(numbers: NDArray[np.float64]) -> str:
    """Describe a class by its least and its largest number."""
    low, high = numbers.min(), numbers.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _classes_of_numbers(numbers: NDArray[np.float64], bounds: Sequence[float] | None) -> Classes:
    if bounds is not None:
        return np.searchsorted(np.asarray(bounds), numbers, "right").astype(np.int64)
    if len(np.unique(numbers)) <= 2:
        return np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    return (numbers > np.median(numbers)).astype(np.int64)


def guessed(folds: Folds) -> NDArray[np.bool_]:
    """Mask of the users whose attributes are guessed `(N,)`."""
    return np.isin(folds, GUESSED)


def folds_of(attributes: Sequence[Attribute], seed: int) -> Folds:
    """Return the fold of each user `(N,)`: random, with the classes spread evenly.

    Users are dealt out in the order of their classes, by the first attribute, then the second, and
    at random within these.
    """
    classes = [attribute.classes for attribute in attributes]
    draw = generator(seed, "attributes folds").permutation(len(classes[0]))
    order = np.lexsort((draw, *reversed(classes)))
    folds = np.empty(len(order), np.int64)
    folds[order] = np.arange(len(order)) % FOLDS
    return folds
