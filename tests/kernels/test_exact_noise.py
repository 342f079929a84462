"""Test the noise that claims depend on: bits, distribution in body and tail, no equal draws.

Stochastic checks use fixed seeds. Each states its false-failure rate: the probability, over seeds,
that a correct source would fail it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpaudit.core.streams import Streams
from dpaudit.kernels import exact_noise, noise
from dpaudit.kernels.lane_noise import (
    LANE_TILE,
    exact_laplace_lanes,
    exact_normal_lanes,
    trial_words,
)
from dpaudit.kernels.lanes import LANES

Exact = NDArray[np.float64]
KEY = np.array([0x1234ABCD, 0x9E3779B1], np.uint32)
DRAWS = 4_000_000
LAWS = {"laplace": stats.laplace(), "normal": stats.norm()}


def draw(
    law: str, trials: list[int], count: int, step: int = 0, key: NDArray[np.uint32] = KEY
) -> Exact:
    out = np.empty((len(trials), count))
    getattr(exact_noise, law)(out, np.array(trials, np.int64), step, key)
    return out


def halves(first: int, count: int, step: int, trial: int) -> tuple[NDArray[np.int64], ...]:
    """The upper and the lower words of coordinates `first …`, both even."""
    words = np.empty(2 * count, np.uint32)
    noise.philox_words(words, first // 2, step, trial, KEY)
    blocks = words.astype(np.int64).reshape(-1, 4)
    return blocks[:, :2].ravel(), blocks[:, 2:].ravel()


def magnitudes(high: NDArray[np.int64], low: NDArray[np.int64]) -> Exact:
    """`−ln(k / 2^63)` by numpy's logarithm, exact to 1e-15 of it where k is far from 2^63."""
    k = (high << 31) + ((low >> 1) | 1)
    return np.where(
        k < 2**62,
        -np.log(k.astype(np.float64) / 2.0**63),
        -np.log1p(-((2**63 - 1 - k) + 1.0) / 2.0**63),
    )


