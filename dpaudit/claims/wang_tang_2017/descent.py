"""Wang & Tang 2017, section 3: the defenses and games of descent with Laplace noise.

`OneStepGame` is on the first step on data of any size, and `BatchGame` on training with
mini-batches that the observer does not know.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.games.certify import GameScores
from dpaudit.auditor.games.game import CERTAIN
from dpaudit.audits.trained.pairs import DataPair
from dpaudit.claims.trained_games import StepsGame, graded, scored
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.neighborhood.sgd import SgdSimilarity
from dpaudit.defenses.neighborhood.similarity import Floats, SimilarityData, moved_rows
from dpaudit.defenses.training_checks import lane_blocks
from dpaudit.kernels.lanes import LANES


def published(neighbors: int, epsilon: float = 1.0, **params: Any) -> SgdSimilarity:
    """Return Algorithm 1 with initial similarities that have `|S_i| I_u = 10`, the default C."""
    set_ = {"steps": 1, "start": 1 / neighbors, "more_than": 0, **params}
    return SgdSimilarity(epsilon=epsilon, **set_)


def whole_users(epsilon: float = 1.0, **params: Any) -> SgdSimilarity:
    """Return the corrected form, which protects whole users, with one step."""
    return SgdSimilarity(
        epsilon=epsilon, variant="corrected", steps=1, start=0.5, more_than=0, **params
    )


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

        def score(trained: SimilarityData, every: Streams) -> NDArray[np.float64]:
            parts = []
            for streams in lane_blocks(every):
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
        return scored(score, (before, after), "steps", trials, seed, truth)


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


@dataclass(frozen=True, eq=False)
class BatchGame(StepsGame):
    """Observer `iterates` of steps on one rating, or one user, drawn uniformly.

    The law of a step's noised gradient g is a mixture over the n units that can be drawn. With
    noise of scale b and the units' gradients `m_1 … m_n`,

        ln p(g) = ln (1/n) Σ_k exp(Σ_c (|g_c| − |g_c − m_kc|)/b) + terms that D and D' share.

    The score is the sum of `ln p'/p` over the steps, on a grid: the exact likelihood ratio.
    """

    def run(self, trials: int, seed: int) -> GameScores:
        """Train and score."""
        before, after = self.prepared()
        for data in (before, after):
            self._check_size(data)

        def score(trained: SimilarityData, streams: Streams) -> NDArray[np.float64]:
            return np.concatenate(
                [self._score(before, after, trained, part) for part in lane_blocks(streams)]
            )

        return scored(score, (before, after), "batches", trials, seed, self.truth)

    def _check_size(self, data: SimilarityData) -> None:
        drawn = self.defense.sampling_rate * self._count(data)
        if not math.isclose(drawn, 1):
            raise ValueError(
                f"a mini-batch has {drawn:g} of {self._count(data)} units: make it 1 by "
                "sampling_rate, as the mixture's density is known for one"
            )

    def _count(self, data: SimilarityData) -> int:
        """Number of units to draw from: users in the corrected mechanism, else ratings."""
        users = self.defense.variant == "corrected"
        return len(data.profiles.start) - 1 if users else len(data.places)

    def _score(
        self,
        before: SimilarityData,
        after: SimilarityData,
        trained: SimilarityData,
        streams: Streams,
    ) -> NDArray[np.float64]:
        items = range(trained.n_items)
        iterates = [
            [row.copy() for row in self.defense.iterates(trained, item, streams)] for item in items
        ]
        total = np.zeros(LANES)
        for t in range(1, self.defense.steps + 1):
            rows = [iterate[t - 1] for iterate in iterates]
            shown = [
                self.defense.revealed(before, iterate[t - 1], iterate[t], t) for iterate in iterates
            ]
            total += self._log_density(after, rows, shown, t)
            total -= self._log_density(before, rows, shown, t)
        return graded(total[: len(streams)])

    def _log_density(
        self, data: SimilarityData, rows: list[Floats], shown: list[NDArray[np.float64]], t: int
    ) -> NDArray[np.float64]:
        """Return `ln p` of the step from `rows`, up to terms without gradients, `(16,)`."""
        slope = self.defense.slope(data, t)
        scale = self.defense.noise_scale(t, data.scale, data.n_items)
        losses: dict[int, NDArray[np.float64]] = defaultdict(lambda: np.zeros(LANES))
        for item, (row, noised) in enumerate(zip(rows, shown, strict=True)):
            entries = data.entries(item)
            for k, user in enumerate(data.raters.column[entries]):
                taken = np.zeros((entries.stop - entries.start, LANES), np.float32)
                taken[k] = 1
                mean = slope.of(data, item, row, taken)[0]
                unit = int(user) if self.defense.variant == "corrected" else entries.start + k
                losses[unit] += (abs(noised) - abs(noised - mean)).sum(0) / scale
        # Users without ratings have gradient 0.
        idle = self._count(data) - len(losses)
        mixed = np.logaddexp.reduce(list(losses.values()), axis=0)
        return np.logaddexp(mixed, math.log(idle)) if idle else mixed


PARTS = (BatchGame, published, whole_users)
