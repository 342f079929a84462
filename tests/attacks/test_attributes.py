"""Guesses of users' attributes by logistic regression."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from dpaudit.attacks.attributes import indicators, probabilities


def test_indicators_have_the_items_of_each_list_without_padding() -> None:
    lists = np.array([[2, 0], [1, -1], [-1, -1]], np.int32)
    assert indicators(lists, 3).toarray().tolist() == [[1, 0, 1], [0, 1, 0], [0, 0, 0]]


def test_a_class_that_shows_is_guessed_from_numbers_and_from_indicators() -> None:
    classes = np.arange(60) % 3
    shown = np.eye(3)[classes]
    for seen in (shown, csr_array(shown)):
        guesses = probabilities(seen[:45], classes[:45], seen[45:], 3)
        assert (guesses.argmax(1) == classes[45:]).all()
        assert np.allclose(guesses.sum(1), 1)


def test_missing_numbers_count_as_the_mean_and_an_unseen_class_as_impossible() -> None:
    classes = np.arange(40) % 2
    shown = np.stack([classes, np.full(40, np.nan)], axis=1)
    asked = np.array([[np.nan, np.nan], [0.5, 7.0]])
    guesses = probabilities(shown, classes, asked, 3)
    assert np.allclose(guesses, [[0.5, 0.5, 0], [0.5, 0.5, 0]], atol=1e-6)
