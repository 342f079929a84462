"""What tasks cost: workers side by side, the store, and what limits a cluster.

Prints, as ratios of pairs in one run: 1 024 trainings of a game, or as many as asked, on one worker
against two threads, two processes and two Dask workers of this machine; with a store against
without; on one Dask worker against the same thread. Then what a cluster's scheduler has to carry:
tasks a second, bytes a task, and the data that each worker receives once. Pools are started, and
kernels loaded, before the clock.

    python -m pip install '.[cluster]' && python bench/execution.py [ROUNDS [TRAININGS]]
"""

from __future__ import annotations

import os
import pickle
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from bench_peers import seconds
from threadpoolctl import threadpool_limits

from dpaudit.attacks.membership.inference import Canary
from dpaudit.auditor.games import DistinguishingGame
from dpaudit.audits.trained.pairs import target_pair, trained_game
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.factorization.sgd import SgdFactors
from dpaudit.execution.executor import Executor
from dpaudit.execution.store import opened
from dpaudit.execution.workers import Workers, started

EMPTY = 2000
SEVERAL = ("1", "2", "processes:2", "dask:2")
# Of MovieLens-100K.
SHAPE = SyntheticParams(n_users=943, n_items=1682, mean_per_user=106)


def game(shape: SyntheticParams) -> DistinguishingGame[Any]:
    """Trainings on data of a shape, whose released model is attacked."""
    ratings = generate(shape)
    defense = SgdFactors(epsilon=1.0, variant="corrected", epochs=10, dimensions=16)
    pair, target = target_pair(ratings, "rating-replace", 0)
    return trained_game(defense, pair, Canary(), "public", target)


@contextmanager
def executors(words: str, folder: Path | None = None) -> Iterator[Executor]:
    """An executor with a pool that has run something, and a store if a folder is given."""
    with started(Workers.parse(words)) as pool:
        warm = Executor(pool)
        warm.map("", _nothing, range(8), lambda _: 1)
        if folder is None:
            yield warm
            return
        with opened(folder, {"code": str(time.time_ns())}) as store:
            yield Executor(pool, store=store)


def _nothing(number: int) -> Any:
    return np.array([number])


def trainings(
    running: DistinguishingGame[Any], count: int, words: str, folder: Path | None = None
) -> tuple[float, list[float]]:
    """Seconds of the trainings on these workers, and their scores."""
    found: list[float] = []
    with executors(words, folder) as executor:
        few = count // 2 - Canary().fitted_on
        running.run(trials=32, seed=9, executor=executor)  # loads the kernels in every worker

        def run() -> None:
            scores = running.run(trials=few, seed=1, executor=executor)
            found.extend([*scores.absent, *scores.present])

        return seconds(run), found


def main(rounds: int = 3, count: int = 1024, shape: SyntheticParams = SHAPE) -> None:
    """Print the ratios; all workers give the same scores."""
    running = game(shape)
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(1):
        for turn in range(rounds):
            scores = {}
            for words in (*SEVERAL, "dask:1", "store"):
                store = Path(folder) / str(turn) if words == "store" else None
                spent, scores[words] = trainings(running, count, "1" if store else words, store)
                times.setdefault(words, []).append(spent)
            assert all(found == scores["1"] for found in scores.values())
    cores = os.cpu_count()
    print(f"{count} trainings, {cores} cores, median of {rounds} rounds (least to most)")
    for title, one, other in (
        ("two threads against one", "1", "2"),
        ("two processes against one thread", "1", "processes:2"),
        ("two Dask workers against one thread", "1", "dask:2"),
    ):
        print(f"  {title:<38}{_ratios(times[one], times[other])} times as fast")
    for title, one, other in (
        ("the store's overhead", "store", "1"),
        ("one Dask worker's overhead", "dask:1", "1"),
    ):
        print(f"  {title:<38}{_ratios(times[one], times[other], 100, -1)} %")
    limits(running)


def limits(running: DistinguishingGame[Any]) -> None:
    """Print what a scheduler and a network have to carry."""
    print("what a cluster has to carry")
    for words in SEVERAL:
        with executors(words) as executor:
            spent = seconds(lambda: executor.map("", _nothing, range(EMPTY), lambda _: 1))
        print(f"  empty tasks on {words:<23}{EMPTY / spent:>10.0f} a second")
    work = len(cloudpickle.dumps(running))
    part = len(pickle.dumps(np.arange(16)))
    result = len(pickle.dumps(np.zeros(16)))
    print(f"  {'data of a game, once a worker':<38}{work / 2**20:>10.1f} MiB")
    print(f"  {'a task and its result':<38}{part + result:>10} bytes")


def _ratios(one: list[float], other: list[float], unit: float = 1.0, less: float = 0.0) -> str:
    pairs = [unit * (a / b + less) for a, b in zip(one, other, strict=True)]
    middle = statistics.median(pairs)
    return f"{middle:>6.2f} ({min(pairs):.2f} to {max(pairs):.2f})"


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
