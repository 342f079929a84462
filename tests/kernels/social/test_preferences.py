"""Drawing triples of two items and weighing them, against loops and finite differences."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.kernels.lanes import aligned
from dpaudit.kernels.social import preferences
from dpaudit.kernels.social.preferences import draw as kernel
from dpaudit.kernels.top_k import best
from tests.support.read_only import read_only

KEY = np.array([77, 5], np.uint32)
ONE_IN_A_MILLION = 1e-6
Exact = NDArray[np.float64]
Floats = NDArray[np.float32]
Triples = NDArray[np.int32]
Listed = list[tuple[int, int, int]]


@dataclass(frozen=True)
class Sets:
    """Each user's held items and friends' items, as sets and in the kernels' format."""

    held: list[set[int]]
    offered: list[set[int]]
    n_items: int

    @property
    def friends(self) -> list[set[int]]:
        return [theirs - held for held, theirs in zip(self.held, self.offered, strict=True)]

    @property
    def others(self) -> list[set[int]]:
        return [
            set(range(self.n_items)) - held - theirs
            for held, theirs in zip(self.held, self.offered, strict=True)
        ]

    @property
    def near(self) -> list[set[int]]:
        return [held | theirs for held, theirs in zip(self.held, self.offered, strict=True)]

    @property
    def columns(self) -> tuple[NDArray[np.int64], Triples, NDArray[np.int64], Triples]:
        start, held = flat(self.held)
        return (start, read_only(held), *flat(self.near))

    @property
    def places(self) -> Triples:
        indices = [
            np.searchsorted(sorted(near), sorted(held))
            for held, near in zip(self.held, self.near, strict=True)
        ]
        return np.concatenate(indices).astype(np.int32)

    def all_triples(self, user: int) -> Listed:
        """D_PF and D_FN of (11), or P over N where F is empty."""
        held, friends, others = self.held[user], self.friends[user], self.others[user]
        above = [(user, j, k) for j in held for k in (friends or others)]
        return above + [(user, j, k) for j in friends for k in others]


def flat(sets: list[set[int]]) -> tuple[NDArray[np.int64], Triples]:
    start = np.concatenate(([0], np.cumsum([len(items) for items in sets]))).astype(np.int64)
    return start, np.array([item for items in sets for item in sorted(items)], np.int32)


def drawn_sets(seed: int, n_users: int = 9, n_items: int = 11) -> Sets:
    """Users' sets, where the first users have every kind of empty set."""
    source = np.random.default_rng(seed)
    everything = set(range(n_items))
    held = [set(), {1, 4}, everything, {0, 2}, set()]
    offered: list[set[int]] = [{3, 5}, set(), {1}, everything, set()]
    while len(held) < n_users:
        held.append(set(np.flatnonzero(source.random(n_items) < 0.3).tolist()))
        offered.append(set(np.flatnonzero(source.random(n_items) < 0.4).tolist()))
    return Sets(held, offered, n_items)


def factors(seed: int, sets: Sets, size: int = 16) -> tuple[Floats, Floats]:
    source = np.random.default_rng(seed)
    sides = aligned(len(sets.held), size), aligned(sets.n_items, size)
    for side in sides:
        side[:, :10] = source.normal(size=(len(side), 10))
    return sides


def none(sets: Sets) -> Triples:
    return np.empty((len(sets.held), 0), np.int32)


def draw(sets: Sets, count: int, step: int = 0, trial: int = 0) -> tuple[Triples, Triples]:
    better, worse = (np.zeros((len(sets.held), 2 * count), np.int32) for _ in range(2))
    kernel(*sets.columns, sets.places, sets.n_items, step, trial, KEY, better, worse)
    return better, worse


def listed(better: Triples, worse: Triples) -> list[Listed]:
    return [
        [(i, int(j), int(k)) for j, k in zip(*rows, strict=True) if j >= 0]
        for i, rows in enumerate(zip(better, worse, strict=True))
    ]


def submitted(
    sets: Sets, better: Triples, worse: Triples, left: Floats, right: Floats, clip: float
) -> tuple[Floats, Floats]:
    order = np.arange(len(left), dtype=np.int32)
    sums, shown = aligned(*right.shape), aligned(len(left), *right.shape)
    preferences.submit(
        order, better, worse, *sets.columns, left.reshape(-1), right.reshape(-1), right.shape[1],
        clip, sums.reshape(-1), shown.reshape(-1),
    )  # fmt: skip
    return sums, shown


def objective(triples: Listed, left: Exact, right: Exact) -> float:
    """(11) without the term in λ, with φ(x) = 1/(1 + e^−x)."""
    return float(sum(-np.logaddexp(0, -left[i] @ (right[j] - right[k])) for i, j, k in triples))


def weights(triples: Listed, left: Exact, right: Exact) -> Exact:
    """a_ij, from (12) and (13) as they are printed."""
    weights = np.zeros((len(left), len(right)))
    for i, j, k in triples:
        psi = 1 / (1 + math.exp(left[i] @ (right[j] - right[k])))
        weights[i, j] += psi
        weights[i, k] -= psi
    return weights


