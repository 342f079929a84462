"""What a membership game decides before any training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from membership_cases import N_ITEMS, N_USERS, complete, small_ratings, small_table  # type: ignore[import-not-found]
from scipy.stats import binomtest

from dpaudit.audits.membership.design import Design
from dpaudit.core.errors import DataError
from dpaudit.data.ratings import Ratings, Scale

DATA = small_ratings()


def design(seed: int = 3, **changes: Any) -> Design:
    return Design.of(DATA, small_table(**changes), seed)


def test_held_out_and_target_interactions_are_apart_and_increasing() -> None:
    plan = design()
    assert (len(plan.held), len(plan.rows), len(plan.users)) == (40, 60, 24)
    assert (plan.count("interaction"), plan.count("user")) == (60, 24)
    assert not set(plan.held) & set(plan.rows)
    for array in (plan.held, plan.rows, plan.users, plan.observed, plan.listed):
        assert (np.diff(array) > 0).all()


def test_other_coins_have_the_same_targets_and_independent_trainings() -> None:
    plan, one, other = design(), design(coins=1), design(coins=2)
    for name in ("held", "rows", "users", "observed", "folds"):
        np.testing.assert_array_equal(getattr(plan, name), getattr(one, name))
    assert len({tuple(each.coins(0).tolist()) for each in (plan, one, other)}) == 3
    assert len({each.training_seed(0) for each in (plan, one, other)}) == 3


def test_the_held_out_interactions_of_a_user_are_in_one_fold() -> None:
    plan = design()
    owners = DATA.user[plan.held]
    assert all(len(set(plan.folds[owners == user])) == 1 for user in owners)
    assert set(plan.folds) <= set(range(20))


def test_target_users_have_no_target_interaction_and_some_history() -> None:
    plan = design()
    assert not np.isin(DATA.user[plan.rows], plan.users).any()
    assert (np.diff(plan.knowledge.history.indptr)[plan.users] > 0).all()
    assert not np.isin(plan.observed, plan.users).any()


@pytest.mark.cases("seed", range(5))
def test_no_target_is_an_observed_users_own(seed: int) -> None:
    """An observed user's list uses that user's data, whatever a claim about others' lists says."""
    plan = design(seed)
    assert len(plan.observed) == 15
    assert not np.isin(DATA.user[plan.rows], plan.observed).any()


def test_half_of_the_users_are_observed_at_most_and_all_if_only_users_are_targets() -> None:
    active = len(np.unique(DATA.user))
    assert len(design(observed_users=10_000, interactions=20).observed) == (active - 24) // 2
    assert len(design(observed_users=10_000, units=["user"]).observed) == active - 24
    assert len(design(observed_users=1).observed) == 1


@pytest.mark.parametrize(("units", "counts"), [(["interaction"], (60, 0)), (["user"], (0, 24))])
def test_one_unit_has_no_targets_of_the_other(units: list[str], counts: tuple[int, int]) -> None:
    plan = design(units=units)
    assert (len(plan.rows), len(plan.users)) == counts
    assert plan.present(8, "interaction").shape == (8, counts[0])
    assert plan.present(8, "user").shape == (8, counts[1])


def test_the_data_are_all_but_held_out_rows_and_targets_whose_coin_says_no() -> None:
    plan, every = design(), complete(DATA)
    present, users = plan.present(8, "interaction"), plan.present(8, "user")
    for training in range(8):
        expected = every.copy()
        expected[DATA.user[plan.held], DATA.item[plan.held]] = 0
        for row, here in zip(plan.rows, present[training], strict=True):
            if not here:
                expected[DATA.user[row], DATA.item[row]] = 0
        for user, here in zip(plan.users, users[training], strict=True):
            if not here:
                expected[user] = 0
        part = plan.data(training).matrix
        np.testing.assert_array_equal(part.toarray(), expected)
        assert part.shape == (N_USERS, N_ITEMS)
        assert part.nnz == (expected > 0).sum()
        assert part.has_sorted_indices


