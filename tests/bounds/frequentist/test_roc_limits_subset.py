"""Uniform subsets of finite populations: exact levels by enumeration, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from dpaudit.bounds.frequentist.roc import independent, subset_share
from dpaudit.core.errors import InputError


@pytest.mark.cases(("n", "population"), [(5, 5), (6, 9), (10, 40)])
@pytest.mark.cases("alpha", [0.05, 0.4])
def test_a_share_is_missed_at_most_with_its_level_for_every_population(
    n: int, population: int, alpha: float
) -> None:
    limits = [subset_share(x, x, n, population, alpha=alpha) for x in range(n + 1)]
    for total in range(population + 1):
        law = hypergeom.pmf(np.arange(n + 1), population, total, n)
        below = sum(p for p, (low, _) in zip(law, limits, strict=True) if low > total / population)
        above = sum(p for p, (_, up) in zip(law, limits, strict=True) if up < total / population)
        assert max(below, above) <= alpha / 2 + 1e-12


def test_the_whole_population_leaves_nothing_open() -> None:
    assert subset_share(3, 3, 8, 8, alpha=0.05) == (3 / 8, 3 / 8)


def test_what_may_count_widens_the_upper_limit_alone() -> None:
    low, high = subset_share(3, 3, 20, 1000, alpha=0.05)
    assert subset_share(3, 5, 20, 1000, alpha=0.05)[0] == low
    assert subset_share(3, 5, 20, 1000, alpha=0.05)[1] > high


def test_independent_draws_are_those_of_the_population() -> None:
    # Two numbers, both in the subset: each of two draws is either, with all pairs equally likely.
    rng, counts = np.random.default_rng(2), np.zeros(3, int)
    for _ in range(2000):
        draws = independent(np.arange(2.0), 2, rng)
        counts[int(draws.sum())] += 1
    assert binom.isf(1 - 1e-6, 2000, 0.5) <= counts[1] <= binom.isf(1e-6, 2000, 0.5)


def test_numbers_out_of_order_are_refused() -> None:
    with pytest.raises(InputError, match="5 to 4 of a subset of 10 from 20"):
        subset_share(5, 4, 10, 20, alpha=0.05)
    with pytest.raises(InputError, match=r"population = 2 .*3 values"):
        independent(np.arange(3.0), 2, np.random.default_rng(0))