def test_the_chance_of_a_wrong_order_is_that_of_the_logistic_law() -> None:
    differences = np.concatenate((np.linspace(-79, 79, 20_001), [0, 1e9, -1e9])).astype(np.float32)
    chances = np.empty_like(differences)
    preferences.below(differences, chances)
    exact = stats.logistic.sf(differences.astype(np.float64))
    np.testing.assert_allclose(chances[:-3], exact[:-3], rtol=3e-7)
    assert chances[-3] == 0.5
    assert chances[-2] < 1e-30
    assert chances[-1] == 1.0


def test_drawn_triples_are_of_the_right_sets() -> None:
    sets = drawn_sets(0)
    triples = listed(*draw(sets, 400))
    for i, mine in enumerate(triples):
        possible = set(sets.all_triples(i))
        assert set(mine) <= possible
        # 400 draws of each kind miss one of at most 20 with a chance of 20 (19/20)^400 = 2.5e-8.
        assert len(possible) > 20 or set(mine) == possible
    held, friends, others = sets.held, sets.friends, sets.others
    for i, mine in enumerate(triples):
        of_own = sum(j in held[i] for _, j, _ in mine)
        assert of_own == (400 if held[i] and (friends[i] or others[i]) else 0)
        assert len(mine) - of_own == (400 if friends[i] and others[i] else 0)
    assert [len(mine) for mine in triples[:5]] == [400, 400, 0, 400, 0]


@pytest.mark.cases("user", [5, 6, 7])
def test_triples_are_uniform_and_independent(user: int) -> None:
    sets, count = drawn_sets(1), 40_000
    better, worse = draw(sets, count)
    for half, (upper, lower) in enumerate(((sets.held, sets.friends), (sets.friends, sets.others))):
        columns = slice(half * count, (half + 1) * count)
        pairs = better[user, columns] * 100 + worse[user, columns]
        cells = [100 * j + k for j in upper[user] for k in lower[user]]
        observed = np.array([(pairs == cell).sum() for cell in cells])
        assert observed.sum() == count
        # Each of six tests errs at 1e-6; a pair that is a tenth too frequent is found.
        assert stats.chisquare(observed).pvalue > ONE_IN_A_MILLION
        observed[0] += count // len(cells) // 3
        tilted = count / len(cells) * np.ones(len(cells))
        assert stats.chisquare(observed, tilted * observed.sum() / count).pvalue < 1e-6
        assert abs(np.corrcoef(pairs[1:], pairs[:-1])[0, 1]) * math.sqrt(count) < 5


def test_triples_depend_on_the_round_the_trial_and_the_users_own_sets_alone() -> None:
    sets = drawn_sets(2)
    first = draw(sets, 7)
    for again, same in ((draw(sets, 7), True), (draw(sets, 7, step=1), False)):
        assert (again[0].tobytes() == first[0].tobytes()) is same
    assert draw(sets, 7, trial=1)[1].tobytes() != first[1].tobytes()
    held = [set(items) for items in sets.held]
    held[6] ^= {3}
    other = draw(Sets(held, sets.offered, sets.n_items), 7)
    for column in (0, 1):
        rest = np.arange(len(held)) != 6
        assert first[column][rest].tobytes() == other[column][rest].tobytes()


@pytest.mark.long
def test_a_large_complement_is_drawn_from_uniformly() -> None:
    n_items = 100_003
    held = set(range(0, n_items, 2)) | {1, 3, 5, n_items - 2}
    sets = Sets([held], [set()], n_items)
    _, worse = draw(sets, 60_000)
    items = worse[0, :60_000]
    assert not set(items.tolist()) & held
    allowed = np.array(sorted(set(range(n_items)) - held))
    ranks = np.searchsorted(allowed, items) / len(allowed)
    assert stats.kstest(ranks, "uniform").pvalue > ONE_IN_A_MILLION
    assert stats.kstest(ranks**1.05, "uniform").pvalue < ONE_IN_A_MILLION
    seen = np.concatenate([draw(sets, 60_000, step=step)[1][0, :60_000] for step in range(30)])
    # Each end is missed by 1.8 million draws of 50 thousand with a chance of e^-36.
    assert {int(allowed[0]), int(allowed[-1])} <= set(seen.tolist())


@pytest.mark.cases("n_items", [16, 33, 150])
def test_weights_of_many_items_are_those_of_every_triple(n_items: int) -> None:
    sets = drawn_sets(7, n_items=n_items)
    left, right = factors(7, sets)
    a = weights(
        [one for i in range(len(left)) for one in sets.all_triples(i)],
        left.astype(np.float64),
        right.astype(np.float64),
    )
    _, shown = submitted(sets, none(sets), none(sets), left, right, math.inf)
    np.testing.assert_allclose(shown, a[:, :, None] * left[:, None], rtol=2e-5, atol=2e-5)
    # A missing triple would change an item's weight by far more.
    assert abs(a).max() > 5


