"""Audits with few distinct scores at the default seed: the level is that of the default."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.bounds.outcomes import fresh_seed, settled
from dpaudit.core.errors import InputError

AUDITS = 1500


def test_seeds_are_fresh_or_as_given() -> None:
    assert len({fresh_seed() for _ in range(100)}) == 100
    assert all(0 <= fresh_seed() < 2**63 for _ in range(100))
    assert settled(None) != settled(None)
    assert [settled(7), settled(0)] == [7, 0]


@pytest.mark.cases("seed", [-1, True, 0.5, "7"])
def test_what_is_no_seed_is_refused(seed: object) -> None:
    with pytest.raises(InputError, match="at least 0"):
        settled(seed)  # type: ignore[arg-type]


def test_the_seed_is_in_the_result() -> None:
    absent, present = np.zeros(20), np.ones(20)
    drawn = label_epsilon(absent, present)[1]
    assert drawn.seed != label_epsilon(absent, present)[1].seed
    assert label_epsilon(absent, present, seed=drawn.seed)[1] == drawn


def two_atoms(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """A null of two scores, 20 trials on either data set."""
    return rng.integers(0, 2, 20), rng.integers(0, 2, 20), 0.0


def responses(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Randomised response, wrong about once in 579 trials, 1000 trials on either data set."""
    wrong = rng.random((2, 1000)) < 1 / (1 + math.exp(6.36))
    return wrong[0], ~wrong[1], 6.36


@pytest.mark.parametrize("draw", [two_atoms, responses])
@pytest.mark.long
def test_few_distinct_scores_at_the_default_seed(draw: object) -> None:
    """False-failure rate 1e-6. With seed = 0 in all audits the responses err in 10 % of them."""
    rng = np.random.default_rng(3)
    false = 0
    for _ in range(AUDITS):
        absent, present, truth = draw(rng)  # type: ignore[operator]
        false += label_epsilon(absent.astype(float), present.astype(float))[0].lower > truth
    assert false <= binom.isf(1e-6, AUDITS, 0.05)
