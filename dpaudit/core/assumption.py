"""Measurements of assumptions that a claim relies on and the mechanism does not enforce."""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.core.estimate import Estimate

# Values of `part`: the share of users whose factors have a norm above 1, and the largest norm.
LONGER, LONGEST = "share longer than 1", "longest"


@dataclass(frozen=True)
class Assumption:
    """One measurement of an assumption.

    Attributes:
        metric: which assumption, by the name of its metric.
        estimate: the measured value.
        step: the step or round after which it was measured.
        part: which of several values of the metric it is; None where there is only one.
    """

    metric: str
    estimate: Estimate
    step: int
    part: str | None = None
