"""Errors of predictions, their limits, and guesses without a model."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audits.trained.subject import guess_means, largest_errors, mean_errors
from dpaudit.data.folds import random_folds
from dpaudit.data.ratings import Ratings, Scale


def test_means_that_anybody_guesses() -> None:
    user, item = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 1, 3])
    shared = Ratings.build(user, item, np.array([1.0, 2, 4, 3, 5]), 4, 5, Scale())
    guesses = guess_means(shared, np.array([0, 1, 2, 3], np.int32))
    np.testing.assert_allclose(guesses, [2.5, 2.5, 3.0, 5.0])
    none = shared.only(np.zeros(5, np.bool_))
    np.testing.assert_allclose(guess_means(none, np.array([0, 4], np.int32)), [3.0, 3.0])


@pytest.mark.cases("trials", [0, 1, 5])
@pytest.mark.cases("layout", ["C", "F", "broadcast"])
def test_errors_do_not_depend_on_how_many_trials_are_in_memory(trials: int, layout: str) -> None:
    source = np.random.default_rng(trials)
    values = source.integers(1, 6, 70_001).astype(np.float32)
    shown = source.normal(3, 1, (trials, len(values))).astype(np.float32)
    if layout == "F":
        shown = np.asfortranarray(shown)
    if layout == "broadcast":
        shown = np.broadcast_to(source.normal(3, 1, len(values)), shown.shape)
    away = shown.astype(np.float64) - values
    expected = np.stack([np.sqrt(np.mean(away**2, axis=1)), np.mean(abs(away), axis=1)], axis=1)
    np.testing.assert_array_equal(mean_errors(shown, values), expected)


def test_no_prediction_on_the_scale_errs_by_more() -> None:
    source = np.random.default_rng(2)
    users, items = np.nonzero(source.random((9, 8)) < 0.7)
    values = source.choice([0.5, 1.5, 2.0, 3.5], len(users)).astype(np.float32)
    ratings = Ratings.build(users, items, values, 9, 8, Scale(0.5, 3.5, 0.5))
    fold = random_folds(ratings, 3, 1)[0]
    most = largest_errors(fold)
    farther = np.maximum(fold.values - 0.5, 3.5 - fold.values)
    assert most == pytest.approx([np.sqrt((farther**2).mean()), farther.mean()])
    shown = source.uniform(0.5, 3.5, (200, len(fold.values)))
    assert (mean_errors(shown, fold.values) <= most).all()
    worst = np.where(fold.values > 2, 0.5, 3.5)[None]
    assert mean_errors(worst, fold.values)[0] == pytest.approx(most)
