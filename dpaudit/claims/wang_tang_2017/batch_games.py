"""Games on training with mini-batches that the observer does not know."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.outcomes import GameScores
from dpaudit.claims.trained_games import StepsGame, graded
from dpaudit.core.streams import Streams
from dpaudit.defenses.neighborhood.similarity import Floats, SimilarityData
from dpaudit.defenses.training_checks import lane_blocks
from dpaudit.kernels.lanes import LANES


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

        def score(trained: SimilarityData, dataset: str) -> NDArray[np.float64]:
            streams = Streams.first(seed, f"batches/{dataset}", trials)
            return np.concatenate(
                [self._score(before, after, trained, part) for part in lane_blocks(streams)]
            )

        return GameScores(score(before, "absent"), score(after, "present"), self.truth)

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
