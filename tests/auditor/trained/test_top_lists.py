"""precision@k and recall@k against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.auditor.trained.top_lists import precision_and_recall
from dpaudit.core.errors import InputError


def indices(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return np.array(values, np.int32)


def test_an_example_by_hand() -> None:
    users = indices(4, 0, 2)
    lists = np.array([[[1, 2, 3], [3, 1, 7], [5, 6, 0]], [[9, 8, 7], [1, -1, -1], [0, 1, 2]]])
    # User 4 likes 3 and 9, user 0 likes 1; user 2 likes nothing and does not count.
    precision, recall = precision_and_recall(
        lists.astype(np.int32), users, indices(4, 4, 0), indices(3, 9, 1)
    )
    np.testing.assert_allclose(precision, [(1 / 3 + 1 / 3) / 2, (1 / 3 + 1 / 3) / 2])
    np.testing.assert_allclose(recall, [(1 / 2 + 1) / 2, (1 / 2 + 1) / 2])


@pytest.mark.parametrize("k", [1, 5])
def test_lists_of_many_users_in_many_trials(k: int) -> None:
    source = np.random.default_rng(k)
    users = source.permutation(30)[:20].astype(np.int32)
    lists = np.array([[source.permutation(12)[:k] for _ in users] for _ in range(4)], np.int32)
    lists[source.random(lists.shape) < 0.1] = -1
    liked_by, liked = np.nonzero(source.random((30, 12)) < 0.2)
    kept = np.isin(liked_by, users[:15])
    precision, recall = precision_and_recall(
        lists, users, liked_by[kept].astype(np.int32), liked[kept].astype(np.int32)
    )
    for w in range(4):
        shares, found = [], []
        for place, user in enumerate(users):
            mine = set(liked[kept & (liked_by == user)].tolist())
            if mine:
                hits = len(mine & set(lists[w, place].tolist()))
                shares.append(hits / k)
                found.append(hits / len(mine))
        assert precision[w] == pytest.approx(np.mean(shares))
        assert recall[w] == pytest.approx(np.mean(found))
    assert recall.max() > 0


def test_a_missing_item_at_the_end_of_a_list_is_nobodys() -> None:
    # −1 beside user 1 must not be read as the last item of user 0.
    lists = np.array([[[0, 1], [-1, -1]]], np.int32)
    precision, recall = precision_and_recall(lists, indices(0, 1), indices(0, 1), indices(3, 3))
    assert precision.tolist() == recall.tolist() == [0.0]


def test_lists_that_do_not_fit_are_refused() -> None:
    lists = np.zeros((1, 2, 3), np.int32)
    with pytest.raises(InputError, match="there is no item to find"):
        precision_and_recall(lists, indices(0, 1), indices(), indices())
    with pytest.raises(InputError, match="1 users have items to find but no list"):
        precision_and_recall(lists, indices(0, 1), indices(1, 2), indices(0, 0))
    with pytest.raises(InputError, match="two lists"):
        precision_and_recall(lists, indices(1, 1), indices(1), indices(0))
