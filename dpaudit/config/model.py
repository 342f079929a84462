"""The config tables that name what is audited: `[[model]]` and `[defense]`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.observation import Observer
from dpaudit.defenses.base import Defense, FederatedDefense, ListDefense, TrainedDefense

Epsilon = Annotated[float, Field(gt=0)]
# The most combinations of a grid; each is trained.
_COMBINATIONS = 1000
# Settings of every table of the config.
TABLE = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def as_list(value: Any) -> Any:
    """Wrap a single value or table in a list."""
    return value if isinstance(value, list) else [value]


class _Table(BaseModel):
    model_config = TABLE


class Model(_Table):
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
    defense: str = "slope-one"
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
        parts = (values.get("defense", "slope-one"), values.get("variant", "published"))
        values.setdefault("label", " ".join(str(part) for part in parts))
        return values

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.epsilon)) < len(self.epsilon):
            raise ValueError("epsilon contains a value twice: remove one")
        return self

    @model_validator(mode="after")
    def _grid_ends(self) -> Self:
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
        if self.defense not in registry.names("defenses"):
            return Defense
        part: type[Defense] = registry.load("defenses", self.defense)
        return part

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
        own = issubclass(self.plugin, TrainedDefense) and self.plugin.personal
        return own and self.variant != "nonprivate"

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


class PythonDefense(_Table):
    """A mechanism of your own, of which only the outputs are known.

    It runs code: `dpaudit run` refuses it unless `--allow-code` is given.

    Attributes:
        kind: `python`.
        target: `package.module:function`, called as `function(data, rng)`; modules in the folder of
            the config can be imported.
        label: its name in reports; by default the target.
        d: a data set, any TOML value.
        d_prime: a neighbour of it.
        pairs: instead of these two, `package.module:name` of a list of pairs, or of a function that
            returns one; the audit searches for the most informative pair.
        epsilon: the claimed ε.
        delta: the claimed δ.
        adjacency: the claim's definition of neighbours.
        observer: who sees the outputs, according to the claim.
        score: `learned`, or `package.module:function` from outputs to numbers, larger for d_prime.
        batched: whether the function is called as `function(data, rng, n)` for n outputs.
        isolate: `process` runs every call in its own process, so that no state survives it.
        search: outputs per pair in the first round of the search among several pairs.
    """

    kind: Literal["python"]
    target: str
    label: str = ""
    d: Any = None
    d_prime: Any = None
    pairs: str | None = None
    epsilon: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    adjacency: str = "as given"
    observer: str = "outputs"
    score: str = "learned"
    batched: bool = False
    isolate: Literal["process"] | None = None
    search: Annotated[int, Field(ge=200)] = 4_000

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if isinstance(values, dict):
            values = {"label": values.get("target", ""), **values}
        return values

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        both = self.d is not None and self.d_prime is not None
        if both == (self.pairs is not None) or (self.d is None) != (self.d_prime is None):
            raise ValueError("give d and d_prime, or pairs")
        return self
