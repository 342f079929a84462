"""The config of an audit of a mechanism by its outputs alone: `[defense]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from dpaudit.config.model import Table
from dpaudit.config.schema import Claimed, Config


class PythonDefense(Table):
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
        complete = self.d is not None and self.d_prime is not None
        if complete == (self.pairs is not None) or (self.d is None) != (self.d_prime is None):
            raise ValueError("give d and d_prime, or pairs")
        return self


class MechanismConfig(Config):
    """A config of a mechanism.

    Attributes:
        defense: the mechanism.
    """

    title: ClassVar[str] = "a mechanism by its outputs alone"
    marks: ClassVar[frozenset[str]] = frozenset({"defense"})
    ordered: ClassVar[str] = "[defense]"
    processes: ClassVar[bool] = True
    stops: ClassVar[bool] = True

    defense: PythonDefense

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        claim = self.defense.epsilon
        limits = {claim if gate.max == "claim" else gate.max for gate in self.gate}
        if self.audit.stop and limits - {claim}:
            raise ValueError(
                f"audit.stop = {self.audit.stop!r} decides on the claim {claim:g}, and a gate has "
                "another limit: remove stop, or give the gate max = 'claim'"
            )
        return self

    @property
    def audited(self) -> Sequence[Claimed]:
        """The mechanism with its claimed ε."""
        return [Claimed(self.defense.label, [self.defense.epsilon])]

    @property
    def labels(self) -> Mapping[str, list[str]]:
        """The label of the mechanism."""
        return {"defense": [self.defense.label]}

    @property
    def code(self) -> list[str]:
        """The function that is called."""
        return [f"defense.target = {self.defense.target!r}"]
