"""Prints what a round of a social training costs, beside the bare noise source.

    python bench/social.py

One core, the shapes of FilmTrust and Ciao, ten factors. Each round is timed in turn with the least
that its noise takes: for every coordinate of every item a Laplace draw, which scales the noise, and
a normal one. The median ratio counts. Last, what folds in threads save.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from bench_peers import seconds

from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.social.privsr import PrivSR
from dpaudit.defenses.social.ranking import PrivSRRanking, RankingTraining
from dpaudit.defenses.social.training import SocialTraining
from dpaudit.kernels import exact_noise

_FACTORS = 10
SHAPES = {
    "FilmTrust": SyntheticParams(
        n_users=1508, n_items=2071, mean_per_user=23.5, minimum_per_user=1, mean_friends=1.1, seed=1
    ),
    "Ciao": SyntheticParams(
        n_users=7375, n_items=105_114, mean_per_user=38.3, minimum_per_user=4, mean_friends=15.2,
        seed=1,
    ),
}  # fmt: skip


def trainings(ratings: Ratings, triples: int) -> Iterator[tuple[str, Any]]:
    """What is timed: a name, and a training that runs a round."""
    trial = Streams.first(0, "bench", 1)
    for variant in ("nonprivate", "published"):
        rated = PrivSR(epsilon=1.0 if variant == "published" else np.inf, variant=variant)
        yield f"privsr, {variant}", SocialTraining(rated, rated.prepare(ratings), trial)
    held = ratings.only(ratings.value >= 4)
    bought = Ratings.build(
        held.user, held.item, np.ones(len(held)), held.n_users, held.n_items, Scale(1, 1, 1),
        friends=ratings.friends,
    )  # fmt: skip
    for variant in ("nonprivate", "published"):
        ranked = PrivSRRanking(
            epsilon=1.0 if variant == "published" else np.inf, variant=variant, triples=triples
        )
        rows = ranked.prepare(bought)
        name = f"privsr-ranking, {variant}, {triples} triples"
        yield name, RankingTraining(ranked, rows, trial)


def compare(name: str, training: Any, n_items: int, turns: int) -> None:
    """Print what a round costs, and its ratio to the noise source."""
    draws = np.empty((1, n_items * _FACTORS))
    trial = np.zeros(1, np.int64)
    key = np.array([1, 2], np.uint32)

    def bare() -> None:
        exact_noise.laplace(draws, trial, 1, key)
        exact_noise.normal(draws, trial, 2, key)

    training.run_round(), bare()
    pairs = [(seconds(training.run_round), seconds(bare)) for _ in range(turns)]
    round_ = 1000 * statistics.median(ours for ours, _ in pairs)
    ratio = statistics.median(ours / limit for ours, limit in pairs)
    print(f"  {name:45} {round_:8.2f} ms a round {ratio:6.1f} times the noise source")


def folds(ratings: Ratings, turns: int) -> None:
    """Print what folds in threads save; their models are the same."""
    threads = os.cpu_count() or 1
    defense = PrivSR(epsilon=1.0, rounds=100)
    rows = [defense.prepare(ratings.only(np.arange(len(ratings)) % 4 != k)) for k in range(4)]

    def train(one: Any) -> Any:
        return defense.train(one, Streams.first(0, "bench", 1))

    def alone() -> list[Any]:
        return [train(one) for one in rows]

    def together() -> list[Any]:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(train, rows))

    for one, other in zip(alone(), together(), strict=True):
        np.testing.assert_array_equal(one.items, other.items)
    ratios = [seconds(alone) / seconds(together) for _ in range(turns)]
    print(
        f"  4 folds on {threads} threads: {statistics.median(ratios):.2f} times as fast as on one"
    )


def main(shapes: Mapping[str, SyntheticParams] = SHAPES, turns: int = 20) -> None:
    """Make the data, compare, print."""
    for name, shape in shapes.items():
        ratings = generate(shape)
        print(f"{name}: {len(ratings)} ratings, {ratings.n_users} users, {ratings.n_items} items")
        for what, training in trainings(ratings, triples=30):
            compare(what, training, ratings.n_items, turns)
        folds(ratings, min(turns, 3))


if __name__ == "__main__":
    main()
