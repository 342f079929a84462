"""Low-order bits of a floating-point sum reveal a summand (Mironov 2012); a grid hides them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing import FloatBits
from dpaudit.audits.on_demand.games import prediction_game
from dpaudit.bounds.frequentist.labels import label_epsilon
from dpaudit.core.claim import Variant
from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import SeesTop
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Scale
from dpaudit.defenses import precision
from dpaudit.defenses.base import ExactScores
from dpaudit.defenses.item_item.recommender import ItemItem
from dpaudit.defenses.item_item.similarities import Cosine, SlopeOne
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.kernels import exact_noise

TRIALS = 40_000


def exact_pair() -> tuple[Cosine, ExactScores, ExactScores]:
    """Cosine, damped: the first buyer moves the prediction from 0 to 1/√132."""
    defense = Cosine(epsilon=1, variant="corrected")
    pair = defense.pair("tight", Scale(1, 1, 1))
    model = defense.prepare(pair.ratings)
    profile = pair.ratings.profile(pair.target)
    return defense, defense.exact(model, profile), defense.exact_after(model, pair.change, 0)


def fine_bits(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """1 where a value is no multiple of the spacing of numbers near 0.09: its exact part was 0."""
    steps = values.astype(np.float64) * 2.0**27
    return np.array(steps != np.rint(steps), np.float64)


def test_low_order_bits_would_break_a_true_claim_and_the_grid_hides_them() -> None:
    defense, absent, present = exact_pair()
    items = np.zeros((TRIALS, 1), np.int32)
    bare, released = [], []
    for exact, purpose in ((absent, "absent"), (present, "present")):
        streams = Streams.first(1, purpose, TRIALS)
        draws = np.empty(items.shape)
        exact_noise.laplace_at(draws, items, streams.trials, 0, streams.key)
        sums = exact.scores[items] + np.float32(exact.sensitivity) * draws.astype(np.float32)
        bare.append(fine_bits(sums[:, 0]))
        released.append(defense.release_items(exact, streams, items).values[:, 0])
    # A bound at level 1e-6: without the grid the claim ε = 1 would be refuted.
    assert label_epsilon(bare[0], bare[1], alpha=1e-6, seed=1)[0].lower > 1.2
    hidden = [fine_bits(values) for values in released]
    assert not hidden[0].any()
    assert not hidden[1].any()
    # Nor does any other threshold on the released values refute it.
    values = [np.asarray(value, np.float64) for value in released]
    assert label_epsilon(values[0], values[1], alpha=1e-6, seed=1)[0].lower <= 1


@pytest.mark.cases("epsilon", [0.01, 1.0, 100.0])
def test_the_grid_is_public_and_fine(epsilon: float) -> None:
    defense = SlopeOne(epsilon=epsilon)
    scores = np.linspace(1, 5, 50, dtype=np.float32)
    exact = ExactScores(scores, defense.sensitivity(Scale()))
    grid, scale = defense.grid(Scale()), defense.noise_scale(Scale())
    assert scale / 1024 < grid <= scale / 512
    assert np.log2(grid) == np.rint(np.log2(grid))
    streams = Streams.first(2, "grid", 200)
    items = np.tile(np.arange(50, dtype=np.int32), (200, 1))
    draws = np.empty(items.shape)
    exact_noise.laplace_at(draws, items, streams.trials, 0, streams.key)
    one_by_one = defense.release_items(exact, streams, items).values
    sums = scores[items] + scale * draws
    assert np.all(np.abs(one_by_one - sums) <= grid / 2 + np.spacing(np.abs(one_by_one)))
    steps = one_by_one.astype(np.float64) / grid
    assert np.array_equal(steps, np.rint(steps))
    listed = defense.release(exact, streams, SeesTop(50))
    order = np.argsort(listed.items, axis=1)
    assert np.array_equal(np.take_along_axis(listed.values, order, axis=1), one_by_one)


@pytest.mark.cases("variant", ["published", "corrected"])
@pytest.mark.cases(("kind", "name"), [(Cosine, "tight"), (SlopeOne, "support-threshold")])
def test_bits_of_predictions_tell_nothing(
    kind: type[ItemItem], name: str, variant: Variant
) -> None:
    defense = kind(epsilon=1, variant=variant)
    scale = Scale(1, 1, 1) if kind is Cosine else Scale()
    pair = defense.pair(name, scale)
    game = prediction_game(defense, defense.prepare(pair.ratings), pair, FloatBits())
    scores = game.run(trials=5000, seed=1)
    assert not scores.absent.any()
    assert not scores.present.any()


def test_without_noise_nothing_is_rounded() -> None:
    defense = SlopeOne(epsilon=float("inf"), variant="nonprivate")
    exact = ExactScores(np.array([1 / 3], np.float32), 0.0)
    items = np.zeros((1, 1), np.int32)
    shown = defense.release_items(exact, Streams.first(1, "none", 1), items)
    assert shown.values[0, 0] == np.float32(1 / 3)


@pytest.mark.cases("scale", [1e-9, 0.3, 1.0, 8.0, 1e7])
def test_a_grid_is_a_power_of_two_coarse_against_draws_and_fine_against_noise(scale: float) -> None:
    step = precision.grid(scale)
    assert scale / 16 < step <= scale / 8
    assert math.frexp(step)[0] == 0.5
    assert precision.list_grid(scale) == step / 64
    np.testing.assert_array_equal(
        precision.grids(np.array([scale, 0.0])), [step, precision.grid(0.0)]
    )
    # It raises the noise's variance by g²/12: by 0.07 % of Laplace noise at most, 0.13 % of normal.
    assert step**2 / 12 <= 0.00066 * 2 * scale**2
    assert step**2 / 12 <= 0.0014 * scale**2


def test_finite_precision_takes_its_part_of_epsilon_and_no_more_than_it_may() -> None:
    assert precision.kept_epsilon(1.0, 2.0**-20) == 1 - 2.0**-20
    with pytest.raises(ConfigError, match=r"epsilon = 0\.001 is too small"):
        precision.kept_epsilon(1e-3, 2e-4)
    free, kept = (SgdSimilarity(0.5, "corrected").noise_scale(1, Scale(), n) for n in (0, 1682))
    # 10 steps of 1682² numbers: ε falls by 2.1e-4.
    assert kept / free == pytest.approx(0.5 / (0.5 - 10 * 1682**2 * 2.0**-37), rel=1e-3)
    assert SgdSimilarity(0.5).noise_scale(1, Scale(), 1682) == SgdSimilarity(0.5).noise_scale(
        1, Scale(), 0
    )
    with pytest.raises(ConfigError, match="train on fewer items"):
        SgdSimilarity(0.5, "corrected").noise_scale(1, Scale(), 262_614)


def magnitudes_below(scale: float, exact: float, end: float, step: float) -> int:
    """Count, by bisection, the 2^62 magnitudes that lead to a grid point of at most `end` steps."""
    low, high = 0, 2**62 - 1  # the larger k, the smaller the magnitude
    while low < high:
        middle = (low + high) // 2
        k = 2 * middle + 1
        word = np.uint32(k >> 31), np.uint32((k & (2**31 - 1)) << 1)
        drawn = float(exact_noise._exponential(*word))
        if np.rint((exact + scale * drawn) / step) <= end:
            high = middle
        else:
            low = middle + 1
    return 2**62 - low


@pytest.mark.cases("scale", [0.02, 1.0, 3.0])
@pytest.mark.cases("exact", [0.0, 0.013, 0.7])
def test_grid_points_have_the_probability_of_the_law(scale: float, exact: float) -> None:
    # Counted over the source's magnitudes instead of drawn.
    step = precision.grid(scale)
    first = math.ceil(exact / step) + 1
    for point in (first, first + 1, first + 7, first + 30, first + 60):
        ends = [point - 1, point]
        counts = [magnitudes_below(scale, exact, end, step) for end in ends]
        low, high = (((end + 0.5) * step - exact) / scale for end in ends)
        expected = -math.exp(-low) * math.expm1(low - high)
        assert (counts[1] - counts[0]) / 2**62 == pytest.approx(expected, rel=2.0**-39, abs=0)


def test_31_bits_left_grid_points_empty_from_18_scales_on() -> None:
    # e^ε multiplies their mass in the other data set, so δ was 2.5e-7 e^ε.
    assert 2.0**31 * math.exp(-18) * precision.grid(1.0) / 2 < 2.1
    # The source's magnitudes end at 221 scales.
    assert math.exp(-221) * math.exp(precision.MOST_EPSILON) < 1e-30


def test_only_without_noise_epsilon_may_be_infinite() -> None:
    precision.check_finite(1e6, "published")
    precision.check_finite(math.inf, "nonprivate")
    for epsilon, variant in ((math.inf, "published"), (1e7, "corrected"), (1e7, "nonprivate")):
        with pytest.raises(ValueError, match="use at most 1e6, or inf"):
            precision.check_finite(epsilon, variant)  # type: ignore[arg-type]
