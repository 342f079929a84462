"""Groups of targets by the numbers of interactions of users and items."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from membership_cases import small_ratings, small_table  # type: ignore[import-not-found]

from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.groups import groups_of
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import Unit
from dpaudit.data.ratings import Ratings, Scale

DATA = small_ratings()


def design() -> Design:
    return Design.of(DATA, small_table(), 3)


def test_interactions_are_grouped_by_user_and_by_item() -> None:
    plan = design()
    history = plan.knowledge.history.toarray() > 0
    counts = {
        "users": history.sum(1)[DATA.user[plan.rows]],
        "items": history.sum(0)[DATA.item[plan.rows]],
    }
    groups = groups_of(plan, "interaction")
    for few, many, of in (
        ("users with few interactions", "active users", "users"),
        ("rare items", "popular items", "items"),
    ):
        low, high = counts[of][groups[few]], counts[of][groups[many]]
        middle = counts[of][~groups[few] & ~groups[many]]
        assert low.max() < high.min()
        assert not len(middle) or low.max() < middle.min() <= middle.max() < high.min()
        # A third, but for targets with equal counts.
        assert (counts[of] < low.max()).sum() < 20 <= groups[few].sum()
        assert 0 < groups[many].sum() <= 20


def test_users_are_grouped_by_their_history() -> None:
    plan = design()
    sizes = (plan.knowledge.history.toarray() > 0).sum(1)[plan.users]
    groups = groups_of(plan, "user")
    assert list(groups) == ["users with few interactions", "active users"]
    assert sizes[groups["users with few interactions"]].max() < sizes[groups["active users"]].min()


def test_groups_do_not_depend_on_the_coins_but_on_what_is_known() -> None:
    plan, other = design(), replace(design(), seed=99)
    for unit in ("interaction", "user"):
        for name, among in groups_of(plan, unit).items():
            np.testing.assert_array_equal(among, groups_of(other, unit)[name])


def with_features(**columns: list[object]) -> Ratings:
    ratings: Ratings = replace(DATA, user_features=pd.DataFrame(columns))
    return ratings


@pytest.mark.parametrize("unit", ["interaction", "user"])
def test_users_with_one_value_of_a_named_column_are_a_group(unit: Unit) -> None:
    places: list[object] = [("north", "south", None)[user % 3] for user in range(DATA.n_users)]
    plan = Design.of(with_features(place=places), small_table(groups=["place"]), 3)
    owners = plan.users if unit == "user" else DATA.user[plan.rows]
    groups = groups_of(plan, unit)
    for rest, place in enumerate(("north", "south")):
        np.testing.assert_array_equal(groups[f"place = {place}"], owners % 3 == rest)
    assert len(groups) - len(groups_of(design(), unit)) == 2


def test_fake_users_are_in_no_group() -> None:
    alike: list[object] = ["x"] * DATA.n_users
    table = small_table(units=["user"], groups=["place"], draw="fake-users")
    plan = Design.of(with_features(place=alike), table, 3)
    assert "place = x" not in groups_of(plan, "user")
    assert plan.groups["place = x"].sum() == DATA.n_users


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (DATA, "users have no features: name their table in [data.users]"),
        (with_features(age=[1.0] * DATA.n_users), "which [data.users] does not read: it has age"),
        (with_features(place=list(range(DATA.n_users))), "name a column with 10 at most"),
    ],
    ids=["no features", "another column", "too many values"],
)
def test_a_column_that_makes_no_groups_is_refused(data: Ratings, said: str) -> None:
    with pytest.raises(ConfigError, match=r"membership.groups names 'place'") as refused:
        Design.of(data, small_table(groups=["place"]), 3)
    assert said in str(refused.value)


def test_a_group_without_targets_is_left_out() -> None:
    full = Ratings.build(
        np.repeat(np.arange(60), 8), np.tile(np.arange(8), 60), np.ones(480), 60, 8, Scale(1, 1, 1)
    )
    table = small_table(units=["user"], held_out=20)
    plan = Design.of(full, table, 1)
    plan = replace(plan, held=np.empty(0, np.int64))
    assert list(groups_of(plan, "user")) == ["users with few interactions"]
