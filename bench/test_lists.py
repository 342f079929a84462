"""Top-10 lists, sets and chains of one user with 1682 candidates, on one core."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpaudit.defenses.item_model import ExactScores
from dpaudit.defenses.top_k.defense import TopK
from dpaudit.kernels.top_k import lists

TRIALS, ITEMS, K, STEPS = 200_000, 1682, 10, 1000


@pytest.fixture(scope="session")
def scores() -> np.ndarray:
    draws = np.random.default_rng(1).normal(3.5, 0.5, ITEMS)
    return np.clip(draws, 1, 5).astype(np.float32)


def rate(benchmark: Any, count: int, unit: str) -> None:
    per_second = count / benchmark.stats["min"]
    benchmark.extra_info[f"{unit}/s"] = round(per_second)
    print(f"\n{benchmark.name}: {per_second:.3g} {unit}/s")


@pytest.mark.benchmark(group="top-10 of 1682 items")
@pytest.mark.parametrize("epsilon", [1.0, 10.0])
@pytest.mark.parametrize("mechanism", ["peeling", "joint"])
def test_draws(
    benchmark: Any, mechanism: Any, epsilon: float, scores: np.ndarray, key: np.ndarray
) -> None:
    defense = TopK(epsilon=epsilon, variant="corrected", mechanism=mechanism)
    law: Any = defense.law(ExactScores(scores, 4.0))
    kernel, table = {
        "peeling": (lists.peeling, lambda: law.tree),
        "joint": (lists.weighted_sets, lambda: law.sums),
    }[mechanism]
    places, trials = np.empty((TRIALS, K), np.int32), np.arange(TRIALS)
    benchmark.pedantic(kernel, (places, table(), trials, 0, key), rounds=5, warmup_rounds=1)
    rate(benchmark, TRIALS, "lists")


@pytest.mark.benchmark(group="top-10 of 1682 items")
def test_chain_steps(benchmark: Any, scores: np.ndarray, key: np.ndarray) -> None:
    chain = TopK(epsilon=1.0).chain(ExactScores(scores, 5.0))
    trials = np.arange(TRIALS // 20)
    states = np.empty(len(trials), np.int32)
    arguments = (states, chain.up, chain.down, STEPS, trials, 0, key)
    benchmark.pedantic(lists.chain_states, arguments, rounds=5, warmup_rounds=1)
    rate(benchmark, len(trials) * STEPS, "steps")


@pytest.mark.benchmark(group="law of 1682 items")
@pytest.mark.parametrize("mechanism", ["peeling", "joint"])
def test_log_probability(benchmark: Any, mechanism: Any, scores: np.ndarray) -> None:
    from dpaudit.core.streams import Streams

    exact = ExactScores(scores, 4.0)
    defense = TopK(epsilon=1.0, variant="corrected", mechanism=mechanism)
    items = defense.release_list(exact, Streams.first(1, "bench", TRIALS)).items
    law = defense.law(exact)
    benchmark.pedantic(law.log_probability, (items,), rounds=3, warmup_rounds=1)
    rate(benchmark, TRIALS, "lists")


@pytest.mark.benchmark(group="law of 1682 items")
def test_chain_law(benchmark: Any, scores: np.ndarray) -> None:
    chain = TopK(epsilon=1.0).chain(ExactScores(scores, 5.0))
    benchmark.pedantic(chain.law, (STEPS,), rounds=5, warmup_rounds=1)
    rate(benchmark, STEPS * len(chain.up), "states")
