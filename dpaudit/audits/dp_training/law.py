"""The ε that follows from what was observed, at the claim's δ."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from dpaudit.audits.dp_training.transcript import Setup, Unit
from dpaudit.bounds.accounting import gaussian_mechanism_epsilon
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.bounds.training import sampled_epsilon, scale_epsilon, user_epsilon

# The error probability of each check: how often it accuses a training that keeps its claim.
ALPHA = 1e-5
# The normal quantiles of this level, and of the power of 95 % with which a least fault is caught.
CAUGHT = 4.26 + 1.64
# Below this σ an accountant's grid is of no use; the ε there is above a thousand in one step.
_LEAST = 1e-2
# Checks ask for the same ε again and again.
_accounted = cache(gaussian_mechanism_epsilon)


@dataclass(frozen=True)
class Law:
    """DP-SGD with Poisson batches.

    Attributes:
        noise_multiplier: σ, above 0.
        rate: q.
        steps: T.
        coordinates: k.
        delta: the claim's δ.
        unit: what batches take and clip.
    """

    noise_multiplier: float
    rate: float
    steps: int
    coordinates: int
    delta: float
    unit: Unit = "interaction"

    @classmethod
    def of(cls, setup: Setup, steps: int, delta: float) -> Law:
        """Return the law that a training states."""
        settled = setup.noise_multiplier, setup.rate, steps, setup.coordinates
        return cls(*settled, delta, setup.unit)

    @property
    def epsilon(self) -> float:
        """The ε of all steps, from above; infinite without noise."""
        if self.noise_multiplier < _LEAST:
            return math.inf
        how = {"sampling": min(1.0, self.rate), "delta": self.delta}
        return _accounted(self.noise_multiplier, compositions=self.steps, **how).value

    def changed(self, *, noise: float = 1.0, **others: Any) -> Law:
        """Return the law with other noise, or another `rate` or number of `steps`.

        Args:
            noise: the noise's standard deviation, in units of the stated one; of a row whose part
                of the sum has a norm of s C, it is 1/s.
            others: what else differs.
        """
        return replace(self, noise_multiplier=self.noise_multiplier * noise, **others)

    def taken(self, rows: int) -> float:
        """Return the probability with which a batch takes one of a user's rows."""
        return min(1.0, self.rate) if self.unit == "user" else 1 - (1 - min(1.0, self.rate)) ** rows

    def of_user(self, rows: int) -> float:
        """Return the ε of a user with so many rows."""
        if self.unit == "user":
            return self.epsilon
        how = {"sampling": self.rate, "delta": self.delta}
        return user_epsilon(rows, self.noise_multiplier, compositions=self.steps, **how)

    def of_scale(self, ratio: float) -> float:
        """Return the ε of noise whose scale differs by a ratio in all steps."""
        return scale_epsilon(self.coordinates * self.steps, ratio, delta=self.delta)

    def of_batch_scale(self, ratio: float) -> float:
        """Return the ε of one step whose scale differs by a ratio if it takes the row."""
        within = scale_epsilon(self.coordinates, ratio, delta=min(0.5, self.delta / self.rate))
        return sampled_epsilon(within, self.rate)

    def of_shift(self, squared: float) -> float:
        """Return the ε of sums that differ in every batch, by Σ_t ‖ΔS_t‖²/C² in all."""
        return gaussian_epsilon(math.sqrt(squared) / self.noise_multiplier, self.delta)
