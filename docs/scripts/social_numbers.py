"""The numbers of records that `make_social` compares: by place, metric, model and ε."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import AuditResult
from dpaudit.reports.words import epsilon

# The results by place, such as "x = 10 %".
Results = Mapping[str, AuditResult]
# A model's label and its ε.
Point = tuple[str, float]
# A metric and its detail.
Metric = tuple[str, str | None]

EDGE = "†"


@dataclass(frozen=True)
class Numbers:
    """What is known at one place.

    Attributes:
        by: the estimates of each metric, by model and ε.
        edges: the models at an ε where a setting stands at an end of its grid.
        against: the model that `utility.difference` is about.
    """

    by: Mapping[Metric, Mapping[Point, Estimate]]
    edges: frozenset[Point] = frozenset()
    against: str = ""

    def of(self, metric: Metric) -> Mapping[Point, Estimate]:
        """Return the estimates of a metric."""
        return self.by.get(metric, {})


def edges_of(result: AuditResult) -> set[Point]:
    """Return each model at an ε where a setting was chosen at an end of its grid."""
    grids = {model.label: model.grid for model in TrainedConfig.model_validate(result.config).model}
    return {
        (point.model, point.epsilon)
        for point in result.points
        for key, value in point.chosen.items()
        if at_edge(value, grids[point.model].get(key, ()))
    }


def at_edge(value: object, offered: Sequence[object]) -> bool:
    """Whether a chosen number is the least, unless 0, or the largest of several offered."""
    numbers = [float(each) for each in offered if isinstance(each, int | float)]
    if len(numbers) < 2 or not isinstance(value, int | float):
        return False
    return value == max(numbers) or (value == min(numbers) and value != 0)


def estimates(result: AuditResult, metric: str, detail: str | None = None) -> dict[Point, Estimate]:
    """Return the estimates of a metric by model and ε."""
    return {
        (each.model, each.epsilon): each.estimate
        for each in result.measurements
        if each.metric == metric and each.detail == detail
    }


def numbers_of(result: AuditResult) -> Numbers:
    """Return the numbers of a record."""
    by: dict[Metric, dict[Point, Estimate]] = {}
    for each in result.measurements:
        by.setdefault((each.metric, each.detail), {})[each.model, each.epsilon] = each.estimate
    against = str(TrainedConfig.model_validate(result.config).training.against)
    return Numbers(by, frozenset(edges_of(result)), against)


def name(point: Point) -> str:
    """Name a model and its ε, which is left out where there is no noise."""
    model, value = point
    return model if value == math.inf else f"{model}, ε = {epsilon(value)}"
