"""Low-order bits of a floating-point sum tell its exact part (Mironov 2012); a grid hides them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from dpaudit.bounds.labels import label_epsilon
from dpaudit.data.ratings import Scale
from dpaudit.defenses.cosine import Cosine
from dpaudit.defenses.item_model import ExactScores
from dpaudit.defenses.slope_one import SlopeOne
from dpaudit.kernels import noise
from dpaudit.releases import SeesTop, Streams

WORLDS = 40_000


def exact_pair() -> tuple[Cosine, ExactScores, ExactScores]:
    """Cosine, damped: the first buyer moves the prediction from 0 to 1/√132."""
    defense = Cosine(epsilon=1, variant="corrected")
    pair = defense.pair("first", Scale(1, 1, 1))
    model = defense.prepare(pair.ratings)
    profile = pair.ratings.profile(pair.target)
    return defense, defense.exact(model, profile), defense.exact_after(model, pair.change, 0)


def fine_bits(values: NDArray[np.float32]) -> NDArray[np.float64]:
    """1 where a value is no multiple of the spacing of numbers near 0.09: then it came from 0."""
    steps = values.astype(np.float64) * 2.0**27
    return np.array(steps != np.rint(steps), np.float64)


def test_low_order_bits_would_break_a_true_claim_and_the_grid_hides_them() -> None:
    defense, absent, present = exact_pair()
    items = np.zeros((WORLDS, 1), np.int32)
    bare, released = [], []
    for exact, purpose in ((absent, "absent"), (present, "present")):
        streams = Streams.first(1, purpose, WORLDS)
        draws = np.empty(items.shape, np.float32)
        noise.laplace_at(draws, items, streams.worlds, 0, streams.key)
        sums = exact.scores[items] + np.float32(exact.sensitivity) * draws
        bare.append(fine_bits(sums[:, 0]))
        released.append(defense.release_items(exact, streams, items).values[:, 0])
    # A bound at level 1e-6: without the grid the claim ε = 1 would be refuted.
    assert label_epsilon(bare[0], bare[1], alpha=1e-6)[0].lower > 1.2
    hidden = [fine_bits(values) for values in released]
    assert not hidden[0].any()
    assert not hidden[1].any()
    # Nor does any other threshold on the released values refute it.
    values = [np.asarray(value, np.float64) for value in released]
    assert label_epsilon(values[0], values[1], alpha=1e-6)[0].lower <= 1


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 100.0])
def test_the_grid_is_public_and_fine(epsilon: float) -> None:
    defense = SlopeOne(epsilon=epsilon)
    scores = np.linspace(1, 5, 50, dtype=np.float32)
    exact = ExactScores(scores, defense.sensitivity(Scale()))
    grid, scale = float(exact.grid(epsilon)), defense.noise_scale(Scale())
    assert grid == ExactScores(scores[::-1], exact.sensitivity).grid(epsilon)
    assert scale / 1024 < grid <= scale / 512
    assert np.log2(grid) == np.rint(np.log2(grid))
    streams = Streams.first(2, "grid", 200)
    items = np.tile(np.arange(50, dtype=np.int32), (200, 1))
    draws = np.empty(items.shape, np.float32)
    noise.laplace_at(draws, items, streams.worlds, 0, streams.key)
    one_by_one = defense.release_items(exact, streams, items).values
    sums = scores[items] + np.float32(scale) * draws
    assert np.all(np.abs(one_by_one - sums) <= grid / 2 + np.spacing(np.abs(sums)))
    steps = one_by_one.astype(np.float64) / grid
    assert np.array_equal(steps, np.rint(steps))
    listed = defense.release(exact, streams, SeesTop(50))
    order = np.argsort(listed.items, axis=1)
    assert np.array_equal(np.take_along_axis(listed.values, order, axis=1), one_by_one)


def test_without_noise_nothing_is_rounded() -> None:
    defense = SlopeOne(epsilon=float("inf"), variant="nonprivate")
    exact = ExactScores(np.array([1 / 3], np.float32), 0.0)
    items = np.zeros((1, 1), np.int32)
    shown = defense.release_items(exact, Streams.first(1, "none", 1), items)
    assert shown.values[0, 0] == np.float32(1 / 3)
