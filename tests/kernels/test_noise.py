"""Test the counter-based noise source against Random123's vectors and scipy's distributions.

Stochastic checks use fixed seeds. Each states its false-failure rate: the probability, over seeds,
that a correct source would fail it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.kernels import noise

Floats = NDArray[np.float32]
KEY = np.array([0x1234ABCD, 0x9E3779B1], np.uint32)
MASK = 0xFFFFFFFF

# 2e7 draws of each law: 200 trials of 100 000 coordinates.
TRIALS, COORDINATES = 200, 100_000
DRAWS = TRIALS * COORDINATES


def philox(counter: list[int], key: list[int]) -> list[int]:
    """Philox4x32-10 as in Salmon et al. 2011, in Python integers."""
    c, (k0, k1) = list(counter), key
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k0, p1 & MASK, (p0 >> 32) ^ c[3] ^ k1, p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return c


def words(count: int, step: int, trial: int, key: NDArray[np.uint32]) -> list[int]:
    """The words of coordinates 0 … count − 1."""
    blocks = [
        philox([block, step, trial & MASK, trial >> 32], [int(k) for k in key])
        for block in range(-(-count // 4))
    ]
    return [word for block in blocks for word in block][:count]


def draw(
    kernel: Callable[..., None],
    trials: NDArray[np.int64],
    count: int,
    step: int = 0,
    key: NDArray[np.uint32] = KEY,
) -> Floats:
    out = np.empty((len(trials), count), np.float32)
    kernel(out, trials, step, key)
    return out


def many(kernel: Callable[..., None]) -> Floats:
    return draw(kernel, np.arange(TRIALS, dtype=np.int64), COORDINATES).ravel()


@pytest.fixture(scope="module")
def normal_draws() -> Floats:
    return many(noise.normal)


@pytest.fixture(scope="module")
def uniform_draws() -> Floats:
    return many(noise.uniform)


# Random123, kat_vectors of version 1.14: counter, key, answer.
KNOWN = [
    ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([MASK] * 4, [MASK] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@pytest.mark.cases(("counter", "key", "answer"), KNOWN)
def test_philox_known_answers(counter: list[int], key: list[int], answer: list[int]) -> None:
    out = np.empty(4, np.uint32)
    trial = np.array([counter[2] | counter[3] << 32], np.uint64).view(np.int64)
    noise.philox_words(out, counter[0], counter[1], int(trial[0]), np.array(key, np.uint32))
    assert [int(word) for word in out] == answer
    assert philox(counter, key) == answer  # the reference used below


@pytest.mark.cases("trial", [0, 7, 2**32 - 1, 2**32, 5 * 2**32 + 9, 2**63 - 1])
@pytest.mark.cases("step", [0, 3, MASK])
def test_words_are_the_stated_function_of_the_counter(trial: int, step: int) -> None:
    out = np.empty(12, np.uint32)
    noise.philox_words(out, 5, step, trial, KEY)
    assert [int(word) for word in out] == words(32, step, trial, KEY)[20:]


def exponential(word: NDArray[np.int64]) -> NDArray[np.float64]:
    """`−ln(k / 2^31)`, k the odd number of the word's upper 31 bits."""
    odd = ((word >> 1) | 1).astype(np.float32)
    return -np.log(odd.astype(np.float64) / 2**31)


