"""Mechanisms whose ε is known, in a module that fresh processes load quickly."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Rng = np.random.Generator


def laplace(data: float, rng: Rng) -> float:
    """ε = 1 for data sets 0 and 1; rounded, as the low bits of a sum reveal its summands."""
    return round(data + rng.laplace(), 9)


def many_laplace(data: float, rng: Rng, n: int) -> Any:
    """The same, n times."""
    return np.round(data + rng.laplace(size=n), 9)


def many_normal(data: float, rng: Rng, n: int) -> Any:
    """The same law for both data sets."""
    return rng.normal(size=(n, 4))


def responses(data: int, rng: Rng, n: int) -> Any:
    """Randomised response with odds e to 1: ε = 1."""
    return np.where(rng.random(n) < math.e / (1 + math.e), data, 1 - data)


def words(data: int, rng: Rng) -> str:
    """Randomised response with odds 7 to 3, in words."""
    return f"{data if rng.random() < 0.7 else 1 - data} items"
