"""The true ε of a list, against simulation and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audits.on_demand.games import place_epsilon
from dpaudit.claims.park_acharya_2011 import first_of_two


def scores(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, np.float32)


def epsilon_of(before: list[float], after: list[float], k: int, scale: float) -> float:
    estimate = place_epsilon(scores(*before), scores(*after), 0, k, scale)
    assert estimate is not None
    return estimate.value


@pytest.mark.cases(("before", "after"), [(1.0, 3.0), (3.0, 1.0), (2.0, 2.5)])
@pytest.mark.cases("scale", [0.3, 1.0, 4.0])
def test_place_among_two_is_the_closed_form(before: float, after: float, scale: float) -> None:
    expected = first_of_two(np.array([before, 2.0]), np.array([after, 2.0]), scale)
    assert epsilon_of([before, 2.0], [after, 2.0], 1, scale) == pytest.approx(expected, rel=2e-3)


def test_place_among_many_is_that_of_simulated_lists() -> None:
    before, after = [1.0, 3.0, 2.0, 2.5, 0.5, -np.inf], [2.5, 3.0, 2.0, 2.5, 0.5, -np.inf]
    rng = np.random.default_rng(4)
    n, k = 400_000, 2
    counts = []
    for row in (before, after):
        noised = np.array(row) + rng.laplace(size=(n, 6))
        rank = (noised > noised[:, :1]).sum(1)
        counts.append(np.bincount(np.minimum(rank, k), minlength=k + 1))
    # The standard error of a log-ratio is √(1/a + 1/b); 5.1 of them, three ratios: rate 1e-6.
    ratio = np.log(counts[1] / counts[0])
    error = 5.1 * np.sqrt(1 / counts[0] + 1 / counts[1]).max()
    epsilon = epsilon_of(before, after, k, 1.0)
    assert epsilon == pytest.approx(abs(ratio).max(), abs=error)
    assert error < 0.05 < epsilon


def test_place_reveals_no_more_than_the_prediction() -> None:
    others = np.linspace(1, 5, 30).tolist()
    for scale in (0.1, 1.0, 10.0):
        epsilon = epsilon_of([1.0, *others], [5.0, *others], 5, scale)
        assert 0 < epsilon <= 4 / scale * (1 + 1e-3)
    assert epsilon_of([2.0, *others], [2.0, *others], 5, 1.0) == 0


def test_place_is_not_known_without_noise_or_over_too_many_scales() -> None:
    row = scores(1, 2, 3)
    assert place_epsilon(row, row, 0, 1, 0.0) is None
    assert place_epsilon(row, scores(4, 2, 3), 0, 1, 1e-3) is None
