"""Hidden interactions from published factors: against brute force, and of models that hold them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership.features import Known, Pairs
from dpaudit.attacks.membership.reconstruction import reconstructed

N, M, D, K = 40, 25, 12, 4
Mask = NDArray[np.bool_]


def case(seed: int = 0) -> tuple[Known, Pairs, Mask, Mask]:
    """What is known, hidden pairs and their coins, and the data of the training."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(N, 3)) @ rng.normal(size=(3, M))
    every = taste + rng.normal(size=(N, M)) > 0.5
    users, items = np.nonzero(every & (rng.random((N, M)) < 0.3))
    present = rng.random(len(users)) < 0.5
    had = every.copy()
    had[users, items] = False
    nobody = np.zeros(0, np.int32)
    known = Known(csr_array(had.astype(np.float64)), nobody, nobody)
    trained = had.copy()
    trained[users[present], items[present]] = True
    hidden = Pairs(users.astype(np.int32), items.astype(np.int32), np.ones(len(users), np.float32))
    return known, hidden, present, trained


def factors(trained: Mask) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The leading singular vectors of the data: of the items, and of the users."""
    u, s, v = np.linalg.svd(trained.astype(np.float64), full_matrices=False)
    return v[:D].T.astype(np.float32), (u * s)[:, :D].astype(np.float32)


def test_shares_are_those_of_a_loop_over_users() -> None:
    known, hidden, present, trained = case()
    items, users = factors(trained)
    had = known.history.toarray() > 0
    scale = items.astype(float) / np.sqrt(np.mean((items.astype(float) ** 2).sum(1)))
    # Weighted least squares of the docstring, with the ridge as further rows.
    fits = np.zeros((N, D))
    for user in range(N):
        weight = np.sqrt(np.where(had[user], 2.0, 1.0))
        rows = np.concatenate((scale * weight[:, None], np.sqrt(0.1) * np.eye(D)))
        fits[user] = np.linalg.lstsq(rows, np.concatenate((had[user] * weight, np.zeros(D))))[0]
    expected = []
    for vectors in (fits, users.astype(float)):
        scores = np.where(had, -np.inf, vectors @ scale.T)
        lists = np.argsort(-scores, axis=1)[:, :K]
        listed = (lists[hidden.users] == hidden.items[:, None]).any(1)
        expected.append([listed[present].mean(), listed[~present].mean()])
    owners = np.unique(hidden.users)
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (users, fits)]
    named = (unit[0][owners] @ unit[1][owners].T).argmax(1) == np.arange(len(owners))
    expected.append([named.mean(), 1 / len(owners)])
    shares = reconstructed(items, users, known, hidden, present, K)
    assert shares == pytest.approx(np.array(expected))
    for present_share, absent_share in shares:
        assert present_share > absent_share + 0.1
    # What factors are multiplied with shows nothing.
    assert reconstructed(8 * items, users, known, hidden, present, K) == pytest.approx(shares)


def test_factors_of_data_without_any_target_list_both_alike() -> None:
    known, hidden, _, _ = case(1)
    items, users = factors(known.history.toarray() > 0)
    coins = np.random.default_rng(2).random((100, len(hidden.users))) < 0.5
    shares = [reconstructed(items, users, known, hidden, some, K)[:2] for some in coins]
    gaps = np.array(shares)[:, :, 0] - np.array(shares)[:, :, 1]
    assert np.abs(gaps.mean(0)).max() < 0.02


def test_equal_scores_are_ordered_at_random() -> None:
    known, hidden, present, _ = case()
    same = np.ones((M, D), np.float32)
    shares = reconstructed(same, np.zeros((N, D), np.float32), known, hidden, present, K)
    left = M - np.diff(known.history.indptr)[hidden.users]
    for way in shares[:2]:
        assert way == pytest.approx([np.mean(K / left[present]), np.mean(K / left[~present])])
    assert shares[2] == pytest.approx([1 / len(np.unique(hidden.users))] * 2)


def test_without_users_factors_or_without_both_coins_there_is_nothing() -> None:
    known, hidden, present, trained = case()
    items, users = factors(trained)
    shares = reconstructed(items, None, known, hidden, present, K)
    assert np.isfinite(shares[0]).all()
    assert np.isnan(shares[1:]).all()
    # Vectors of another length are no factors of these items.
    assert np.isnan(reconstructed(items, users[:, 1:], known, hidden, present, K)[1:]).all()
    for coins in (np.zeros_like(present), np.ones_like(present)):
        assert np.isnan(reconstructed(items, users, known, hidden, coins, K)).all()


def test_of_many_users_some_are_attacked() -> None:
    count = 1500
    history = csr_array(np.eye(M)[np.arange(count) % M])
    known = Known(history, np.zeros(0, np.int32), np.zeros(0, np.int32))
    users = np.arange(count, dtype=np.int32)
    items = ((users + 1) % M).astype(np.int32)
    hidden = Pairs(users, items, np.ones(count, np.float32))
    vectors = np.eye(M, dtype=np.float32)
    shares = reconstructed(vectors, vectors[items], known, hidden, users % 2 == 0, 1)
    # The published vector of each user is that of the hidden item.
    assert shares[1].tolist() == [1, 1]
    assert shares[2, 1] == pytest.approx(1 / 1000)
