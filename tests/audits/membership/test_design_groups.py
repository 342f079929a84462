"""Groups of targets by the numbers of interactions of users and items."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest
from membership_cases import small_ratings, small_table  # type: ignore[import-not-found]

from dpaudit.audits.membership.design import Design, batches, groups_of
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import Unit
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.recommenders.base import Answer, Deletion, Query, Trainable
from dpaudit.recommenders.forgetting import Forgetting

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


@pytest.mark.cases(
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


@dataclass(frozen=True)
class Asked(Trainable):
    """Keeps the requests to forget that it got."""

    requests: list[Deletion] = field(default_factory=list)

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        raise AssertionError("nothing is to be forgotten")

    def answer_without(
        self, interactions: Interactions, requests: Sequence[Deletion], seed: int, query: Query
    ) -> Answer:
        self.requests[:] = requests
        return Answer(np.empty(0, np.float32), np.empty((0, 1), np.int32), None)


@pytest.mark.parametrize("unit", ["interaction", "user"])
def test_the_first_and_the_last_tenth_are_who_these_requests_delete(unit: Unit) -> None:
    plan, asked = design(), Asked()
    forgets = Forgetting(asked, "own", plan.targets, 20)
    groups = batches(plan, forgets, unit, [3, 5])
    of_rows = unit == "interaction"
    pairs = np.stack((DATA.user, DATA.item), axis=1)[plan.rows].tolist()
    of = list(map(tuple, pairs)) if of_rows else plan.users.tolist()
    for row, training in enumerate((3, 5)):
        forgets.answer(plan.data(training), plan.training_seed(training), plan.query)
        assert len(asked.requests) == 20
        present = plan.present(8, unit)[training]
        for name, part in (("first", slice(0, 2)), ("last", slice(18, 20))):
            gone = {tuple(pair) for one in asked.requests[part] for pair in one.gone.tolist()}
            keys = gone if of_rows else {user for user, _ in gone}
            deleted = np.array([key in keys for key in of])
            assert 0 < deleted.sum() < present.sum()
            expected = deleted | ~present
            np.testing.assert_array_equal(groups[f"{name} tenth deleted"][row], expected)


def test_few_requests_have_no_tenths() -> None:
    plan = design()
    assert not batches(plan, Forgetting(Asked(), "own", plan.targets, 9), "user", [3])
    assert not batches(plan, Asked(), "user", [3])
