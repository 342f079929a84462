"""The inference of a Sybil attack against closed forms and independent simulation."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError
from scipy import stats

from dpaudit.attacks.inference import Averaging

TRIALS = 10_000
Z = float(stats.norm.isf(5e-7))  # two sides: a rate of 1e-6


def near(rate: float, expected: float, n: int) -> bool:
    """Whether a frequency of n lies within its normal limits at a rate of 1e-6."""
    return bool(abs(rate - expected) <= Z * np.sqrt(expected * (1 - expected) / n))


def accuracy(exact: NDArray[np.float64], truth: int, scale: float, releases: int) -> float:
    """The share of correct guesses from this many releases."""
    rng = np.random.default_rng(releases)
    shown = exact[truth] + scale * rng.laplace(size=(TRIALS, releases))
    attack, count = Averaging(), np.array([releases])
    right = 0
    for row in shown:
        right += (
            attack.guess(Averaging.laplace_log_likelihood(row, exact, scale), count, 0.5)[0]
            == truth
        )
    return right / TRIALS


def test_place_and_membership_are_read_off_lists() -> None:
    lists = np.array([[4, 7, 2], [7, 1, 3], [1, 2, 3]], np.int32)
    np.testing.assert_array_equal(Averaging().outcomes(lists, 7), [1, 0, 3])
    np.testing.assert_array_equal(Averaging(reads="membership").outcomes(lists, 7), [0, 0, 1])


def test_a_contested_row_keeps_the_hidden_entry_and_sets_all_others() -> None:
    scores = np.array([2, -np.inf, 3.3, 4, 1.5, 2, -np.inf, 5], np.float32)
    row = Averaging().row(scores, 2, 3.2, 3, (1.0, 5.0))
    np.testing.assert_array_equal(
        row, np.array([3.2, -np.inf, 3.3, 3.2, 3.2, 1, -np.inf, 1], np.float32)
    )
    row = Averaging(reads="membership").row(scores, 2, 3.2, 3, (1.0, 5.0))
    np.testing.assert_array_equal(
        row, np.array([5, -np.inf, 3.3, 5, 3.2, 1, -np.inf, 1], np.float32)
    )
    # Entries are clipped to the scale.
    assert Averaging().row(scores, 2, 5.4, 3, (1.0, 5.0)).max() == 5
    assert scores[0] == 2


def test_thresholds_part_the_candidates() -> None:
    np.testing.assert_allclose(Averaging.thresholds(np.array([3.0, 1.0, 2.0, 2.0])), [1.5, 2.5])
    np.testing.assert_allclose(Averaging.thresholds(np.array([3.0, 3.0])), [3.0])


def test_the_most_likely_candidate_is_guessed_after_each_number_of_releases() -> None:
    table = np.log(np.array([[0.5, 0.3, 0.2], [0.1, 0.3, 0.6], [0.1, 0.3, 0.6]]))
    # 1: 0.5; 2: 0.05, 0.09, 0.12; 3: 0.005, 0.027, 0.072
    np.testing.assert_array_equal(Averaging().guess(table, np.array([1, 2, 3]), 0.0), [0, 2, 2])


def test_equal_candidates_are_drawn_from_uniformly() -> None:
    table = np.array([[0.0, -1.0, 0.0, 0.0], [-np.inf, -np.inf, 0.0, 0.0]])
    draws = (np.arange(12) + 0.5) / 12
    guesses = np.stack([Averaging().guess(table, np.arange(3), draw) for draw in draws])
    np.testing.assert_array_equal(np.bincount(guesses[:, 0], minlength=4), [3, 3, 3, 3])
    np.testing.assert_array_equal(np.bincount(guesses[:, 1], minlength=4), [4, 0, 4, 4])
    np.testing.assert_array_equal(np.bincount(guesses[:, 2], minlength=4), [0, 0, 6, 6])


def test_likelihood_of_values_is_laplace() -> None:
    shown, exact = np.array([0.3, -2.0, 5.0]), np.array([0.0, 1.0, 4.0])
    table = Averaging.laplace_log_likelihood(shown, exact, 0.7)
    expected = stats.laplace.logpdf(shown[:, None], exact, 0.7)
    np.testing.assert_allclose(table - table[:, :1], expected - expected[:, :1], atol=1e-12)


def test_without_noise_the_nearest_candidates_alone_are_possible() -> None:
    exact = np.array([0.0, 1.0, 1.0, 2.0])
    table = Averaging.laplace_log_likelihood(exact[1:2], exact, 0.0)
    np.testing.assert_array_equal(table, [[-np.inf, 0, 0, -np.inf]])


@pytest.mark.long
@pytest.mark.parametrize("truth", [0, 2, 4])
def test_one_release_has_the_closed_form(truth: int) -> None:
    # q = exp(−d/(2b)): 1 − q inside the scale, 1 − q/2 at its ends. Rate 1e-6 each.
    exact, scale = np.linspace(3.0, 3.4, 5), 0.08
    q = np.exp(-0.1 / (2 * scale))
    expected = 1 - q if truth == 2 else 1 - q / 2
    share = accuracy(exact, truth, scale, 1)
    assert near(share, expected, TRIALS)
    assert not near(share, expected + 0.05, TRIALS)


@pytest.mark.long
def test_many_releases_of_two_candidates_follow_the_clipped_walk() -> None:
    # The log-ratio of a release is clip(2A − f − f', −d, d)/b: simulated from its law alone.
    exact, scale, releases = np.array([0.0, 0.1]), 0.25, 15
    rng = np.random.default_rng(7)
    side, size = rng.choice([-1.0, 1.0], (TRIALS, releases)), rng.random((TRIALS, releases))
    steps = np.clip(2 * side * scale * -np.log(size) + 0.1, -0.1, 0.1)
    expected = float((steps.sum(1) > 0).mean() + (steps.sum(1) == 0).mean() / 2)
    share = accuracy(exact, 0, scale, releases)
    # A difference of two frequencies, rate 1e-6.
    assert abs(share - expected) <= Z * np.sqrt(2 * expected * (1 - expected) / TRIALS)
    assert abs(share - accuracy(exact, 0, scale, 8)) > Z * np.sqrt(0.5 / TRIALS)


def test_a_learned_law_tends_to_the_true_one() -> None:
    rng = np.random.default_rng(3)
    laws = np.array([[0.4, 0.3, 0.2, 0.1], [0.25, 0.25, 0.25, 0.25]])
    trials = np.stack([rng.choice(4, 400_000, p=law) for law in laws])
    table = Averaging.learned_log_likelihood(np.arange(4), trials)
    np.testing.assert_allclose(table[:, 0] - table[:, 1], np.log(laws[0] / laws[1]), atol=0.03)


def test_places_are_joined_to_few_bins_of_about_equal_frequency() -> None:
    trials = np.stack([np.arange(1000), np.arange(1000)])
    table = Averaging.learned_log_likelihood(np.arange(1000), trials)
    levels, counts = np.unique(table[:, 0].round(6), return_counts=True)
    assert len(levels) <= 4
    assert (np.diff(np.flatnonzero(np.diff(table[:, 0]))) >= 0).all()
    assert counts.sum() == 1000
    np.testing.assert_allclose(np.exp(table[:, 0]), 0.25, atol=0.01)


@pytest.mark.cases("count", [2, 5, 10])
def test_bins_part_candidates_whose_outcomes_never_vary(count: int) -> None:
    places = np.arange(count) * 3
    table = Averaging.learned_log_likelihood(places, np.repeat(places[:, None], 1000, axis=1))
    np.testing.assert_array_equal(table.argmax(1), np.arange(count))
    best = table.max(1)
    assert (np.sort(table, 1)[:, -2] < best - 7).all()


@pytest.mark.cases("wrong", [{"category": "late"}, {"fake_accounts": -1}, {"calibration": 3}])
def test_wrong_parameters_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Averaging(**wrong)  # type: ignore[arg-type]
