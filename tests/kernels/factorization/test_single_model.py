"""Test one large factorisation against sixteen equal ones, which have their own references."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chi2

from dpaudit.kernels import noise
from dpaudit.kernels.factorization import single_model as factor_model
from dpaudit.kernels.factorization import sixteen_models as factor_trials
from dpaudit.kernels.factorization.sixteen_models import Descent, Langevin, Models, Pending, Visits
from dpaudit.kernels.lane_noise import Source, trial_words
from dpaudit.kernels.lanes import LANES
from dpaudit.kernels.noise import TILE
from tests.support.read_only import read_only

F32 = np.float32
Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

KEY = np.array([0xABCDEF01, 77], np.uint32)
TRIALS = np.array([3, 2**32 + 3, 2**40, *range(50, 63)], np.int64)
N, M = 9, 7
MEAN, RATE, DECAY, BOUND = F32(3.25), F32(0.03125), F32(0.4), F32(1.5)
GAINS = np.linspace(0.01, 0.05, N).astype(np.float32)
ALPHA = 1e-6


@dataclass(frozen=True)
class Model:
    """Factors `(n, size)`, flat, and biases."""

    left: Floats
    right: Floats
    user_bias: Floats
    item_bias: Floats

    @classmethod
    def of(cls, size: int, seed: int = 1) -> Model:
        rng = np.random.default_rng(seed)
        shapes = (N * size, M * size, N, M)
        return cls(*((0.3 * rng.standard_normal(n)).astype(np.float32) for n in shapes))

    @classmethod
    def zero(cls, size: int) -> Model:
        return cls(*(np.zeros(n, np.float32) for n in (N * size, M * size, N, M)))

    def parts(self) -> factor_model.Model:
        sides = self.left, self.right, self.user_bias, self.item_bias
        return factor_model.Model(*sides, len(self.left) // N, MEAN)

    def in_every_lane(self) -> tuple[Floats, Floats]:
        """The same as flat factors, then their bias, of sixteen equal trials."""
        sides = []
        for factors, bias in ((self.left, self.user_bias), (self.right, self.item_bias)):
            joined = np.column_stack([factors.reshape(len(bias), -1), bias])
            sides.append(np.repeat(joined, LANES).astype(np.float32))
        return sides[0], sides[1]


def rows(count: int = 200) -> Visits:
    """Rows in random order, with some consecutive rows of a user and some repeated pairs."""
    rng = np.random.default_rng(4)
    users = np.sort(rng.integers(0, N, count)).astype(np.int32)
    items = rng.integers(0, M, count).astype(np.int32)
    users[count // 2 :] = rng.permutation(users[count // 2 :])
    values = (rng.integers(2, 11, count) / 2).astype(np.float32)
    return Visits(read_only(users), read_only(items), read_only(values))


def same(model: Model, left: Floats, right: Floats, lane: int) -> None:
    """Check that the model equals one of sixteen, up to the rounding of another order of sums."""
    for factors, bias, lanes in (
        (model.left, model.user_bias, left),
        (model.right, model.item_bias, right),
    ):
        one = lanes.reshape(len(bias), -1, LANES)[:, :, lane]
        np.testing.assert_allclose(factors.reshape(len(bias), -1), one[:, :-1], atol=3e-5)
        np.testing.assert_allclose(bias, one[:, -1], atol=3e-5)


def descended(
    data: Visits,
    size: int,
    lane: int,
    scale: float,
    rate: np.float32 = RATE,
    bound: np.float32 = BOUND,
) -> tuple[Model, Floats, Floats]:
    """A model after an epoch with the noise of a lane's trial, and sixteen from the same start."""
    model = Model.of(size)
    left, right = model.in_every_lane()
    nobody, nothing = np.empty(0, np.int32), np.empty(0, np.float32)
    descent = Descent(rate, DECAY, scale, 2.0**-20, bound)
    models = Models(left, right, size, MEAN)
    source = Source(5, trial_words(TRIALS), KEY)
    factor_trials.descend(data, models, descent, source, nobody, nothing, None)
    factor_model.descend(data, model.parts(), descent, 5, int(TRIALS[lane]), KEY)
    return model, left, right


@pytest.mark.cases("size", [16, 48])
@pytest.mark.cases("scale", [0.0, 0.7])
@pytest.mark.cases("bound", [BOUND, F32(math.inf)])
def test_a_pass_is_that_of_each_of_sixteen_trials(
    size: int, scale: float, bound: np.float32
) -> None:
    model, left, right = descended(rows(), size, 1, scale, bound=bound)
    same(model, left, right, 1)
    assert abs(model.left - Model.of(size).left).max() > 0.05
    if scale:  # another trial has other noise
        with pytest.raises(AssertionError):
            same(model, left, right, 2)


def test_noise_of_a_pass_goes_on_beyond_one_tile_of_draws() -> None:
    data = rows(2 * TILE + 5)
    model, left, right = descended(data, 16, 3, 0.5, rate=F32(1e-3))
    same(model, left, right, 3)


