"""What is held out, and canaries: rare items, interactions unlike their history, fake users."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import ValidationError

from dpaudit.audits.membership.config import Membership
from dpaudit.audits.membership.design import Design, chosen_rows, fake_users, held_out, likeness
from dpaudit.core.errors import DataError
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


@pytest.mark.cases("draw", ["random", "rare-items", "out-of-profile", "fake-users"])
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


@pytest.mark.cases(("count", "size"), [(2, 20), (7, 5), (8, 5), (30, 5)])
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


# What is held out.


def timed(n_users: int = 40, n_items: int = 12) -> Ratings:
    """Users with 1 to 12 interactions, at times that are shuffled within each user."""
    rng = np.random.default_rng(2)
    user = np.repeat(np.arange(n_users), 1 + np.arange(n_users) % n_items)
    item = np.concatenate([np.arange(1 + u % n_items) for u in range(n_users)])
    time = rng.permutation(len(user)).astype(float)
    ones = np.ones(len(user))
    return Ratings.build(user, item, ones, n_users, n_items, Scale(1, 1, 1), time=time)


def held(ratings: Ratings, **table: Any) -> NDArray[np.int64]:
    draw = np.random.default_rng(3).permutation(len(ratings))
    return held_out(ratings, Membership.model_validate(table), draw)


def test_the_last_of_a_user_is_held_out() -> None:
    ratings = timed()
    assert ratings.time is not None
    rows = held(ratings, hold="last", held_out=30)
    assert len(rows) == 30
    assert len(np.unique(ratings.user[rows])) == 30
    for row in rows:
        of_user = ratings.user == ratings.user[row]
        assert of_user.sum() > 1
        assert ratings.time[row] == ratings.time[of_user].max()
    with pytest.raises(DataError, match=r"36 users .*too few for"):
        held(ratings, hold="last", held_out=37)


def test_of_interactions_at_one_time_a_random_one_is_the_last() -> None:
    ratings = replace(timed(), time=np.zeros(len(timed())))
    rows = held(ratings, hold="last", held_out=36)
    assert 0 < ratings.item[rows].mean() < (ratings.n_items - 1) / 1.2


def test_all_since_a_time_is_held_out() -> None:
    ratings = timed()
    assert ratings.time is not None
    since = float(np.sort(ratings.time)[-25])
    rows = held(ratings, held_out_from=since)
    assert sorted(ratings.time[rows]) == sorted(ratings.time)[-25:]
    with pytest.raises(DataError, match=r"19 interactions .* too few"):
        held(ratings, held_out_from=float(np.sort(ratings.time)[-19]))


@pytest.mark.cases("unit", [1, 10**3, 10**6, 10**9])
def test_a_date_is_in_the_unit_of_the_times(unit: int) -> None:
    ratings = timed()
    days = np.arange(len(ratings)) % 100
    times = (1_700_006_400.0 + 86_400 * days) * unit  # 2023-11-15 and later
    table = Membership.model_validate({"held_out_from": "2024-02-13"})
    for since in (table.held_out_from, 1_707_782_400 * unit):
        rows = held(replace(ratings, time=np.asarray(times, np.float64)), held_out_from=since)
        assert sorted(rows) == [*np.flatnonzero(days >= 90)]


@pytest.mark.cases(
    "times", [[20240211, 20240212, 20240213, 20240214], [202402122359, 202402130000]]
)
def test_a_date_is_compared_with_dates_in_digits(times: list[int]) -> None:
    ratings = timed()
    clock = np.resize(np.asarray(times, np.float64), len(ratings))
    rows = held(replace(ratings, time=clock), held_out_from=1_707_782_400)
    assert sorted(rows) == [*np.flatnonzero(clock // 10 ** (len(str(times[0])) - 8) >= 20240213)]


def test_a_date_is_not_compared_with_other_numbers() -> None:
    ratings = replace(timed(), time=np.linspace(45_000, 45_400, len(timed())))
    with pytest.raises(DataError, match=r"held_out_from = 1707782400 is a date .* 45000 to 45400"):
        held(ratings, held_out_from=1_707_782_400)


def test_a_date_is_a_time() -> None:
    for date in ("1970-01-02", datetime.date(1970, 1, 2), 86400):
        assert Membership.model_validate({"held_out_from": date}).held_out_from == 86400
    with pytest.raises(ValidationError, match="'soon' is neither"):
        Membership.model_validate({"held_out_from": "soon"})
    with pytest.raises(ValidationError, match="remove held_out, or it"):
        Membership.model_validate({"held_out_from": 3, "held_out": 20})


@pytest.mark.parametrize("table", [{"hold": "last"}, {"held_out_from": 0}])
def test_data_without_times_are_refused(table: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="no times: name them"):
        held(replace(timed(), time=None), **table)


def test_no_training_has_what_is_held_out_and_no_target_is() -> None:
    ratings = timed()
    table = Membership(hold="last", held_out=20, interactions=40, rates=[0.3])
    design = Design.of(ratings, table, 1)
    assert ratings.time is not None
    assert len(design.held) == 20
    assert not np.isin(design.held, design.rows).any()
    for training in range(3):
        kept = design.kept(training)
        assert not kept[design.held].any()
        users = ratings.user[design.held]
        for user, row in zip(users, design.held, strict=True):
            of_user = kept & (ratings.user == user)
            assert (ratings.time[of_user] < ratings.time[row]).all()
