"""AdaDelta: gradient descent with a step size per coordinate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpaudit.defenses.factors import Floats


@dataclass(eq=False)
class AdaDelta:
    """State of AdaDelta (Zeiler 2012, arXiv:1212.5701), one step size per coordinate.

        G ← ρ G + (1 − ρ) g²,   Δ = −√((D + ε)/(G + ε)) g,   D ← ρ D + (1 − ρ) Δ²,   x ← x + η Δ

    Attributes:
        memory: ρ, the decay rate of both running means.
        floor: ε, a small constant in both roots.
        rate: η, 1 in Zeiler's paper.
        squares: G, the running mean of squared gradients.
        steps: D, the running mean of squared steps.
    """

    memory: np.float32
    floor: np.float32
    rate: np.float32
    squares: Floats
    steps: Floats

    @classmethod
    def like(cls, factors: Floats, memory: float, floor: float, rate: float) -> AdaDelta:
        """Return the initial state, G = D = 0, in the shape of `factors`."""
        zeros = np.zeros_like(factors)
        return cls(np.float32(memory), np.float32(floor), np.float32(rate), zeros, zeros.copy())

    def step(self, factors: Floats, slope: Floats) -> None:
        """Update `factors` in place, g being `slope`; overflows stay in the numbers."""
        rest = np.float32(1) - self.memory
        with np.errstate(over="ignore", invalid="ignore"):
            self.squares[:] = self.memory * self.squares + rest * slope**2
            delta = np.sqrt((self.steps + self.floor) / (self.squares + self.floor)) * slope
            self.steps[:] = self.memory * self.steps + rest * delta**2
            factors -= self.rate * delta
