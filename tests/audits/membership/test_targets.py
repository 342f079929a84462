"""Canaries: rare items, interactions unlike their history, and fake users."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.targets import fake_users, likeness
from dpaudit.data.interactions import interactions_of
from dpaudit.data.ratings import Ratings, Scale


def data(seed: int = 0) -> Ratings:
    rng = np.random.default_rng(seed)
    popular = np.linspace(0.9, 0.05, 40)
    user, item = np.nonzero(rng.random((60, 40)) < popular)
    return Ratings.build(
        user, item, rng.integers(1, 6, len(user)).astype(np.float32), 60, 40, Scale(1, 5, 1)
    )


def test_likeness_is_the_mean_cosine_with_the_other_items() -> None:
    ratings = data()
    x = interactions_of(ratings).toarray() > 0
    unit = x / np.sqrt(x.sum(0))
    cosines = unit.T @ unit
    values = likeness(ratings)
    for row in range(0, len(ratings), 37):
        items = np.flatnonzero(x[ratings.user[row]])
        others = items[items != ratings.item[row]]
        assert values[row] == pytest.approx(cosines[ratings.item[row], others].mean())


def test_canaries_are_rarer_and_less_alike_than_random_targets() -> None:
    ratings = data()
    counts, alike = np.bincount(ratings.item), likeness(ratings)
    rows = {
        draw: Design.of(
            ratings, Membership(draw=draw, interactions=80, held_out=20, rates=[0.1]), 1
        ).rows
        for draw in ("random", "rare-items", "out-of-profile")
    }
    assert (
        counts[ratings.item[rows["rare-items"]]].mean()
        < 0.5 * counts[ratings.item[rows["random"]]].mean()
    )
    assert alike[rows["out-of-profile"]].max() < alike[rows["random"]].mean()


def test_fake_users_leave_real_rows_as_they_are() -> None:
    ratings = data()
    grown = fake_users(ratings, 7, seed=3)
    assert grown.n_users == 67
    for name in ("user", "item", "value"):
        np.testing.assert_array_equal(getattr(grown, name)[: len(ratings)], getattr(ratings, name))
    assert np.all(np.diff(grown.by_user.start)[60:] >= 5)
    rare = np.argsort(np.bincount(ratings.item))[:20]
    assert np.isin(grown.item[len(ratings) :], rare).all()


def test_only_fake_users_are_decided_by_coins() -> None:
    ratings = data()
    table = Membership(draw="fake-users", units=["user"], users=30, held_out=20, rates=[0.3])
    design = Design.of(ratings, table, 1)
    assert design.users.tolist() == list(range(60, 90))
    for training in range(4):
        inside = design.data(training)
        assert inside[:60].nnz == len(ratings) - 20
        present = np.diff(inside.indptr)[60:] > 0
        np.testing.assert_array_equal(present, design.coins(training))


def test_fake_users_need_the_unit_user() -> None:
    with pytest.raises(ValueError, match="set units"):
        Membership(draw="fake-users")
