from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from dpaudit.kernels.social import preference_fits as kernels
from tests.support.read_only import read_only


def test_powers_are_those_of_e() -> None:
    x = np.concatenate((np.linspace(-700, 0, 100_001), -np.geomspace(1e-300, 1, 1000)))
    values = np.empty_like(x)
    kernels.powers(x, values)
    np.testing.assert_allclose(values, np.exp(x), rtol=3e-15)


@pytest.mark.cases(("p", "q", "d"), [(1, 1, 1), (3, 40, 5), (1500, 7, 2)])
def test_a_fit_is_the_least_loss_and_has_no_slope_there(p: int, q: int, d: int) -> None:
    source = np.random.default_rng(p)
    factors = source.normal(size=(p + q + 5, d + 1))
    centre, ridge = source.normal(size=d), 0.05
    order = source.permutation(p + q + 5).astype(np.int32)
    mine, rest = read_only(np.sort(order[:p])), np.sort(order[p : p + q])

    def loss(u: np.ndarray) -> float:
        scores = factors[:, :-1] @ u + factors[:, -1]
        wrong = np.logaddexp(0, scores[rest] - scores[mine][:, None]).sum() / q
        return float(wrong + ridge / 2 * ((u - centre) ** 2).sum())

    # The second user likes nothing; the third equals the first, with another initial value.
    start = np.array([0, p, p])
    fitted = np.stack([np.zeros(d), np.zeros(d), 3 * source.normal(size=d)])
    bounds = np.array([0, q, 2 * q, 3 * q])
    failed = kernels.fit(
        np.array([0, 1, 0], np.int32), start, mine, bounds, np.tile(rest, 3), factors, ridge,
        centre, fitted,
    )  # fmt: skip
    assert failed == 0
    np.testing.assert_array_equal(fitted[1], centre)
    np.testing.assert_allclose(fitted[2], fitted[0], atol=2e-5)
    best = minimize(loss, centre, tol=1e-12)
    assert loss(fitted[0]) <= best.fun + 1e-9 * (1 + abs(best.fun))
    moved = [loss(fitted[0] + 0.1 * side) for side in np.eye(d)]
    assert min(moved) > loss(fitted[0])
