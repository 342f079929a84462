from __future__ import annotations

import numpy as np
import pytest

from dpaudit.attacks.black_box.prospects import prospect

TRIALS = 4_000_000


def trials(shift: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Exact log-odds of N(0, 1) against N(shift, 1), and the labels."""
    rng = np.random.default_rng(seed)
    drawn = np.r_[rng.normal(0, 1, count), rng.normal(shift, 1, count)]
    return shift * drawn - shift**2 / 2, np.repeat([0, 1], count)


def exact(shift: float) -> float:
    """The expected bound for this many outputs, from more than enough draws."""
    return prospect(*trials(shift, 2_000_000, 99), TRIALS, believed=0.16, alpha=0.1).epsilon


@pytest.mark.long
def test_weak_signals_are_foreseen_where_tails_are_luck() -> None:
    shift = 0.03
    foreseen = [
        prospect(*trials(shift, 30_000, seed), TRIALS, calibrated=True).epsilon
        for seed in range(20)
    ]
    by_tails = [
        prospect(*trials(shift, 30_000, seed), TRIALS, believed=0.2).epsilon for seed in range(20)
    ]
    true = exact(shift)
    # One standard error less than the truth on average, and on average no more.
    assert 0.35 * true < np.median(foreseen) < true
    assert max(foreseen) < 1.5 * true
    # The best of many tails has far too large a forecast if its 20 % quantile is used.
    assert np.median(by_tails) > 2 * true


def test_scores_in_any_unit_promise_the_same() -> None:
    scores, labels = trials(0.1, 50_000, 1)
    promises = [
        prospect(unit * scores + 5, labels, TRIALS, calibrated=True).epsilon
        for unit in (1.0, 100.0, 1e-3)
    ]
    assert promises == pytest.approx([promises[0]] * 3, rel=1e-6)


@pytest.mark.long
def test_noise_promises_little() -> None:
    rng = np.random.default_rng(5)
    labels = np.repeat([0, 1], 30_000)
    promised = [
        prospect(rng.normal(0, 0.1, 60_000), labels, TRIALS, calibrated=True).epsilon
        for _ in range(50)
    ]
    assert np.median(promised) == 0
    assert max(promised) < 0.05


@pytest.mark.parametrize("labels", [np.zeros(100, np.int64), np.repeat([0, 1], 50)])
def test_equal_scores_promise_nothing(labels: np.ndarray) -> None:
    assert prospect(np.zeros(100), labels, TRIALS, calibrated=True).epsilon == 0


def test_a_rare_leak_is_foreseen_beside_the_calibration() -> None:
    # One output in 500 proves D'; a calibration line through all outputs does not show it.
    rng = np.random.default_rng(2)
    scores, labels = rng.normal(0, 1e-3, 100_000), np.repeat([0, 1], 50_000)
    scores[50_000:50_100] = 5.0
    assert prospect(scores, labels, 200_000, calibrated=True).epsilon > 2
