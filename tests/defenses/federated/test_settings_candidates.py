"""The candidates of a federated training: the items for which each user may submit."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.data import Ratings, Scale
from dpaudit.data.neighbors import (
    RatingAdded,
    RatingRemoved,
    RatingReplaced,
    UserRemoved,
    UserReplaced,
    apply,
)
from dpaudit.data.ratings import from_profiles
from dpaudit.defenses.federated.settings import Candidates

STARS = Scale()
ONE_IN_A_MILLION = 1e-6
COLUMNS = ("start", "users", "items", "values", "made_up", "real")


def drawn(seed: int = 0, n_users: int = 30, n_items: int = 25, share: float = 0.3) -> Ratings:
    """The first user rated nothing, the second everything."""
    source = np.random.default_rng(seed)
    rated = source.random((n_users, n_items)) < share
    rated[0], rated[1] = False, True
    user, item = np.nonzero(rated)
    value = source.integers(1, 6, len(user)).astype(np.float32)
    return Ratings.build(user, item, value, n_users, n_items, STARS)


def of_user(candidates: Candidates, user: int) -> slice:
    return slice(int(candidates.start[user]), int(candidates.start[user + 1]))


def assert_equal(a: Candidates, b: Candidates, but: tuple[str, ...] = ()) -> None:
    for name in set(COLUMNS) - set(but):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.cases("density", [0.0, 0.3, 0.5, 0.75, 0.99])
def test_fakes_are_the_stated_share_of_a_users_candidates(density: float) -> None:
    ratings = drawn()
    candidates = Candidates.of(ratings, ratings, density, 3)
    assert (candidates.n_users, candidates.n_items, candidates.scale) == (30, 25, STARS)
    assert len(candidates) == len(candidates.items) == candidates.start[-1]
    np.testing.assert_array_equal(candidates.counts, np.diff(candidates.start))
    for user in range(30):
        mine, rows = ratings.profile(user), of_user(candidates, user)
        others = min(25 - len(mine), round(len(mine) * density / (1 - density)))
        assert candidates.counts[user] == len(mine) + others
        assert (candidates.users[rows] == user).all()
        assert (np.diff(candidates.items[rows]) > 0).all()
        np.testing.assert_array_equal(candidates.items[rows][candidates.real[rows]], mine.items)
        np.testing.assert_array_equal(candidates.values[rows][candidates.real[rows]], mine.values)
    assert candidates.counts[0] == 0
    assert candidates.counts[1] == 25
    if density == 0.5:
        assert candidates.real[candidates.users > 1].mean() == pytest.approx(0.5, abs=0.02)


def test_they_are_a_function_of_the_data_and_the_draw() -> None:
    ratings = drawn()
    candidates, again = (Candidates.of(ratings, ratings, 0.5, 3) for _ in range(2))
    assert_equal(candidates, again)
    other = Candidates.of(ratings, ratings, 0.5, 4)
    np.testing.assert_array_equal(other.start, candidates.start)
    assert (other.items != candidates.items).any()
    assert (other.made_up != candidates.made_up).any()


@pytest.mark.parametrize("mean", [None, 2.5])
def test_a_users_draws_do_not_depend_on_what_others_rated(mean: float | None) -> None:
    ratings = drawn()
    mine = ratings.profile(7)
    for seed, share in ((1, 0.1), (2, 0.7)):
        others = drawn(seed, share=share)
        theirs = UserReplaced(7, mine.items, mine.values)
        here, there = (Candidates.of(r, r, 0.5, 3, mean) for r in (ratings, apply(others, theirs)))
        a, b = of_user(here, 7), of_user(there, 7)
        np.testing.assert_array_equal(here.items[a], there.items[b])
        np.testing.assert_array_equal(here.made_up[a], there.made_up[b])
        np.testing.assert_array_equal(here.real[a], there.real[b])
        # The stand-ins alone are others' ratings.
        assert (here.values[a] != there.values[b])[~here.real[a]].any()
        rest = of_user(here, 9), of_user(there, 9)
        assert not np.array_equal(here.items[rest[0]], there.items[rest[1]])


@pytest.mark.long
def test_what_a_user_has_not_rated_is_drawn_uniformly() -> None:
    from scipy.stats import chisquare

    # The user rated two of six items and draws two of the other four: there are six sets.
    ratings = from_profiles([[(1, 4.0), (4, 2.0)], [(0, 1.0)]], 6, STARS)
    sets = {pair: k for k, pair in enumerate(combinations([0, 2, 3, 5], 2))}
    counts = np.zeros(len(sets), np.int64)
    for draw in range(3000):
        candidates = Candidates.of(ratings, ratings, 0.5, draw)
        mine = of_user(candidates, 0)
        counts[sets[tuple(candidates.items[mine][~candidates.real[mine]].tolist())]] += 1
    assert chisquare(counts).pvalue > ONE_IN_A_MILLION
    # An item that is drawn twice as often as the others would be detected.
    weights = np.array([2.0 if 0 in pair else 1.0 for pair in sets])
    expected = weights / weights.sum() * counts.sum()
    assert chisquare(np.rint(expected), np.full(6, np.rint(expected).sum() / 6)).pvalue < 1e-6


def test_made_up_ratings_are_uniform_on_the_scale_and_stand_ins_are_of_the_items_raters() -> None:
    from scipy.stats import chisquare

    # Item 0 was rated 1, 1, 1 and 5, item 1 by no user; users who rated item 2 draw three others.
    n, q = 2000, 0.75
    raters = [[(0, 1.0), (3, 2.0)]] * 3 + [[(0, 5.0)]]
    ratings = from_profiles([*raters, *([[(2, 3.0)]] * n)], 4, Scale(0.5, 5.0, 0.5))
    candidates = Candidates.of(ratings, ratings, q, 0)
    times = [int((candidates.made_up == value).sum()) for value in candidates.scale.values]
    assert sum(times) == len(candidates)
    assert chisquare(times).pvalue > ONE_IN_A_MILLION
    assert chisquare(np.add(times, np.arange(10) * 0.05 * np.mean(times))).pvalue < 1e-6
    unrated = ~candidates.real
    of_first = candidates.values[unrated & (candidates.items == 0)]
    assert set(of_first.tolist()) == {1.0, 5.0}
    deviation = math.sqrt(3 / 16 / len(of_first))
    # Five deviations: 6e-7. Stand-ins are not uniform over the values.
    assert abs((of_first == 5).mean() - 0.25) < 5 * deviation
    assert abs((of_first == 5).mean() - 0.5) > 5 * deviation
    of_last = candidates.values[unrated & (candidates.items == 3)]
    assert (of_last == 2).all()
    nobody = candidates.values[unrated & (candidates.items == 1)]
    assert len(nobody) > 100
    assert set(nobody.tolist()) <= set(ratings.value.tolist())
    assert (nobody == 3).mean() > 0.9


def neighbours() -> list[tuple[str, Ratings, NDArray[np.bool_]]]:
    ratings = drawn()
    mine = ratings.profile(7)
    first, last = int(mine.items[0]), int(mine.items[-1])
    value = 6 - float(mine.values[0]) if mine.values[0] != 3 else 1.0
    opposed = np.where(mine.values > 3, 1, 5).astype(np.float32)
    rows = (ratings.user == 7) & np.isin(ratings.item, [first])
    return [
        ("replaced", apply(ratings, RatingReplaced(7, first, value)), rows),
        ("removed", apply(ratings, RatingRemoved(7, first)), rows),
        ("user", apply(ratings, UserReplaced(7, mine.items, opposed)), ratings.user == 7),
        (
            "fewer",
            apply(ratings, UserReplaced(7, mine.items[-1:], opposed[-1:])),
            ratings.user == 7,
        ),
        ("gone", apply(ratings, UserRemoved(7)), ratings.user == 7),
        (
            "last",
            apply(ratings, RatingRemoved(7, last)),
            (ratings.user == 7) & (ratings.item == last),
        ),
    ]


@pytest.mark.cases(
    ("after", "changed"), [case[1:] for case in neighbours()], ids=[c[0] for c in neighbours()]
)
def test_neighbours_share_candidates(after: Ratings, changed: NDArray[np.bool_]) -> None:
    before = drawn()
    here, there = (Candidates.of(r, before, 0.5, 3) for r in (before, after))
    assert_equal(here, there, but=("real", "values"))
    mine = np.flatnonzero(here.real)[changed]
    differs = (here.real != there.real) | (here.values != there.values)
    assert differs.any()
    assert set(np.flatnonzero(differs)) <= set(mine)
    np.testing.assert_array_equal(there.values[there.real], after.value)
    np.testing.assert_array_equal(there.users[there.real], after.user)
    np.testing.assert_array_equal(there.items[there.real], after.item)
    # Without common public data, the candidates distinguish the two data sets.
    if len(after) < len(before):
        alone = Candidates.of(after, after, 0.5, 3)
        assert not np.array_equal(alone.start, here.start)


@pytest.mark.cases("user", [0, 7, 29])
def test_an_item_that_is_no_candidate_is_refused(user: int) -> None:
    before = drawn()
    shared = Candidates.of(before, before, 0.0, 3)
    new = np.setdiff1d(np.arange(25), shared.items[of_user(shared, user)])
    for item in (int(new[0]), int(new[-1])):
        after = apply(before, RatingAdded(user, item, 3.0))
        with pytest.raises(ConfigError, match=r"no candidate of its user.*no item is new"):
            Candidates.of(after, before, 0.0, 3)


def test_some_rows_alone_keep_their_users() -> None:
    ratings = drawn()
    candidates = Candidates.of(ratings, ratings, 0.5, 3)
    picked = candidates.real & (candidates.users != 4)
    part = candidates.only(picked)
    assert (part.n_users, part.n_items, part.scale) == (30, 25, STARS)
    for name in ("users", "items", "values", "made_up", "real"):
        np.testing.assert_array_equal(getattr(part, name), getattr(candidates, name)[picked])
    for user in range(30):
        assert (part.users[of_user(part, user)] == user).all()
        assert part.counts[user] == (0 if user == 4 else len(ratings.profile(user)))
    nothing = candidates.only(np.zeros(len(candidates), np.bool_))
    assert len(nothing) == 0
    assert nothing.n_users == 30
