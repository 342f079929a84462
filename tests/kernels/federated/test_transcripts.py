"""Folds of rounds against sums over all submissions at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.kernels.federated import transcripts as folds

Numbers = NDArray[Any]
PAIRS, ITEMS = 9, 4


class Rounds:
    """Rounds of submissions by some of nine pairs, in any order, and each pair's residuals."""

    def __init__(self, size: int, seed: int, shift: float = 0.0) -> None:
        source = np.random.default_rng(seed)
        self.items = source.integers(0, ITEMS, PAIRS).astype(np.int32)
        self.rounds = []
        kept: list[list[Numbers]] = [[] for _ in range(PAIRS)]
        for _ in range(23):
            place = source.permutation(PAIRS - 1)[: source.integers(0, PAIRS)].astype(np.int32)
            shown = source.normal(shift, 1, (len(place), size)).astype(np.float32)
            fakes = source.normal(shift, 1, (ITEMS, size)).astype(np.float32)
            self.rounds.append((place, shown, fakes))
            for p, r in zip(place, shown.astype(float) - fakes[self.items[place]], strict=True):
                kept[p].append(r)
        # The last pair never submits.
        self.residuals = [np.array(r).reshape(-1, size) for r in kept]


@pytest.mark.cases("size", [1, 3, 4, 7, 16])
def test_moments_signs_and_energies_are_those_of_all_residuals(size: int) -> None:
    outcome = Rounds(size, seed=size)
    count, one, two = (np.zeros(PAIRS, np.int32) for _ in range(3))
    mean, other, square = (np.zeros((PAIRS, size), np.float32) for _ in range(3))
    exact, scatter = np.zeros((PAIRS, size)), np.zeros((PAIRS, size, size))
    above, below = (np.zeros((PAIRS, size), np.int32) for _ in range(2))
    energy, half = np.zeros(PAIRS), np.zeros(PAIRS)
    last, half_count = np.zeros((PAIRS, size), np.float32), np.zeros(PAIRS, np.int32)
    for place, shown, fakes in outcome.rounds:
        start = place, shown, fakes, outcome.items
        folds.fold_means(*start, count, mean)
        folds.fold_moments(*start, one, other, square)
        folds.fold_scatter(*start, two, exact, scatter)
        folds.fold_signs(*start, above, below)
        folds.fold_energy(*start, np.zeros(PAIRS, np.int32), energy)
        folds.fold_differences(*start, half_count, last, half)
    for p, r in enumerate(outcome.residuals):
        assert count[p] == one[p] == two[p] == half_count[p] == len(r)
        assert above[p].tolist() == (r > 0).sum(0).tolist()
        assert below[p].tolist() == (r < 0).sum(0).tolist()
        assert energy[p] == pytest.approx((r**2).sum(), rel=1e-5)
        steps = r[1::2] - r[: 2 * (len(r) // 2) : 2]
        assert half[p] == pytest.approx((steps**2).sum() / 2, rel=1e-5)
        if len(r):
            away = r - r.mean(0)
            for statistic in (mean, other, exact):
                np.testing.assert_allclose(statistic[p], r.mean(0), rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(square[p], (away**2).sum(0), rtol=1e-5, atol=1e-6)
            np.testing.assert_allclose(scatter[p], away.T @ away, rtol=1e-5, atol=1e-5)
    assert not len(outcome.residuals[-1])
    assert not any(x[-1].any() for x in (mean, other, exact, square, scatter, energy, half))


def test_a_mean_far_above_the_noise_leaves_the_spread_as_it_is() -> None:
    # In single precision, sums of squares of 1000 would lose a deviation of 0.01.
    source = np.random.default_rng(0)
    x = (1000 + 0.01 * source.normal(size=(400, 1, 8))).astype(np.float32)
    count, place, zeros = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros((1, 8), np.float32)
    mean, square = zeros.copy(), zeros.copy()
    for shown in x:
        folds.fold_moments(place, shown, zeros, place, count, mean, square)
    expected = x[:, 0].astype(float).var(0) * 400
    np.testing.assert_allclose(square[0], expected, rtol=0.01)
    naive = np.square(x[:, 0]).sum(0) - 400 * np.square(x[:, 0].mean(0))
    assert (np.abs(naive / expected - 1) > 1).any()


@pytest.mark.cases("size", [1, 5, 16])
def test_products_with_known_gradients(size: int) -> None:
    outcome = Rounds(size, seed=size)
    source = np.random.default_rng(1)
    product, distance = np.zeros(PAIRS), np.zeros(PAIRS)
    expected = np.zeros((2, PAIRS))
    for place, shown, fakes in outcome.rounds:
        gradients = source.normal(size=shown.shape).astype(np.float32)
        folds.fold_ratio(place, shown, fakes, outcome.items, gradients, product, distance)
        step = gradients.astype(float) - fakes[outcome.items[place]]
        expected[0, place] += ((shown - fakes[outcome.items[place]]) * step).sum(1)
        expected[1, place] += (step**2).sum(1)
    np.testing.assert_allclose([product, distance], expected, rtol=1e-4, atol=1e-4)


def test_two_valued_ratios_are_those_of_their_probabilities() -> None:
    source = np.random.default_rng(2)
    size, epsilon = 5, 1.3
    e = math.exp(epsilon)
    level = size * (e + 1) / (e - 1)
    sent, sign = source.integers(0, size, 40), source.choice([-1, 1], 40)
    shown = np.zeros((40, size), np.float32)
    shown[np.arange(40), sent] = sign * level
    gradients = source.normal(0, 1.5, (40, size)).astype(np.float32)
    sums = np.zeros(40)
    folds.fold_two_valued(np.arange(40, dtype=np.int32), shown, gradients, level, sums)
    x = np.clip(gradients[np.arange(40), sent].astype(float), -1, 1)
    assert np.abs(x).max() == 1
    up = (x * (e - 1) + e + 1) / (2 * (e + 1))
    expected = np.log(np.where(sign > 0, up, 1 - up) / 0.5)
    np.testing.assert_allclose(sums, expected, rtol=1e-6)


class Directions:
    """The learned log-ratio as documented, pair by pair in double precision."""

    def __init__(self, users: Numbers, items: Numbers, size: int, memory: list[int]) -> None:
        self.users, self.items, self.memory = users, items, memory
        self.k, self.w = np.zeros(PAIRS, int), np.zeros((PAIRS, size))
        self.a, self.ratio = np.zeros((PAIRS, len(memory))), np.zeros((PAIRS, len(memory)))
        self.u = np.full((users.max() + 1, size), size**-0.5)
        self.pull, self.spread = np.zeros_like(self.u), np.zeros(len(memory))

    def see(self, place: Numbers, x: Numbers, fakes: Numbers, usual: Numbers, level: float) -> None:
        size, variance = x.shape[1], 0.7
        surplus: list[list[tuple[float, float]]] = [[] for _ in self.memory]
        for p, shown in zip(place, x.astype(float), strict=True):
            u, item = self.u[self.users[p]], self.items[p]
            for e, reach in enumerate(self.memory):
                worth = min(self.k[p], 2 * reach - 1) * self.spread[e]
                c = worth / (worth + variance)
                guess = (1 - c) * usual[item] + c * self.a[p, e] * u
                if level:
                    f = int(np.flatnonzero(shown)[0])
                    up = 0.5 + np.clip(guess[f], -1, 1) * size / (2 * level)
                    self.ratio[p, e] += math.log(2 * (up if shown[f] > 0 else 1 - up))
                else:
                    left = variance * self.spread[e] / (worth + variance)
                    real = variance * np.eye(size) + left * np.outer(u, u)
                    fake = variance * np.eye(size)
                    self.ratio[p, e] += stats.multivariate_normal(guess, real).logpdf(shown)
                    self.ratio[p, e] -= stats.multivariate_normal(fakes[item], fake).logpdf(shown)
                self.a[p, e] += (shown @ u - self.a[p, e]) / min(self.k[p] + 1, reach)
                shares = min(self.k[p] + 1, 2 * reach - 1)
                surplus[e].append((shares * self.a[p, e] ** 2 - variance, shares))
            self.k[p] += 1
            self.w[p] += (shown - self.w[p]) / self.k[p]
        for p in place:
            self.pull[self.users[p]] += self.k[p] * self.w[p] * (self.w[p] @ self.u[self.users[p]])
        for e, terms in enumerate(surplus):
            if terms:
                self.spread[e] = max(0.0, sum(t[0] for t in terms) / sum(t[1] for t in terms))
        for n, pull in enumerate(self.pull):
            if pull.any():
                self.u[n] = pull / np.linalg.norm(pull)
        self.pull *= 0.8


@pytest.mark.parametrize("level", [0.0, 9.0])
def test_learned_ratios_are_those_of_the_plain_recursion(level: float) -> None:
    size, memory = 6, [1 << 29, 3]
    users = np.repeat(np.arange(3), 3).astype(np.int32)
    outcome = Rounds(size, seed=5, shift=0.4)
    plain = Directions(users, outcome.items, size, memory)
    count, spread = np.zeros(PAIRS, np.int32), np.zeros(2)
    mean, along = np.zeros((PAIRS, size), np.float32), np.zeros((PAIRS, 2), np.float32)
    ratio, pull = np.zeros((PAIRS, 2)), np.zeros((3, size), np.float32)
    direction = np.full((3, size), size**-0.5, np.float32)
    usual = np.random.default_rng(3).normal(size=(ITEMS, size)).astype(np.float32)
    for place, shown, fakes in outcome.rounds:
        if level:
            sent = np.abs(shown).argmax(1)
            kept = np.zeros_like(shown)
            at = np.arange(len(shown)), sent
            kept[at] = np.copysign(level, shown[at])
            shown = kept  # noqa: PLW2901
        plain.see(place, shown, fakes, usual, level)
        folds.fold_directions(
            place,
            shown,
            fakes,
            outcome.items,
            users,
            usual,
            0.7,
            level,
            np.array(memory, np.int32),
            np.float32(0.8),
            count,
            mean,
            along,
            ratio,
            spread,
            direction,
            pull,
        )
    assert (spread > 0).all()
    np.testing.assert_allclose(direction, plain.u, atol=1e-4)
    np.testing.assert_allclose(along, plain.a, atol=1e-3)
    np.testing.assert_allclose(ratio, plain.ratio, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(spread, plain.spread, rtol=1e-3)


@pytest.mark.cases("k", [1, 2, 17, 60])
def test_kolmogorov_steps_are_those_of_the_empirical_laws(k: int) -> None:
    source = np.random.default_rng(k)
    left, right = source.normal(size=(2, 12, k)).astype(np.float32)
    left[:4], right[:4] = left[:4].round(), right[:4].round()  # ties
    left[0] = right[0] = 1
    steps = np.empty(12, np.int32)
    folds.kolmogorov_steps(np.sort(left), np.sort(right), steps)
    for f, step in enumerate(steps):
        at = np.concatenate((left[f], right[f]))
        below = [(side[f] <= at[:, None]).sum(1) for side in (left, right)]
        assert step == np.abs(below[0] - below[1]).max()
    assert steps[0] == 0
    assert steps[4:].min() > 0


@pytest.mark.cases("size", [1, 3, 16])
def test_energy_distances_are_those_of_all_pairs(size: int) -> None:
    source = np.random.default_rng(size)
    x, y = source.normal(size=(2, 12, size)).astype(np.float32)
    distances = np.empty(12)
    folds.energy_distances(x, y, distances)

    def mean(a: Numbers, b: Numbers) -> float:
        return float(np.linalg.norm(a[:, None].astype(float) - b[None], axis=2).mean())

    for k in range(1, 13):
        a, b = x[:k], y[:k]
        expected = k / 2 * (2 * mean(a, b) - mean(a, a) - mean(b, b))
        assert distances[k - 1] == pytest.approx(expected, rel=1e-5, abs=1e-5)
