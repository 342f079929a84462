"""The config tables of membership audits: `[[recommender]]` and `[membership]`."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from dpaudit.config.model import TABLE, Model
from dpaudit.config.tables import Attack
from dpaudit.core import registry
from dpaudit.core.claim import Claim
from dpaudit.core.membership import OBSERVERS, Observer, Unit
from dpaudit.recommenders.base import Trainable

# Standard deviations by which a training may have fewer absent targets than expected.
_FEWER = 4


class _Table(BaseModel):
    model_config = TABLE


class StatedClaim(_Table):
    """The guarantee that the user states for their recommender.

    Attributes:
        epsilon: ε.
        delta: δ.
        adjacency: `rating-add-remove` for one interaction, `user-add-remove` for a user.
        observers: the observers whom the guarantee covers; all unless given.
    """

    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    adjacency: Literal["rating-add-remove", "user-add-remove"] = "rating-add-remove"
    observers: Annotated[list[Observer], Field(min_length=1)] = list(OBSERVERS)

    def claim(self) -> Claim:
        """Return it as a claim."""
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            adjacency=self.adjacency,
            observer=self.observers[0],
            public="the numbers of users and items",
            source="stated in the config",
            also=tuple(self.observers[1:]),
        )


class OwnRecommender(_Table):
    """A recommender of the user's: a library's model.

    Attributes:
        label: its name in reports; by default the library, with the model if one is named.
        library: the name of a registered adapter (`dpaudit list recommenders`).
        params: the adapter's parameters, see `dpaudit show LIBRARY`.
        claim: the guarantee that is stated for it, if any.
        observers: who observes it, instead of `membership.observers`.
    """

    label: str = ""
    library: str
    params: dict[str, Any] = {}
    claim: StatedClaim | None = None
    observers: Annotated[list[Observer], Field(min_length=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        params = values.get("params")
        model = params.get("model") if isinstance(params, dict) else None
        words = (values.get("library", ""), model)
        return {"label": " ".join(str(word) for word in words if word), **values}

    @property
    def epsilon(self) -> list[float]:
        """The stated ε; infinite without a claim."""
        return [self.claim.epsilon if self.claim else math.inf]

    def create(self, place: str) -> Trainable:
        """Create the adapter.

        Raises:
            ConfigError: the library or a parameter is unknown, or a value is out of range.
        """
        made: Trainable = registry.create("recommenders", self.library, place, self.params)
        return made

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_distinct(self, "observers")
        return self


class Membership(_Table):
    """The membership game: who can be told to be in the training data.

    A coin decides for each target and each training whether the target is in the data. The attacks
    learn from one half of the trainings and are judged on the other.

    Attributes:
        units: what a target is: `interaction`, or `user` with the whole history.
        observers: who observes the models: `scores` of the targets, the target user's `own-list`,
            `others-lists`, or the published `factors` of items.
        trainings: the number of trainings of each model.
        interactions: the number of target interactions.
        users: the number of target users.
        held_out: the number of interactions that no training has. Utility is measured on them, and
            attacks use them as a population.
        k: the length of lists.
        watched: the number of users whose lists an observer of others' lists sees. Their
            interactions are no targets; if others' are, half of the users at most are watched.
        rates: the false-positive rates at which true-positive rates are measured.
        delta: δ of the certified ε of models without a claim; a claim has its own.
    """

    units: Annotated[list[Unit], Field(min_length=1)] = ["interaction"]
    observers: Annotated[list[Observer], Field(min_length=1)] = ["scores", "own-list"]
    trainings: Annotated[int, Field(ge=8, le=100_000)] = 64
    interactions: Annotated[int, Field(ge=20, le=1_000_000)] = 2500
    users: Annotated[int, Field(ge=20, le=1_000_000)] = 300
    held_out: Annotated[int, Field(ge=20, le=10_000_000)] = 1000
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    watched: Annotated[int, Field(ge=1, le=100_000)] = 100
    rates: Annotated[
        list[Annotated[float, Field(gt=0, lt=1)]], Field(min_length=1, max_length=20)
    ] = [0.001, 0.01]
    delta: Annotated[float, Field(ge=0, lt=1)] = 1e-5

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _check_distinct(self, "units", "observers", "rates")
        return self

    @model_validator(mode="after")
    def _seen(self) -> Self:
        """Refuse a false-positive rate that so few absent targets cannot show."""
        for unit in self.units:
            if not self.rates_of(unit):
                raise ValueError(
                    f"rates = {self.rates} are too small for {self.targets(unit)} targets of unit "
                    f"{unit!r}: use {_targets_for(max(self.rates))} targets, or a larger rate"
                )
        return self

    def targets(self, unit: Unit) -> int:
        """Return the number of targets of a unit."""
        return self.interactions if unit == "interaction" else self.users

    def rates_of(self, unit: Unit) -> list[float]:
        """Return the rates that the absent targets of a training show; the others are left out.

        A rate needs 1/rate of them, and half of the targets are absent, give or take 4σ.
        """
        count = self.targets(unit)
        absent = count / 2 - _FEWER * math.sqrt(count) / 2
        return [rate for rate in self.rates if rate * (absent + 1) >= 1]

    def observers_of(self, model: OwnRecommender | Model) -> list[Observer]:
        """Return who observes a model; a defense of dpaudit publishes no factors here."""
        if isinstance(model, OwnRecommender):
            return model.observers or self.observers
        return [observer for observer in self.observers if observer != "factors"]


def _check_distinct(table: BaseModel, *names: str) -> None:
    for name in names:
        values = getattr(table, name) or []
        if len(set(values)) < len(values):
            raise ValueError(f"{name} contains a value twice: remove one")


def _targets_for(rate: float) -> int:
    """Return the least number of targets that show a rate: n/2 + 1 − 2√n is at least 1/rate."""
    return math.ceil((2 + math.sqrt(2 + 2 / rate)) ** 2)


# The attacks of a config that names none.
BATTERY = (
    Attack(name="lira"),
    Attack(name="lira", label="lira offline", params={"online": False}),
    Attack(name="rmia"),
    Attack(name="rmia", label="rmia offline", params={"online": False}),
    Attack(name="global-threshold"),
)
