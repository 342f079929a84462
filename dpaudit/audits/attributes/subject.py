"""The subject of audits of attributes: trained models, and users with attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.records import data_record
from dpaudit.audits.attributes.config import AttributesConfig
from dpaudit.audits.attributes.labels import (
    GUESSED,
    Attribute,
    Folds,
    attribute_of,
    folds_of,
    guessed,
)
from dpaudit.audits.models.subject import MemberModel, points_of
from dpaudit.data.ratings import Ratings
from dpaudit.record.result import DataRecord


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
