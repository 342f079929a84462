from __future__ import annotations

import numpy as np
import pytest

from dpaudit.kernels.normal_equations import add_squares, inverses, ridged, solved


@pytest.mark.cases(("count", "rows", "size"), [(3, 7, 4), (1, 2, 5), (2, 40, 33), (4, 0, 1)])
def test_systems_are_gathered_and_solved(count: int, rows: int, size: int) -> None:
    source = np.random.default_rng(size)
    x, right = source.normal(size=(count, rows, size)), source.normal(size=(count, size, 3))
    full = np.swapaxes(x, 1, 2) @ x + 0.5 * np.eye(size)
    upper = ridged(x, 0.5)
    np.testing.assert_allclose(np.triu(upper), np.triu(full), rtol=1e-12, atol=1e-12)
    # Entries below the diagonal are not read, and the arguments are not changed.
    below = upper + np.tril(np.full((size, size), np.nan), -1)
    before = below.copy()
    np.testing.assert_allclose(solved(below, right), np.linalg.solve(full, right), rtol=1e-9)
    inverse, log_determinant = inverses(below)
    np.testing.assert_array_equal(below, before)
    np.testing.assert_allclose(inverse, np.linalg.inv(full), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(log_determinant, np.linalg.slogdet(full)[1], rtol=1e-12)


def test_squares_are_weighted_and_added() -> None:
    source = np.random.default_rng(1)
    x, weights = source.normal(size=(2, 9, 3)), source.normal(size=(2, 9))
    squares = np.ones((2, 3, 3))
    add_squares(x, weights, squares)
    expected = 1 + np.einsum("nm,nmi,nmj->nij", weights, x, x)
    np.testing.assert_allclose(np.triu(squares), np.triu(expected), rtol=1e-12)
    np.testing.assert_array_equal(np.tril(squares, -1), np.tril(np.ones((2, 3, 3)), -1))
