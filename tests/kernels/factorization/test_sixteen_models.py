"""Sixteen factorisations at once against plain references in double precision.

The sampler's distribution is tested in `test_sampler`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.kernels import exact_noise
from dpaudit.kernels.factorization import sixteen_models as factor_trials
from dpaudit.kernels.lane_noise import (
    LANE_TILE,
    Source,
    exact_normal_lanes,
    normal_lanes,
    trial_words,
)
from dpaudit.kernels.lanes import LANES
from tests.support.read_only import read_only

F32 = np.float32
Floats = NDArray[np.float32]
Exact = NDArray[np.float64]
Ints = NDArray[np.int32]

KEY = np.array([0xABCDEF01, 77], np.uint32)
TRIALS = np.array([3, 2**32 + 3, 2**40, *range(50, 63)], np.int64)
NOBODY = np.empty(0, np.int32)
N, M = 11, 9  # the last user and the last item have no row
MEAN, RATE, DECAY, BOUND = F32(3.25), F32(0.03125), F32(0.4), F32(1.5)
LOW, HIGH = F32(1), F32(5)
TEMPERATURE, STEP_SIZE = F32(0.5), F32(0.01)
SIZES = [1, 2, 3, 10, 16, 17]


@dataclass(frozen=True)
class Data:
    """Rows sorted by user; no user rates an item twice."""

    users: Ints
    items: Ints
    values: Floats

    def __post_init__(self) -> None:
        for column in (self.users, self.items, self.values):
            read_only(column)

    @property
    def visits(self) -> factor_trials.Visits:
        return factor_trials.Visits(self.users, self.items, self.values)

    @property
    def start(self) -> NDArray[np.int64]:
        return np.searchsorted(self.users, np.arange(N + 1)).astype(np.int64)

    def mixed(self, times: int) -> Data:
        """The rows repeated several times, in random order."""
        order = np.random.default_rng(8).permutation(len(self.users) * times) % len(self.users)
        return Data(self.users[order], self.items[order], self.values[order])


@dataclass(frozen=True)
class Models:
    """Factors `(n, size + 1, 16)`, flat."""

    left: Floats
    right: Floats

    def of(self, size: int) -> factor_trials.Models:
        return factor_trials.Models(self.left, self.right, size, MEAN)

    def copy(self) -> Models:
        return Models(self.left.copy(), self.right.copy())

    def lane(self, lane: int) -> tuple[Floats, Floats]:
        return self.left[lane::LANES].copy(), self.right[lane::LANES].copy()


def small_data(seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    pairs = [(u, i) for u in range(N - 1) for i in range(M - 1) if u != 4 and rng.random() < 0.7]
    users, items = np.array(pairs, np.int32).T.copy()
    return Data(users, items, rng.integers(2, 11, len(users)).astype(np.float32) / F32(2))


def models(size: int, seed: int = 1, spread: float = 0.5) -> Models:
    rng = np.random.default_rng(seed)
    return Models(
        *((rng.standard_normal(n * (size + 1) * LANES) * spread).astype(np.float32) for n in (N, M))
    )


def exact(flat: Floats | Exact, size: int) -> Exact:
    return flat.astype(np.float64).reshape(-1, size + 1, LANES)


def shown(p: Exact, q: Exact) -> Exact:
    """`b_0 + b_u + b_i + u·v` of one user and one item, in every trial."""
    product: Exact = float(MEAN) + p[-1] + q[-1] + (p[:-1] * q[:-1]).sum(axis=0)
    return product


def close(got: Floats | Exact, expected: Exact) -> None:
    np.testing.assert_allclose(got, expected.ravel(), rtol=0, atol=5e-6 * abs(expected).max())


def descend(
    data: Data,
    size: int,
    state: Models,
    scale: float = 0.0,
    step: int = 0,
    trials: NDArray[np.int64] = TRIALS,
    observed: Ints = NOBODY,
    bound: np.float32 = BOUND,
    grid: float = 2.0**-20,
) -> Floats:
    seen = np.full(len(observed) * 2 * LANES, -99, np.float32)
    descent = factor_trials.Descent(RATE, DECAY, scale, grid, bound)
    source = Source(step, trial_words(trials), KEY)
    factor_trials.descend(data.visits, state.of(size), descent, source, observed, seen, None)
    return seen.reshape(len(observed), 2, LANES)


def descend_exactly(
    data: Data, left: Exact, right: Exact, noises: Exact, bound: float
) -> tuple[Exact, Exact]:
    """Run one epoch in place; return all rows' errors before and after noise and clamping."""
    rate, decay = float(RATE), float(DECAY)
    before, after = np.empty((2, len(data.users), LANES))
    for k, (n, i) in enumerate(zip(data.users, data.items, strict=True)):
        u, v = left[n].copy(), right[i].copy()
        before[k] = float(data.values[k]) - shown(u, v)
        after[k] = e = np.clip(before[k] + noises[k], -bound, bound)
        left[n, :-1] = (1 - rate * decay) * u[:-1] + rate * e * v[:-1]
        right[i, :-1] = (1 - rate * decay) * v[:-1] + rate * e * u[:-1]
        left[n, -1] = (1 - rate * decay) * u[-1] + rate * e
        right[i, -1] = (1 - rate * decay) * v[-1] + rate * e
    return before, after


