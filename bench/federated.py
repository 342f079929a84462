"""Prints how fast submissions of a federated training are made, noised, summed and observed.

    python bench/federated.py

One core, the shape of MovieLens-100K: 150 000 pairs of a user and an item submit 16 coordinates
each. Each line is timed in turn with the bare noise source, which is the limit; the median ratio
counts.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from bench_peers import seconds

from dpaudit.attacks.federated.gradient_ratio import GradientRatio
from dpaudit.attacks.federated.residuals import Energy, ZeroMean
from dpaudit.core.streams import Streams
from dpaudit.data.source_parts import SyntheticParams
from dpaudit.data.synthetic import generate
from dpaudit.defenses.federated.fake_gradients import FakeGradients
from dpaudit.defenses.federated.training import FederatedTraining, grid
from dpaudit.kernels.exact_noise import normal_row
from dpaudit.kernels.federated import submissions as federated
from dpaudit.kernels.noise import TILE

SHAPE = SyntheticParams(n_users=943, n_items=1682, mean_per_user=85, seed=1)


def compare(
    name: str, ours: Callable[[], Any], bare: Callable[[], Any], count: int, turns: int
) -> None:
    """Print the median rate of ours, and its share of the bare source's."""
    ours(), bare()
    pairs = [(seconds(ours), seconds(bare)) for _ in range(turns)]
    rate = count / statistics.median(our for our, _ in pairs) / 1e6
    share = statistics.median(limit / our for our, limit in pairs)
    print(f"{name:46} {rate:7.0f} M coordinates/s {100 * share:5.0f} % of the noise source")


def main(shape: SyntheticParams = SHAPE, turns: int = 30) -> None:
    """Make a training, compare, print."""
    ratings = generate(shape)
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
    draws, words, sigma = np.empty(TILE), np.empty((2, TILE), np.uint32), training.sigma

    def bare() -> None:
        for first in range(0, count, TILE):
            normal_row(draws, words, first, 1, 0, trial.key)

    def send(kept: np.ndarray) -> None:
        federated.submit(
            order, candidates.users, candidates.items, clients.values,
            candidates.real.astype(np.float32), clients.factors.reshape(-1),
            server.factors.reshape(-1), server.fakes.reshape(-1), size, sigma, grid(sigma), 1, 0,
            trial.key, sums, kept,
        )  # fmt: skip

    print(f"{len(order)} pairs, {size} coordinates")
    send(shown)
    submitted = np.zeros((candidates.n_items, size))
    np.add.at(submitted, candidates.items[order], shown.reshape(-1, size))
    np.testing.assert_allclose(sums.reshape(submitted.shape), submitted, rtol=1e-3, atol=1e-3)
    measure = partial(compare, bare=bare, count=count, turns=turns)
    measure("made, noised and summed", lambda: send(shown[:0]))
    measure("made, noised, summed and kept", lambda: send(shown))
    measure("a whole round, users learn, all shown", training.run_round)
    quiet = FederatedTraining(defense, candidates, trial)
    measure("a whole round, noise drawn in sums", quiet.run_round)
    transcript = defense.transcript(candidates, trial)
    round_, _ = next(transcript.rounds())
    for attack in (
        ZeroMean(statistic="z"), ZeroMean(), ZeroMean(statistic="sign"), Energy(),
        GradientRatio(), GradientRatio(knows="model"),
    ):  # fmt: skip
        reader = attack.reader(transcript.pairs)
        kind = getattr(attack, "statistic", getattr(attack, "knows", ""))
        name = f"observed by {attack.name} {kind}".strip()
        measure(name, lambda seen=reader.see: seen(round_))


if __name__ == "__main__":
    main()
