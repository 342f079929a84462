"""Propensities by features: they find the odds, at steps too, and columns of any kind."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audits.membership.propensity import Propensity, basis_of


@pytest.mark.long
def test_the_odds_of_a_shift_in_scale_are_found() -> None:
    rng = np.random.default_rng(0)
    member = rng.random(3000) < 0.3
    x = rng.normal(0, np.where(member, 1.5, 1.0))[:, None]
    fitted = Propensity.of(x, member, 0)
    at = np.array([[-2.0], [0.0], [1.0], [2.5]])
    exact = np.log(0.3 / 0.7) - np.log(1.5) - at[:, 0] ** 2 / 2 * (1 / 1.5**2 - 1)
    assert fitted.basis(at) @ fitted.odds.value == pytest.approx(exact, abs=0.4)


def test_rows_that_features_decide_are_not_comparable() -> None:
    rng = np.random.default_rng(1)
    member = np.arange(1000) % 10 == 0
    x = np.where(rng.random(1000) < 0.5, 10.0 * member, rng.normal(0, 1, 1000))[:, None]
    fitted = Propensity.of(x, member, 0)
    assert not fitted.comparable(np.array([[10.0]])).any()
    assert fitted.comparable(np.array([[0.5]])).all()


@pytest.mark.cases("levels", [1, 2, 3, 40])
def test_columns_with_few_values_have_a_basis(levels: int) -> None:
    rng = np.random.default_rng(levels)
    x = np.column_stack((rng.integers(0, levels, 200), rng.normal(0, 1, 200))).astype(float)
    x[:5, 0] += levels > 1
    columns = basis_of(x)(x)
    assert np.isfinite(columns).all()
    assert len(columns) == 200
    rare = np.zeros((200, 1))
    rare[0] = 1
    assert np.isfinite(basis_of(rare)(rare)).all()
