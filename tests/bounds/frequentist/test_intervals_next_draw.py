"""The next draw: levels of the rank rule and of the e-process, by enumeration and simulation."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

from dpaudit.bounds.frequentist.intervals import draws_needed, next_exceeds, share_wealth
from dpaudit.core.errors import InputError


@pytest.mark.cases("draws", [1, 2, 5, 8])
def test_the_rank_rule_holds_for_every_number_of_exceeding_draws(draws: int) -> None:
    # An exchangeable law is a mixture of uniform choices of which of the J + 1 draws exceed.
    for among in range(draws + 2):
        choices = list(itertools.combinations(range(draws + 1), among))
        for most in range(draws + 1):
            wrong = sum(draws in choice and among - 1 <= most for choice in choices)
            assert Fraction(wrong, len(choices)) <= Fraction(most + 1, draws + 1)
            if among == most + 1:  # the bound is attained
                assert wrong / len(choices) == pytest.approx(next_exceeds(draws, most))


def test_the_least_number_of_draws_is_the_least() -> None:
    for alpha in (0.05, 0.1, 1 / 3, 0.01):
        for exceeding in range(4):
            least = draws_needed(exceeding, alpha)
            assert next_exceeds(least, exceeding) <= alpha * (1 + 1e-9)
            if least > max(1, exceeding):
                assert next_exceeds(least - 1, exceeding) > alpha
    assert (draws_needed(0, 0.05), draws_needed(1, 0.05)) == (19, 39)


@pytest.mark.cases(("x", "n"), [(1, 1), (2, 2), (3, 5), (4, 40)])
def test_the_wealth_is_the_mean_over_shares(x: int, n: int) -> None:
    share = 0.05

    def ratio(p: float) -> float:
        return float((p / share) ** x * ((1 - p) / (1 - share)) ** (n - x) / (1 - share))

    # All that exceed come last, so the wealth is largest at the end.
    wealth = share_wealth([False] * (n - x) + [True] * x, share)
    assert wealth == pytest.approx(max(1, quad(ratio, share, 1, limit=200)[0]), rel=1e-6)


def test_a_leak_in_every_draw_is_certain_after_two() -> None:
    assert share_wealth([True], 0.05) < 1 / 0.05
    assert share_wealth([True, True], 0.05) >= 1 / 0.05
    assert share_wealth([True] * 100_000, 0.05) > 1e300  # no overflow


@pytest.mark.parametrize("share", [0.05, 0.02])
def test_the_wealth_rejects_a_true_share_at_most_as_often_as_its_level(share: float) -> None:
    level, rng, audits = 0.05, np.random.default_rng(0), 2000
    draws = rng.random((audits, 64)) < share
    false = sum(share_wealth(row.tolist(), share) >= 1 / level for row in draws)
    assert false <= binom.isf(1e-6, audits, level)


def test_numbers_out_of_range_are_refused() -> None:
    with pytest.raises(InputError, match="3 of 2 draws exceed"):
        next_exceeds(2, 3)
    with pytest.raises(InputError, match="0 of 0 draws"):
        next_exceeds(0, 0)
    with pytest.raises(InputError, match="exceeding = -1"):
        draws_needed(-1, 0.05)
