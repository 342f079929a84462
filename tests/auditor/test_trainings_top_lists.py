"""precision@k, recall@k and nDCG@k against counting by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from dpaudit.auditor.trainings import hit_rate_and_mrr, most_popular, ndcg, precision_and_recall
from dpaudit.core.errors import InputError
from dpaudit.data import SyntheticParams, generate
from dpaudit.data.ratings import Ratings, Scale


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
        shares, values = [], []
        for place, user in enumerate(users):
            mine = set(liked[kept & (liked_by == user)].tolist())
            if mine:
                hits = len(mine & set(lists[w, place].tolist()))
                shares.append(hits / k)
                values.append(hits / len(mine))
        assert precision[w] == pytest.approx(np.mean(shares))
        assert recall[w] == pytest.approx(np.mean(values))
    assert recall.max() > 0


def test_gains_of_an_example_by_hand() -> None:
    users = indices(4, 0, 2)
    lists = np.array([[[1, 2, 3], [3, 1, 7], [5, 6, 0]], [[9, 3, 7], [1, -1, -1], [0, 1, 2]]])
    # User 4 likes 3 and 9, user 0 likes 1; user 2 likes nothing and does not count.
    values = ndcg(lists.astype(np.int32), users, indices(4, 4, 0), indices(3, 9, 1))
    second, third = 1 / np.log2(3), 1 / np.log2(4)
    np.testing.assert_allclose(values, [(third / (1 + second) + second) / 2, 1])


def test_gains_agree_with_scikit_learn() -> None:
    source = np.random.default_rng(3)
    k, n_items, users = 4, 11, np.arange(20, dtype=np.int32)
    lists = np.array([[source.permutation(n_items)[:k] for _ in users] for _ in range(3)], np.int32)
    likes = source.random((20, n_items)) < 0.3
    likes[:, 0] |= ~likes.any(1)
    liked_by, liked = (column.astype(np.int32) for column in np.nonzero(likes))
    for one, value in zip(lists, ndcg(lists, users, liked_by, liked), strict=True):
        scores = np.zeros((20, n_items))
        np.put_along_axis(scores, one, np.arange(k, 0, -1.0), axis=1)
        assert value == pytest.approx(ndcg_score(likes.astype(float), scores, k=k))


def test_a_missing_item_at_the_end_of_a_list_is_nobodys() -> None:
    # −1 beside user 1 must not be read as the last item of user 0.
    lists = np.array([[[0, 1], [-1, -1]]], np.int32)
    precision, recall = precision_and_recall(lists, indices(0, 1), indices(0, 1), indices(3, 3))
    assert precision.tolist() == recall.tolist() == [0.0]


def test_lists_that_do_not_fit_are_refused() -> None:
    lists = np.zeros((1, 2, 3), np.int32)
    with pytest.raises(InputError, match="no item to find"):
        precision_and_recall(lists, indices(0, 1), indices(), indices())
    with pytest.raises(InputError, match=r"1 users .* no list"):
        precision_and_recall(lists, indices(0, 1), indices(1, 2), indices(0, 0))
    with pytest.raises(InputError, match="two lists"):
        precision_and_recall(lists, indices(1, 1), indices(1), indices(0))


def test_popular_items_are_guessed_without_a_model() -> None:
    shared = generate(SyntheticParams(n_users=30, n_items=40, mean_per_user=25))
    counts = np.bincount(shared.item, minlength=40)
    lists = most_popular(shared, np.arange(30, dtype=np.int32), 5)
    for user in (0, 3, 11):
        left = np.setdiff1d(np.arange(40), shared.profile(user).items)
        assert lists[user].tolist() == left[np.argsort(-counts[left], kind="stable")][:5].tolist()


def test_a_list_of_popular_items_that_is_short_ends_with_none() -> None:
    user, item = np.array([0, 0, 1]), np.array([0, 1, 2])
    shared = Ratings.build(user, item, np.ones(3), 2, 3, Scale())
    lists = most_popular(shared, np.array([0, 1], np.int32), 3)
    assert lists.tolist() == [[2, -1, -1], [0, 1, -1]]


def test_hit_rate_and_reciprocal_rank() -> None:
    lists = np.array([[[3, 1, 2], [0, 5, -1], [4, 4, 4]]], np.int32)
    users = np.array([0, 1, 2], np.int32)
    liked_by, liked = np.array([0, 0, 1], np.int32), np.array([1, 2, 7], np.int32)
    hit_rate, mrr = hit_rate_and_mrr(lists, users, liked_by, liked)
    # User 2 has nothing to find; user 0's first hit is second, and user 1 has none.
    assert hit_rate.tolist() == [1 / 2]
    assert mrr.tolist() == [1 / 4]
