"""A number with its interval: no bare float leaves the auditor."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

Kind = Literal["frequentist", "credible", "assumes-gdp", "assumes-law", "exact"]


class Estimate(BaseModel):
    """An estimated quantity.

    Attributes:
        value: the point estimate; not certified.
        lower: lower end of the interval; `−inf` or the quantity's least value where there is none.
        upper: upper end of the interval; `inf` where there is none.
        confidence: the coverage of all intervals of the run together.
        alpha: the level of this interval alone.
        n: the number of independent trials that the interval rests on.
        method: how the interval was made.
        kind: what the interval assumes; only `frequentist` may gate a user's model.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    value: float
    lower: float
    upper: float
    confidence: float
    alpha: float
    n: int
    method: str
    kind: Kind = "frequentist"

    @classmethod
    def exact(cls, value: float, method: str) -> Self:
        """A number that is computed and not sampled."""
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
