"""Prints how fast submissions of a federated training are made, noised, summed and observed.

    python bench/federated.py

One core, the shape of MovieLens-100K: 150 000 pairs of a user and an item submit 16 coordinates
each. Each line is timed in turn with the bare noise source, which is the limit; the median ratio
counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dpaudit.attacks.federated.energy import Energy
from dpaudit.attacks.federated.gradient_ratio import GradientRatio
from dpaudit.attacks.federated.zero_mean import ZeroMean
from dpaudit.core.streams import Streams
from dpaudit.data.source import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.training import FederatedTraining
from dpaudit.kernels.federated import submissions as federated
from dpaudit.kernels.noise import TILE, normal_row

_TURNS = 30


def seconds(call: Callable[[], Any]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def compare(name: str, ours: Callable[[], Any], bare: Callable[[], Any], count: int) -> None:
    """Print the median rate of ours, and its share of the bare source's."""
    ours(), bare()
    pairs = [(seconds(ours), seconds(bare)) for _ in range(_TURNS)]
    rate = count / statistics.median(our for our, _ in pairs) / 1e6
    share = statistics.median(limit / our for our, limit in pairs)
    print(f"{name:46} {rate:7.0f} M coordinates/s {100 * share:5.0f} % of the noise source")


def main() -> None:
    """Make a training, compare, print."""
    ratings = generate(SyntheticParams(n_users=943, n_items=1682, mean_per_user=85, seed=1))
    defense = FakeGradients(epsilon=50.0)
    candidates = defense.prepare(ratings)
    trial = Streams.first(0, "bench", 1)
    everybody = np.ones(candidates.n_users, bool)
    training = FederatedTraining(defense, candidates, trial, everybody)
    for _ in range(20):
        training.run_round()
    clients, server = training.clients, training.server
    size = server.factors.shape[1]
    order = np.arange(len(candidates), dtype=np.int32)
    count = len(order) * size
    sums, shown = np.zeros(server.factors.size, np.float32), np.empty(count, np.float32)
    draws, words = np.empty(TILE, np.float32), np.empty(TILE, np.uint32)

    def bare() -> None:
        for first in range(0, count, TILE):
            normal_row(draws, words, first, 1, 0, trial.key)

    def send(kept: np.ndarray) -> None:
        federated.submit(
            order, candidates.users, candidates.items, clients.values,
            candidates.real.astype(np.float32), clients.factors.reshape(-1),
            server.factors.reshape(-1), server.fakes.reshape(-1), size, np.float32(1), 1, 0,
            trial.key, sums, kept,
        )  # fmt: skip

    print(f"{len(order)} pairs, {size} coordinates")
    compare("made, noised and summed", lambda: send(shown[:0]), bare, count)
    compare("made, noised, summed and kept", lambda: send(shown), bare, count)
    compare("a whole round, users learn, all shown", training.run, bare, count)
    quiet = FederatedTraining(defense, candidates, trial)
    compare("a whole round, noise drawn in sums", quiet.run, bare, count)
    transcript = defense.transcript(candidates, trial)
    round_, _ = next(transcript.rounds())
    for attack in (
        ZeroMean(statistic="z"), ZeroMean(), ZeroMean(statistic="sign"), Energy(),
        GradientRatio(), GradientRatio(knows="model"),
    ):  # fmt: skip
        reader = attack.reader(transcript.pairs)
        kind = getattr(attack, "statistic", getattr(attack, "knows", ""))
        name = f"observed by {attack.name} {kind}".strip()
        compare(name, lambda seen=reader.see: seen(round_), bare, count)


if __name__ == "__main__":
    main()
