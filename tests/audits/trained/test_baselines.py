"""Guesses without a model: means of items, and popular items."""

from __future__ import annotations

import numpy as np

from dpaudit.audits.trained.baselines import guess_means, guess_popular
from dpaudit.data import SyntheticParams, generate
from dpaudit.data.ratings import Ratings, Scale


def test_means_that_anybody_guesses() -> None:
    user, item = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 0, 1, 3])
    shared = Ratings.build(user, item, np.array([1.0, 2, 4, 3, 5]), 4, 5, Scale())
    guesses = guess_means(shared, np.array([0, 1, 2, 3], np.int32))
    np.testing.assert_allclose(guesses, [2.5, 2.5, 3.0, 5.0])
    none = shared.only(np.zeros(5, np.bool_))
    np.testing.assert_allclose(guess_means(none, np.array([0, 4], np.int32)), [3.0, 3.0])


def test_popular_items_are_guessed_without_a_model() -> None:
    shared = generate(SyntheticParams(n_users=30, n_items=40, mean_per_user=25))
    counts = np.bincount(shared.item, minlength=40)
    lists = guess_popular(shared, np.arange(30, dtype=np.int32), 5)
    for user in (0, 3, 11):
        left = np.setdiff1d(np.arange(40), shared.profile(user).items)
        assert lists[user].tolist() == left[np.argsort(-counts[left], kind="stable")][:5].tolist()


def test_a_list_of_popular_items_that_is_short_ends_with_none() -> None:
    user, item = np.array([0, 0, 1]), np.array([0, 1, 2])
    shared = Ratings.build(user, item, np.ones(3), 2, 3, Scale())
    lists = guess_popular(shared, np.array([0, 1], np.int32), 3)
    assert lists.tolist() == [[2, -1, -1], [0, 1, -1]]
