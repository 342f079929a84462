"""Test that the Langevin sampler's late noise is distributed as noise drawn at every step.

Where the drift is linear the law is Gaussian at every step and its mean and covariance are known;
a model of size 0 has biases alone, whose drift is linear. Stochastic checks use fixed seeds and a
false-failure rate of 1e-6 each: the probability, over seeds, that a correct sampler fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg, stats

from dpaudit.kernels.factorization import sixteen_models as factor_trials
from dpaudit.kernels.factorization.sixteen_models import Langevin, Models, Pending, Visits
from dpaudit.kernels.lane_noise import Source, trial_words
from dpaudit.kernels.lanes import LANES
from tests.support.read_only import read_only

F32 = np.float32
Exact = NDArray[np.float64]
Draws = NDArray[np.float32]
RATE = 1e-6

KEY = np.array([5, 0xFEDCBA98], np.uint32)
N, M = 3, 4  # the last user and the last item have no row
MEAN = 3.0
BATCHES = 640  # 10 240 trials


@dataclass(frozen=True)
class Case:
    """The sampling problem: in double precision what the kernel gets in single precision."""

    users: tuple[int, ...]
    items: tuple[int, ...]
    values: tuple[float, ...]
    size: int
    gain: float
    user_decay: float
    item_decay: float
    temperature: float
    step_sizes: tuple[float, ...]  # of each epoch
    begin: float = 0.5
    bounds: tuple[float, float] = (-1e9, 1e9)

    @property
    def width(self) -> int:
        return (N + M) * (self.size + 1)


def visits_of(users: Sequence[int], items: Sequence[int], values: Sequence[float]) -> Visits:
    left, right = (read_only(np.array(part, np.int32)) for part in (users, items))
    return Visits(left, right, read_only(np.array(values, np.float32)))


def draw(case: Case, batches: int = BATCHES, settled: bool = True) -> Exact:
    """Models of many trials, `(trials, users then items, flat)`."""
    full = case.size + 1
    visits = visits_of(case.users, case.items, case.values)
    gains = np.full(N, case.gain, np.float32)
    user_decay = np.full(N * LANES, case.user_decay, np.float32)
    item_decay = np.full(M * LANES, case.item_decay, np.float32)
    bounds = (F32(case.bounds[0]), F32(case.bounds[1]))
    out = np.empty((batches, case.width, LANES))
    for batch in range(batches):
        words = trial_words(np.arange(batch * LANES, (batch + 1) * LANES))
        left = np.full(N * full * LANES, case.begin, np.float32)
        right = np.full(M * full * LANES, case.begin, np.float32)
        due = Pending(np.zeros(N), np.zeros(M))
        models = Models(left, right, case.size, F32(MEAN))
        for step, size in enumerate(case.step_sizes):
            variance = float(F32(size)) * float(F32(case.temperature))
            langevin = Langevin(gains, user_decay, item_decay, bounds, variance)
            factor_trials.sample(
                visits, models, langevin, due, Source(step, words, KEY), True, None
            )
        if settled:
            factor_trials.settle(left, case.size, due.users, Source(100, words, KEY))
            factor_trials.settle(right, case.size, due.items, Source(101, words, KEY))
        out[batch] = np.concatenate((left, right)).reshape(-1, LANES)
    return out.transpose(0, 2, 1).reshape(-1, case.width)


def law(case: Case, early: bool = False) -> tuple[Exact, Exact]:
    """The exact mean and covariance of a linear case, noise on every coordinate at every step.

    The noise of a step is added after its drift, or wrongly before it.
    """
    assert case.size == 0 or case.gain == 0
    full = case.size + 1
    mean, cover = np.full(case.width, case.begin), np.zeros((case.width, case.width))
    for step_size in case.step_sizes:
        noise = float(F32(step_size)) * float(F32(case.temperature))
        for n, i, value in zip(case.users, case.items, case.values, strict=True):
            move, shift = np.eye(case.width), np.zeros(case.width)
            u, v = slice(n * full, (n + 1) * full), slice((N + i) * full, (N + i + 1) * full)
            move[u, u] *= 1 - float(F32(case.user_decay))
            move[v, v] *= 1 - float(F32(case.item_decay))
            if case.size == 0:
                gain = float(F32(case.gain))
                move[u, [u.start, v.start]] -= gain
                move[v, [u.start, v.start]] -= gain
                shift[[u.start, v.start]] = gain * (value - MEAN)
            mean = move @ mean + shift
            fresh = noise * np.eye(case.width)
            cover = move @ (cover + early * fresh) @ move.T + (not early) * fresh
    return mean, cover


def chance(sample: Exact, mean: Exact, cover: Exact) -> float:
    """A bound on the chance of a Gaussian sample as far from its law as this one, or farther.

    Whitened, means are N(0, 1/n), and the mean squares of all coordinates, sums and differences of
    two are chi-squared; the least p-value is multiplied by their number (Bonferroni).
    """
    n = len(sample)
    z = linalg.solve_triangular(linalg.cholesky(cover, lower=True), (sample - mean).T, lower=True)
    one, other = np.triu_indices(len(z), 1)
    second = z @ z.T
    variances = np.diag(second)
    pairs = [
        (variances[one] + variances[other]) / 2 + sign * second[one, other] for sign in (1, -1)
    ]
    squares = np.concatenate([variances, *pairs])
    p = np.concatenate(
        [
            2 * stats.norm.sf(abs(z.mean(axis=1)) * np.sqrt(n)),
            2 * np.minimum(stats.chi2.sf(squares, n), stats.chi2.cdf(squares, n)),
        ]
    )
    return float(p.min() * len(p))


# User 1 rates item 0 alone, once; user 0 and item 1 are read often; some rows repeat.
USERS, ITEMS = (0, 0, 1, 0, 0), (1, 2, 0, 1, 1)
VALUES = (4.0, 2.0, 5.0, 3.0, 1.0)

NOISE_ALONE = Case(USERS, ITEMS, VALUES, 2, 0.0, 0.0, 0.0, 0.5, (0.02, 0.05, 0.01))
SHRUNK = Case(USERS, ITEMS, VALUES, 2, 0.0, 0.2, 0.3, 2.0, (0.02, 0.05, 0.01))
LINEAR = Case(USERS, ITEMS, VALUES, 0, 0.3, 0.1, 0.2, 1.0, (0.02, 0.05, 0.01))


def test_without_a_drift_every_coordinate_has_the_noise_of_all_steps() -> None:
    case = NOISE_ALONE
    sample = draw(case)
    variance = case.temperature * sum(case.step_sizes) * len(USERS)
    mean, cover = np.full(case.width, case.begin), variance * np.eye(case.width)
    assert chance(sample, mean, cover) > RATE
    # Every coordinate is normal: Massart's inequality over all coordinates.
    z = np.sort((sample - case.begin) / np.sqrt(variance), axis=0)
    steps = np.arange(len(z))[:, None] / len(z)
    at = stats.norm.cdf(z)
    distance = max((at - steps).max(), (steps + 1 / len(z) - at).max())
    assert distance < np.sqrt(np.log(2 * case.width / RATE) / (2 * len(z)))
    # 10 % more variance would be detected, and so would pending noise that is not added.
    assert chance(sample, mean, 1.1 * cover) < RATE
    owing = draw(case, settled=False)
    assert chance(owing, mean, cover) < RATE
    untouched = [*range((N - 1) * 3, N * 3), *range((N + M - 1) * 3, (N + M) * 3)]
    assert (owing[:, untouched] == case.begin).all()  # not read yet


@pytest.mark.long
@pytest.mark.parametrize("case", [SHRUNK, LINEAR])
def test_late_noise_has_the_law_of_noise_at_every_step(case: Case) -> None:
    sample = draw(case)
    mean, cover = law(case)
    assert chance(sample, mean, cover) > RATE
    assert chance(draw(case, settled=False), mean, cover) < RATE
    assert chance(sample, *law(case, early=True)) < RATE  # the noise of a step before its drift
    # A dense sampler in numpy has this distribution too, so it is the right one.
    rng, dense = np.random.default_rng(0), np.full((20_000, case.width), case.begin)
    full = case.size + 1
    for step_size in case.step_sizes:
        for n, i, value in zip(case.users, case.items, case.values, strict=True):
            u, v = dense[:, n * full : (n + 1) * full], dense[:, (N + i) * full :][:, :full]
            error = value - MEAN - u[:, -1:] - v[:, -1:] if case.size == 0 else 0.0
            u *= 1 - case.user_decay
            v *= 1 - case.item_decay
            u += case.gain * error
            v += case.gain * error
            dense += np.sqrt(step_size * case.temperature) * rng.standard_normal(dense.shape)
    assert chance(dense, mean, cover) > RATE


@pytest.mark.long
def test_late_noise_has_the_law_of_noise_at_every_step_with_factors() -> None:
    # Size 1 and the product of two factors in the drift: no closed form, so the means and second
    # moments of 40 960 trials are compared with those of as many dense chains in numpy.
    case = Case(USERS, ITEMS, VALUES, 1, 0.1, 0.05, 0.05, 1.0, (0.03, 0.05, 0.02), 0.5, (2.0, 4.5))
    lazy = draw(case, 2560)
    rng, dense = np.random.default_rng(1), np.full((len(lazy), case.width), case.begin)
    for step_size in case.step_sizes:
        for n, i, value in zip(case.users, case.items, case.values, strict=True):
            u, v = dense[:, 2 * n : 2 * n + 2], dense[:, 2 * (N + i) : 2 * (N + i) + 2]
            shown = MEAN + u[:, 1] + v[:, 1] + u[:, 0] * v[:, 0]
            g = case.gain * np.where((shown >= 2) & (shown <= 4.5), value - shown, 0)
            factor, other = u[:, 0].copy(), v[:, 0].copy()
            u *= 1 - case.user_decay
            v *= 1 - case.item_decay
            u += np.stack((g * other, g), axis=1)
            v += np.stack((g * factor, g), axis=1)
            dense += np.sqrt(step_size * case.temperature) * rng.standard_normal(dense.shape)

    def apart(x: Exact, y: Exact) -> float:
        # The largest difference of two means, in standard errors: normal to a fair accuracy with
        # 40 960 draws of light tails each.
        both = []
        for side in (x, y):
            one, other = np.triu_indices(case.width)
            both.append(np.concatenate((side, side[:, one] * side[:, other]), axis=1))
        errors = np.sqrt((both[0].var(axis=0) + both[1].var(axis=0)) / len(x))
        return float((abs(both[0].mean(axis=0) - both[1].mean(axis=0)) / errors).max())

    count = case.width + case.width * (case.width + 1) // 2
    limit = stats.norm.isf(RATE / count / 2)
    assert apart(lazy, dense) < limit
    assert apart(draw(case, 2560, settled=False), dense) > limit
    assert apart(lazy, 1.05 * dense) > limit
    free = replace(case, bounds=(-1e9, 1e9))
    assert apart(draw(free, 2560), dense) > limit  # so would ignored bounds


def test_each_coordinate_has_a_decay_of_its_own() -> None:
    source = np.random.default_rng(0)
    begin = source.normal(size=(N + M, 3, LANES)).astype(np.float32)
    sides = source.uniform(0.2, 1.5, (2, 3, LANES)).astype(np.float32)
    sides[:, 1, 4] = 40.0  # beyond 1: the coordinate is at 0 after a step

    def drawn(decay: float, precisions: tuple[Draws, Draws] | None) -> Exact:
        left, right = begin[:N].copy(), begin[N:].copy()
        drifts = np.full(N * LANES, decay, np.float32), np.full(M * LANES, 2 * decay, np.float32)
        bounds = F32(-1e9), F32(1e9)
        models = Models(left.reshape(-1), right.reshape(-1), 2, F32(MEAN))
        langevin = Langevin(np.zeros(N, np.float32), *drifts, bounds, 0.0)
        due = Pending(np.zeros(N), np.zeros(M))
        words = Source(0, trial_words(np.arange(LANES)), KEY)
        visits = visits_of(USERS, ITEMS, VALUES)
        factor_trials.sample(visits, models, langevin, due, words, True, precisions)
        return np.concatenate((left, right)).astype(float)

    factors = drawn(0.1, (sides[0].reshape(-1), sides[1].reshape(-1)))
    touches = [*np.bincount(USERS, minlength=N), *np.bincount(ITEMS, minlength=M)]
    for row, count in enumerate(touches):
        drift = np.minimum([0.1, 0.2][row >= N] * sides[int(row >= N)].astype(float), 1)
        np.testing.assert_allclose(factors[row], begin[row] * (1 - drift) ** count, atol=1e-6)
    # Twice everywhere is twice the decay, and 1 is none.
    for times in (1, 2):
        same = np.full(3 * LANES, times, np.float32)
        np.testing.assert_array_equal(drawn(0.1, (same, same)), drawn(times * 0.1, None))


def posterior(precision: float, weight: float) -> tuple[Exact, Exact]:
    """Mean and covariance of the biases of those with rows: ratings of precision 1, a ridge."""
    design = np.zeros((len(CYCLE), 4))
    for k, (n, i) in enumerate(CYCLE):
        design[k, [n, 2 + i]] = 1
    inverse = np.linalg.inv(precision * design.T @ design + weight * np.eye(4)).astype(np.float64)
    target = np.array([5.0, 2.0, 1.0, 4.0]) - MEAN
    return inverse @ design.T @ target * precision, inverse


CYCLE = ((0, 0), (0, 1), (1, 0), (1, 1))


@pytest.mark.long
def test_the_stationary_law_is_the_posterior() -> None:
    # Two users, two items, biases alone: Gaussian. A step of size h of the Langevin chain moves by
    # h/2 of the log-density's gradient, here four times that of one row (as in a mini-batch), and
    # the prior's share of a bias falls on its two rows.
    h, rows, ridge = 0.004, 4, 1.0
    times, passes = 50, 8
    users, items = (tuple(column) for column in zip(*(CYCLE * times), strict=True))
    case = Case(
        users, items, (5.0, 2.0, 1.0, 4.0) * times, 0, h / 2 * rows, h / 2 * rows * ridge / 2,
        h / 2 * rows * ridge / 2, 1.0, (h,) * passes,
    )  # fmt: skip
    sample = draw(case)
    assert chance(sample, *law(case)) > RATE
    # Eight times as many steps change the exact law by less than 1 %: it is the stationary one.
    near = [0, 1, N, N + 1]  # users and items with rows
    mean, cover = (part[np.ix_(*[near] * part.ndim)] for part in law(case))
    long = replace(case, step_sizes=(h,) * 64)
    still, cover_still = (part[np.ix_(*[near] * part.ndim)] for part in law(long))
    np.testing.assert_allclose(mean, still, atol=0.01)
    np.testing.assert_allclose(cover, cover_still, atol=0.01 * cover_still.max())
    # The discretisation moves it away from the posterior by 2 % of its spread at most.
    truth, cover_truth = posterior(1.0, ridge)
    np.testing.assert_allclose(still, truth, atol=0.02)
    np.testing.assert_allclose(cover_still, cover_truth, atol=0.02 * cover_truth.max())
    assert chance(sample[:, near], still, cover_still) > RATE
    # A sampler of half the temperature, or of another ridge, would be noticed.
    assert chance(sample[:, near], truth, 0.5 * cover_truth) < RATE
    assert chance(sample[:, near], *posterior(1.0, 1.3)) < RATE