def laplaces(rows: int, step: int) -> Exact:
    draws = np.empty((LANES, rows))
    exact_noise.laplace(draws, TRIALS, step, KEY)
    return draws.T


def test_noised_errors_lie_on_the_grid() -> None:
    data, state = small_data().mixed(4), models(3)
    rows = np.arange(len(data.users), dtype=np.int32)
    seen = descend(data, 3, state, 0.7, observed=rows, bound=F32(1e6), grid=0.0625)[:, 1]
    np.testing.assert_array_equal(seen, np.rint(seen / 0.0625) * 0.0625)
    assert len(np.unique(seen)) > 50


@pytest.mark.cases("size", SIZES)
@pytest.mark.cases("scale", [0.0, 0.7])
def test_descend_is_its_formula(size: int, scale: float) -> None:
    data, state = small_data().mixed(4), models(size)
    assert len(data.users) > LANE_TILE
    assert len(data.users) % LANE_TILE
    left, right = exact(state.left, size), exact(state.right, size)
    observed = np.array([0, 1, 17, LANE_TILE - 1, LANE_TILE, len(data.users) - 1], np.int32)
    for step in (0, 5):
        seen = descend(data, size, state, scale, step, observed=observed)
        draws = scale * laplaces(len(data.users), step)
        before, after = descend_exactly(data, left, right, draws, float(BOUND))
        close(state.left, left)
        close(state.right, right)
        np.testing.assert_allclose(seen[:, 0], before[observed], atol=3e-5)
        np.testing.assert_allclose(seen[:, 1], after[observed], atol=3e-5)
        assert 0.03 < (abs(after) == BOUND).mean() < 0.97  # some errors are clamped, some are not
        assert (abs(seen[:, 1]) <= BOUND).all()
    assert abs(before - before[:, :1]).max() > 0.1  # the trials differ
    if scale:  # the noise of another step would be noticed
        descend_exactly(data, left, right, scale * laplaces(len(data.users), 7), float(BOUND))
        descend(data, size, state, scale, 8)
        with pytest.raises(AssertionError):
            close(state.left, left)


@pytest.mark.cases("rows", [0, 1, 2, LANE_TILE - 1, LANE_TILE, LANE_TILE + 1])
def test_descend_takes_any_number_of_rows(rows: int) -> None:
    whole, state = small_data().mixed(4), models(2)
    data = Data(whole.users[:rows], whole.items[:rows], whole.values[:rows])
    left, right = exact(state.left, 2), exact(state.right, 2)
    descend(data, 2, state, 0.7, 3)
    descend_exactly(data, left, right, 0.7 * laplaces(rows, 3), float(BOUND))
    close(state.left, left)
    close(state.right, right)


