"""Gradient norms in Algorithm 2 and the effect of one rating, by other computations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from dpaudit.claims.luo_2020 import bounds as fg_bounds


def test_no_bound_of_the_gradients_is_large_enough() -> None:
    assert fg_bounds.every_bound_is_exceeded(0) is None


def test_a_fit_to_equal_ratings_has_the_gradient_of_the_docstring() -> None:
    count, decay, rating = 7, 0.1, 5.0
    v = np.sqrt(decay / count)

    def cost(u: float) -> float:
        return float(count * (rating - u * v) ** 2 / 2 + decay * u**2 / 2)

    u = optimize.minimize_scalar(cost).x
    assert (rating - u * v) * u == pytest.approx(np.sqrt(count / decay) * rating**2 / 4, rel=1e-6)


def test_no_constant_pays_for_all_of_a_user() -> None:
    text = fg_bounds.any_constant(0)
    assert text is not None
    assert "ε = 2.15 where 1 is claimed" in text


def test_noise_for_all_of_a_user_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fg_bounds, "noise_multiplier", lambda *_, **__: 1e3)
    assert fg_bounds.any_constant(0) is None
