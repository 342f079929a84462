"""The config table `[[gate]]`: a threshold on a bound, and the measurements that it judges."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BeforeValidator, Field, ValidationInfo, field_validator, model_validator

from dpaudit.config.model import Table, as_list
from dpaudit.core import registry
from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import quoted
from dpaudit.core.rounding import percent
from dpaudit.data.ratings import Scale
from dpaudit.record.metrics import entry, gateable, table
from dpaudit.record.result import STRONGEST, Measurement, PointRecord

Finite = Annotated[float, Field(allow_inf_nan=False)]


def _listed(schema: dict[str, Any]) -> None:
    """Name the metrics that a gate may use, with their meanings, for editors."""
    able = [metric for metric in table().values() if metric.gateable]
    schema["enum"] = [metric.name for metric in able]
    schema["enumDescriptions"] = [metric.words for metric in able]


def _keys(schema: dict[str, Any]) -> None:
    """Name the keys by which a gate on some metric may pick, for editors."""
    keys = dict.fromkeys(key for metric in table().values() for key in metric.where)
    schema["propertyNames"] = {"enum": list(keys)}


Where = Annotated[dict[str, float | str], Field(json_schema_extra=_keys)]
# What a gate on numbers of trainings is about.
Statement = Literal["next-training", "this-model", "average"]
# What gates about the next training say that they are of; it is the default.
NEXT: tuple[Statement | None, ...] = (None, "next-training")
# An attacker who is weaker on purpose: one who trains no model of their own.
Attacker = Literal["trains-none"]


class Gate(Table):
    """A threshold on a bound.

    Attributes:
        metric: one that may gate (`dpaudit list metrics`).
        where: which points of the sweep the gate judges; a point must match all keys. Of what is
            recovered of sensitive ratings, `basis` is the released model or the submissions unless
            given.
        max: the gate fails if the lower bound is above it, and passes if the upper bound is not;
            for `epsilon` also `"claim"`.
        min: the gate fails if the upper bound is below it, and passes if the lower bound is not.
            A threshold that no value of the metric breaks, or none keeps, is refused.
        of: what a gate on numbers of trainings is about (`next-training` unless given): whether the
            next training by the same procedure on these data is within the threshold; `this-model`,
            whether the training that ships (`membership.ships`) is, on all its data and not on
            targets alone; or `average`, whether the mean over all trainings is, which takes many
            of them.
        attacker: `trains-none` for the attacks that train no model of their own, which are weaker;
            all attacks unless given. Such a pass says nothing of stronger attackers.
        detectable: how many times the limit a leak is that a pass must not hide (2 unless given;
            of larger limits as a factor of the odds above chance). A gate on `epsilon` needs it:
            it passes only if, on some pair, the same game certifies that a mutant breaks `max`
            whose noise is too small by at most this factor.
    """

    # `max = true` would be 1, and "0.1" is a word.
    model_config = pydantic.ConfigDict(strict=True)
    metric: Annotated[str, pydantic.AfterValidator(gateable), Field(json_schema_extra=_listed)]
    where: Where = {}
    max: Finite | Literal["claim"] | None = None
    min: Finite | None = None
    of: Statement | None = None
    attacker: Attacker | None = None
    detectable: Annotated[float, Field(gt=1, le=1e6)] | None = None

    @field_validator("where")
    @classmethod
    def _where(cls, where: dict[str, float | str], info: ValidationInfo) -> dict[str, float | str]:
        """Refuse keys by which no number of the metric is picked."""
        if "metric" in info.data:
            metric = info.data["metric"]
            known = entry(metric).where
            foreign = [key for key in where if key not in known]
            if foreign:
                near = registry.suggestion(foreign[0], known)
                raise ValueError(f"{quoted(foreign[0])} is no key of {metric}{near}")
        return where

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.max is None) == (self.min is None):
            raise ValueError("give exactly one of max and min")
        if self.judged == "epsilon" and (self.min is not None or self.detectable is None):
            raise ValueError(
                f"a gate on {self.metric} needs max and detectable: a lower bound below the "
                "threshold is no evidence unless the same game finds a mutant that breaks it"
            )
        if self.judged != "epsilon" and self.max == "claim":
            raise ValueError("max = 'claim' belongs to metric 'epsilon'")
        bounded = self.max is not None and (self.judged == "epsilon" or self.bounds_leak)
        if self.detectable is not None and not bounded:
            raise ValueError("detectable belongs to max of metrics of attacks: remove it")
        if self.attacker and "attacker" not in [field.name for field in entry(self.judged).known]:
            raise ValueError(f"attacker is for numbers of trainings, and {self.metric} is none")
        bases, basis = entry(self.metric).bases, self.wanted.get("basis")
        if bases and basis not in bases:
            raise ValueError(f"where.basis = {basis!r} is none of {', '.join(bases)}: use one")
        _check_threshold(self)
        return self

    @property
    def judged(self) -> str:
        """Return the metric whose numbers it judges."""
        return entry(self.metric).judged

    @property
    def threshold(self) -> float:
        """The threshold of a gate on numbers of trainings.

        Raises:
            TypeError: it is the claim.
        """
        limit = self.max if self.min is None else self.min
        if limit is None or limit == "claim":
            raise TypeError("a gate on numbers of trainings has a number as its threshold")
        return limit

    @property
    def bounds_leak(self) -> bool:
        """Whether it passes if attacks find little, so that a weak attack passes it too."""
        role = entry(self.judged).role
        attacked = (role == "attack" or self.judged == "leak") and self.max is not None
        return (attacked or role == "recovery") and self.judged != "epsilon"

    @property
    def wanted(self) -> dict[str, Any]:
        """Return `where`, with what the metric picks unless it says otherwise."""
        bases = entry(self.metric).bases
        usual: dict[str, Any] = {"basis": bases[0]} if bases else {}
        return {**usual, **self.where}

    def about(self, number: Mapping[str, Any], traits: Collection[str]) -> bool:
        """Whether it judges numbers of this metric and of models with these traits.

        Args:
            number: the number's `metric`, with its fields.
            traits: the names of its model's traits.
        """
        metric = entry(self.metric)
        fits = metric.judges is None or metric.judges(number)
        return number["metric"] == metric.judged and metric.trait in {"", *traits} and fits

    def picks(self, number: Mapping[str, Any], traits: Collection[str]) -> bool:
        """Whether it judges a number with these fields; the arguments are as in `about`.

        A number is of one statement, and of all attacks or of those of a weaker attacker.
        """
        statement = None if self.of in NEXT else self.of
        asked = {**self.wanted, "statement": statement, "attacker": self.attacker}
        return self.about(number, traits) and all(
            number.get(key) == value for key, value in asked.items()
        )


class Policy(Table):
    """Gates for a finished run."""

    gate: Annotated[list[Gate], BeforeValidator(as_list), Field(min_length=1, max_length=500)]


def rated(metric: str) -> bool:
    """Return whether a metric is about ratings, so that purchases do not have it."""
    return entry(metric).unit == "rating"


def _check_threshold(gate: Gate, width: float = math.inf) -> None:
    """Refuse a threshold that every value of the metric keeps, or none.

    Args:
        gate: the gate.
        width: the largest error of a rating, if the scale is known.

    Raises:
        ValueError: names the range of the metric and the remedy.
    """
    if gate.max == "claim":
        return
    metric, basis = entry(gate.metric), gate.wanted.get("basis")
    low, high = metric.range(width, basis)
    if gate.max is not None:
        limit, fails, passes = gate.max, gate.max < high, gate.max >= low
    else:
        limit = gate.min if gate.min is not None else high
        fails, passes = limit > low, limit <= high
    if fails and passes:
        return
    remedy = f"give a number {f'between {low:g} and {high:g}' if high < math.inf else 'above 0'}"
    if high == 1 and 1 < limit < 100:
        remedy = f"write {limit / 100:g} for {percent(limit / 100)}"
    raise ValueError(
        f"{gate.metric} is {metric.values(width, basis)}: {limit:g} can never "
        f"{'pass' if fails else 'fail'}; {remedy}"
    )


def check_rated(gates: Sequence[Gate], scale: Scale) -> None:
    """Refuse gates that do not fit the scale of the ratings, before anything is run.

    Purchases have no errors of ratings, and no error is larger than the scale is wide.

    Args:
        gates: the gates.
        scale: the rating scale of the data.

    Raises:
        ConfigError: names the gate and the remedy.
    """
    for index, gate in enumerate(gates):
        if not rated(gate.metric):
            continue
        if scale.width == 0:
            raise ConfigError(
                f"gate.{index}.metric = {gate.metric!r} needs ratings, and all ratings of these "
                f"data are {scale.minimum:g}: remove the gate, or use other data"
            )
        try:
            _check_threshold(gate, scale.width)
        except ValueError as error:
            raise ConfigError(f"gate.{index}: {error}") from error


def judgeable(measurement: Measurement) -> bool:
    """Return whether gates may judge a number.

    Single membership inference attacks are not judged: a choice among them needs other trainings.
    """
    alone = measurement.unit and measurement.attack != STRONGEST
    return entry(measurement.metric).gateable and not alone


def picked_by(
    gate: Gate, measurements: Sequence[Measurement], points: Sequence[PointRecord]
) -> list[Measurement]:
    """Return what a gate judges of all that was measured.

    Numbers are left out that stand by themselves beside a joint one of the same game. So a
    divergence is judged after the last round alone, and by the one estimate that may gate.

    Args:
        gate: the gate.
        measurements: what was measured.
        points: the points of the sweep.
    """
    traits = {(point.model, point.epsilon): point.traits for point in points}
    picked = [
        measurement
        for measurement in filter(judgeable, measurements)
        if measurement.metric == gate.judged
        and gate.picks(measurement.fields, traits.get((measurement.model, measurement.epsilon), {}))
    ]

    def game(measurement: Measurement) -> tuple[object, ...]:
        return measurement.model, measurement.epsilon, measurement.attack, measurement.pair

    joint = {
        game(measurement) for measurement in picked if measurement.estimate.kind == "frequentist"
    }
    return [
        measurement
        for measurement in picked
        if measurement.census
        or measurement.estimate.kind == "frequentist"
        or game(measurement) not in joint
    ]