@pytest.mark.cases("size", SIZES)
def test_an_update_goes_down_the_gradient(size: int) -> None:
    data = Data(np.array([2], np.int32), np.array([6], np.int32), np.array([4.5], np.float32))
    state = models(size)
    old, before = state.copy(), (exact(state.left, size), exact(state.right, size))
    descend(data, size, state, bound=F32(1e6))

    def loss(p: Exact, q: Exact) -> Exact:
        # ½ e² + ½ λ (‖u‖² + ‖v‖² + b_u² + b_i²)
        error = 4.5 - shown(p, q)
        ridge: Exact = (p**2).sum(axis=0) + (q**2).sum(axis=0)
        return 0.5 * error**2 + 0.5 * float(DECAY) * ridge

    p, q = before[0][2], before[1][6]
    h = 1e-5
    for factor, moved in ((p, exact(state.left, size)[2]), (q, exact(state.right, size)[6])):
        start = factor.copy()
        for f in range(size + 1):
            factor[f] = start[f] + h
            up = loss(p, q)
            factor[f] = start[f] - h
            slope = (up - loss(p, q)) / (2 * h)
            factor[f] = start[f]
            np.testing.assert_allclose(moved[f] - start[f], -float(RATE) * slope, atol=1e-6)
            assert abs(RATE * slope).max() > 1e-3
    others = np.arange(N * (size + 1) * LANES) // ((size + 1) * LANES) != 2
    np.testing.assert_array_equal(state.left[others], old.left[others])


def sum_clipped(
    data: Data, size: int, state: Models, taken: Floats, clip: float, rate: np.float32 = RATE
) -> Exact:
    """The gradient alone; the users' factors change in place."""
    gradient = np.zeros(state.right.shape)
    busiest = int(np.diff(data.start).max())
    errors = np.empty(max(busiest, 1) * LANES, np.float32)
    factor_trials.sum_clipped(
        data.start, data.visits, state.of(size), rate, DECAY, F32(clip), taken.ravel(), gradient,
        errors, None,
    )  # fmt: skip
    return gradient


def all_taken() -> Floats:
    return np.ones((N, LANES), np.float32)


def parts_exactly(data: Data, left: Exact, right: Exact, clip: float) -> Exact:
    """Each user's clipped gradient `(N, M, size + 1, 16)`; users' own factors change in place."""
    rate, decay = float(RATE), float(DECAY)
    parts = np.zeros((N, *right.shape))
    for n in range(N):
        rows = np.flatnonzero(data.users == n)
        for k in rows:
            v = right[data.items[k]]
            e = float(data.values[k]) - shown(left[n], v)
            step = rate * e / (1 + rate * (1 + (v[:-1] ** 2).sum(axis=0)))
            left[n, :-1] = (left[n, :-1] + step * v[:-1]) / (1 + rate * decay)
            left[n, -1] = (left[n, -1] + step) / (1 + rate * decay)
        for k in rows:
            e = float(data.values[k]) - shown(left[n], right[data.items[k]])
            parts[n, data.items[k], :-1] += e * left[n, :-1]
            parts[n, data.items[k], -1] += e
        norm = np.sqrt((parts[n] ** 2).sum(axis=(0, 1)))
        parts[n] *= np.minimum(1, clip / np.maximum(norm, 1e-300))
    return parts


@pytest.mark.cases("size", SIZES)
def test_sum_clipped_is_its_formula(size: int) -> None:
    data, state = small_data(), models(size)
    taken = np.random.default_rng(4).integers(0, 2, (N, LANES)).astype(np.float32)
    left, right, fixed = exact(state.left, size), exact(state.right, size), state.right.copy()
    for _ in range(2):
        gradient = sum_clipped(data, size, state, taken, 2.0)
        parts = parts_exactly(data, left, right, 2.0)
        close(gradient, (parts * taken[:, None, None]).sum(axis=0))
        close(state.left, left)
    np.testing.assert_array_equal(state.right, fixed)
    norms = np.sqrt((parts**2).sum(axis=(1, 2)))
    assert 0.1 < (norms < 1.99).mean() < 0.95  # some are clipped, some are not
    # The result is added to existing values.
    twice, errors = gradient.copy(), np.empty(M * LANES, np.float32)
    again, rate = models(size), F32(0)
    single = sum_clipped(data, size, again, taken, 2.0, rate)
    factor_trials.sum_clipped(
        data.start, data.visits, again.of(size), rate, DECAY, F32(2), taken.ravel(), twice, errors,
        None,
    )  # fmt: skip
    np.testing.assert_allclose(twice, gradient + single, atol=1e-5)