@pytest.mark.parametrize("trial", [3, 2**32 + 3])
def test_laws_are_the_stated_functions_of_the_words(trial: int) -> None:
    count = 2 * noise.TILE + 5
    # A normal tile needs all its words, also those behind the last coordinate.
    word = np.array(words(3 * noise.TILE, 2, trial, KEY), np.int64)
    trials = np.array([trial], np.int64)

    uniform = draw(noise.uniform, trials, count, 2)[0]
    np.testing.assert_array_equal(uniform, ((word[:count] >> 9) + 0.5) / 2**23)  # exactly

    tiles = word.reshape(3, 2, noise.TILE // 2)
    radius = np.sqrt(2 * exponential(tiles[:, 0]))
    angle = ((tiles[:, 1] ^ 0x80000000) - 0x80000000 >> 2) * (np.pi / 2 * 2.0**-30)
    sine, cosine = radius * np.sin(angle), radius * np.cos(angle)
    cosine = np.where(tiles[:, 1] & 1, -cosine, cosine)
    swap = (tiles[:, 1] & 2) != 0
    pair = np.stack([np.where(swap, cosine, sine), np.where(swap, sine, cosine)], axis=1)
    expected = pair.reshape(-1)[:count]
    scale = np.repeat(radius[:, None], 2, axis=1).reshape(-1)[:count]
    normal = draw(noise.normal, trials, count, 2)[0]
    # Fast polynomials: an error of 1e-6 of the radius, far below what any statistic can see.
    assert (abs(normal - expected) <= 1e-6 * scale).all()


def moment(law: str, order: int) -> float:
    """E X^order, in closed form."""
    if law == "uniform_draws":
        return 1 / (order + 1)
    if order % 2:
        return 0.0
    return float(math.prod(range(1, order, 2)))


def moments_off(sample: NDArray[np.floating], law: str, orders: tuple[int, ...]) -> float:
    """The largest deviation of a raw moment, in standard errors."""
    worst, n = 0.0, len(sample)
    power = np.ones(n)
    for order in range(1, max(orders) + 1):
        power *= sample
        if order in orders:
            mean, square = moment(law, order), moment(law, 2 * order)
            worst = max(worst, abs(power.mean() - mean) / np.sqrt((square - mean**2) / n))
    return float(worst)


def distances(sample: NDArray[np.floating], law: Any) -> tuple[float, float]:
    """Bounds on the Kolmogorov-Smirnov distance of a sorted sample to a law, 8e-7 apart.

    Only every 16th value is compared; in between the empirical distribution rises by 16/n.
    """
    step, n = 16, len(sample)
    places = np.append(np.arange(0, n, step), n - 1)
    law_at = law.cdf(sample[places].astype(np.float64))
    low = float(max(((places + 1) / n - law_at).max(), (law_at - places / n).max()))
    return low, low + step / n


LAWS = [("normal_draws", stats.norm()), ("uniform_draws", stats.uniform())]


@pytest.mark.long
@pytest.mark.parametrize("draws", ["normal_draws", "uniform_draws"])
def test_moments(draws: str, request: pytest.FixtureRequest) -> None:
    # Rate 1e-6 over the 4 moments of a law: two-sided normal quantile of 1e-6/4; sums of 2e7 draws
    # with finite 8th moments are normal to that accuracy.
    limit = stats.norm.isf(1e-6 / 4 / 2)
    sample = request.getfixturevalue(draws)
    assert moments_off(sample, draws, (1, 2, 3, 4)) < limit
    # 2 % more spread, or a mean off by 0.01, would be noticed.
    assert moments_off(sample * np.float32(1.02), draws, (2,)) > limit
    assert moments_off(sample + np.float32(0.01), draws, (1,)) > limit


@pytest.mark.long
@pytest.mark.parametrize(("draws", "law"), LAWS)
def test_kolmogorov_smirnov(draws: str, law: Any, request: pytest.FixtureRequest) -> None:
    # Rate 1e-6: Massart's inequality P(D > t) <= 2 exp(-2 n t^2), valid at every n. The grid of
    # the uniform draws, of step 2^-23, adds up to 2^-24.
    limit = np.sqrt(np.log(2 / 1e-6) / (2 * DRAWS)) + 2.0**-24
    sample = np.sort(request.getfixturevalue(draws))
    assert distances(sample, law)[1] < limit
    assert distances(sample * np.float32(1.02), law)[0] > limit


def plausible(count: int, n: int, p: float, rate: float) -> bool:
    """Whether a binomial count lies between its quantiles at `rate / 2` on either side."""
    low, high = stats.binom.ppf(rate / 2, n, p), stats.binom.isf(rate / 2, n, p)
    return bool(low <= count <= high)


@pytest.mark.parametrize(("draws", "law"), LAWS)
def test_tails(draws: str, law: Any, request: pytest.FixtureRequest) -> None:
    # Tails of probability 2^-4 … 2^-20 (9.5e-7, 19 of 2e7 draws), on either side; the uniform's
    # grid has step 2^-23, so these are its exact probabilities. Rate 1e-6 over the 10 counts.
    sample = request.getfixturevalue(draws)
    rate = 1e-6 / 10
    for exponent in (4, 8, 12, 16, 20):
        p = 2.0**-exponent
        for count in (int((sample < law.ppf(p)).sum()), int((sample > law.isf(p)).sum())):
            assert plausible(count, DRAWS, p, rate)
            # An error of 5 % where there are 1000 draws or more, of a factor 4 or 1/8 elsewhere.
            for wrong in (1.05, 1 / 1.05) if exponent <= 8 else (4.0, 0.125):
                assert not plausible(count, DRAWS, p * wrong, rate)


def correlation(x: Floats, y: Floats) -> float:
    """The correlation times √n: standard normal for independent samples."""
    return float(np.corrcoef(x, y)[0, 1] * np.sqrt(len(x)))


@pytest.mark.parametrize("kernel", [noise.normal, noise.uniform])
def test_streams_and_coordinates_are_uncorrelated(kernel: Callable[..., None]) -> None:
    # Values and their absolute deviations are correlated over 400 000 draws: 2 x 13 comparisons,
    # two-sided normal quantiles for 1e-6 over all of them.
    limit = stats.norm.isf(1e-6 / 26 / 2)
    n = 400_000
    one = np.array([11], np.int64)
    base = draw(kernel, one, n + 1024)[0]
    others = [base[lag : n + lag] for lag in (1, 2, 3, 4, 5, 512, 1024)]
    others += [draw(kernel, one + shift, n)[0] for shift in (1, 2**31, 2**32)]
    others += [draw(kernel, one, n, step=step)[0] for step in (1, 2**20)]
    others += [draw(kernel, one, n, key=KEY + np.array([0, 1], np.uint32))[0]]
    x = base[:n]
    centre = np.float32(0.5 if kernel is noise.uniform else 0.0)
    for y in others:
        assert abs(correlation(x, y)) < limit
        assert abs(correlation(abs(x - centre), abs(y - centre))) < limit
        # 2 % of the other stream mixed in would be noticed.
        assert abs(correlation(x, y + np.float32(0.02) * x)) > limit


@pytest.mark.parametrize("kernel", [noise.normal, noise.uniform])
def test_a_draw_depends_on_nothing_but_its_place(kernel: Callable[..., None]) -> None:
    trials = np.array([5, 2**32 + 5, 0, 12, 2**40], np.int64)
    whole = draw(kernel, trials, 3000, step=4)
    for count in (1, 3, 4, 511, 512, 513, 1023, 1024, 1025, 2047, 2050):
        np.testing.assert_array_equal(draw(kernel, trials, count, step=4), whole[:, :count])
    np.testing.assert_array_equal(draw(kernel, trials[::-1].copy(), 3000, step=4), whole[::-1])
    np.testing.assert_array_equal(draw(kernel, trials[2:3], 3000, step=4)[0], whole[2])
    # Every pair of these trials, of steps and of keys differs, also 2^32 apart.
    assert len({row.tobytes() for row in whole}) == len(trials)
    assert (draw(kernel, trials, 3000, step=5) != whole).mean() > 0.99
    other = draw(kernel, trials, 3000, step=4, key=KEY[::-1].copy())
    assert (other != whole).mean() > 0.99


@pytest.mark.long
def test_uniform_draws_never_reach_an_end(uniform_draws: Floats) -> None:
    # Draw 13 012 237 of trial 0 has a word of 24 leading ones, so the largest k there is: with 24
    # bits (k + 1/2) / 2^24 would round to 1.
    long = draw(noise.uniform, np.array([0], np.int64), 13_012_238)[0]
    assert long[-1] == long.max() == 1 - 2.0**-24
    for draws in (uniform_draws, long):
        assert 2.0**-24 <= draws.min() <= draws.max() <= 1 - 2.0**-24
        # Every draw is exactly half a step off the grid, so nothing was rounded.
        assert (draws.astype(np.float64) * 2**23 % 1 == 0.5).all()
