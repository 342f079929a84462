"""Ranges of a model's settings, which adapters propose and users name."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.random import Generator


@dataclass(frozen=True)
class Knob:
    """The range of a setting, with both ends; whole numbers if both ends are.

    Attributes:
        low: the least value.
        high: the largest value.
        log: whether factors count, and not differences; the least value is above 0.
    """

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether its values are whole numbers."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def drawn(self, rng: Generator) -> float:
        """Return a uniform draw; of three digits unless it is whole, so that people read it."""
        # A whole number has the interval around it.
        ends = (self.low - 0.5, self.high + 0.5) if self.whole else (self.low, self.high)
        low, high = map(math.log, ends) if self.log else ends
        value = rng.uniform(low, high)
        return self.rounded(math.exp(value) if self.log else value)

    def rounded(self, value: float) -> float:
        """Return a value as it is written, within the range."""
        near = round(value) if self.whole else float(f"{value:.3g}")
        return min(max(near, self.low), self.high)
