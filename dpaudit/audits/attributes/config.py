"""The config of an audit of attributes: `[attributes]`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from dpaudit.audits.models.config import OwnRecommender, RecommendersConfig, check_distinct
from dpaudit.config.model import Model, Table, as_list
from dpaudit.core.membership import Observer

Name = Annotated[str, Field(min_length=1)]
Bound = Annotated[float, Field(allow_inf_nan=False)]
# What is seen of a user's own answers.
Seen = Literal["scores", "own-list", "factors"]


class Attributes(Table):
    """How well a user's attribute is guessed from what a model answers about them.

    Attributes:
        column: the columns of `[data.users]` that are guessed. Texts, and two numbers, are classes;
            more numbers become classes at their median.
        classes: the bounds between classes of a column of numbers, instead of its median; a number
            at a bound is of the class above.
        observers: what of a user's answers is seen: `scores` of items, the `own-list`, or the
            user's published `factors`.
        trainings: the number of trainings with all users. Each comes with two more, each of which
            lacks a quarter of the users. Numbers are means over trainings.
        k: the length of lists.
    """

    column: Annotated[list[Name], BeforeValidator(as_list), Field(min_length=1, max_length=50)]
    classes: dict[Name, Annotated[list[Bound], Field(min_length=1, max_length=100)]] = {}
    observers: Annotated[list[Seen], Field(min_length=1)] = ["scores", "own-list"]
    trainings: Annotated[int, Field(ge=1, le=1000)] = 2
    k: Annotated[int, Field(ge=1, le=1000)] = 10

    @model_validator(mode="after")
    def _check(self) -> Self:
        check_distinct(self, "column", "observers")
        for name, bounds in self.classes.items():
            if name not in self.column:
                raise ValueError(
                    f"classes.{name} is of no column that is guessed: add it to column"
                )
            if any(low >= high for low, high in pairwise(bounds)):
                raise ValueError(f"classes.{name} = {bounds} does not increase: sort its bounds")
        return self


class AttributesConfig(RecommendersConfig):
    """A config of an audit of attributes.

    Attributes:
        attributes: what is guessed, from what.
    """

    title: ClassVar[str] = "what a model's answers tell of users' attributes"
    marks: ClassVar[frozenset[str]] = frozenset({"attributes"})
    table: ClassVar[str] = "[attributes]"

    attributes: Attributes

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse data without attributes, and what is of audits of membership."""
        if self.data.users is None:
            raise ValueError(
                "[attributes] guesses columns of [data.users], which is missing: add it with path, "
                "id and columns"
            )
        known = list(self.data.users.columns)
        for name in self.attributes.column:
            if name not in known:
                raise ValueError(
                    f"attributes.column has {name!r}, and data.users.columns has "
                    f"{', '.join(known)}: use one of these, or add it there"
                )
        if self.attack:
            raise ValueError(
                f"[[attack]] {self.attack[0].label!r} guesses no attributes, and [attributes] has "
                "an attacker of its own: remove it"
            )
        for recommender in self.recommender:
            for key in ("returned", "save", "observers", "forget", "shards"):
                if getattr(recommender, key):
                    raise ValueError(
                        f"recommender {recommender.label!r} has {key}, which is of [membership]: "
                        "remove it"
                        + (", or name a model that can be trained" * (key == "returned"))
                    )
        for model in self.model:
            if "factors" in self.attributes.observers:
                raise ValueError(
                    f"model {model.label!r} ({model.defense}) publishes no factors of users: "
                    "remove 'factors' from attributes.observers, or the model"
                )
        return self

    @property
    def numbers_per_point(self) -> int:
        """The numbers that are measured at each ε, at most."""
        return 10 * len(self.attributes.column) * len(self.observers)

    def observers_of(self, model: OwnRecommender | Model) -> Sequence[Observer]:
        """Return what is seen of a model."""
        return self.observers

    @property
    def observers(self) -> list[Observer]:
        """What is seen of every model."""
        return list(self.attributes.observers)
