"""Guesses without a model: means of items."""

from __future__ import annotations

import numpy as np

from dpaudit.audits.trained.baselines import guess_means
from dpaudit.data.ratings import Ratings, Scale


def test_means_that_anybody_guesses() -> None:
    user, item = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 1, 3])
    shared = Ratings.build(user, item, np.array([1.0, 2, 4, 3, 5]), 4, 5, Scale())
    guesses = guess_means(shared, np.array([0, 1, 2, 3], np.int32))
    np.testing.assert_allclose(guesses, [2.5, 2.5, 3.0, 5.0])
    none = shared.only(np.zeros(5, np.bool_))
    np.testing.assert_allclose(guess_means(none, np.array([0, 4], np.int32)), [3.0, 3.0])
