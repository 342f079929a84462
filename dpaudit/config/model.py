"""The tables of the config that name what is audited: `[[model]]` and `[defense]`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from dpaudit.core import registry
from dpaudit.core.assumption import AssumptionMetric
from dpaudit.core.errors import ConfigError
from dpaudit.core.observation import Observer
from dpaudit.defenses.base import Defense, FederatedDefense, ListDefense, TrainedDefense

Epsilon = Annotated[float, Field(gt=0)]
# Of a grid, each of which is trained.
_COMBINATIONS = 1000
# Of every table of the config.
TABLE = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


def as_list(value: Any) -> Any:
    """One value or table where several may stand."""
    return value if isinstance(value, list) else [value]


class _Table(BaseModel):
    model_config = TABLE


class Model(_Table):
    """One recommender under audit.

    Attributes:
        label: its name in reports; the defense and variant unless given.
        defense: a registered defense.
        variant: `nonprivate`, `published` or `corrected`.
        epsilon: the values of ε to audit.
        params: hyper-parameters of the defense, see `dpaudit show DEFENSE`.
        grid: of a defense that is trained: values to try of some hyper-parameters. At each ε the
            combination with the least error on ratings held back from the first fold's training is
            used. Choosing by the data costs privacy that no claim counts.
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
            raise ValueError("epsilon holds a value twice: remove one")
        return self

    @model_validator(mode="after")
    def _grid_ends(self) -> Self:
        combinations = math.prod(len(values) for values in self.grid.values())
        if combinations > _COMBINATIONS:
            raise ValueError(
                f"grid has {combinations} combinations: leave out values, {_COMBINATIONS} are the "
                "most"
            )
        return self

    @property
    def part(self) -> type[Defense]:
        """The registered class; the role itself where the name is unknown."""
        if self.defense not in registry.names("defenses"):
            return Defense
        part: type[Defense] = registry.load("defenses", self.defense)
        return part

    def observers(self) -> Mapping[str, Observer[Any]]:
        """Who observes it, at its first ε; nobody where its parameters are refused elsewhere."""
        try:
            defense: Defense = self.defenses("model")[0]
        except ConfigError:
            return {}
        return defense.observers()

    @property
    def shows_lists(self) -> bool:
        """Whether lists alone are shown, no predictions; False of an unknown defense."""
        return issubclass(self.part, ListDefense)

    @property
    def trains(self) -> bool:
        """Whether it learns a model from the ratings; False of an unknown defense."""
        return issubclass(self.part, TrainedDefense)

    @property
    def ranks(self) -> bool:
        """Whether its models have lists and no predicted ratings; False of an unknown defense."""
        return issubclass(self.part, TrainedDefense) and self.part.ranks

    @property
    def assumes(self) -> tuple[AssumptionMetric, ...]:
        """Which unenforced assumptions of its published claim are counted."""
        return self.part.counts if issubclass(self.part, TrainedDefense) else ()

    @property
    def submits(self) -> bool:
        """Whether its users submit to a server, real things and fakes; False of an unknown one."""
        return issubclass(self.part, FederatedDefense)

    @property
    def walks_chain(self) -> bool:
        """Whether it may walk a published chain, whose convergence can be computed."""
        return self.shows_lists and self.variant == "published"

    def defenses(self, place: str) -> list[Any]:
        """The defense at each ε; of a grid the first combination.

        Raises:
            ConfigError: it, or a hyper-parameter, is unknown or out of range.
        """
        return [self.combinations(place, epsilon)[0] for epsilon in self.epsilon]

    def combinations(self, place: str, epsilon: float) -> list[Any]:
        """The defense at one ε with each combination of the grid's values.

        Raises:
            ConfigError: it, or a hyper-parameter, is unknown or out of range.
        """
        for table, names in (("params", self.params), ("grid", self.grid)):
            for reserved in ("epsilon", "variant"):
                if reserved in names:
                    raise ConfigError(
                        f"{place}.{table}.{reserved} does not belong there: set model.{reserved}"
                    )
        twice = set(self.params) & set(self.grid)
        if twice:
            raise ConfigError(
                f"{place}.grid.{min(twice)} stands in params too: remove one of the two"
            )
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
    """A mechanism of your own, of which nothing is known but its outputs.

    It runs code: `dpaudit run` refuses it unless `--allow-code` is given.

    Attributes:
        kind: `python`.
        target: `package.module:function`, called as `function(data, rng)`; modules beside the
            config are found.
        label: its name in reports; the target unless given.
        d: a data set, any TOML value.
        d_prime: a neighbour of it.
        pairs: instead of these two, `package.module:name` of a list of pairs, or of a function that
            returns one; the most telling is searched for.
        epsilon: the claimed ε.
        delta: the claimed δ.
        adjacency: what neighbours are, in the claim.
        observer: who sees the outputs, in the claim.
        score: `learned`, or `package.module:function` from outputs to numbers, large for d_prime.
        batched: whether the function is called as `function(data, rng, n)` for n outputs.
        isolate: `process` makes every call in a process of its own, so that no state survives it.
        search: outputs for each of several pairs in the first round of the search.
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
