"""Test the reconstruction of purchases from a released ranking and shared purchases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize

from dpaudit.attacks.reconstruction import RankingReconstruction
from dpaudit.auditor.trainings import precision_and_recall
from dpaudit.core.errors import InputError
from dpaudit.core.releases import ItemFactors
from dpaudit.data.ratings import Ratings, Scale

PURCHASES = Scale(1, 1, 1)
N, M, D = 40, 60, 3
EVERYBODY = np.arange(N, dtype=np.int32)
Numbers = NDArray[np.float64]


def drawn(seed: int = 0, held_each: int = 12) -> tuple[ItemFactors, Ratings]:
    """Two trials; each user holds the items that the first trial's V ranks highest for them."""
    source = np.random.default_rng(seed)
    factors = np.zeros((2, M, D + 1), np.float32)
    factors[:, :, :D] = source.normal(size=(2, M, D))
    users = source.normal(size=(N, D))
    best = np.argsort(-(users @ factors[0, :, :D].T.astype(np.float64)), axis=1)[:, :held_each]
    user = np.repeat(np.arange(N), held_each)
    sensitive = source.random(len(user)) < 0.4
    sensitive[user == 0] = True  # the first user shares nothing
    ratings = Ratings.build(
        user, best.ravel(), np.ones(len(user), np.float32), N, M, PURCHASES, sensitive=sensitive
    )
    return ItemFactors(factors, 0.0), ratings


def shared(ratings: Ratings) -> Ratings:
    return ratings.only(~ratings.kept_private)


def kept(ratings: Ratings) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    rows = ratings.kept_private
    return ratings.user[rows], ratings.item[rows]


def recall_of(attack: RankingReconstruction, release: ItemFactors, ratings: Ratings) -> Numbers:
    """Recall of the private items in each trial."""
    lists = attack.lists(release, shared(ratings), EVERYBODY, 8, ratings)
    return precision_and_recall(lists, EVERYBODY, *kept(ratings))[1]


def test_from_the_model_that_made_the_purchases_they_are_recovered() -> None:
    release, ratings = drawn()
    attack = RankingReconstruction(ridge=0.01, average=False)
    recall, stranger = recall_of(attack, release, ratings)
    # Of some 48 items not shared 8 are listed: by chance a sixth.
    assert recall > 0.7
    assert stranger < 0.35


@pytest.mark.cases("negatives", ["others", "not-held"])
@pytest.mark.cases("average", [False, True])
def test_fits_are_the_maximum_of_equation_22_with_a_ridge(negatives: Any, average: bool) -> None:
    release, ratings = drawn(1)
    attack = RankingReconstruction(ridge=0.3, average=average, negatives=negatives)
    open_ = shared(ratings)
    known = open_ if negatives == "others" else ratings
    factors = release.factors[0].astype(np.float64)
    factors[:, -1] = np.linspace(-1, 1, M)  # a model may have biases

    def fitted(user: int, centre: Numbers) -> Numbers:
        liked = open_.profile(user).items
        others = np.setdiff1d(np.arange(M), known.profile(user).items)

        def loss(u: Numbers) -> float:
            scores = factors[:, :-1] @ u + factors[:, -1]
            margins = scores[liked][:, None] - scores[others]
            wrong = np.logaddexp(0, -margins).mean(1).sum()
            return float(wrong + 0.15 * ((u - centre) ** 2).sum())

        return np.asarray(minimize(loss, centre, tol=1e-10).x)

    centre = np.zeros(D)
    sharing = np.flatnonzero(np.bincount(open_.user, minlength=N))
    assert 0 not in sharing
    if average:
        centre = np.mean([fitted(int(user), centre) for user in sharing], axis=0)
    wanted = attack._fits(open_, known, EVERYBODY)(factors)
    for user in (1, 7, 30):
        np.testing.assert_allclose(wanted[user], fitted(user, centre), atol=1e-4)
    np.testing.assert_allclose(wanted[0], centre, atol=1e-5)
    assert abs(wanted[1]).max() > 0.3