@pytest.mark.parametrize("trial", [3, 2**32 + 3])
def test_laws_are_the_stated_functions_of_the_words(trial: int) -> None:
    count = 2 * noise.TILE
    high, low = halves(0, count, 2, trial)
    common = high >= exact_noise.RARE
    assert 0.998 < common.mean() < 1
    size = magnitudes(high, low)
    expected = np.where(low & 1, -size, size)
    got = draw("laplace", [trial], count - 3, 2)[0]
    np.testing.assert_allclose(
        got[common[: count - 3]], expected[: count - 3][common[: count - 3]], rtol=2e-15, atol=2e-16
    )
    shape = (2, 2, noise.TILE // 2)
    radius = np.sqrt(2 * size.reshape(shape)[:, 0])
    ends = low.reshape(shape)[:, 1]
    turned = (high.reshape(shape)[:, 1] << 30) + (ends >> 2)
    angle = (turned - 2**61) * (math.pi / 2 * 2.0**-62)
    sine, cosine = radius * np.sin(angle), radius * np.cos(angle)
    cosine = np.where(ends & 1, -cosine, cosine)
    swap = (ends & 2) != 0
    pair = np.stack([np.where(swap, cosine, sine), np.where(swap, sine, cosine)], axis=1)
    plain = np.repeat(common.reshape(2, 2, -1)[:, :1], 2, axis=1).ravel()
    got = draw("normal", [trial], count, 2)[0]
    scale = np.repeat(radius[:, None], 2, axis=1).ravel()
    assert (abs(got - pair.ravel())[plain] <= 4e-15 * scale[plain] + 2e-15).all()


def far(high: int, low: int, coordinate: int, step: int, trial: int) -> float:
    """The documented value of a draw in the tail, in integer arithmetic."""
    k = high * 2**31 + (low >> 1)
    for mark in (2**48, 2**48 + 2**47):
        words = np.empty(4, np.uint32)
        noise.philox_words(words, coordinate | mark, step, trial, KEY)
        for word in words.tolist():
            k = k * 2**32 + word
    # ln of a whole number of any length
    return (63 + 256) * math.log(2) - math.log(2 * k + 1) + math.log(2)


def test_far_draws_are_continued_by_256_bits() -> None:
    count, trial, step = 200_000, 2**33 + 1, 5
    high, low = halves(0, count, step, trial)
    rare = np.flatnonzero(high < exact_noise.RARE)
    # 49 of 2e5 draws on average: rate 1e-6 for either side.
    assert stats.poisson(count * 2.0**-12).ppf(1e-6) <= len(rare)
    got = abs(draw("laplace", [trial], count, step)[0])
    for c in rare.tolist():
        assert got[c] == pytest.approx(far(int(high[c]), int(low[c]), c, step, trial), rel=1e-14)
        assert got[c] > 8.3
    # Even if all 63 bits are 0, a number is drawn.
    words = [(0, 0), (0, 1), (1, 5)]
    for h, lower in words:
        value = exact_noise.far_exponential(
            np.uint32(h), np.uint32(lower), 7, step, np.uint32(trial % 2**32),
            np.uint32(trial >> 32), KEY,
        )  # fmt: skip
        assert value == pytest.approx(far(h, lower, 7, step, trial), rel=1e-14)
        assert 22 < value < 222
    assert np.sort(got)[-5:].max() > 10


@pytest.mark.long
@pytest.mark.parametrize("law", LAWS)
def test_the_law_in_every_part(law: str) -> None:
    draws = np.sort(draw(law, list(range(1000)), DRAWS // 1000).ravel())
    frozen = LAWS[law]
    # Massart's inequality, rate 1e-6.
    limit = math.sqrt(math.log(2 / 1e-6) / (2 * DRAWS))
    place = (np.arange(DRAWS) + 0.5) / DRAWS
    assert abs(frozen.cdf(draws) - place).max() < limit + 1 / DRAWS
    assert abs(frozen.cdf(draws * 1.01) - place).max() > limit
    for p in 2.0 ** -np.arange(2, 18):
        reach = frozen.isf(p)
        for count in (int((draws > reach).sum()), int((draws < -reach).sum())):
            # Rate 1e-7 each, of 32.
            spread = stats.binom(DRAWS, p)
            assert spread.ppf(5e-8) <= count <= spread.isf(5e-8)


def test_what_can_be_drawn_is_fine_against_a_grid_everywhere() -> None:
    """Neighbouring magnitudes have a relative spacing of at most 2^-50, whatever the bits."""
    rng = np.random.default_rng(1)
    for shift in range(20, 32):  # from the rarest that is not extended to the most common
        high = int(rng.integers(2**shift, 2 ** (shift + 1)))
        low = int(rng.integers(0, 2**32 - 2))
        one, two = (
            float(exact_noise._exponential(np.uint32(high), np.uint32(x))) for x in (low, low + 2)
        )
        assert 0 <= one - two <= 2.0**-50 + 2 * np.spacing(one)
    assert int(exact_noise.RARE) == 2**20


@pytest.mark.parametrize("law", LAWS)
def test_a_draw_depends_on_nothing_but_its_place(law: str) -> None:
    trials = [5, 2**32 + 5, 0, 12, 2**40, 2**47 - 1]
    whole = draw(law, trials, 5000, 4)
    for count in (1, 2, 3, 2047, 2048, 2049, 4097):
        np.testing.assert_array_equal(draw(law, trials, count, 4), whole[:, :count])
    np.testing.assert_array_equal(draw(law, trials[::-1], 5000, 4), whole[::-1])
    assert len({row.tobytes() for row in whole}) == len(trials)
    assert (draw(law, trials, 5000, 5) != whole).all()
    assert (draw(law, trials, 5000, 4, KEY[::-1].copy()) != whole).all()


def test_laplace_at_is_laplace_at_these_coordinates() -> None:
    trials = np.array([3, 2**33 + 1, 8], np.int64)
    whole = draw("laplace", trials.tolist(), 5000, 1)
    coordinates = np.random.default_rng(0).integers(0, 5000, (3, 700)).astype(np.int32)
    out = np.empty(coordinates.shape)
    exact_noise.laplace_at(out, coordinates, trials, 1, KEY)
    np.testing.assert_array_equal(out, np.take_along_axis(whole, coordinates.astype(np.int64), 1))


def in_lanes(kernel: Callable[..., None], first: int, step: int, trials: list[int]) -> Exact:
    out, words = np.empty(LANE_TILE * LANES), np.empty((2, LANE_TILE * LANES), np.uint32)
    kernel(out, words, first, step, trial_words(np.array(trials, np.int64)), KEY)
    return out.reshape(LANE_TILE, LANES)


@pytest.mark.long
def test_lanes_draw_what_trials_draw_alone() -> None:
    trials = [5, 2**32 + 5, 2**40, *range(20, 33)]
    tiles = 400  # enough that some draws are extended
    expected = draw("laplace", trials, tiles * LANE_TILE, 3)
    assert (abs(expected) > 8.4).sum() > 50
    for tile in range(tiles):
        got = in_lanes(exact_laplace_lanes, tile * LANE_TILE, 3, trials)
        part = slice(tile * LANE_TILE, (tile + 1) * LANE_TILE)
        np.testing.assert_array_equal(got.T, expected[:, part])
    # Normal draws pair other coordinates, and do not depend on the other trials.
    whole = in_lanes(exact_normal_lanes, LANE_TILE, 3, trials)
    alone = in_lanes(exact_normal_lanes, LANE_TILE, 3, [trials[7]] * LANES)
    np.testing.assert_array_equal(alone[:, 4], whole[:, 7])
    many = np.concatenate(
        [in_lanes(exact_normal_lanes, t * LANE_TILE, 3, trials) for t in range(99)]
    )
    # Rate 1e-6.
    assert stats.kstest(many.ravel(), "norm").pvalue > 1e-6
    assert stats.kstest(many.ravel() * 1.04, "norm").pvalue < 1e-6


FIRST = [0, 2**34, 2**35, 2**36, 2**40, 2**46]


@pytest.mark.parametrize("kernel", [exact_laplace_lanes, exact_normal_lanes])
def test_noise_does_not_repeat_at_the_largest_indices(kernel: Callable[..., None]) -> None:
    # Epinions has 262 614 items: rows of its similarities take 6.9e10 coordinates.
    drawn = [in_lanes(kernel, first, 2, list(range(16))) for first in FIRST]
    for i, one in enumerate(drawn):
        for other in drawn[:i]:
            assert len(np.intersect1d(one, other)) == 0
    words = np.empty(64, np.uint32)
    seen = set()
    for first in FIRST:
        noise.philox_words(words, first // 4, 2, 1, KEY)
        seen.add(words.tobytes())
    assert len(seen) == len(FIRST)


@pytest.mark.parametrize("law", LAWS)
def test_streams_and_coordinates_are_uncorrelated(law: str) -> None:
    # 2 x 11 comparisons of 400 000 draws: two-sided normal quantiles for 1e-6 over all of them.
    n, limit = 400_000, stats.norm.isf(1e-6 / 22 / 2)
    base = draw(law, [11], n + 1024)[0]
    others = [base[lag : n + lag] for lag in (1, 2, 3, 4, 1024)]
    others += [draw(law, [11 + shift], n)[0] for shift in (1, 2**31, 2**32)]
    others += [draw(law, [11], n, step)[0] for step in (1, 2**20)]
    others += [draw(law, [11], n, key=KEY + np.array([0, 1], np.uint32))[0]]

    def correlation(x: Exact, y: Exact) -> float:
        return float(abs(np.corrcoef(x, y)[0, 1]) * math.sqrt(n))

    for other in others:
        assert correlation(base[:n], other) < limit
        assert correlation(abs(base[:n]), abs(other)) < limit
        assert correlation(base[:n], other + 0.02 * base[:n]) > limit


def test_trials_of_either_data_set_have_no_draw_in_common() -> None:
    drawn = np.empty((2, 40_000, 1))
    for draws, purpose in zip(drawn, ("game/absent", "game/present"), strict=True):
        streams = Streams.first(7, purpose, len(draws))
        places = np.full(draws.shape, 3, np.int32)
        exact_noise.laplace_at(draws, places, streams.trials, 0, streams.key)
    assert len(np.unique(drawn)) == drawn.size


def test_uniform_draws_are_fine_and_never_reach_an_end() -> None:
    count, trial = 300_000, 2**34 + 3
    high, low = halves(0, count, 6, trial)
    got = draw("uniform", [trial], count - 1, 6)[0]
    expected = (high.astype(np.float64) * 2.0**20 + (low >> 12) + 0.5) / 2.0**52
    np.testing.assert_array_equal(got, expected[: count - 1])
    assert 0 < got.min() < got.max() < 1
    # Rate 1e-6. A sample of 2^23 values would hold thousands that are alike.
    assert stats.kstest(got, "uniform").pvalue > 1e-6
    assert len(np.unique(got)) == len(got)
