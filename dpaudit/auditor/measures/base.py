"""What every measure says and does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, get_args

from dpaudit.config.schema import Config
from dpaudit.record.metrics import MetricName
from dpaudit.record.result import Measurement, PairRecord

M = TypeVar("M")
Found = Measurement | PairRecord


@dataclass(frozen=True)
class MetricKey:
    """A number that a run emits; of what gates nothing, all that it may emit of one metric.

    Attributes:
        metric: what is measured.
        model: the model's label.
        epsilon: the ε of the sweep.
        attack: the attack's label, where one is named.
        pair: the label of the game's pair, where there is one.
        effort: the attacker's effort, where there is one.
        joint: whether its interval holds together with the others of the run.
    """

    metric: MetricName
    model: str
    epsilon: float
    attack: str | None = None
    pair: str | None = None
    effort: int | None = None
    joint: bool = True


class Measure(ABC, Generic[M]):
    """Something that is measured of every model of a run.

    It is made from what is audited, a `Subject`, and lives for one run.
    """

    @abstractmethod
    def __init__(self, subject: Any) -> None:
        """Prepare what all models share."""

    @classmethod
    @abstractmethod
    def plan(cls, config: Config) -> Iterator[MetricKey]:
        """What `run` emits for this config; it is decided before the data are read."""

    @abstractmethod
    def run(self, model: M) -> Iterator[Found]:
        """Measure one model at all its ε."""

    def compared(self) -> Iterator[Measurement]:
        """What compares models with one another, after all have run."""
        yield from ()


def metric_of(group: str, kind: str) -> MetricName:
    """The metric `group.kind`.

    Raises:
        ValueError: there is none.
    """
    name = f"{group}.{kind}"
    for metric in get_args(MetricName):
        if metric == name:
            found: MetricName = metric
            return found
    raise ValueError(f"there is no metric {name!r}")


def points(config: Config) -> Iterator[tuple[str, float]]:
    """The label and ε of every point of the sweep."""
    for model in config.model:
        for epsilon in model.epsilon:
            yield model.label, epsilon
