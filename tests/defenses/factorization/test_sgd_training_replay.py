"""The steps of `dpsgd-mf`, replayed by numpy: they release the kernels' models, bit for bit.

The corrected form is DP-SGD on whole users, so the checks of a training by DP-SGD read the replayed
steps: their clipped sums, their noise and the users who take part.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import dpsgd  # type: ignore[import-not-found]
import numpy as np
import pytest
import replays  # type: ignore[import-not-found]
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.data import Ratings
from dpaudit.defenses import factors, precision
from dpaudit.defenses.factorization import sgd_training
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lane_noise import exact_normal_lanes

F32, fma = np.float32, replays.fma
Floats = NDArray[np.float32]
N, M, DELTA = 40, 30, 1e-5
PUBLISHED = SgdFactors(3.0, dimensions=5, epochs=4, learning_rate=0.03)
CORRECTED = SgdFactors(
    2.0, "corrected", dimensions=5, epochs=6, clip_norm=0.7, sampling_rate=0.5, delta=DELTA
)


ratings = partial(replays.ratings, N, M)


def dot(u: Floats, v: Floats) -> Any:
    sums = [F32(0), F32(0)]
    for place, (a, b) in enumerate(zip(u, v, strict=True)):
        sums[place % 2] = fma(a, b, sums[place % 2])
    return sums[0] + sums[1]


def error_of(rows: factors.FactorRows, k: int, u: Floats, v: Floats) -> Any:
    offset = F32(rows.values[k] - F32(rows.mean))
    return offset - u[-1] - v[-1] - dot(u[:-1], v[:-1])


def run_epoch(
    model: SgdFactors, rows: factors.FactorRows, sides: Any, t: int, streams: Streams
) -> None:
    """Run an epoch of the published form of the first trial, in place."""
    users, items = sides
    rate, scale = F32(model.learning_rate), model.noise_scale(rows.scale)
    keep, step = F32(1) - rate * F32(model.decay), precision.grid(scale)
    draws = np.empty((1, len(rows.values)))
    exact_noise.laplace(draws, streams.trials, factors.FIRST + t, streams.key)
    noise = (scale * draws[0]).astype(np.float32)
    for k, (n, i) in enumerate(zip(rows.users, rows.items, strict=True)):
        u, v = users[n].copy(), items[i].copy()
        error = np.rint((error_of(rows, k, u, v) + noise[k]) * F32(1 / step)) * F32(step)
        error = np.clip(error, -F32(model.error_bound), F32(model.error_bound))
        g = rate * error
        users[n] = np.append(fma(g, v[:-1], u[:-1] * keep), fma(u[-1], keep, g))
        items[i] = np.append(fma(g, u[:-1], v[:-1] * keep), fma(v[-1], keep, g))


def clipped(model: SgdFactors, rows: factors.FactorRows, sides: Any, taken: Floats) -> Any:
    """Fit every user, and return the sum of the clipped gradients of those who take part."""
    users, items = sides
    rate, total = F32(model.learning_rate), np.zeros(items.shape)
    clip = F32(model.clip_norm * (1 - precision.hair(M + model.dimensions)))
    keep, one = F32(1) / (F32(1) + rate * F32(model.decay)), F32(1)
    lengths = np.array([dot(v[:-1], v[:-1]) + one for v in items])
    gains = rate * keep / (one + rate * lengths)
    for n in range(N):
        own = range(rows.start[n], rows.start[n + 1])
        for k in own:
            v = items[rows.items[k]]
            g = gains[rows.items[k]] * error_of(rows, k, users[n], v)
            bias = fma(users[n, -1], keep, g)
            users[n] = np.append(fma(g, v[:-1], users[n, :-1] * keep), bias)
        u, square = users[n], F32(0)
        errors = [error_of(rows, k, u, items[rows.items[k]]) for k in own]
        for error in errors:
            square = fma(error, error, square)
        norm = np.sqrt(square * (dot(u[:-1], u[:-1]) + one))
        part = taken[n] * clip / max(norm, clip)
        for k, error in zip(own, errors, strict=True):
            total[rows.items[k]] += part * error * np.append(u[:-1], one)
    return total


class Replay:
    """The corrected form of the first trial of a seed, round by round."""

    def __init__(self, model: SgdFactors, data: Ratings, seed: int) -> None:
        self.model, self.rows = model, model.prepare(data)
        self.streams = Streams.first(seed, "replay", 1)
        block = model.drawn(self.rows, self.streams)
        self.sides = [np.array(side[:, :, 0]) for side in (block.users, block.items)]
        self.deviation = model.noise_deviation(M)

    def taken(self, t: int) -> Floats:
        return sgd_training.taking_part(self.model, N, self.streams, t)[:, 0]

    def noise(self, t: int) -> Any:
        shape, step = self.sides[1].shape, factors.FIRST + 2 * t
        noise = replays.noise(exact_normal_lanes, shape[0] * shape[1], self.streams, step)
        return self.deviation * noise.reshape(shape)

    def move(self, noised: Any) -> None:
        """Release a noised sum on its grid, and move the items' factors."""
        step, rate = precision.grid(self.deviation), F32(self.model.item_learning_rate)
        shown = (np.rint(noised / step) * step).astype(np.float32)
        keep = F32(1) - rate * F32(self.model.decay)
        self.sides[1][:] = fma(rate, shown, self.sides[1] * keep)


