"""The noise source and the top-20 trials, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.kernels import exact_noise, noise
from dpaudit.kernels.top_k import ranking

TRIALS, COORDINATES = 256, 4096


@pytest.mark.benchmark(group="2^20 draws")
@pytest.mark.parametrize("law", ["uniform", "normal"])
def test_fast_draws(benchmark: Any, law: str, key: np.ndarray) -> None:
    _drawn(benchmark, getattr(noise, law), np.empty((TRIALS, COORDINATES), np.float32), key)


@pytest.mark.benchmark(group="2^20 draws")
@pytest.mark.parametrize("law", ["laplace", "normal"])
def test_exact_draws(benchmark: Any, law: str, key: np.ndarray) -> None:
    _drawn(benchmark, getattr(exact_noise, law), np.empty((TRIALS, COORDINATES)), key)


def _drawn(benchmark: Any, law: Any, out: np.ndarray, key: np.ndarray) -> None:
    trials = np.arange(TRIALS, dtype=np.int64)
    benchmark.pedantic(law, (out, trials, 0, key), rounds=30, iterations=20, warmup_rounds=1)
    benchmark.extra_info["G draws/s"] = round(out.size / benchmark.stats["min"] / 1e9, 3)


@pytest.mark.benchmark(group="2^20 draws")
@pytest.mark.parametrize("law", ["laplace", "standard_normal"])
def test_draws_numpy(benchmark: Any, law: str) -> None:
    rng = np.random.default_rng(1)
    benchmark.pedantic(lambda: getattr(rng, law)(size=(TRIALS, COORDINATES)), rounds=5)


@pytest.mark.benchmark(group="10^6 noise trials of one user's top-20, 1682 items")
def test_top_20_trials(benchmark: Any, key: np.ndarray) -> None:
    scores = np.random.default_rng(1).normal(3.5, 0.5, 1682).astype(np.float32)
    count = 1_000_000
    items = np.empty((count, 20), np.int32)
    values = np.empty((count, 20), np.float32)
    trials = np.arange(count, dtype=np.int64)
    arguments = (items, values, scores, 0.4, 2.0**-11, trials, 0, key)
    benchmark.pedantic(ranking.laplace_top_k, arguments, rounds=1, warmup_rounds=0)
