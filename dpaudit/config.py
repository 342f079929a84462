"""The audit's config: TOML, checked field by field; unknown keys are errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from dpaudit import registry
from dpaudit.data.source import DataSource
from dpaudit.errors import ConfigError

Share = Annotated[float, Field(gt=0, lt=1)]
Epsilon = Annotated[float, Field(gt=0)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def _as_list(value: Any) -> Any:
    return value if isinstance(value, list) else [value]


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Split(_Table):
    """Which users are attacked.

    Attributes:
        test_share: share of the users who are attacked; the similarity is built from the others.
    """

    test_share: Share = 0.2


class Model(_Table):
    """One recommender under audit.

    Attributes:
        label: its name in reports; the defense and variant unless given.
        defense: a registered defense.
        variant: `nonprivate`, `published` or `corrected`.
        epsilon: the values of ε to audit.
        params: hyper-parameters of the defense, see `dpaudit show DEFENSE`.
    """

    label: str = ""
    defense: str = "slope-one"
    variant: Literal["nonprivate", "published", "corrected"] = "published"
    epsilon: Annotated[list[Epsilon], BeforeValidator(_as_list), Field(min_length=1)] = [1.0]
    params: dict[str, Any] = {}

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

    def defenses(self, place: str) -> list[Any]:
        """The defense at each ε.

        Raises:
            ConfigError: it, or a hyper-parameter, is unknown or out of range.
        """
        for reserved in ("epsilon", "variant"):
            if reserved in self.params:
                raise ConfigError(
                    f"{place}.params.{reserved} does not belong there: set model.{reserved}"
                )
        return [
            registry.create(
                "defenses",
                self.defense,
                place,
                {**self.params, "epsilon": epsilon, "variant": self.variant},
            )
            for epsilon in self.epsilon
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


class _Played(_Table, ABC):
    """A table that names a registered attack."""

    params: dict[str, Any] = {}

    @property
    @abstractmethod
    def part(self) -> str:
        """The registered attack."""

    def create(self, place: str) -> Any:
        """The attack.

        Raises:
            ConfigError: it, or a parameter, is unknown or out of range.
        """
        return registry.create("attacks", self.part, place, self.params)


class Attack(_Played):
    """One attack on the hidden ratings.

    Attributes:
        label: its name in reports; the attack's name unless given.
        name: a registered attack.
        params: its parameters, see `dpaudit show ATTACK`.
    """

    label: str = ""
    name: str = "linear-ideal"

    @model_validator(mode="before")
    @classmethod
    def _name(cls, values: Any) -> Any:
        if isinstance(values, dict):
            values = {"label": values.get("name", "linear-ideal"), **values}
        return values

    @property
    def part(self) -> str:
        """The registered attack."""
        return self.name


class Audit(_Table):
    """How much is played and how sure the numbers are.

    Attributes:
        trials: trials of each attack and of each utility, at each ε.
        confidence: simultaneous confidence of all intervals of the run.
    """

    trials: Annotated[int, Field(ge=2, le=100_000_000)] = 20_000
    confidence: Share = 0.95


class Game(_Played):
    """A distinguishing game that certifies a lower bound on ε.

    Attributes:
        pair: the neighbouring data sets: a defense's constructed pair (`dpaudit show DEFENSE`), or
            `data`: one rating changed in the audited data.
        attack: a registered attack that tells worlds apart.
        params: its parameters, see `dpaudit show ATTACK`.
        trials: worlds of either data set.
        candidates: with `pair = "data"`, how many changed ratings are compared.
    """

    pair: str = "crossing"
    attack: str = "likelihood-ratio"
    trials: Annotated[int, Field(ge=4, le=100_000_000)] = 20_000
    candidates: Annotated[int, Field(ge=1, le=1_000_000)] = 200

    @property
    def part(self) -> str:
        """The registered attack."""
        return self.attack


class Gate(_Table):
    """A threshold on a bound.

    Attributes:
        metric: `attack.accuracy`, `utility.overlap`, `utility.rmse` or `epsilon`.
        where: which points of the sweep; each key picks, together they narrow.
        max: fails when the lower bound lies above, passes when the upper does not; of `epsilon`
            also `"claim"`.
        min: fails when the upper bound lies below, passes when the lower does not.
        detectable: a gate on `epsilon` passes only if the game would have certified, with 95 %
            power, a breach of `max` by noise too small by this factor.
    """

    metric: Literal["attack.accuracy", "utility.overlap", "utility.rmse", "epsilon"]
    where: dict[Literal["epsilon", "model", "attack", "pair"], float | str] = {}
    max: Finite | Literal["claim"] | None = None
    min: Finite | None = None
    detectable: Annotated[float, Field(gt=1, le=1e6)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.max is None) == (self.min is None):
            raise ValueError("give exactly one of max and min")
        if self.metric == "epsilon" and (self.min is not None or self.detectable is None):
            raise ValueError(
                "a gate on epsilon needs max and detectable: a lower bound below the threshold "
                "says nothing unless the audit could have found more"
            )
        if self.metric != "epsilon" and (self.max == "claim" or self.detectable is not None):
            raise ValueError("max = 'claim' and detectable belong to metric 'epsilon'")
        return self

    def picks(self, point: Mapping[str, Any]) -> bool:
        """Whether the gate judges a measured point with these `where` keys and this `metric`."""
        return point["metric"] == self.metric and all(
            point.get(key) == value for key, value in self.where.items()
        )


class Config(_Table):
    """A whole audit."""

    seed: Annotated[int, Field(ge=0, lt=2**64)] = 0
    data: DataSource = DataSource()
    split: Split = Split()
    model: Annotated[list[Model], BeforeValidator(_as_list), Field(min_length=1)] = [Model()]
    attack: Annotated[list[Attack], BeforeValidator(_as_list)] = []
    audit: Audit = Audit()
    game: Annotated[list[Game], BeforeValidator(_as_list)] = []
    gate: Annotated[list[Gate], BeforeValidator(_as_list)] = []
    defense: PythonDefense | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        other = self.model_fields_set & {"data", "split", "model", "attack", "game"}
        if self.defense and other:
            raise ValueError(
                f"[defense] is audited from its outputs alone: remove {min(other)} from this config"
            )
        return self

    @model_validator(mode="after")
    def _labels(self) -> Self:
        for name, labels in (
            ("model", [model.label for model in self.model]),
            ("attack", [attack.label for attack in self.attack]),
            ("game", [game.pair for game in self.game]),
        ):
            twice = {label for label in labels if labels.count(label) > 1}
            if twice:
                key = "pair" if name == "game" else "label"
                raise ValueError(f"two [[{name}]] have the {key} {twice.pop()!r}: rename one")
        return self

    def measured(self) -> list[dict[str, Any]]:
        """The numbers that this config measures: metric, model, ε, and attack or pair."""
        if self.defense:
            part = self.defense
            where = {"model": part.label, "epsilon": part.epsilon, "pair": "given"}
            return [{"metric": "epsilon", **where}]
        rated = self.data.binarize is None and (
            self.data.columns is None or self.data.columns.rating is not None
        )
        utilities = ["utility.overlap", "utility.rmse"] if rated else ["utility.overlap"]
        kinds: list[dict[str, Any]] = [
            *({"metric": "attack.accuracy", "attack": attack.label} for attack in self.attack),
            *({"metric": metric} for metric in utilities),
            *({"metric": "epsilon", "attack": g.attack, "pair": g.pair} for g in self.game),
        ]
        return [
            {**kind, "model": model.label, "epsilon": epsilon}
            for model in self.model
            for epsilon in model.epsilon
            for kind in kinds
        ]


class Policy(_Table):
    """Gates alone, for a finished run."""

    gate: Annotated[list[Gate], BeforeValidator(_as_list), Field(min_length=1)]
