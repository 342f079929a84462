"""Canaries: rare items, interactions unlike their history, and fake users."""

from __future__ import annotations

import numpy as np
import pytest

from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.targets import chosen_rows, fake_users, likeness
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


@pytest.mark.parametrize("draw", ["rare-items", "out-of-profile"])
def test_canaries_are_rarer_or_less_alike_than_random_targets(draw: str) -> None:
    ratings = data()
    counts, alike = np.bincount(ratings.item), likeness(ratings)
    rows, others = (
        Design.of(ratings, Membership(draw=name, interactions=45, held_out=20, rates=[0.1]), 1).rows
        for name in (draw, "random")
    )
    number = counts[ratings.item] if draw == "rare-items" else alike
    assert number[rows].mean() < 0.8 * number[others].mean()


@pytest.mark.parametrize("draw", ["rare-items", "out-of-profile"])
def test_canaries_come_in_rounds_that_have_no_user_and_no_item_twice(draw: str) -> None:
    ratings = data()
    able = np.random.default_rng(3).permutation(len(ratings))
    sizes = [len(set(column.tolist())) for column in (ratings.user, ratings.item)]
    rows = chosen_rows(ratings, able, draw, 20)
    for column in (ratings.user, ratings.item):
        assert len(set(column[rows].tolist())) == 20
    # So many that every user and item comes: no user has a third before each item had a first.
    many = chosen_rows(ratings, able, draw, 2 * max(sizes))
    assert set(rows) < set(many)
    assert len(set(many.tolist())) == len(many) == 2 * max(sizes)
    assert set(chosen_rows(ratings, able, draw, len(able))) == set(able)


def test_the_first_round_has_the_rarest_items() -> None:
    """Greedy: whoever is left out is no rarer than a chosen one of the same user or item."""
    ratings = data()
    counts = np.bincount(ratings.item)[ratings.item]
    rows = chosen_rows(ratings, np.arange(len(ratings)), "rare-items", 20)
    last = counts[rows].max()
    for row in np.setdiff1d(np.flatnonzero(counts < last), rows):
        same = (ratings.user[rows] == ratings.user[row]) | (ratings.item[rows] == ratings.item[row])
        assert counts[rows][same].min() <= counts[row]


@pytest.mark.parametrize("draw", ["random", "rare-items", "out-of-profile", "fake-users"])
def test_the_seed_chooses_the_targets_and_no_coin_does(draw: str) -> None:
    ratings = data()
    unit = "user" if draw == "fake-users" else "interaction"
    few = {"interactions": 30, "users": 25, "held_out": 20, "rates": [0.3]}
    table = Membership(draw=draw, units=[unit], trainings=3, **few)
    same, longer, other = (
        Design.of(ratings, table.model_copy(update={"trainings": trainings}), seed)
        for trainings, seed in ((3, 1), (50, 1), (3, 2))
    )
    first = Design.of(ratings, table, 1)
    for design in (same, longer):
        np.testing.assert_array_equal(design.rows, first.rows)
        np.testing.assert_array_equal(design.ratings.item, first.ratings.item)
    changed = other.ratings.item if unit == "user" else other.rows
    assert not np.array_equal(changed, first.ratings.item if unit == "user" else first.rows)
    assert len(set(map(bytes, (first.coins(t) for t in range(8))))) == 8


def test_fake_users_leave_real_rows_as_they_are() -> None:
    ratings = data()
    grown = fake_users(ratings, 7, seed=3)
    assert grown.n_users == 67
    for name in ("user", "item", "value"):
        np.testing.assert_array_equal(getattr(grown, name)[: len(ratings)], getattr(ratings, name))


@pytest.mark.parametrize(("count", "size"), [(2, 20), (7, 5), (8, 5), (30, 5)])
def test_fake_users_share_no_item_as_long_as_the_items_suffice(count: int, size: int) -> None:
    """40 items; the median user has about 20."""
    ratings = data()
    grown = fake_users(ratings, count, seed=3)
    sizes = np.diff(grown.by_user.start)[60:]
    median = int(np.median(np.diff(ratings.by_user.start)))
    assert sizes.tolist() == [min(size, median)] * count
    times = np.bincount(grown.item[len(ratings) :], minlength=40)
    assert times.max() == -(-count * sizes[0] // 40)


def test_only_fake_users_are_decided_by_coins() -> None:
    ratings = data()
    table = Membership(draw="fake-users", units=["user"], users=30, held_out=20, rates=[0.3])
    design = Design.of(ratings, table, 1)
    assert design.users.tolist() == list(range(60, 90))
    for training in range(4):
        inside = design.data(training).matrix
        assert inside[:60].nnz == len(ratings) - 20
        present = np.diff(inside.indptr)[60:] > 0
        np.testing.assert_array_equal(present, design.coins(training))


def test_fake_users_need_the_unit_user() -> None:
    with pytest.raises(ValueError, match="set units"):
        Membership(draw="fake-users")
