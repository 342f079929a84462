"""What gates need: thresholds within the range of their metrics, and data that these are of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from dpaudit.core.errors import ConfigError
from dpaudit.core.rounding import percent
from dpaudit.data.ratings import Scale
from dpaudit.record.metrics import entry


def rated(metric: str) -> bool:
    """Return whether a metric is about ratings, so that purchases do not have it."""
    return entry(metric).unit == "rating"


class Threshold(Protocol):
    """A metric with its threshold: a `Gate`."""

    @property
    def metric(self) -> str:
        """The metric."""
        ...

    @property
    def max(self) -> float | Literal["claim"] | None:
        """The largest value that is allowed; None with `min`."""
        ...

    @property
    def min(self) -> float | None:
        """The least value that is allowed; None with `max`."""
        ...

    @property
    def wanted(self) -> Mapping[Any, Any]:
        """Which points it judges: fields of a measurement and their values."""
        ...


def check_threshold(gate: Threshold, width: float = math.inf) -> None:
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


def check_rated(gates: Sequence[Threshold], scale: Scale) -> None:
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
            check_threshold(gate, scale.width)
        except ValueError as error:
            raise ConfigError(f"gate.{index}: {error}") from error
