"""The subject of audits of attributes: trained models, and users in classes and folds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.measure import Context, Subject, data_record
from dpaudit.audits.attributes.config import AttributesConfig
from dpaudit.audits.models.subject import MemberModel, points_of
from dpaudit.core.errors import DataError
from dpaudit.core.messages import show
from dpaudit.core.streams import generator
from dpaudit.data.ratings import Ratings
from dpaudit.record.result import DataRecord

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
        of_class = [numbers[ids == one] for one in np.unique(ids)]
        names = [" to ".join(f"{end:g}" for end in np.unique([n.min(), n.max()])) for n in of_class]
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


def _classes_of_numbers(numbers: NDArray[np.float64], bounds: Sequence[float] | None) -> Classes:
    if bounds is not None:
        return np.searchsorted(np.asarray(bounds), numbers, "right").astype(np.int64)
    distinct, classes = np.unique(numbers, return_inverse=True)
    return classes if len(distinct) <= 2 else (numbers > np.median(numbers)).astype(np.int64)


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


@dataclass(frozen=True)
class GuessedUsers(Subject[AttributesConfig]):
    """The models, and the users whose attributes are guessed.

    Attributes:
        context: inputs that the measures share.
        ratings: the data.
        attributes: the attributes.
        folds: the fold of each user `(N,)`.
    """

    context: Context[AttributesConfig]
    ratings: Ratings
    attributes: Sequence[Attribute]
    folds: Folds

    @classmethod
    def of(cls, context: Context[AttributesConfig], ratings: Ratings | None) -> Self:
        """Read the attributes, and deal the users out to folds.

        Raises:
            DataError: the users have no such attribute, or too few of them.
        """
        if ratings is None:
            raise TypeError("an audit of attributes needs ratings")
        table = context.config.attributes
        attributes = [attribute_of(ratings, name, table.classes.get(name)) for name in table.column]
        return cls(context, ratings, attributes, folds_of(attributes, context.seed))

    def trials(self) -> int:
        """Return the number of trainings."""
        points = sum(len(model.defenses) for model in self.models())
        return points * self.context.config.attributes.trainings * (1 + len(GUESSED))

    def models(self) -> Iterator[MemberModel]:
        """Yield the user's own models, then the defenses."""
        config, scale = self.context.config, self.ratings.scale
        k = min(config.attributes.k, self.ratings.n_items)
        for model in config.audited:
            points = points_of(model, self.ratings)
            yield MemberModel(model, points, config.observers, scale, k)

    def data(self) -> DataRecord:
        """Record the sizes of the data; guessed users with an attribute are attacked."""
        asked = guessed(self.folds)
        attacked = max(int((attribute.known & asked).sum()) for attribute in self.attributes)
        return data_record(self.ratings, self.ratings, attacked=attacked)

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attack."""
        return {
            "logistic regression": {
                "name": "logistic regression",
                "title": "learns from the answers about users whose attribute is known",
                "source": "scikit-learn, standardised inputs, C = 1 / number of inputs",
            }
        }
