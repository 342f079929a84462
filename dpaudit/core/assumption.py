"""What trainings show of an assumption that a claim rests on and that nothing enforces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpaudit.core.estimate import Estimate

# How many users' factors are longer than the claim assumes, and the longest.
LONGER, LONGEST = "share longer than 1", "longest"


AssumptionMetric = Literal["assumption.denominator", "assumption.norm"]


@dataclass(frozen=True)
class Assumption:
    """One number about an assumption.

    Attributes:
        metric: of denominators, or of norms.
        estimate: the number.
        step: after which step or round.
        part: which of several numbers it is; None where there is one.
    """

    metric: AssumptionMetric
    estimate: Estimate
    step: int
    part: str | None = None
