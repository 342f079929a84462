"""Bounds on ε from members that nobody's coin chose: closed forms, and false claims."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

from dpaudit.bounds.frequentist.one_run import one_run_epsilon
from dpaudit.bounds.model_based.observational import (
    WITHIN,
    Coefficients,
    most_right,
    observational_epsilon,
)
from dpaudit.core.errors import InputError

KNOWN = Coefficients(np.array([0.0, 1.0]), np.zeros((2, 2)))


def test_even_odds_are_those_of_fair_coins() -> None:
    basis, guessed = np.zeros((400, 2)), np.arange(400) % 2 == 0
    member = np.where(np.arange(400) < 320, guessed, ~guessed)
    estimate = observational_epsilon(basis, guessed, member, KNOWN, alpha=0.05)
    coins = one_run_epsilon(400, 400, 320, alpha=0.04)
    assert estimate.lower == pytest.approx(coins.lower - math.log(WITHIN), abs=1e-6)
    assert estimate.value == pytest.approx(math.log(4))
    assert estimate.kind == "assumes-law"


def test_guesses_that_the_features_make_certify_nothing() -> None:
    """Whoever is a member by the features with odds of 9 to 1 is guessed rightly by anybody."""
    basis = np.column_stack((np.ones(400), np.full(400, math.log(9))))
    guessed = np.ones(400, np.bool_)
    member = np.arange(400) < 360
    assert observational_epsilon(basis, guessed, member, KNOWN).lower == 0
    assert observational_epsilon(0 * basis, guessed, member, KNOWN).lower > 1.5


def test_no_point_of_the_ellipsoid_has_a_larger_mean() -> None:
    rng = np.random.default_rng(0)
    for scale in (0.03, 0.1, 0.3):
        signed, root = rng.normal(0, 1, (200, 3)), rng.normal(0, scale, (3, 3))
        odds = Coefficients(rng.normal(0, 1, 3), root @ root.T)
        directions = rng.normal(0, 1, (2000, 3))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        means = expit(0.3 + signed @ (odds.value + 2 * directions @ root.T).T).mean(0)
        most = most_right(signed, 0.3, odds, 2.0)
        assert means.max() <= most
        assert most <= means.max() + max(0.03, 10 * scale**2)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_randomised_response_is_seldom_certified_to_exceed_its_epsilon(epsilon: float) -> None:
    """Memberships have odds of their own, and the output tells each with odds of e^ε to 1."""
    rng, false = np.random.default_rng(int(10 * epsilon)), 0
    for _ in range(200):
        away = rng.normal(0, 1, 300)
        member = rng.random(300) < expit(away)
        answer = np.where(rng.random(300) < expit(epsilon), member, ~member)
        toward = away + np.where(answer, epsilon, -epsilon)
        picked = np.argsort(-np.abs(toward))[:150]
        basis = np.column_stack((np.ones(150), away[picked]))
        estimate = observational_epsilon(basis, toward[picked] > 0, member[picked], KNOWN)
        false += estimate.lower > epsilon
    assert false <= binom.isf(1e-4, 200, 0.05)


def test_shapes_that_differ_are_refused() -> None:
    guessed = np.ones(3, np.bool_)
    with pytest.raises(InputError, match="give a row of the basis for each guess"):
        observational_epsilon(np.zeros((2, 2)), guessed, guessed, KNOWN)
    with pytest.raises(InputError, match="give a row of the basis for each guess"):
        observational_epsilon(np.zeros((0, 2)), guessed[:0], guessed[:0], KNOWN)
