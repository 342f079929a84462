"""Test users' submissions and local gradients against plain references in double precision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.kernels import exact_noise, noise
from dpaudit.kernels.federated import submissions as federated
from dpaudit.kernels.noise import TILE

F32 = np.float32
Floats = NDArray[np.float32]
Exact = NDArray[np.float64]
Ints = NDArray[np.int32]

KEY = np.array([0xABCDEF01, 77], np.uint32)
TRIAL = 2**32 + 3
N, M = 41, 9
SIZES = [16, 32, 128]
NOTHING = np.empty(0, np.float32)
ONE_IN_A_MILLION = 1e-6


@dataclass(frozen=True)
class Round:
    """Candidates by user, factors and fakes; the last user and the last item have no candidate."""

    size: int
    users: Ints
    items: Ints
    values: Floats
    weights: Floats
    left: Floats
    right: Floats
    fakes: Floats
    order: Ints

    @property
    def rows(self) -> tuple[Ints, Ints, Ints, Floats]:
        return self.order, self.users, self.items, self.values

    @property
    def state(self) -> tuple[Floats, Floats]:
        return self.left.reshape(-1), self.right.reshape(-1)

    @property
    def exact_gradients(self) -> Exact:
        """The gradients of the candidates in `order`."""
        u = self.left[self.users].astype(np.float64)
        v = self.right[self.items].astype(np.float64)
        gradients: Exact = -(self.values - (u * v).sum(1))[:, None] * u
        return gradients[self.order]

    @property
    def exact_submissions(self) -> Exact:
        fake = self.fakes[self.items[self.order]].astype(np.float64)
        submissions: Exact = fake + self.weights[self.order, None] * (self.exact_gradients - fake)
        return submissions

    def item_sums(self, rows: Exact) -> Exact:
        sums = np.zeros((M, *rows.shape[1:]))
        np.add.at(sums, self.items[self.order], rows)
        return sums


def drawn(size: int, seed: int = 0) -> Round:
    """More submissions than fit in a tile of noise, in random order, some of them twice."""
    rng = np.random.default_rng(seed)
    users, items = (
        part.astype(np.int32) for part in np.divmod(np.arange((N - 1) * (M - 1)), M - 1)
    )
    count = len(users)

    def factors(rows: int) -> Floats:
        return rng.normal(0, 1 / math.sqrt(size), (rows, size)).astype(np.float32)

    order = rng.permutation(np.arange(3 * count) % count)[: 2 * count + 5].astype(np.int32)
    assert len(order) * size > 5 * TILE
    return Round(
        size=size,
        users=users,
        items=items,
        values=rng.integers(-2, 3, count).astype(np.float32),
        weights=rng.choice([0, 0.5, 1], count).astype(np.float32),
        left=factors(N),
        right=factors(M),
        fakes=factors(M),
        order=order,
    )


# Submissions minus the fake lie on the grid if there is noise.
GRID = 2.0**-19


def submit(data: Round, sigma: float, step: int, sums: Floats, shown: Floats) -> None:
    federated.submit(
        *data.rows, data.weights, *data.state, data.fakes.reshape(-1), data.size, sigma, GRID, step,
        TRIAL, KEY, sums.reshape(-1), shown.reshape(-1),
    )  # fmt: skip


def normals(count: int, step: int) -> Exact:
    draws = np.empty((1, count))
    exact_noise.normal(draws, np.array([TRIAL]), step, KEY)
    values: Exact = draws[0]
    return values


@pytest.mark.cases("size", SIZES)
@pytest.mark.cases("sigma", [0.0, 0.7])
def test_submissions_are_the_formula_with_noise_of_their_place(size: int, sigma: float) -> None:
    data = drawn(size)
    n = len(data.order)
    before = np.random.default_rng(5).normal(size=(M, size)).astype(np.float32)
    for step in (0, 7):
        sums, shown = before.copy(), np.full((n, size), -99, np.float32)
        submit(data, sigma, step, sums, shown)
        expected = data.exact_submissions + sigma * normals(n * size, step).reshape(n, size)
        np.testing.assert_allclose(shown, expected, atol=4e-6)
        np.testing.assert_allclose(sums, before + data.item_sums(expected), atol=1e-4)
        unseen = before.copy()
        submit(data, sigma, step, unseen, NOTHING)
        assert unseen.tobytes() == sums.tobytes()


def test_submissions_of_weight_zero_are_the_fake_and_of_one_the_gradient() -> None:
    data = drawn(16)
    shown = np.empty((len(data.order), 16), np.float32)
    submit(data, 0.0, 0, np.zeros((M, 16), np.float32), shown)
    weight = data.weights[data.order]
    fakes = data.fakes[data.items[data.order]]
    np.testing.assert_array_equal(shown[weight == 0], fakes[weight == 0])
    np.testing.assert_allclose(shown[weight == 1], data.exact_gradients[weight == 1], atol=2e-6)
    assert abs(shown - fakes)[weight > 0].max(1).min() > 1e-3


def test_coordinates_beyond_the_models_stay_zero_without_noise() -> None:
    data = drawn(16)
    for side in (data.left, data.right, data.fakes):
        side[:, 5:] = 0
    sums, shown = np.zeros((M, 16), np.float32), np.empty((len(data.order), 16), np.float32)
    submit(data, 0.0, 0, sums, shown)
    assert not shown[:, 5:].any()
    assert not sums[:, 5:].any()
    slopes = np.empty((N, 16), np.float32)
    start = np.searchsorted(data.users, np.arange(N + 1)).astype(np.int64)
    federated.learn(start, data.items, data.values, *data.state, 16, slopes.reshape(-1))
    assert not slopes[:, 5:].any()
    assert slopes[:-1, :5].all()


@pytest.mark.cases("size", SIZES)
def test_gradients_are_their_formula(size: int) -> None:
    data = drawn(size)
    slopes = np.empty((len(data.order), size), np.float32)
    federated.gradients(*data.rows, *data.state, size, slopes.reshape(-1))
    np.testing.assert_allclose(slopes, data.exact_gradients, atol=2e-6)


@pytest.mark.cases("size", SIZES)
def test_deviations_are_squared_distances_from_the_fakes_by_user(size: int) -> None:
    data = drawn(size)
    squares = np.full(N, 0.25)
    federated.deviations(
        *data.rows, data.weights, *data.state, data.fakes.reshape(-1), size, squares
    )
    away = data.exact_submissions - data.fakes[data.items[data.order]]
    expected = np.full(N, 0.25)
    np.add.at(expected, data.users[data.order], (away**2).sum(1))
    np.testing.assert_allclose(squares, expected, rtol=1e-5)
    assert squares[-1] == 0.25


@pytest.mark.cases("size", SIZES)
def test_moments_are_sums_and_squares_by_item(size: int) -> None:
    data = drawn(size)
    sums, squares = np.zeros((M, size)), np.zeros(M)
    federated.moments(*data.rows, *data.state, size, sums.reshape(-1), squares)
    exact = data.exact_gradients
    np.testing.assert_allclose(sums, data.item_sums(exact), atol=2e-5)
    np.testing.assert_allclose(squares, data.item_sums((exact**2).sum(1)), rtol=1e-5)
    assert squares[-1] == 0


@pytest.mark.cases("size", SIZES)
def test_users_learn_by_the_mean_gradient_of_their_rows(size: int) -> None:
    data = drawn(size)
    counts = np.arange(N) % 5 * 2  # every fifth user has none
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rng = np.random.default_rng(1)
    items = rng.integers(0, M, start[-1]).astype(np.int32)
    values = rng.integers(-2, 3, start[-1]).astype(np.float32)
    slopes = np.full((N, size), -99, np.float32)
    federated.learn(start, items, values, *data.state, size, slopes.reshape(-1))
    expected = np.zeros((N, size))
    for i in range(N):
        mine = slice(start[i], start[i + 1])
        u, v = data.left[i].astype(np.float64), data.right[items[mine]].astype(np.float64)
        if len(v):
            expected[i] = -((values[mine] - v @ u)[:, None] * v).mean(0)
    np.testing.assert_allclose(slopes, expected, atol=2e-6)
    assert not slopes[counts == 0].any()


def send_signs(
    data: Round, d: int, level: float, draws: Floats, sums: Floats, shown: Floats
) -> None:
    federated.submit_signs(
        *data.rows, data.weights, *data.state, data.size, d, level, draws, sums.reshape(-1),
        shown.reshape(-1),
    )  # fmt: skip


def one_row(gradient: list[float], count: int, weight: float = 1.0) -> Round:
    """One candidate with this gradient, submitted `count` times: u = g, v = 0 and r = −1."""
    left, zeros = np.zeros((1, 16), np.float32), np.zeros((1, 16), np.float32)
    left[0, : len(gradient)] = gradient
    nobody, whole = np.zeros(1, np.int32), np.zeros(count, np.int32)
    return Round(
        16, nobody, nobody, np.full(1, -1, np.float32), np.full(1, weight, np.float32),
        left, zeros, zeros, whole,
    )  # fmt: skip


@pytest.mark.parametrize("size", [16, 32])
def test_signs_are_their_formula_for_given_draws(size: int) -> None:
    data, d, level = drawn(size), size - 3, 17.5
    data.weights[:] = data.weights > 0.2
    data.values[:] *= 3  # so that clipping has an effect
    n = len(data.order)
    draws = np.random.default_rng(2).random((2, n), np.float32)
    sums, shown = np.ones((M, size), np.float32), np.full((n, size), -99, np.float32)
    send_signs(data, d, level, draws, sums, shown)
    assert (abs(data.exact_gradients) > 1).any()
    x = data.weights[data.order, None] * np.clip(data.exact_gradients, -1, 1)
    f = np.floor(draws[0].astype(np.float64) * d).astype(int)
    plus = draws[1] < 0.5 + x[np.arange(n), f] * d / (2 * level)
    expected = np.zeros((n, size))
    expected[np.arange(n), f] = np.where(plus, level, -level)
    np.testing.assert_array_equal(shown, expected.astype(np.float32))
    np.testing.assert_allclose(sums, 1 + data.item_sums(expected), rtol=1e-6)
    unseen = np.ones((M, size), np.float32)
    send_signs(data, d, level, draws, unseen, NOTHING)
    assert unseen.tobytes() == sums.tobytes()


@pytest.mark.cases("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.cases(
    ("gradient", "weight"), [(0.3, 1.0), (-0.8, 1.0), (40.0, 1.0), (-40.0, 1.0), (0.9, 0.0)]
)
def test_the_probability_of_a_plus_is_that_of_the_paper(
    epsilon: float, gradient: float, weight: float
) -> None:
    d, e = 3, math.exp(epsilon)
    level = d * (e + 1) / (e - 1)
    x = weight * min(max(gradient, -1.0), 1.0)
    plus = (x * (e - 1) + e + 1) / (2 * (e + 1))
    draws = np.full((2, 2), 0.5, np.float32)
    draws[1] = plus - 1e-6, plus + 1e-6
    shown = np.empty((2, 16), np.float32)
    data = one_row([gradient] * d, 2, weight)
    send_signs(data, d, level, draws, np.zeros((1, 16), np.float32), shown)
    np.testing.assert_allclose(shown[:, 1], [level, -level], rtol=1e-6)
    # The largest and the smallest of these odds are e^ε apart.
    assert 1 / (e + 1) - 1e-12 <= plus <= e / (e + 1) + 1e-12


def test_signs_tell_the_cut_gradient_on_average_and_coordinates_are_uniform() -> None:
    from scipy.stats import chisquare

    gradient, count, level = [0.5, -0.25, 3.0, 0.0, -1.0], 200_000, 11.0
    d = len(gradient)
    draws = np.empty((1, 2 * count), np.float32)
    noise.uniform(draws, np.array([TRIAL]), 1, KEY)
    shown = np.empty((count, 16), np.float32)
    data = one_row(gradient, count)
    send_signs(data, d, level, draws.reshape(2, -1), np.zeros((1, 16), np.float32), shown)
    assert ((shown != 0).sum(1) == 1).all()
    assert not shown[:, d:].any()
    deviation = level / math.sqrt(d * count)  # of a mean, at most
    # Five coordinates beyond 5.2 deviations: 1e-6.
    mean = shown[:, :d].mean(0, dtype=np.float64)
    assert (abs(mean - np.clip(gradient, -1, 1)) < 5.2 * deviation).all()
    assert abs(mean - gradient).max() > 20 * deviation  # the clipped one
    assert abs(mean - 1.25 * np.clip(gradient, -1, 1)).max() > 5.2 * deviation
    times = (shown[:, :d] != 0).sum(0)
    assert chisquare(times).pvalue > ONE_IN_A_MILLION
    skewed = np.bincount((draws[0, :count] * 4.9).astype(int), minlength=d)
    assert chisquare(skewed).pvalue < ONE_IN_A_MILLION


def chosen_pairs(draws: Floats, n: int) -> NDArray[np.int64]:
    """Counts of the chosen ordered pairs of n candidates, each time from the previous order."""
    start, counts = np.array([0, 2, 2 + n, 4 + n], np.int64), np.array([1, 2, 0], np.int64)
    mixed, chosen = np.arange(4 + n, dtype=np.int32), np.empty(3, np.int32)
    place = {pair: k for k, pair in enumerate(permutations(range(2, 2 + n), 2))}
    tallies = np.zeros(len(place), np.int64)
    for row in draws:
        federated.choose(start, counts, row, mixed, chosen)
        assert chosen[0] in {0, 1}
        tallies[place[int(chosen[1]), int(chosen[2])]] += 1
    assert sorted(mixed[2 : 2 + n]) == list(range(2, 2 + n))
    np.testing.assert_array_equal(mixed[2 + n :], [2 + n, 3 + n])
    return tallies


def test_a_choice_is_uniform_without_replacement() -> None:
    from scipy.stats import chisquare

    n = 5
    draws = np.random.default_rng(3).random((20_000, 3), np.float32)
    assert chisquare(chosen_pairs(draws, n)).pvalue > ONE_IN_A_MILLION
    # A shuffle that may swap with earlier positions is not uniform.
    wrong = np.zeros((n, n), np.int64)
    for row in draws:
        mixed = np.arange(n)
        for b in range(2):
            other = int(row[1 + b] * n)
            mixed[[b, other]] = mixed[[other, b]]
        wrong[mixed[0], mixed[1]] += 1
    assert chisquare(wrong[~np.eye(n, dtype=bool)]).pvalue < ONE_IN_A_MILLION


def test_everybody_chooses_as_many_as_stated_and_none_twice() -> None:
    start = np.array([0, 4, 4, 5, 12], np.int64)
    counts = np.array([4, 0, 1, 3], np.int64)
    for draw in (2.0**-24, 0.5, 1 - 2.0**-24):
        mixed, chosen = np.arange(12, dtype=np.int32), np.empty(8, np.int32)
        federated.choose(start, counts, np.full(8, draw, np.float32), mixed, chosen)
        owner = np.searchsorted(start, chosen, "right") - 1
        np.testing.assert_array_equal(owner, [0, 0, 0, 0, 2, 3, 3, 3])
        assert len(set(chosen.tolist())) == 8
        np.testing.assert_array_equal(np.sort(mixed), np.arange(12))
