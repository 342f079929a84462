"""Top-10 lists, sets and chains of one user with 1682 candidates, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.defenses.base import ExactScores
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.kernels import top_k as kernels

TRIALS, ITEMS, K, STEPS = 200_000, 1682, 10, 1000


@pytest.fixture(scope="session")
def scores() -> np.ndarray:
    draws = np.random.default_rng(1).normal(3.5, 0.5, ITEMS)
    return np.clip(draws, 1, 5).astype(np.float32)


@pytest.mark.benchmark(group="top-10 of 1682 items")
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("mechanism", ["peeling", "joint"])
def test_draws(
    benchmark: Any, mechanism: Any, epsilon: float, scores: np.ndarray, key: np.ndarray, rate: Any
) -> None:
    defense = TopK(epsilon=epsilon, variant="corrected", mechanism=mechanism)
    law: Any = defense.law(ExactScores(scores, 4.0))
    kernel, table = {
        "peeling": (kernels.peeling, lambda: law.tree),
        "joint": (kernels.weighted_sets, lambda: law.sums),
    }[mechanism]
    places, trials = np.empty((TRIALS, K), np.int32), np.arange(TRIALS)
    benchmark.pedantic(kernel, (places, table(), trials, 0, key), rounds=5, warmup_rounds=1)
    rate(TRIALS, "lists")
    assert (np.diff(np.sort(places, axis=1)) > 0).all()


@pytest.mark.benchmark(group="top-10 of 1682 items")
def test_chain_steps(benchmark: Any, scores: np.ndarray, key: np.ndarray, rate: Any) -> None:
    chain = TopK(epsilon=1.0).chain(ExactScores(scores, 5.0))
    trials = np.arange(TRIALS // 20)
    states = np.empty(len(trials), np.int32)
    arguments = (states, chain.up, chain.down, STEPS, trials, 0, key)
    benchmark.pedantic(kernels.chain_states, arguments, rounds=5, warmup_rounds=1)
    rate(len(trials) * STEPS, "steps")
    assert (states >= 0).all()
    assert (states < len(chain.up)).all()


@pytest.mark.benchmark(group="law of 1682 items")
@pytest.mark.parametrize("mechanism", ["peeling", "joint"])
def test_log_probability(benchmark: Any, mechanism: Any, scores: np.ndarray, rate: Any) -> None:
    from dpaudit.core.streams import Streams

    exact = ExactScores(scores, 4.0)
    defense = TopK(epsilon=1.0, variant="corrected", mechanism=mechanism)
    items = defense.release_list(exact, Streams.first(1, "bench", TRIALS)).items
    law = defense.law(exact)
    found = benchmark.pedantic(law.log_probability, (items,), rounds=3, warmup_rounds=1)
    assert np.isfinite(found).all()
    assert (found < 0).all()
    rate(TRIALS, "lists")


@pytest.mark.benchmark(group="law of 1682 items")
def test_chain_law(benchmark: Any, scores: np.ndarray, rate: Any) -> None:
    chain = TopK(epsilon=1.0).chain(ExactScores(scores, 5.0))
    found = benchmark.pedantic(chain.law, (STEPS,), rounds=5, warmup_rounds=1)
    assert found.sum() == pytest.approx(1)
    rate(STEPS * len(chain.up), "states")


@pytest.mark.benchmark(group="noise trials of one user's top-20, 1682 items")
def test_top_20_trials(benchmark: Any, scores: np.ndarray, key: np.ndarray, rate: Any) -> None:
    count = TRIALS
    items, values = np.empty((count, 20), np.int32), np.empty((count, 20), np.float32)
    arguments = (items, values, scores, 0.4, 2.0**-11, np.arange(count), 0, key)
    benchmark.pedantic(kernels.laplace_top_k, arguments, rounds=1, warmup_rounds=0)
    rate(count, "lists")
    assert (np.diff(values) <= 0).all()
