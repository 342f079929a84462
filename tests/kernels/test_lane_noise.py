"""Noise of sixteen trials at once: the bits of the one source, and scipy's normal law.

Stochastic checks use fixed seeds. Each states its false-failure rate: the probability, over seeds,
that a correct source would fail it.
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.kernels import exact_noise, noise
from dpaudit.kernels.lane_noise import LANE_TILE, exact_laplace_lanes, normal_lanes, trial_words
from dpaudit.kernels.lanes import LANES

Floats = NDArray[np.float32]
Trials = NDArray[np.int64]
KEY = np.array([0x1234ABCD, 0x9E3779B1], np.uint32)
HALF = LANE_TILE // 2

# 2e7 normal draws: 16 trials of 9 766 tiles.
TILES = 9_766
DRAWS = TILES * LANE_TILE * LANES

TRIALS = [
    list(range(16)),
    [5, 2**32 + 5, 2**63 - 1, 2**40, 2**32 - 1, 2**32, *range(20, 30)],
    [7],
    [2**32 + 1, 1, 3],
]


def laplaces(trials: Trials, first: int, count: int, step: int) -> NDArray[np.float64]:
    """Draws of coordinates `first …` as `(count, 16)`."""
    out, words = np.empty(count * LANES), np.empty((2, count * LANES), np.uint32)
    exact_laplace_lanes(out, words, first, step, trial_words(trials), KEY)
    return out.reshape(count, LANES)


def normals(trials: Trials, tiles: int, step: int = 0, key: NDArray[np.uint32] = KEY) -> Floats:
    """Draws of the first tiles as `(tiles · LANE_TILE, 16)`."""
    out = np.empty((tiles, LANE_TILE * LANES), np.float32)
    words, who = np.empty(LANE_TILE * LANES, np.uint32), trial_words(trials)
    for tile in range(tiles):
        normal_lanes(out[tile], words, tile * LANE_TILE, step, who, key)
    return out.reshape(-1, LANES)


@pytest.fixture(scope="module")
def draws() -> Floats:
    return normals(np.arange(LANES), TILES)


@pytest.fixture(scope="module")
def ordered(draws: Floats) -> Floats:
    return np.sort(draws.ravel())


@pytest.mark.cases("trials", TRIALS)
def test_trials_are_cut_in_two_words_and_the_last_repeated(trials: list[int]) -> None:
    words = trial_words(np.array(trials, np.int64))
    full = trials + [trials[-1]] * (LANES - len(trials))
    assert words.dtype == np.uint32
    assert words.tolist() == [[w % 2**32 for w in full], [w // 2**32 for w in full]]


@pytest.mark.cases("trials", TRIALS)
@pytest.mark.cases("step", [0, 3, 2**32 - 1])
def test_laplace_draws_are_the_one_sources(trials: list[int], step: int) -> None:
    who = np.array(trials, np.int64)
    expected = np.empty((len(who), 3 * LANE_TILE))
    exact_noise.laplace(expected, who, step, KEY)
    for first, count in ((0, LANE_TILE), (LANE_TILE, LANE_TILE), (2 * LANE_TILE, 4), (12, 20)):
        got = laplaces(who, first, count, step)
        np.testing.assert_array_equal(got[:, : len(who)].T, expected[:, first : first + count])
        # Missing trials repeat the last one.
        np.testing.assert_array_equal(
            got[:, len(who) :].T, np.tile(got[:, len(who) - 1], (LANES - len(who), 1))
        )
    # Every trial, also one 2^32 away, has its own draws.
    assert len({row.tobytes() for row in expected}) == len(trials)


@pytest.mark.cases("trials", TRIALS)
def test_a_trials_draws_do_not_depend_on_its_neighbours(trials: list[int]) -> None:
    who = np.array(trials, np.int64)
    whole = normals(who, 3, step=2)
    for lane, trial in enumerate(who):
        # Alone, last of three, and first of sixteen others.
        for place, row in ((0, [trial]), (2, [99, 98, trial]), (0, [trial, *range(100, 115)])):
            alone = normals(np.array(row, np.int64), 3, step=2)
            np.testing.assert_array_equal(alone[:, place], whole[:, lane])
    assert len({column.tobytes() for column in whole.T[: len(who)]}) == len(trials)
    for other in (
        normals(who, 3, step=3),
        normals(who, 3, step=2, key=KEY[::-1].copy()),
        normals(who + 2**32, 3, step=2) if who.max() < 2**62 else normals(who - 1, 3, step=2),
    ):
        assert (other != whole).mean() > 0.99


def exponential(word: NDArray[np.int64]) -> NDArray[np.float64]:
    """`−ln(k / 2^31)`, k the odd number of the word's upper 31 bits."""
    return -np.log(((word >> 1) | 1).astype(np.float32).astype(np.float64) / 2**31)