def asked(plan: Design) -> list[Any]:
    query, known = plan.query, plan.knowledge
    return [
        *(query.users, query.items, query.listed, plan.tested_users.held, plan.tested_users.others),
        *(known.history.toarray(), known.listed, known.observed),
        [plan.training_seed(training) for training in range(8)],
    ]


def test_nothing_but_the_data_depends_on_the_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    before, data, tossed = asked(design()), design().data(2).matrix.toarray(), Design.coins
    monkeypatch.setattr(Design, "coins", lambda self, training: ~tossed(self, training))
    for one, two in zip(before, asked(design()), strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(design().data(2).matrix.toarray(), data)


def test_coins_are_fair_and_independent() -> None:
    plan = design()
    coins = np.stack([plan.coins(training) for training in range(300)])
    assert binomtest(int(coins.sum()), coins.size).pvalue > 1e-3
    # Each target's coins, neighbouring targets', and neighbouring trainings'.
    assert abs(coins.mean(0) - 0.5).max() < 0.15
    for left, right in ((coins[:, 1:], coins[:, :-1]), (coins[1:], coins[:-1])):
        assert binomtest(int((left ^ right).sum()), left.size).pvalue > 1e-3
    # The seed of a training says nothing about its coins.
    odd = np.array([plan.training_seed(training) % 2 for training in range(300)], np.bool_)
    assert binomtest(int((coins ^ odd[:, None]).sum()), coins.size).pvalue > 1e-3


def test_more_trainings_keep_the_earlier_ones() -> None:
    plan = design()
    for unit in ("interaction", "user"):
        np.testing.assert_array_equal(plan.present(20, unit)[:8], plan.present(8, unit))
    seeds = [plan.training_seed(training) for training in range(200)]
    assert len(set(seeds)) == 200
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_the_run_seed_decides_all() -> None:
    one, again, other = design(3), design(3), design(4)
    np.testing.assert_array_equal(one.coins(5), again.coins(5))
    np.testing.assert_array_equal(one.rows, again.rows)
    assert not np.array_equal(one.coins(5), other.coins(5))
    assert not np.array_equal(one.rows, other.rows)


def test_the_attacker_knows_all_but_targets_and_held_out_rows() -> None:
    plan, every = design(), complete(DATA) > 0
    for rows in (plan.held, plan.rows):
        every[DATA.user[rows], DATA.item[rows]] = False
    np.testing.assert_array_equal(plan.knowledge.history.toarray(), every)
    np.testing.assert_array_equal(plan.knowledge.listed[plan.knowledge.observed], plan.observed)


def test_popularity_and_activity_are_counted_without_targets() -> None:
    plan = design()
    data, kept = plan.ratings, plan.known
    popular = np.bincount(data.item[kept], minlength=data.n_items)
    active = np.bincount(data.user[kept], minlength=data.n_users)
    known = plan.covariates("interaction")
    for rows, covariates in ((plan.rows, known.targets), (plan.held, known.population)):
        expected = np.log1p(np.stack((popular[data.item[rows]], active[data.user[rows]]), axis=1))
        np.testing.assert_allclose(covariates, expected)
    known = plan.covariates("user")
    means = [np.log1p(popular[data.item[kept & (data.user == user)]]).mean() for user in plan.users]
    np.testing.assert_allclose(known.targets, np.stack((means, np.log1p(active[plan.users])), 1))
    assert known.population.shape == (0, 2)


def test_questions_are_targets_then_held_out_then_items_of_users() -> None:
    plan = design()
    query, of = plan.query, plan.tested_users
    rows = np.concatenate((plan.rows, plan.held))
    assert query.users[:100].tolist() == DATA.user[rows].tolist()
    assert query.items[:100].tolist() == DATA.item[rows].tolist()
    assert plan.tested.values.tolist() == DATA.value[rows].tolist()
    width = of.held.shape[1]
    assert of.first == 100
    assert len(query.users) == len(query.items) == 100 + 2 * 24 * width
    for block, asked in enumerate((of.held, of.others)):
        start = 100 + block * 24 * width
        users = query.users[start : start + 24 * width].reshape(24, width)
        items = query.items[start : start + 24 * width].reshape(24, width)
        assert (users == plan.users[:, None]).all()
        assert (items == asked).all()
    had = plan.knowledge.history.toarray() > 0
    for user, held, others in zip(plan.users, of.held, of.others, strict=True):
        assert had[user, held].all()
        assert not had[user, others].any()
    # Whoever's list an observer reads is listed, once.
    assert set(query.listed) == set(DATA.user[rows]) | set(plan.users) | set(plan.observed)


@pytest.mark.cases("most", [None, 600])
def test_whoever_asks_for_rows_knows_members_of_every_training_and_no_targets(
    most: int | None,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if most is not None:
            patch.setattr("dpaudit.audits.membership.design._MOST_SCORES", most)
        plan = design()
        of = plan.questions
    every = np.stack([complete(plan.data(training).ratings) for training in range(8)])
    assert (every[:, of.members.users, of.members.items] == of.members.values).all()
    assert len(of.members.users) > 100
    assert not np.isin(of.members.users, plan.users).any()
    assert not np.isin(of.tested.users[of.outside], plan.users).any()
    outside = of.tested.users[of.outside], of.tested.items[of.outside]
    assert not every[:, *outside].any()
    assert (complete(DATA)[of.histories.users, of.histories.items] == of.histories.values).all()
    users, _ = of.asked
    size = len(of.members.users)
    assert users[:size].tolist() == of.members.users.tolist()
    if most is None:  # no user without interactions, as some models know none of these
        assert of.rows.tolist() == [user for user in range(N_USERS) if user != 7]
        assert len(users) == size + (N_USERS - 1) * N_ITEMS
        return
    assert size < len(users) <= size + most
    assert not np.isin(of.rows, plan.users).any()
    for pairs in (of.tested, of.histories, of.members):
        assert np.isin(pairs.users, of.users).all()
        assert np.isin(pairs.items, of.columns).all()


def test_a_user_with_every_item_is_asked_about_their_own_alone() -> None:
    full = Ratings.build(
        np.repeat(np.arange(50), 8), np.tile(np.arange(8), 50), np.ones(400), 50, 8, Scale(1, 1, 1)
    )
    table = small_table(units=["user"], users=20, held_out=20, observed_users=5)
    of = Design.of(full, table, 1).tested_users
    assert of.others.shape == of.held.shape
    assert (of.others < 8).all()


def test_lists_are_no_longer_than_the_items() -> None:
    assert design(k=1000).query.k == N_ITEMS


@pytest.mark.cases(
    ("changes", "said"),
    [
        ({"interactions": 500}, "held_out = 40 and membership.interactions = 500"),
        ({"units": ["user"], "held_out": 600, "interactions": 500}, "held_out = 600, together"),
        ({"users": 40}, "59 users have ratings, too few for membership.users = 40"),
        ({"interactions": 300, "observed_users": 15}, "neither targets nor observed have"),
    ],
)
def test_too_few_data_are_refused_with_the_settings_to_lower(
    changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataError, match=said) as caught:
        design(**changes)
    assert "lower" in str(caught.value)


def test_surrogates_say_what_cheap_models_without_the_target_predict() -> None:
    design = Design.of(DATA, small_table(), 3)
    plain, helped = (design.covariates("interaction", surrogates=one) for one in (False, True))
    assert (plain.surrogates, helped.surrogates) == (0, 1)
    np.testing.assert_array_equal(plain.targets, helped.targets[:, :-1])
    scores = np.concatenate((helped.targets[:, -1], helped.population[:, -1]))
    assert np.isfinite(scores).all()
    assert np.ptp(scores) > 0
    # No training of the audit, and none of its coins, decides them.
    assert design.covariates("user", surrogates=True).surrogates == 0
