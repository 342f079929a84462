from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.audits.mechanism.audit import most_informative


@pytest.mark.long
def test_the_stronger_of_weak_pairs_is_found() -> None:
    """Laplace noise with different shifts: twelve weaker pairs do not win by a lucky tail."""
    shifts = [0.01] * 6 + [0.06] + [0.01] * 6

    def chosen(seed: int) -> int:
        def draw(index: int, turn: int, count: int) -> tuple[Any, Any]:
            rng = np.random.default_rng([seed, index, turn])
            return rng.laplace(0, 1, count), rng.laplace(shifts[index], 1, count)

        return most_informative(draw, len(shifts), 40_000, 1_000_000, seed, None)

    assert sum(chosen(seed) == 6 for seed in range(10)) >= 9


def test_pairs_that_promise_nothing_are_compared_by_their_area() -> None:
    """Binary outputs, too few to certify anything, so half of the pairs tie."""
    shares = [0.5, 0.5, 0.62, 0.5]

    def draw(index: int, turn: int, count: int) -> tuple[Any, Any]:
        rng = np.random.default_rng([index, turn])
        return rng.random(count) < 0.5, rng.random(count) < shares[index]

    assert most_informative(draw, 4, 400, 20, 1, lambda outputs: np.asarray(outputs, float)) == 2