def released(model: SgdFactors, streams: Streams) -> Any:
    trained = model.train(model.prepare(ratings()), streams)
    return trained.users[0][:, :, 0], trained.items[0][:, :, 0]


def test_the_published_form_is_replayed_bit_for_bit() -> None:
    streams = Streams.first(3, "replay", 1)
    rows = PUBLISHED.prepare(ratings())
    block = PUBLISHED.drawn(rows, streams)
    sides = [np.array(side[:, :, 0]) for side in (block.users, block.items)]
    for t in range(PUBLISHED.epochs):
        run_epoch(PUBLISHED, rows, sides, t, streams)
    for side, kernel in zip(sides, released(PUBLISHED, streams), strict=True):
        np.testing.assert_array_equal(side, kernel)


def test_the_corrected_form_is_replayed_bit_for_bit() -> None:
    replay = Replay(CORRECTED, ratings(), 3)
    for t in range(CORRECTED.epochs):
        total = clipped(CORRECTED, replay.rows, replay.sides, replay.taken(t))
        replay.move(total + replay.noise(t))
    for side, kernel in zip(replay.sides, released(CORRECTED, replay.streams), strict=True):
        np.testing.assert_array_equal(side, kernel)


@pytest.mark.long
def test_the_replayed_steps_keep_the_checks_of_a_training_by_dp_sgd() -> None:
    def train(interactions: Any, seed: int, watch: Any) -> Any:
        replay = Replay(CORRECTED, interactions.ratings, seed)
        clip, rate = CORRECTED.clip_norm, CORRECTED.sampling_rate
        stated = {"max_grad_norm": clip, "noise_multiplier": replay.deviation / clip}
        watch.own(sample_rate=rate, unit="user", weights=[replay.sides[1]], **stated)
        for t in range(CORRECTED.epochs):
            taken = replay.taken(t)
            total = clipped(CORRECTED, replay.rows, replay.sides, taken)
            replay.move(watch.step(total, replay.noise(t), 1.0, rows=int(taken.sum())))
        return replay.sides[1]

    found = dpsgd.examined(train, ratings(), claimed=CORRECTED.epsilon, own=5)
    outcomes = {verdict.check: verdict.outcome for verdict in found.verdicts}
    untested = {name for name, outcome in outcomes.items() if outcome == "not tested"}
    # Each item has a rater, and no other user's gradient is zero where one's own is.
    assert untested == {"clipping", "steps-counted", "noise-repeated", "noise-scale"}
    assert "fails" not in outcomes.values()
    assert found.law.epsilon == pytest.approx(CORRECTED.epsilon, rel=0.01)
