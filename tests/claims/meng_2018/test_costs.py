"""The costs of an iteration of PrivSR, by separate counts."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.claims.meng_2018 import costs as privsr_costs


def test_the_rating_form_costs_what_is_claimed_and_the_ranking_form_more() -> None:
    assert privsr_costs.ratings_of_an_iteration(0) is None
    found = privsr_costs.pairs_of_an_iteration(0)
    assert found is not None
    assert "4975 triples" in found
    assert "1000 vectors are submitted" in found


def test_vectors_of_a_small_data_set() -> None:
    held = np.array([[True, True], [True, False]])
    friends = np.array([[False, True], [True, False]])
    sensitive = np.array([[True, False], [False, False]])
    recommender, at_user = privsr_costs._vectors(held, friends, sensitive)
    # Three submissions, one scale for each kind of each item's raters, two updates.
    assert recommender == 3 + 3 + 2
    # Submissions with their scales, messages sent and received with theirs, gradient terms, update.
    assert at_user.tolist() == [4 + 4 + 2 + 1, 2 + 4 + 1 + 1]


def test_a_cost_that_grows_with_users_times_items_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = privsr_costs._vectors

    def every_item(
        held: privsr_costs.Held, friends: privsr_costs.Held, sensitive: privsr_costs.Held
    ) -> object:
        recommender, at_user = real(held, friends, sensitive)
        return recommender + 4 * held.size, at_user

    monkeypatch.setattr(privsr_costs, "_vectors", every_item)
    assert privsr_costs.ratings_of_an_iteration(0) is not None