def langevin(
    model: Model,
    data: Visits,
    moving: bool = True,
    bounds: tuple[float, float] = (2.75, 4.0),
    variance: float = 0.0,
    step: int = 9,
    biases: bool = True,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Run one epoch, with gradient and prior if `moving`; return the pending variances."""
    due = Pending(np.zeros(N), np.zeros(M))
    drifts = np.full(N, moving * 0.01, np.float32), np.full(M, moving * 0.02, np.float32)
    steps = Langevin(moving * GAINS, *drifts, (F32(bounds[0]), F32(bounds[1])), variance)
    factor_model.sample(data, model.parts(), steps, due, step, 11, KEY, biases)
    return due


@pytest.mark.parametrize("biases", [True, False])
def test_drift_of_a_langevin_pass_is_that_of_sixteen_trials(biases: bool) -> None:
    size = 32
    model = Model.of(size)
    if not biases:
        model.user_bias[:] = model.item_bias[:] = 0
    left, right = model.in_every_lane()
    langevin(model, rows(), biases=biases)
    drifts = np.full(N * LANES, 0.01, np.float32), np.full(M * LANES, 0.02, np.float32)
    langevin_of_all = Langevin(GAINS, *drifts, (F32(2.75), F32(4)), 0.0)
    models, source = Models(left, right, size, MEAN), Source(9, trial_words(TRIALS), KEY)
    due = Pending(np.zeros(N), np.zeros(M))
    factor_trials.sample(rows(), models, langevin_of_all, due, source, biases, None)
    same(model, left, right, 0)
    free = Model.of(size)
    langevin(free, rows(), bounds=(-math.inf, math.inf))
    assert not np.allclose(free.left, model.left, atol=1e-3)


def test_every_coordinate_is_due_the_same_noise_read_or_not() -> None:
    # Without gradient and prior an epoch of R rows adds N(0, R · variance) to each coordinate,
    # partly drawn and partly pending; the two variances of a coordinate sum to R · variance.
    size, variance, (users, items, values) = 256, 0.25, rows()
    model = Model.zero(size)
    due = langevin(model, Visits(users, items, values), moving=False, variance=variance)
    total = len(users) * variance
    for factors, left, read in ((model.left, due[0], users), (model.right, due[1], items)):
        last = {int(n): k for k, n in enumerate(read)}
        for n, k in last.items():
            assert left[n] == pytest.approx(variance * (len(users) - k))
            drawn = factors.reshape(-1, size)[n].astype(float)
            statistic = (drawn**2).sum() / (total - left[n])
            low, high = (chi2.ppf(p, size) for p in (ALPHA / 32, 1 - ALPHA / 32))
            assert low < statistic < high
            # Noise of the last step alone, or of every step twice, would be noticed.
            assert not low < statistic * 2 < high
    untouched = set(range(N)) - set(users.tolist())
    assert all(due[0][n] == pytest.approx(total) for n in untouched)
    pairs = [model.left.reshape(N, size)[n] for n in sorted(set(users.tolist()))]
    products = np.corrcoef(np.array(pairs))[np.triu_indices(len(pairs), 1)]
    assert abs(products).max() < 6.5 / math.sqrt(size)


@pytest.mark.cases("size", [16, 256, 1024])
def test_each_row_takes_the_noise_that_follows_that_of_the_row_before(size: int) -> None:
    # An epoch in which each user and item is read once, with noise pending for all of them.
    room, count = factor_model.noise_of_row(size), min(N, M)
    alone = read_only(np.arange(count, dtype=np.int32))
    nothing = read_only(np.zeros(count, np.float32))
    model, due = Model.zero(size), (np.ones(N), np.ones(M))
    users, items = np.zeros(N, np.float32), np.zeros(M, np.float32)
    bounds = F32(-math.inf), F32(math.inf)
    langevin = Langevin(users, users, items, bounds, 0.0)
    visits = Visits(alone, alone, nothing)
    factor_model.sample(visits, model.parts(), langevin, Pending(*due), 3, 11, KEY, True)
    drawn = np.empty((1, room * count), np.float32)
    noise.normal(drawn, np.array([11]), 3, KEY)
    rows = drawn.reshape(count, room)
    assert np.array_equal(model.user_bias[:count], rows[:, 0])
    assert np.array_equal(model.item_bias[:count], rows[:, 1])
    assert np.array_equal(model.left.reshape(N, size)[:count], rows[:, LANES : LANES + size])
    assert np.array_equal(model.right.reshape(M, size)[:count], rows[:, LANES + size :])


def test_langevin_noise_differs_between_passes_and_biases_get_theirs() -> None:
    passes = []
    for step in (1, 2):
        model = Model.zero(16)
        langevin(model, rows(), moving=False, variance=1.0, step=step)
        assert (model.item_bias != 0).all()
        passes.append(model)
    assert not np.isclose(passes[0].right, passes[1].right).any()
    assert not np.isin(passes[0].item_bias, passes[0].right).any()