@pytest.mark.parametrize("full", [True, False])
def test_slopes_are_those_of_the_objective(full: bool) -> None:
    sets = drawn_sets(3)
    left, right = factors(3, sets)
    better, worse = (none(sets), none(sets)) if full else draw(sets, 6)
    of_users = [sets.all_triples(i) for i in range(len(left))] if full else listed(better, worse)
    triples = [one for mine in of_users for one in mine]
    sums, shown = submitted(sets, better, worse, left, right, math.inf)
    slopes = aligned(*left.shape)
    preferences.learn(
        better, worse, *sets.columns, left.reshape(-1), right.reshape(-1), 16, slopes.reshape(-1)
    )
    u, v = left.astype(np.float64), right.astype(np.float64)
    for side, slope in ((u, slopes), (v, sums)):
        for row, column in ((0, 0), (1, 3), (3, 1), (5, 9), (6, 2), (7, 7), (8, 4)):
            side[row, column] += 1e-5
            above = objective(triples, u, v)
            side[row, column] -= 2e-5
            below = objective(triples, u, v)
            side[row, column] += 1e-5
            assert slope[row, column] == pytest.approx((above - below) / 2e-5, abs=2e-5)
    a = weights(triples, u, v)
    np.testing.assert_allclose(sums, a.T @ u, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(slopes, a @ v, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(shown, a[:, :, None] * u[:, None], rtol=1e-5, atol=1e-6)
    assert abs(a).max() > 0.5


@pytest.mark.parametrize("full", [True, False])
def test_all_that_a_user_submits_is_cut_as_one(full: bool) -> None:
    sets = drawn_sets(4)
    left, right = factors(4, sets)
    pair = (none(sets), none(sets)) if full else draw(sets, 5)
    _, whole = submitted(sets, *pair, left, right, math.inf)
    norms = np.sqrt((whole.astype(np.float64) ** 2).sum((1, 2)))
    clip = float(np.median(norms[norms > 0]))
    sums, cut = submitted(sets, *pair, left, right, clip)
    factor = np.where(norms > clip, clip / np.maximum(norms, clip), 1)
    np.testing.assert_allclose(cut, whole * factor[:, None, None], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(sums, cut.sum(0), rtol=1e-5, atol=1e-6)
    assert (norms > clip).any()
    assert ((norms > 0) & (norms < clip)).any()
    np.testing.assert_array_equal(cut[norms < clip], whole[norms < clip])


def test_sums_are_added_to_and_some_users_alone_submit() -> None:
    sets = drawn_sets(5)
    left, right = factors(5, sets)
    pair = draw(sets, 5)
    _, whole = submitted(sets, *pair, left, right, math.inf)
    order = np.array([7, 5], np.int32)
    sums, shown = aligned(*right.shape), aligned(2, *right.shape)
    sums += 1
    preferences.submit(
        order, *pair, *sets.columns, left.reshape(-1), right.reshape(-1), 16, math.inf,
        sums.reshape(-1), shown.reshape(-1),
    )  # fmt: skip
    np.testing.assert_array_equal(shown, whole[[7, 5]])
    np.testing.assert_allclose(sums, 1 + whole[[7, 5]].sum(0), atol=1e-6)
    preferences.submit(
        order, *pair, *sets.columns, left.reshape(-1), right.reshape(-1), 16, math.inf,
        sums.reshape(-1), np.empty(0, np.float32),
    )  # fmt: skip
    np.testing.assert_allclose(sums, 1 + 2 * whole[[7, 5]].sum(0), atol=1e-6)


@pytest.mark.cases("size", [16, 64])
@pytest.mark.cases("k", [1, 4, 11])
def test_lists_hold_the_best_items_that_are_not_seen(size: int, k: int) -> None:
    sets = drawn_sets(6)
    left, right = factors(6, sets, size)
    right[4] = right[9]  # a tie
    left[7] = 0  # nothing but ties
    users = np.array([8, 1, 7, 2, 4], np.int32)
    items, values = np.zeros((5, k), np.int32), np.zeros((5, k), np.float32)
    start, held = flat(sets.held)
    best(users, left.reshape(-1), right.reshape(-1), size, start, held, items, values)
    scores = (left[users].astype(np.float64) @ right.T.astype(np.float64)).astype(np.float32)
    for row, user in enumerate(users):
        left_over = [m for m in range(sets.n_items) if m not in sets.held[user]]
        # Rounding in double precision could break the tie.
        order = sorted(left_over, key=lambda m: (-round(float(scores[row, m]), 5), m))[:k]
        assert items[row].tolist() == order + [-1] * (k - len(order))
        np.testing.assert_allclose(values[row, : len(order)], scores[row, order], atol=1e-5)
        assert np.isneginf(values[row, len(order) :]).all()
