"""Trainings of factorisations and similarities on the shape of MovieLens-100K, on one core.

Every figure stands beside the limit that it is compared with: the bare noise source, or the same
work without noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.data.ratings import Ratings
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.factors import FactorRows
from dpaudit.defenses.neighborhood.similarity import SimilarityData, Slope, item_means
from dpaudit.kernels import neighborhood as similarity_rows
from dpaudit.kernels.factorization import sixteen_models as factor_trials
from dpaudit.kernels.lane_noise import (
    LANE_TILE,
    Source,
    exact_laplace_lanes,
    normal_lanes,
    trial_words,
)
from dpaudit.kernels.lanes import LANES, aligned

F32 = np.float32


@pytest.fixture(scope="session")
def ratings() -> Ratings:
    return generate(SyntheticParams(n_users=943, n_items=1682, mean_per_user=106, seed=1))


@pytest.fixture(scope="session")
def trials() -> np.ndarray:
    return trial_words(np.arange(LANES))


@pytest.mark.benchmark(group="noise source, 16 trials")
@pytest.mark.parametrize("law", [exact_laplace_lanes, normal_lanes], ids=["laplace", "normal"])
def test_noise(benchmark: Any, law: Any, trials: np.ndarray, key: np.ndarray, rate: Any) -> None:
    size, exact = LANE_TILE * LANES, law is exact_laplace_lanes
    out = np.empty(size) if exact else aligned(size)
    words = np.empty((2, size) if exact else size, np.uint32)

    def draw() -> None:
        for step in range(1000):
            law(out, words, 0, step, trials, key)

    benchmark.pedantic(draw, rounds=20, warmup_rounds=1)
    rate(1000 * len(out), "draws")
    assert np.isfinite(out).all()
    assert out.std() > 0.5


@pytest.mark.benchmark(group="factorisation, 16 trials")
@pytest.mark.parametrize("size", [10, 16])
@pytest.mark.parametrize("kind", ["plain", "laplace", "clipped", "langevin"])
def test_pass(
    benchmark: Any,
    kind: str,
    size: int,
    ratings: Ratings,
    trials: np.ndarray,
    key: np.ndarray,
    rate: Any,
) -> None:
    rows = FactorRows.of(ratings, 3.5)
    draws = np.random.default_rng(0)
    left, right = (aligned(n * (size + 1) * LANES) for n in (rows.n_users, rows.n_items))
    for side in (left, right):
        side[:] = draws.normal(0, 0.1, side.size)
    nobody, nothing = np.empty(0, np.int32), np.empty(0, F32)
    total, errors = np.zeros(right.size), aligned(int(np.diff(rows.start).max()) * LANES)
    taken = np.ones(rows.n_users * LANES, F32)
    models = factor_trials.Models(left, right, size, F32(3.5))
    source = Source(1, trials, key)
    shrink = [np.full(n * LANES, 1e-3, F32) for n in (rows.n_users, rows.n_items)]
    due = factor_trials.Pending(*(np.zeros(n) for n in (rows.n_users, rows.n_items)))
    gains = np.full(rows.n_users, 1e-3, F32)

    def once() -> None:
        if kind in {"plain", "laplace"}:
            scale = float(kind == "laplace")
            descent = factor_trials.Descent(F32(0.005), F32(0.05), scale, 0.125, F32(2))
            factor_trials.descend(rows.visits, models, descent, source, nobody, nothing)
        elif kind == "clipped":
            clipped = (F32(0.005), F32(0.05), F32(1), taken, total, errors)
            factor_trials.sum_clipped(rows.start, rows.visits, models, *clipped)
            factor_trials.take_step(right, total, F32(1e-3), F32(0.05), 1.0, 0.125, source)
            total[:] = 0
        else:
            whole = (F32(-np.inf), F32(np.inf))
            langevin = factor_trials.Langevin(gains, *shrink, whole, float(F32(1e-9)))
            factor_trials.sample(rows.visits, models, langevin, due, source)

    before = right.copy()
    benchmark.pedantic(once, rounds=20, warmup_rounds=1)
    assert np.isfinite(right).all()
    assert (right != before).mean() > 0.5
    rate(len(rows) * LANES, "rating updates")


@pytest.mark.benchmark(group="similarities, 16 trials")
@pytest.mark.parametrize("kind", ["plain", "laplace", "clipped"])
def test_similarity_step(
    benchmark: Any, kind: str, ratings: Ratings, trials: np.ndarray, key: np.ndarray, rate: Any
) -> None:
    data = SimilarityData.of(ratings, item_means(ratings), 20)
    row = aligned(data.n_items, LANES)
    slope = Slope(500, clip=1.0) if kind == "clipped" else Slope(500, bound=2.0)

    def step() -> None:
        for item in range(data.n_items):
            row[:] = 10
            found, _ = slope.of(data, item, row)
            similarity_rows.descend(
                row.reshape(-1),
                found.reshape(-1),
                F32(0.01),
                F32(1),
                float(kind != "plain"),
                0.125,
                item * data.row_space,
                1,
                trials,
                key,
            )

    benchmark.pedantic(step, rounds=5, warmup_rounds=1)
    assert np.isfinite(row).all()
    assert (row != 10).any()
    counts = np.diff(data.profiles.start).astype(float)
    rate(float((counts**2).sum()) * LANES, "pairs of ratings")
