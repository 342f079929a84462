"""The base class of measures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

from dpaudit.config.gate import Statement
from dpaudit.config.schema import Config
from dpaudit.core.estimate import Estimate
from dpaudit.record.metrics import entry, field_names, table
from dpaudit.record.result import FindingRecord, Measurement, PairRecord

C = TypeVar("C", bound=Config)
M = TypeVar("M")
# What gates about the next training say that they are of; it is the default.
NEXT: tuple[Statement | None, ...] = (None, "next-training")
RecordPart = Measurement | PairRecord | FindingRecord


@dataclass(init=False)
class MetricKey:
    """The key of a number that a run emits.

    A metric that cannot gate has one key for all numbers that the run may emit at a point.

    Attributes:
        metric: the metric.
        model: the model's label.
        epsilon: the ε of the sweep.
        fields: the fields of the metric that are known beforehand, by name.
        traits: the names of the model's traits, such as a deletion, that decide which gates
            judge it.
        joint: whether its interval holds jointly with all others, so that it may gate; never if
            the metric may not gate.
        census: whether each training has the number, so that gates may judge trainings one by one.
    """

    metric: str
    model: str
    epsilon: float
    fields: dict[str, Any]
    traits: frozenset[str]
    joint: bool
    census: bool

    def __init__(
        self,
        metric: str,
        model: str,
        epsilon: float,
        *,
        traits: Collection[str] = (),
        joint: bool = True,
        census: bool = False,
        **fields: Any,
    ) -> None:
        """Create the key of a number with these fields; None is a field that is not known yet."""
        self.metric, self.model, self.epsilon = metric, model, epsilon
        self.traits, self.census = frozenset(traits), census
        # A number of a metric that may not gate stands by itself.
        self.joint = joint and entry(metric).gateable
        self.fields = {name: value for name, value in fields.items() if value is not None}
        described = entry(metric)
        foreign = self.fields.keys() - {field.name for field in described.known}
        if foreign and described.described:
            raise TypeError(f"{metric} has no field {min(foreign)!r}")

    def __hash__(self) -> int:
        """Return a hash of what identifies its point."""
        return hash((self.metric, self.model, self.epsilon))

    def __getattr__(self, name: str) -> Any:
        """Return a field; None if it is not known yet, or only other metrics have it."""
        if name in field_names():
            return self.fields.get(name)
        raise AttributeError(f"the key of a number has no {name!r}")

    def changed(self, **changes: Any) -> Self:
        """Return the key with other fields or attributes."""
        own = {name: value for name, value in vars(self).items() if name != "fields"}
        return type(self)(**{**own, **self.fields, **changes})

    @property
    def picked_by(self) -> dict[str, Any]:
        """What gates pick it by: its metric, model, ε and fields."""
        return {
            "metric": self.metric, "model": self.model, "epsilon": self.epsilon, **self.fields
        }  # fmt: skip

    @property
    def counted(self) -> bool:
        """Whether the interval is one of the family that shares the run's error probability."""
        return self.joint and not entry(self.metric).derived

    def measured(
        self, estimate: Estimate, *, detail: str | None = None, **fields: Any
    ) -> Measurement:
        """Return the measurement of this number.

        Args:
            estimate: the number.
            detail: the value of the field that the metric names for it.
            fields: what else is recorded of it, and fields of the key that it leaves open.
        """
        name = entry(self.metric).detail
        if detail is not None and name is not None:
            fields[name] = detail
        return Measurement(estimate=estimate, **{**self.picked_by, **fields})


class Measure(ABC, Generic[C, M]):
    """A measure that is applied to every model of a run.

    It is constructed from the audited `Subject` and lives for one run. Each number has a key:
    `plan` yields it before the run, and `run` the measurement that the key makes of an estimate. A
    package adds a measure under the entry point group `dpaudit.measures`.

    Attributes:
        subject: what is audited.
        context: inputs that the measures share.
        audit: the kind of audit to which a measure of another package belongs, by its name
            (`dpaudit list audits`).
    """

    audit: ClassVar[str] = ""

    def __init__(self, subject: Any) -> None:
        """Keep what is audited; a measure may prepare more that its models share."""
        self.subject, self.context = subject, subject.context

    @classmethod
    @abstractmethod
    def plan(cls, config: C) -> Iterator[MetricKey]:
        """Yield the keys that the measure emits for this config, before the data are read."""

    @abstractmethod
    def run(self, model: M) -> Iterator[RecordPart]:
        """Measure one model at all its values of ε."""

    def compared(self) -> Iterator[Measurement]:
        """Yield comparisons between models, after all have run."""
        yield from ()


def metric_of(group: str, kind: str) -> str:
    """Return the metric named `group.kind`.

    Raises:
        ValueError: there is no such metric.
    """
    name = f"{group}.{kind}"
    if name not in table():
        raise ValueError(f"there is no metric {name!r}")
    return name


def gated(config: Config, *metrics: str) -> bool:
    """Return whether a gate names one of the metrics.

    Numbers that are seldom judged have joint intervals only then, as each widens all others.
    """
    return any(gate.metric in metrics for gate in config.gate)


def picked(config: Config, key: MetricKey, *statements: Statement | None) -> bool:
    """Return whether a gate about one of these statements judges a number; None is none given.

    A gate on a model's leak judges its advantages.
    """
    keys = [key]
    if key.metric == "attack.advantage":
        keys.append(key.changed(metric="leak"))
    return any(
        gate.of in statements and any(gate.picks(one.picked_by, one.traits) for one in keys)
        for gate in config.gate
    )


def of_trainings(config: Config, key: MetricKey) -> MetricKey:
    """Return the key of a number that each training has; its mean is joint if a gate judges it."""
    return key.changed(joint=picked(config, key, "average"), census=True)


def judged_bases(config: Config, metric: str) -> set[str]:
    """Return the bases of a metric that gates of the config name; only these are joint."""
    return {gate.wanted["basis"] for gate in config.gate if gate.metric == metric}


def points(config: Config) -> Iterator[tuple[str, float]]:
    """Yield the label and ε of every point of the sweep."""
    for model in config.audited:
        for epsilon in model.epsilon:
            yield model.label, epsilon
