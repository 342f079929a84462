"""The ε that follows from what was observed, at the claim's δ."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache

from dpaudit.audits.dp_training.transcript import Setup
from dpaudit.bounds.accounting import gaussian_mechanism_epsilon
from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.bounds.training import sampled_epsilon, scale_epsilon, user_epsilon

# Below this σ an accountant's grid is of no use; the ε there is above a thousand in one step.
_LEAST = 1e-2


@dataclass(frozen=True)
class Law:
    """DP-SGD with Poisson batches.

    Attributes:
        noise_multiplier: σ, above 0.
        rate: q.
        steps: T.
        coordinates: k.
        delta: the claim's δ.
    """

    noise_multiplier: float
    rate: float
    steps: int
    coordinates: int
    delta: float

    @classmethod
    def of(cls, setup: Setup, steps: int, delta: float) -> Law:
        """Return the law that a training states."""
        return cls(setup.noise_multiplier, setup.rate, steps, setup.coordinates, delta)

    @property
    def epsilon(self) -> float:
        """The ε of all steps, from above; infinite without noise."""
        if self.noise_multiplier < _LEAST:
            return math.inf
        return _epsilon(self.noise_multiplier, self.delta, self.steps, min(1.0, self.rate))

    def changed(
        self, *, noise: float = 1.0, sensitivity: float = 1.0, rate: float | None = None
    ) -> Law:
        """Return the law with other noise, a larger norm of a row, or another rate.

        Args:
            noise: the noise's standard deviation, in units of the stated one.
            sensitivity: the largest norm of a row's part of the sum, in units of C.
            rate: q.
        """
        multiplier = self.noise_multiplier * noise / sensitivity
        return replace(self, noise_multiplier=multiplier, rate=self.rate if rate is None else rate)

    def of_steps(self, steps: int) -> Law:
        """Return the law of another number of steps."""
        return replace(self, steps=steps)

    def of_user(self, rows: int) -> float:
        """Return the ε of a user with so many rows."""
        return user_epsilon(
            rows,
            self.noise_multiplier,
            delta=self.delta,
            compositions=self.steps,
            sampling=self.rate,
        )

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


@cache
def _epsilon(noise_multiplier: float, delta: float, steps: int, rate: float) -> float:
    return gaussian_mechanism_epsilon(
        noise_multiplier, delta=delta, compositions=steps, sampling=rate
    ).value
