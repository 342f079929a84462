"""Step sizes of Langevin dynamics."""

from __future__ import annotations

from typing import Literal

Schedule = Literal["text", "printed"]


def step_sizes(first: float, exponent: float, schedule: Schedule, count: int) -> list[float]:
    """Return the step sizes `η_1 … η_K`.

    `text` is `η_t = η_1 t^−ξ` (Wang & Tang 2017, §4.1). `printed` is line 6 of their Algorithm 2,
    `η_{t+1} = η_t / t^ξ`, which decreases like a factorial: at ξ = 0.3 all steps add up to
    4.32 η_1, so the chain stops moving.

    Args:
        first: η_1.
        exponent: ξ.
        schedule: which of the two formulas.
        count: K.
    """
    if schedule == "text":
        return [first * t**-exponent for t in range(1, count + 1)]
    sizes = [first]
    for t in range(1, count):
        sizes.append(sizes[-1] * t**-exponent)
    return sizes
