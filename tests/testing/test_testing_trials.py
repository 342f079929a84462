"""The default number of trials: the least that is forecast to find a violation."""

from __future__ import annotations

import math

from dpaudit.bounds.power import detectable_epsilon
from dpaudit.testing import sufficient


def test_a_violation_has_enough_trials_and_not_many_more() -> None:
    def least(count: int) -> float:
        return detectable_epsilon(1.0, count, 1e-6)

    factors = (3.0, 2.0, 1.5, 1.1)
    counts = [sufficient(least, 1.0, factor) for factor in factors]
    assert counts == sorted(counts)
    for count, factor in zip(counts, factors, strict=True):
        assert least(count) < factor
        assert count == 1000 or least(count - 1000) > 1 + (factor - 1) / 2
    assert counts[0] < 20_000 < counts[-1]
    assert sufficient(lambda count: math.inf, 1.0, 2.0) == 1_000_000
