"""An estimate with its interval; the auditor returns no bare floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator


def _is_number(value: float) -> float:
    if math.isnan(value):
        raise ValueError("NaN is not allowed: give a number")
    return value


Number = Annotated[float, AfterValidator(_is_number)]
Probability = Annotated[float, Field(ge=0, le=1)]
Kind = Literal["frequentist", "assumes-gdp", "assumes-law", "exact", "range"]


class Estimate(BaseModel):
    """An estimated quantity; NaN and intervals with `lower > upper` are refused.

    Attributes:
        value: the point estimate; not certified.
        lower: lower end of the interval; `−inf` or the quantity's minimum if there is none.
        upper: upper end of the interval; `inf` if there is none.
        confidence: the simultaneous coverage of all intervals of the run.
        alpha: the error probability of this interval alone.
        n: the number of independent trials that the interval rests on.
        method: how the interval was computed.
        kind: what the interval assumes; only `frequentist` may gate a user's model. A `range` is no
            interval for a number: it is what some trainings showed, and gates judge each of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    value: Number
    lower: Number
    upper: Number
    confidence: Probability
    alpha: Probability
    n: Annotated[int, Field(ge=0)]
    method: str
    kind: Kind = "frequentist"

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.lower <= self.upper:
            raise ValueError(f"the lower end {self.lower} lies above the upper end {self.upper}")
        return self

    def changed(self, **fields: Any) -> Self:
        """Return a copy with some fields replaced; the copy is validated."""
        return type(self)(**{**dict(self), **fields})

    def mapped(self, increasing: Callable[[float], float]) -> Self:
        """Return the estimate of an increasing function of what is estimated."""
        return self.changed(
            value=increasing(self.value), lower=increasing(self.lower), upper=increasing(self.upper)
        )

    @classmethod
    def exact(cls, value: float, method: str) -> Self:
        """Return the estimate of a value that is computed, not sampled."""
        return cls(
            value=value,
            lower=value,
            upper=value,
            confidence=1.0,
            alpha=0.0,
            n=0,
            method=method,
            kind="exact",
        )