@pytest.mark.cases("size", [1, 3, 40])
def test_who_is_wanted_alone_is_fitted_as_with_all(size: int) -> None:
    release, ratings = drawn(6)
    attack, open_ = RankingReconstruction(), shared(ratings)
    factors = release.factors[0].astype(np.float64)
    whole = attack._fits(open_, open_, EVERYBODY)(factors)
    some = EVERYBODY[::-1][:size]
    np.testing.assert_allclose(attack._fits(open_, open_, some)(factors), whole[some], atol=1e-9)


def test_lists_hold_the_best_of_what_is_not_shared() -> None:
    release, ratings = drawn(2)
    attack, open_ = RankingReconstruction(), shared(ratings)
    users = np.array([5, 0, 9], np.int32)
    lists = attack.lists(release, open_, users, M, None)
    assert lists.shape == (2, 3, M)
    factors = release.factors[1].astype(np.float64)
    fitted = attack._fits(open_, open_, users)(factors)
    for place, user in enumerate(users):
        mine = open_.profile(int(user)).items
        left = np.setdiff1d(np.arange(M), mine)
        order = left[np.argsort(-(factors[left, :D] @ fitted[place]))]
        assert lists[1, place].tolist() == order.tolist() + [-1] * len(mine)


@pytest.mark.parametrize("seed", [0, 1])
def test_who_knows_what_is_shared_alone_never_looks_at_the_rest(seed: int) -> None:
    release, ratings = drawn(seed)
    open_, users = shared(ratings), EVERYBODY[5:9]
    attack = RankingReconstruction()
    without = attack.lists(release, open_, users, 6)
    np.testing.assert_array_equal(attack.lists(release, open_, users, 6, ratings), without)
    oracle = replace(attack, negatives="not-held")
    assert (oracle.lists(release, open_, users, 6, ratings) != without).any()
    with pytest.raises(InputError, match="give held"):
        oracle.lists(release, open_, users, 6)


@pytest.mark.long
def test_not_held_reads_the_answer_even_from_a_model_that_knows_nothing() -> None:
    gains = []
    for seed in range(8):
        _, ratings = drawn(seed)
        source = np.random.default_rng(seed + 100)
        noise = np.zeros((1, M, 25), np.float32)
        noise[:, :, :24] = source.normal(size=(1, M, 24))
        plain, oracle = (
            recall_of(RankingReconstruction(negatives=n), ItemFactors(noise, 0.0), ratings)[0]
            for n in ("others", "not-held")
        )
        gains.append(oracle - plain)
    # Eight lists of noise of which each is better with the oracle: 2^-8 by chance, and far apart.
    assert min(gains) > 0
    assert np.mean(gains) > 0.05


def test_of_many_negatives_some_are_drawn_for_each_user() -> None:
    release, ratings = drawn(3)
    open_ = shared(ratings)
    few = RankingReconstruction(most=20)
    mine = few._drawn(open_, 4)
    assert len(np.unique(mine)) == 20
    assert not np.isin(mine, open_.profile(4).items).any()
    np.testing.assert_array_equal(mine, few._drawn(open_, 4))
    assert not np.array_equal(mine, RankingReconstruction(most=20, seed=1)._drawn(open_, 4))
    lists = few.lists(release, open_, EVERYBODY[:3], 5)
    np.testing.assert_array_equal(few.lists(release, open_, EVERYBODY[1:2], 5)[:, 0], lists[:, 1])
    recall = recall_of(replace(few, ridge=0.01, average=False), release, ratings)[0]
    assert recall > 0.6


def test_factors_of_any_size_are_fitted() -> None:
    release, ratings = drawn(5)
    for size in (1e-3, 1e3):
        scaled = ItemFactors((release.factors * size).astype(np.float32), 0.0)
        for ridge in (1e-6, 1.0):
            attack = RankingReconstruction(ridge=ridge, average=False)
            lists = attack.lists(scaled, shared(ratings), EVERYBODY[:5], 5)
            assert (lists >= 0).all()
