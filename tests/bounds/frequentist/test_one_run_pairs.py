"""Bounds on ε from pairs: closed forms, ties, hidden odds, and false claims of one release."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import beta, binom

from dpaudit.bounds.frequentist.one_run import paired_epsilon
from dpaudit.core.errors import InputError


def scores(right: int, wrong: int, ties: int = 0) -> tuple[np.ndarray, np.ndarray]:
    return np.repeat([1.0, 0.0, 0.0], [right, wrong, ties]), np.repeat(
        [0.0, 1.0, 0.0], [right, wrong, ties]
    )


def test_the_bound_is_half_the_log_odds_of_clopper_and_pearson_less_half_that_of_gamma() -> None:
    limit = beta.ppf(0.05 / 4, 300, 101)
    for gamma in (1.0, 1.5):
        estimate = paired_epsilon(*scores(300, 100), gamma=gamma)
        assert estimate.lower == pytest.approx((logit(limit) - math.log(gamma)) / 2, abs=1e-6)
        assert estimate.value == pytest.approx((math.log(3) - math.log(gamma)) / 2)


@pytest.mark.cases(("right", "wrong", "ties"), [(0, 0, 50), (10, 90, 0), (55, 45, 0), (0, 1, 0)])
def test_scores_at_chance_or_equal_certify_nothing(right: int, wrong: int, ties: int) -> None:
    assert paired_epsilon(*scores(right, wrong, ties)).lower == 0


def test_equal_scores_are_not_guessed() -> None:
    with_ties, without = paired_epsilon(*scores(80, 20, 300)), paired_epsilon(*scores(80, 20))
    assert with_ties.lower == pytest.approx(without.lower)


@pytest.mark.cases(("epsilon", "gamma"), [(0.0, 1.0), (0.7, 1.0), (0.0, 2.0), (0.5, 1.5)])
def test_one_release_is_seldom_certified_to_exceed_its_epsilon(
    epsilon: float, gamma: float
) -> None:
    """Every row answers truly with odds e^ε to 1, and the hidden odds help as much as they may."""
    rng, false = np.random.default_rng(int(10 * (epsilon + gamma))), 0
    for _ in range(300):
        liked = rng.random(300) < 0.5  # whom the hidden difference makes a member, with odds Γ
        first = rng.random(300) < np.where(liked, gamma, 1.0) / (1 + gamma)
        told = [np.where(rng.random(300) < expit(epsilon), coin, ~coin) for coin in (first, ~first)]
        hint = 0.5 * np.where(liked, 1, -1)
        pair = np.column_stack((told[0] + hint, told[1] - hint))
        members, others = np.where(first[:, None], pair, pair[:, ::-1]).T
        false += paired_epsilon(members, others, gamma=gamma).lower > epsilon
    assert false <= binom.isf(1e-4, 300, 0.05)


@pytest.mark.cases(
    ("shapes", "gamma", "alpha"),
    [((0, 0), 1, 0.05), ((3, 2), 1, 0.05), ((3, 3), 0.9, 0.05), ((3, 3), math.nan, 0.05),
     ((3, 3), math.inf, 0.05), ((3, 3), 1, 0)],
)  # fmt: skip
def test_wrong_arguments_are_refused(shapes: tuple[int, int], gamma: float, alpha: float) -> None:
    with pytest.raises(InputError):
        paired_epsilon(np.zeros(shapes[0]), np.zeros(shapes[1]), gamma=gamma, alpha=alpha)


def test_the_surest_pairs_show_the_noise_whose_ratio_is_bounded() -> None:
    """Of Laplace noise with ε = 2 all pairs together show 0.93 at best."""
    rng = np.random.default_rng(0)
    noise = rng.laplace(size=(2, 4000))
    assert 1.2 < paired_epsilon(2 + noise[0], noise[1]).lower < 2


def test_the_order_of_pairs_with_equal_differences_says_nothing() -> None:
    member = np.where(np.arange(400) < 200, 1.0, -1.0)
    assert paired_epsilon(member, -member).lower == 0
