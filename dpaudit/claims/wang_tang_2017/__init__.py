"""Wang & Tang 2017: what the entries need of code."""

from __future__ import annotations

from typing import Any

from dpaudit.claims.trained_games import PosteriorGame, StepsGame
from dpaudit.claims.wang_tang_2017 import algebra, data, descent
from dpaudit.defenses.neighborhood.sampled import SampledSimilarity


def half(epsilon: float, cap: int = 2, **params: Any) -> SampledSimilarity:
    """Return the defense with Algorithm 2's likelihood, ½ Σ e²."""
    return SampledSimilarity(epsilon=epsilon, cap=cap, more_than=0, **params)


def full(epsilon: float, cap: int = 2, **params: Any) -> SampledSimilarity:
    """Return the defense with eq. (6)'s likelihood, Σ e²."""
    return half(epsilon, cap, likelihood="squares", **params)


PARTS = (*algebra.PARTS, *data.PARTS, *descent.PARTS, PosteriorGame, StepsGame, full, half)