@pytest.mark.cases("size", SIZES)
def test_the_sum_without_a_clip_is_the_gradient(size: int) -> None:
    data, state = small_data(), models(size)
    kept = state.left.copy()
    got = exact(sum_clipped(data, size, state, all_taken(), 1e6, F32(0)), size)
    np.testing.assert_array_equal(state.left, kept)  # with rate 0 no user learns
    left, right = exact(state.left, size), exact(state.right, size)

    def loss() -> Exact:
        p, q = left[data.users], right[data.items]
        product = (p[:, :-1] * q[:, :-1]).sum(axis=1)
        guess = float(MEAN) + p[:, -1] + q[:, -1] + product
        half: Exact = 0.5 * ((data.values[:, None] - guess) ** 2).sum(axis=0)
        return half

    h = 1e-4
    for i in range(M):
        for f in range(size + 1):
            start = right[i, f].copy()
            right[i, f] = start + h
            up = loss()
            right[i, f] = start - h
            slope = (up - loss()) / (2 * h)
            right[i, f] = start
            np.testing.assert_allclose(got[i, f], -slope, atol=1e-4)
    assert abs(got).max() > 1
    assert not got[M - 1].any()  # nobody rates the last


@pytest.mark.cases("size", SIZES)
def test_a_users_part_is_clipped_to_the_norm(size: int) -> None:
    data, clip = small_data(), 2.0
    free: list[Exact] = []
    clipped: list[Exact] = []
    for n in range(N):
        taken = np.zeros((N, LANES), np.float32)
        taken[n] = 1
        for limit, into in ((1e6, free), (clip, clipped)):
            into.append(exact(sum_clipped(data, size, models(size), taken, limit), size))
    norm, cut = (np.sqrt((np.stack(parts) ** 2).sum(axis=(1, 2))) for parts in (free, clipped))
    assert (cut <= clip * (1 + 1e-6)).all()
    np.testing.assert_allclose(cut, np.minimum(norm, clip), rtol=2e-6)
    assert 0.05 < (norm > clip).mean() < 0.95
    assert not norm[[4, N - 1]].any()  # without a row, no part
    for whole, part, long in zip(free, clipped, norm, strict=True):
        np.testing.assert_allclose(
            part, whole * np.minimum(1, clip / np.maximum(long, clip)), atol=2e-6
        )
        # Gradients below the clipping norm are unchanged.
        short = long < clip * 0.999
        np.testing.assert_array_equal(part[..., short], whole[..., short])


def test_a_users_own_factors_stay_finite_however_large_items_are() -> None:
    # A plain step would multiply the error by 1 − 0.5 · 4e12 for each of the user's 300 ratings.
    size, source = 4, np.random.default_rng(2)
    items = np.arange(300, dtype=np.int32)
    right = (2.0**20 * source.choice([-1, 1], (300, size + 1, LANES))).astype(np.float32)
    left = np.zeros((1, size + 1, LANES), np.float32)
    values = source.integers(1, 6, 300).astype(np.float32)
    for _ in range(5):
        gradient = np.zeros(right.size)
        factor_trials.sum_clipped(
            np.array([0, 300]), factor_trials.Visits(np.zeros_like(items), items, values),
            factor_trials.Models(left.ravel(), right.ravel(), size, MEAN), F32(0.5), F32(0), F32(2),
            np.ones(LANES, np.float32), gradient, np.empty(300 * LANES, np.float32),
        )  # fmt: skip
        # Each step moves u by at most η^½ |r|/2.
        assert abs(left).max() < 300 * 5 * math.sqrt(0.5)
        norms = np.sqrt((gradient.reshape(-1, LANES) ** 2).sum(axis=0))
        assert (norms <= 2 * (1 + 1e-6)).all()


