"""The most popular items, the same for everybody."""

from __future__ import annotations

import numpy as np

from dpaudit.data.interactions import Interactions, interactions_of
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.base import Deletion
from dpaudit.recommenders.most_popular import MostPopular

I32 = np.int32
# Item 0 has one rating, item 1 three, item 2 two (of them a zero), item 3 none.
USER, ITEM = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 1, 2, 1, 2])
VALUE = np.array([5.0, 1, 2, 0, 3, 4])
RATINGS = Ratings.build(USER, ITEM, VALUE, 4, 4, Scale(0, 5, 1))


def test_scores_count_interactions_and_not_their_values() -> None:
    fitted = MostPopular().fit(interactions_of(RATINGS), 1)
    users, items = np.repeat(np.arange(4, dtype=I32), 4), np.tile(np.arange(4, dtype=I32), 4)
    assert fitted.scores(users, items).reshape(4, 4).tolist() == [[1, 3, 2, 0]] * 4


def test_lists_leave_out_what_a_user_has_and_order_ties_by_item() -> None:
    fitted = MostPopular().fit(interactions_of(RATINGS), 1)
    assert fitted.recommend(np.array([3, 0, 1], I32), 4).tolist() == [
        [1, 2, 0, 3],
        [2, 3, -1, -1],
        [0, 3, -1, -1],
    ]


def test_the_seed_changes_nothing() -> None:
    users = np.arange(4, dtype=I32)
    first, second = (MostPopular().fit(interactions_of(RATINGS), seed) for seed in (1, 2))
    np.testing.assert_array_equal(first.recommend(users, 4), second.recommend(users, 4))


def test_counts_without_what_is_forgotten_are_those_of_a_training_without_it() -> None:
    kept = Interactions.of(RATINGS, np.array([True, False, True, False, True, True]))
    fitted = MostPopular().fit(interactions_of(RATINGS), 1)
    deletion = Deletion("own", kept, np.array([[0, 1], [1, 2]], I32))
    forgotten = MostPopular().forgotten(fitted, deletion, 1)
    fresh = MostPopular().fit(kept.matrix, 1)
    users, items = np.repeat(np.arange(4, dtype=I32), 4), np.tile(np.arange(4, dtype=I32), 4)
    assert forgotten is not None
    np.testing.assert_array_equal(forgotten.scores(users, items), fresh.scores(users, items))
    np.testing.assert_array_equal(
        forgotten.recommend(users[::4], 4), fresh.recommend(users[::4], 4)
    )
