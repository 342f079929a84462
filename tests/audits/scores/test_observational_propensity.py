"""Propensities by features: they find the odds, at steps and codes too, of columns of any kind."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from dpaudit.audits.scores.observational import basis_of, log_odds, rivals

NUMBER, CODE = np.array([False]), np.array([True])


@pytest.mark.long
def test_the_odds_of_a_shift_in_scale_are_found() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(3000) < 0.3
    x = rng.normal(0, 1, (3000, 1))
    x[member] *= 1.5
    at = np.array([[-2.0], [0.0], [1.0], [2.5]])
    exact = np.log(0.3 / 0.7) - np.log(1.5) - at[:, 0] ** 2 / 2 * (1 / 1.5**2 - 1)
    assert log_odds(x, NUMBER, member, at, 0) == pytest.approx(exact, abs=0.4)


@pytest.mark.long
def test_the_odds_of_a_code_have_no_order() -> None:
    rng = np.random.default_rng(1)
    odds = np.array([1.5, -1.5] * 6)
    x = rng.integers(0, 12, 4000)
    member = rng.random(4000) < expit(odds[x])
    at = np.arange(12.0)[:, None]
    assert log_odds(at[x], CODE, member, at, 0) == pytest.approx(odds, abs=0.5)


@pytest.mark.long
def test_rivals_see_a_period_that_splines_miss() -> None:
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 24 * 28, (4000, 1))
    odds = 1.5 * np.sin(2 * np.pi * x[:, 0] / 24)
    member = rng.random(4000) < expit(odds)
    for chances in rivals(x[:2000], member[:2000], x[2000:], 0):
        assert np.corrcoef(chances, odds[2000:])[0, 1] > 0.6


@pytest.mark.cases("levels", [1, 2, 3, 40])
@pytest.mark.cases("code", [False, True])
def test_columns_with_few_values_have_a_basis(levels: int, code: bool) -> None:
    rng = np.random.default_rng(levels)
    x = np.column_stack((rng.integers(0, levels, 200), rng.normal(0, 1, 200))).astype(float)
    x[:5, 0] += levels > 1
    columns = basis_of(x, np.array([code, False]))(x)
    assert np.isfinite(columns).all()
    assert len(columns) == 200
    assert np.linalg.matrix_rank(columns) == columns.shape[1]
    rare = np.zeros((200, 1))
    rare[0] = 1
    assert np.isfinite(basis_of(rare, NUMBER)(rare)).all()