def test_normal_draws_are_the_stated_functions_of_the_words() -> None:
    tiles, step = 3, 5
    trials = np.array([2, 2**32 + 2, *range(20, 34)], np.int64)
    got = normals(trials, tiles, step).reshape(tiles, 2, HALF, LANES)
    words = np.empty(tiles * LANE_TILE, np.uint32)
    for lane, trial in enumerate(trials):
        noise.philox_words(words, 0, step, int(trial), KEY)
        radial, turned = words.astype(np.int64).reshape(tiles, 2, HALF).transpose(1, 0, 2)
        radius = np.sqrt(2 * exponential(radial))
        angle = ((turned ^ 0x80000000) - 0x80000000 >> 2) * (np.pi / 2 * 2.0**-30)
        sine, cosine = radius * np.sin(angle), radius * np.cos(angle)
        cosine = np.where(turned & 1, -cosine, cosine)
        swap = (turned & 2) != 0
        first, second = np.where(swap, cosine, sine), np.where(swap, sine, cosine)
        # Fast polynomials: an error of 1e-6 of the radius, far below what a statistic can see.
        assert (abs(got[:, 0, :, lane] - first) <= 1e-6 * radius).all()
        assert (abs(got[:, 1, :, lane] - second) <= 1e-6 * radius).all()


def moments_off(sample: Floats, orders: tuple[int, ...]) -> float:
    """The largest deviation of a raw moment from the normal law's, in standard errors."""
    exact = {order: float(stats.norm.moment(order)) for order in range(1, 9)}
    worst, power = 0.0, np.ones(sample.size)
    for order in range(1, max(orders) + 1):
        power *= sample
        if order in orders:
            error = np.sqrt((exact[2 * order] - exact[order] ** 2) / sample.size)
            worst = max(worst, abs(power.mean() - exact[order]) / error)
    return float(worst)


@pytest.mark.long
def test_moments(ordered: Floats) -> None:
    # Rate 1e-6 over the 4 moments: two-sided normal quantile of 1e-6/4; sums of 2e7 draws with
    # finite 8th moments are normal to that accuracy.
    limit = stats.norm.isf(1e-6 / 4 / 2)
    assert moments_off(ordered, (1, 2, 3, 4)) < limit
    # 0.5 % more spread, or a mean off by 0.003, would be noticed.
    assert moments_off(ordered * np.float32(1.005), (2,)) > limit
    assert moments_off(ordered + np.float32(0.003), (1,)) > limit


def distances(sample: Floats) -> tuple[float, float]:
    """Bounds on the Kolmogorov-Smirnov distance of a sorted sample to N(0, 1), 8e-7 apart.

    Only every 16th value is compared; in between the empirical distribution rises by 16/n.
    """
    step, n = 16, len(sample)
    places = np.append(np.arange(0, n, step), n - 1)
    law_at = stats.norm.cdf(sample[places].astype(np.float64))
    low = float(max(((places + 1) / n - law_at).max(), (law_at - places / n).max()))
    return low, low + step / n


@pytest.mark.long
def test_kolmogorov_smirnov(ordered: Floats) -> None:
    # Rate 1e-6: Massart's inequality P(D > t) <= 2 exp(-2 n t^2), valid at every n.
    limit = np.sqrt(np.log(2 / 1e-6) / (2 * DRAWS))
    assert distances(ordered)[1] < limit
    assert distances(ordered * np.float32(1.01))[0] > limit


