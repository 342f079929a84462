"""The first step of a gradient descent with Laplace noise, on data of any size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.games.game import CERTAIN
from dpaudit.auditor.games.outcomes import GameScores
from dpaudit.audits.trained.pairs import DataPair
from dpaudit.claims.trained_games import StepsGame
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.neighborhood.similarity import SimilarityData, moved_rows
from dpaudit.defenses.training_checks import lane_blocks


@dataclass(frozen=True, eq=False)
class OneStepGame(StepsGame):
    """Observer `iterates` of a single full-batch step.

    All trials start from the same similarities, so the two gradients are computed once and not in
    every trial. Each observed step comes from a training with its own noise. The exact ε of the
    pair has a closed form.
    """

    defense: SgdSimilarity

    def run(self, trials: int, seed: int) -> GameScores:
        """Train and score.

        Raises:
            ValueError: there is more than one step, or a mini-batch.
        """
        before, after = self.prepared()
        rows = list(gradients(self.defense, before, after))
        attack = LikelihoodRatio()

        def score(trained: SimilarityData, dataset: str) -> NDArray[np.float64]:
            parts = []
            for streams in lane_blocks(Streams.first(seed, f"steps/{dataset}", trials)):
                total = np.zeros(len(streams))
                for item, moved, pair in rows:
                    row, following = (
                        iterate[moved] for iterate in self.defense.iterates(trained, item, streams)
                    )
                    shown = self.defense.revealed(before, row, following, 1)[:, : len(streams)].T
                    total += np.clip(attack.score(NoisedSteps(shown), pair), -CERTAIN, CERTAIN)
                parts.append(np.clip(total, -CERTAIN, CERTAIN))
            return np.concatenate(parts)

        truth = one_step_epsilon(self.defense, self.data)
        return GameScores(score(before, "absent"), score(after, "present"), truth)


def gradients(
    defense: SgdSimilarity, before: SimilarityData, after: SimilarityData
) -> Iterator[tuple[int, NDArray[np.int64], StepsPair]]:
    """Yield each row that differs: its item, the coordinates that change, and both gradients there.

    Raises:
        ValueError: there is more than one step, or a mini-batch.
    """
    if defense.steps != 1 or defense.sampling_rate != 1:
        raise ValueError(
            "the gradients have a closed form only for one step on all ratings: set steps and "
            "sampling_rate to 1"
        )
    streams = Streams.first(0, "law", 1)
    for item in moved_rows(before, after).tolist():
        row = next(defense.iterates(before, item, streams))
        old, new = (
            defense.slope(data, 1).of(data, item, row)[0][:, 0].astype(np.float64)
            for data in (before, after)
        )
        moved = np.flatnonzero(old != new)
        scale = np.full(len(moved), defense.noise_scale(1, before.scale, before.n_items))
        yield item, moved, StepsPair(old[moved], new[moved], scale, gaussian=False)


def one_step_epsilon(defense: SgdSimilarity, pair: DataPair) -> Estimate:
    """Return the ε of one full-batch step: the gradient's L1 shift over the noise's scale.

    The noise is independent on every coordinate, and an output can lie beyond both gradients on all
    coordinates at once.

    Raises:
        ValueError: there is more than one step, or a mini-batch.
    """
    before, after = (defense.prepare(ratings, pair.public) for ratings in (pair.before, pair.after))
    epsilon = sum(
        float((abs(steps.present - steps.absent) / steps.scale).sum())
        for _, _, steps in gradients(defense, before, after)
    )
    return Estimate.exact(epsilon, "Laplace noise on the gradient, L1 shift")