def test_who_is_left_out_changes_nothing_but_the_own_factors() -> None:
    data, size = small_data(), 3
    taken = all_taken()
    taken[6, ::2] = 0
    state, other = models(size), models(size)
    shifted = Data(data.users, data.items, np.where(data.users == 6, F32(1), data.values))
    one = sum_clipped(data, size, state, taken, 2.0).reshape(-1, LANES)
    two = sum_clipped(shifted, size, other, taken, 2.0).reshape(-1, LANES)
    np.testing.assert_array_equal(one[:, ::2], two[:, ::2])
    assert (one[:, 1::2] != two[:, 1::2]).any(axis=0).all()
    changed = (state.left != other.left).reshape(N, -1)
    assert changed[6].any()
    assert not np.delete(changed, 6, axis=0).any()


# Of noised gradients.
GRID = 2.0**-4


def take_step(
    state: Models, gradient: Exact, spread: float, step: int, trials: NDArray[np.int64] = TRIALS
) -> None:
    source = Source(step, trial_words(trials), KEY)
    factor_trials.take_step(state.right, gradient, RATE, DECAY, spread, GRID, source)


def normals(count: int, step: int) -> Exact:
    """The fast draws of coordinates 0 … of 16 trials, `(count, 16)`."""
    tiles = -(-count // LANE_TILE)
    out, words = np.empty((2, tiles, LANE_TILE * LANES), np.float32)
    for tile in range(tiles):
        scratch = words[tile].view(np.uint32)
        normal_lanes(out[tile], scratch, tile * LANE_TILE, step, trial_words(TRIALS), KEY)
    return out.reshape(-1, LANES)[:count].astype(np.float64)


def exact_normals(count: int, step: int) -> Exact:
    """The exact draws of coordinates 0 … of 16 trials, `(count, 16)`."""
    tiles = -(-count // LANE_TILE)
    out, words = np.empty((tiles, LANE_TILE * LANES)), np.empty((2, LANE_TILE * LANES), np.uint32)
    for tile in range(tiles):
        exact_normal_lanes(out[tile], words, tile * LANE_TILE, step, trial_words(TRIALS), KEY)
    return out.reshape(-1, LANES)[:count]


@pytest.mark.cases("size", SIZES)
@pytest.mark.cases("spread", [0.0, 1.5])
def test_take_step_is_its_formula(size: int, spread: float) -> None:
    state, rng = models(size), np.random.default_rng(5)
    gradient = rng.standard_normal(len(state.right))
    draws = exact_normals(len(state.right) // LANES, 9).ravel()
    downhill = gradient + spread * draws
    if spread:
        downhill = np.rint(downhill / GRID) * GRID
    expected = (1 - float(RATE) * float(DECAY)) * state.right + float(RATE) * downhill
    take_step(state, gradient, spread, 9)
    close(state.right, expected)
    assert len(np.unique(draws)) == len(draws)  # every coordinate has a draw of its own


@dataclass(frozen=True)
class Sampler:
    """Arguments of `sample` besides the rows and the models."""

    gains: Floats
    user_decay: Floats
    item_decay: Floats
    user_pending: Exact
    item_pending: Exact

    @staticmethod
    def new(trials: NDArray[np.int64] = TRIALS) -> Sampler:
        gains = np.random.default_rng(6).uniform(0.01, 0.05, N).astype(np.float32)

        # A function of the trial, so that a trial is the same in any lane.
        def decay(n: int) -> Floats:
            trial = np.resize(trials % 97, LANES).astype(np.float32)
            return (np.add.outer(np.arange(n), trial) % 13).astype(np.float32).ravel() / F32(500)

        return Sampler(gains, decay(N), decay(M), np.zeros(N), np.zeros(M))


def sample(
    data: Data,
    size: int,
    state: Models,
    sampler: Sampler,
    step: int,
    trials: NDArray[np.int64] = TRIALS,
    step_size: np.float32 = STEP_SIZE,
) -> None:
    variance = float(step_size) * float(TEMPERATURE)
    drifts = sampler.user_decay, sampler.item_decay
    langevin = factor_trials.Langevin(sampler.gains, *drifts, (LOW, HIGH), variance)
    due = factor_trials.Pending(sampler.user_pending, sampler.item_pending)
    source = Source(step, trial_words(trials), KEY)
    factor_trials.sample(data.visits, state.of(size), langevin, due, source, True, None)


def settle(state: Models, size: int, sampler: Sampler, trials: NDArray[np.int64] = TRIALS) -> None:
    words = trial_words(trials)
    factor_trials.settle(state.left, size, sampler.user_pending, Source(1000, words, KEY))
    factor_trials.settle(state.right, size, sampler.item_pending, Source(1001, words, KEY))


def sample_exactly(
    data: Data, left: Exact, right: Exact, sampler: Sampler, due: list[Exact], draws: Exact
) -> None:
    """Run one epoch in place, with the noise in the order in which it is drawn.

    `due` holds the pending noise variance of each user and each item, increased at every step.
    """
    size = left.shape[1] - 1
    shrink = [
        decay.astype(np.float64).reshape(-1, LANES)
        for decay in (sampler.user_decay, sampler.item_decay)
    ]
    room = max(4 * LANE_TILE, -(-2 * (size + 1) // LANE_TILE) * LANE_TILE)
    per_filling = room // (2 * (size + 1))  # steps per filling of the noise buffer
    for k, (n, i) in enumerate(zip(data.users, data.items, strict=True)):
        place = k // per_filling * room + k % per_filling * 2 * (size + 1)
        z = draws[place : place + 2 * (size + 1)]
        left[n] += np.sqrt(due[0][n]) * z[: size + 1]
        right[i] += np.sqrt(due[1][i]) * z[size + 1 :]
        due[0][n] = due[1][i] = 0
        u, v = left[n].copy(), right[i].copy()
        guess = shown(u, v)
        e = np.where((guess >= LOW) & (guess <= HIGH), float(data.values[k]) - guess, 0)
        g, keep_u, keep_v = sampler.gains[n] * e, 1 - shrink[0][n], 1 - shrink[1][i]
        left[n, :-1] = keep_u * u[:-1] + g * v[:-1]
        right[i, :-1] = keep_v * v[:-1] + g * u[:-1]
        left[n, -1] = keep_u * u[-1] + g
        right[i, -1] = keep_v * v[-1] + g
        due[0] += float(TEMPERATURE) * float(STEP_SIZE)
        due[1] += float(TEMPERATURE) * float(STEP_SIZE)


@pytest.mark.cases("size", [*SIZES, 5, 255, 256, 511])
def test_sample_is_its_formula(size: int) -> None:
    data, state, sampler = small_data().mixed(2), models(size, spread=0.1), Sampler.new()
    left, right = exact(state.left, size), exact(state.right, size)
    due = [np.zeros(N), np.zeros(M)]
    for step in (0, 1):
        sample(data, size, state, sampler, step)
        draws = normals(len(data.users) * 2 * (size + 1) * 2, step)
        sample_exactly(data, left, right, sampler, due, draws)
        close(state.left, left)
        close(state.right, right)
        np.testing.assert_allclose(sampler.user_pending, due[0], rtol=1e-12)
        np.testing.assert_allclose(sampler.item_pending, due[1], rtol=1e-12)
    assert due[0][N - 1] == pytest.approx(2 * len(data.users) * 0.005)  # not read yet
    settle(state, size, sampler)
    for got, factors, pending, step in (
        (state.left, left, due[0], 1000),
        (state.right, right, due[1], 1001),
    ):
        draws = normals(len(pending) * (size + 1), step).reshape(factors.shape)
        close(got, factors + np.sqrt(pending)[:, None, None] * draws)
    assert not sampler.user_pending.any()
    assert not sampler.item_pending.any()


def test_a_pull_below_the_resolution_of_single_precision_is_not_lost() -> None:
    # 1 − 2.5e-8 is 1 in single precision. Without noise, over 4000 rows of one user and one item.
    rows, size, pull = 4000, 2, F32(2.5e-8)
    values = np.random.default_rng(7).uniform(1, 5, rows).astype(np.float32)
    data = Data(np.zeros(rows, np.int32), np.zeros(rows, np.int32), values)
    state, nothing = models(size), np.zeros((rows * 4 * (size + 1), LANES))
    off: list[float] = []
    states = [(exact(state.left, size), exact(state.right, size)) for _ in range(2)]
    pulls = [Sampler.new(), Sampler.new()]
    for sampler, strength in zip(pulls, (pull, F32(0)), strict=True):
        sampler.gains[:] = 1e-4
        sampler.user_decay[:] = sampler.item_decay[:] = strength
    sample(data, size, state, pulls[0], 0, step_size=F32(0))
    for (left, right), sampler in zip(states, pulls, strict=True):
        sample_exactly(data, left, right, sampler, [np.zeros(N), np.zeros(M)], nothing)
        both = (
            abs(exact(state.left, size)[0] - left[0]),
            abs(exact(state.right, size)[0] - right[0]),
        )
        off.append(float(np.max(both)))
    # A walk of 4000 roundings by half a unit of 1e-7 at most, against a share of 1e-4.
    assert off[0] < 1.5e-5
    assert off[1] > 5e-5


def run_descend(data: Data, size: int, state: Models, trials: NDArray[np.int64]) -> None:
    for step in range(3):
        descend(data, size, state, 0.5, step, trials)


def run_clipped(data: Data, size: int, state: Models, trials: NDArray[np.int64]) -> None:
    trial = np.resize(trials % 89, LANES)
    for step in range(3):
        taken = ((np.add.outer(np.arange(N), trial) + step) % 3 > 0).astype(np.float32)
        take_step(state, sum_clipped(data, size, state, taken, 2.0), 0.5, step, trials)


def run_sample(data: Data, size: int, state: Models, trials: NDArray[np.int64]) -> None:
    sampler = Sampler.new(trials)
    for step in range(3):
        sample(data, size, state, sampler, step, trials)
    settle(state, size, sampler, trials)


RUNS = [run_descend, run_clipped, run_sample]
Run = Callable[[Data, int, Models, NDArray[np.int64]], None]


@pytest.mark.cases("size", SIZES)
@pytest.mark.cases("run", RUNS)
def test_a_trial_is_the_same_beside_other_trials(run: Run, size: int) -> None:
    data, first = small_data(), models(size)
    together = first.copy()
    run(data, size, together, TRIALS)
    for lane, trial in enumerate(TRIALS):
        alone = models(size, seed=100 + lane)
        alone.left[::LANES], alone.right[::LANES] = first.lane(lane)
        run(data, size, alone, np.array([trial, *range(900, 915)], np.int64))
        for one, other in zip(alone.lane(0), together.lane(lane), strict=True):
            np.testing.assert_array_equal(one.view(np.uint32), other.view(np.uint32))
    assert len({together.lane(lane)[1].tobytes() for lane in range(LANES)}) == LANES


@pytest.mark.cases("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.cases("row", [0, 2])
@pytest.mark.cases("side", ["left", "right"])
@pytest.mark.cases("run", RUNS)
def test_what_is_no_number_stays_visible(run: Run, side: str, row: int, bad: float) -> None:
    data, size = small_data(), 2
    fine, spoilt = models(size), models(size)
    place = (3 * (size + 1) + row) * LANES + 5
    getattr(spoilt, side)[place] = bad  # row 2 is the bias
    run(data, size, fine, TRIALS)
    with np.errstate(all="ignore"):
        run(data, size, spoilt, TRIALS)
    if np.isnan(bad):
        assert np.isnan(spoilt.right[5::LANES]).any()  # in what is released
    assert not all(np.isfinite(part).all() for part in spoilt.lane(5))
    for lane in set(range(LANES)) - {5}:
        for one, other in zip(fine.lane(lane), spoilt.lane(lane), strict=True):
            np.testing.assert_array_equal(one, other)