def plausible(count: int, n: int, p: float, rate: float) -> bool:
    """Whether a binomial count lies between its quantiles at `rate / 2` on either side."""
    return bool(stats.binom.ppf(rate / 2, n, p) <= count <= stats.binom.isf(rate / 2, n, p))


def test_tails(ordered: Floats) -> None:
    # Tails of probability 2^-4 … 2^-20 (9.5e-7, 19 of 2e7 draws), on either side. Rate 1e-6 over
    # the 10 counts.
    rate = 1e-6 / 10
    for exponent in (4, 8, 12, 16, 20):
        p = 2.0**-exponent
        reach = stats.norm.isf(p)
        for count in (int((ordered < -reach).sum()), int((ordered > reach).sum())):
            assert plausible(count, DRAWS, p, rate)
            # An error of 5 % where there are 1000 draws or more, of a factor 4 or 1/20 elsewhere.
            for wrong in (1.05, 1 / 1.05) if exponent <= 8 else (4.0, 0.05):
                assert not plausible(count, DRAWS, p * wrong, rate)


def correlation(x: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """The correlation times √n: standard normal for independent samples."""
    return float(np.corrcoef(x.ravel(), y.ravel())[0, 1] * np.sqrt(x.size))


def test_trials_steps_and_coordinates_are_uncorrelated() -> None:
    # Values and their sizes are correlated over 655 360 draws or nearly so: 2 x 16 comparisons,
    # two-sided normal quantiles for 1e-6 over all of them.
    tiles = 320
    base = normals(np.arange(LANES), tiles)
    pairs = [(base[lag:], base[:-lag]) for lag in (1, 2, 3, 4, 63, HALF, 65, LANE_TILE)]
    pairs += [(base[:, lane:], base[:, : LANES - lane]) for lane in (1, 2, 8)]
    pairs += [(base, normals(np.arange(LANES) + shift, tiles)) for shift in (16, 2**32)]
    pairs += [(base, normals(np.arange(LANES), tiles, step)) for step in (1, 2**20)]
    pairs += [(base, normals(np.arange(LANES), tiles, key=KEY + np.array([0, 1], np.uint32)))]
    limit = stats.norm.isf(1e-6 / (2 * len(pairs)) / 2)
    for x, y in pairs:
        assert abs(correlation(x, y)) < limit
        assert abs(correlation(abs(x), abs(y))) < limit
        # 2 % of the other stream mixed in would be noticed.
        assert abs(correlation(x, y + np.float32(0.02) * x)) > limit


def uniform_off(share: NDArray[np.floating]) -> float:
    """The Kolmogorov-Smirnov distance to the uniform law over its limit at 1e-6/2."""
    n = share.size
    grid = np.sort(share.ravel().astype(np.float64))
    steps = np.arange(n)
    distance = max(((steps + 1) / n - grid).max(), (grid - steps / n).max())
    return float(distance / np.sqrt(np.log(2 / (1e-6 / 2)) / (2 * n)))


def test_the_two_draws_of_a_pair_are_independent(draws: Floats) -> None:
    # A bivariate normal is determined by its independent radius and angle: exp(−r²/2) and
    # the turn are uniform. Rate 1e-6 for the two distances (Massart), 1e-6 for the correlation.
    pair = draws[: 800 * LANE_TILE].reshape(800, 2, HALF, LANES).astype(np.float64)

    def fitting(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, float]:
        return uniform_off(np.exp(-(x**2 + y**2) / 2)), uniform_off(
            np.arctan2(y, x) / (2 * np.pi) + 0.5
        )

    x, y = pair[:, 0], pair[:, 1]
    assert max(fitting(x, y)) < 1
    limit = stats.norm.isf(1e-6 / 2)
    assert abs(correlation(x**2 + y**2, np.arctan2(y, x))) < limit
    # A cosine whose sign follows the sine's would be noticed, and a correlation of 0.02.
    assert fitting(x, np.copysign(y, x))[1] > 1
    assert max(fitting(x, np.sqrt(1 - 0.02**2) * y + 0.02 * x)) > 1
