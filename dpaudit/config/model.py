"""The config table `[[model]]`: a recommender under audit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import Observer
from dpaudit.defenses.base import Defense, FederatedDefense, ListDefense, TrainedDefense

Epsilon = Annotated[float, Field(gt=0)]
# The most combinations of a grid; each is trained.
_COMBINATIONS = 1000
# The defense of a `[[model]]` that names none.
DEFENSE = "slope-one"
# Settings of every table of the config.
TABLE = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def as_list(value: Any) -> Any:
    """Wrap a single value or table in a list."""
    return value if isinstance(value, list) else [value]


def increasing(values: list[int], info: ValidationInfo) -> list[int]:
    """Refuse a field's numbers unless each is larger than the one before."""
    if sorted(set(values)) != values:
        raise ValueError(f"{info.field_name} do not increase: sort them and remove duplicates")
    return values


class Table(BaseModel):
    """A table of the config; unknown keys are errors.

    Attributes:
        judging: its keys that judge results or decide how they are reported, and nothing that is
            trained or drawn.
    """

    model_config = TABLE
    judging: ClassVar[frozenset[str]] = frozenset()


class Model(Table):
    """One recommender under audit.

    Attributes:
        label: its name in reports; by default the defense and variant.
        defense: the name of a registered defense.
        variant: `nonprivate`, `published` or `corrected`.
        epsilon: the values of ε to audit.
        params: hyper-parameters of the defense, see `dpaudit show DEFENSE`.
        grid: for a trained defense, candidate values of some hyper-parameters. At each ε the
            combination with the smallest error on ratings held out from the first fold's training
            is used. This choice depends on the data, and no claim counts its privacy cost.
    """

    label: str = ""
    defense: str = DEFENSE
    variant: Literal["nonprivate", "published", "corrected"] = "published"
    epsilon: Annotated[
        list[Epsilon], BeforeValidator(as_list), Field(min_length=1, max_length=500)
    ] = [1.0]
    params: dict[str, Any] = {}
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        values = dict(values)
        if values.get("variant") == "nonprivate":
            values.setdefault("epsilon", [math.inf])
        parts = (values.get("defense", DEFENSE), values.get("variant", "published"))
        values.setdefault("label", " ".join(str(part) for part in parts))
        return values

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if len(set(self.epsilon)) < len(self.epsilon):
            raise ValueError("epsilon contains a value twice: remove one")
        combinations = math.prod(len(values) for values in self.grid.values())
        if combinations > _COMBINATIONS:
            raise ValueError(
                f"grid has {combinations} combinations, more than the {_COMBINATIONS} allowed: "
                "leave out values"
            )
        return self

    @property
    def plugin(self) -> type[Defense]:
        """Return the registered class; `Defense` itself if the name is unknown."""
        return registry.installed("defenses", self.defense) or Defense

    def observers(self) -> Mapping[str, Observer[Any]]:
        """Return its observers at the first ε; none if its parameters are invalid."""
        try:
            defense: Defense = self.defenses("model")[0]
        except ConfigError:
            return {}
        return defense.observers()

    @property
    def shows_lists(self) -> bool:
        """Whether only lists are shown, no predictions; False for an unknown defense."""
        return issubclass(self.plugin, ListDefense)

    @property
    def trains(self) -> bool:
        """Whether it trains a model on the ratings; False for an unknown defense."""
        return issubclass(self.plugin, TrainedDefense)

    @property
    def ranks(self) -> bool:
        """Whether its models give lists and no predicted ratings; False for an unknown defense."""
        return issubclass(self.plugin, TrainedDefense) and self.plugin.ranks

    @property
    def assumes(self) -> tuple[str, ...]:
        """Return the unenforced assumptions of its published claim that are measured."""
        return self.plugin.counts if issubclass(self.plugin, TrainedDefense) else ()

    @property
    def personal(self) -> bool:
        """Whether its users have an ε of their own; False for an unknown defense."""
        personal = issubclass(self.plugin, TrainedDefense) and self.plugin.personal
        return personal and self.variant != "nonprivate"

    @property
    def submits(self) -> bool:
        """Whether users submit to a server, real and fake; False for an unknown defense."""
        return issubclass(self.plugin, FederatedDefense)

    @property
    def walks_chain(self) -> bool:
        """Whether it may run a published Markov chain, whose convergence can be computed."""
        return self.shows_lists and self.variant == "published"

    def defenses(self, place: str) -> list[Any]:
        """Create the defense at each ε, with the first combination of a grid.

        Raises:
            ConfigError: the defense or a hyper-parameter is unknown, or a value is out of range.
        """
        return [self.combinations(place, epsilon)[0] for epsilon in self.epsilon]

    def combinations(self, place: str, epsilon: float) -> list[Any]:
        """Create the defense at one ε with each combination of the grid's values.

        Raises:
            ConfigError: the defense or a hyper-parameter is unknown, or a value is out of range.
        """
        for table, names in (("params", self.params), ("grid", self.grid)):
            for reserved in ("epsilon", "variant"):
                if reserved in names:
                    raise ConfigError(
                        f"{place}.{table}.{reserved} does not belong there: set model.{reserved}"
                    )
        twice = set(self.params) & set(self.grid)
        if twice:
            raise ConfigError(f"{place}.grid.{min(twice)} is in params too: remove one of the two")
        return [
            registry.create(
                "defenses",
                self.defense,
                place,
                {
                    **self.params,
                    **dict(zip(self.grid, values, strict=True)),
                    "epsilon": epsilon,
                    "variant": self.variant,
                },
            )
            for values in product(*self.grid.values())
        ]
