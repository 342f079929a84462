"""Measurements of assumptions that a claim relies on and the mechanism does not enforce."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpaudit.core.estimate import Estimate

# Values of `part`: the share of users whose factors have a norm above 1, and the largest norm.
LONGER, LONGEST = "share longer than 1", "longest"


AssumptionMetric = Literal["assumption.denominator", "assumption.norm"]


@dataclass(frozen=True)
class Assumption:
    """One measurement of an assumption.

    Attributes:
        metric: which assumption: a bound on denominators or on norms.
        estimate: the measured value.
        step: the step or round after which it was measured.
        part: which of several values of the metric it is; None where there is only one.
    """

    metric: AssumptionMetric
    estimate: Estimate
    step: int
    part: str | None = None
