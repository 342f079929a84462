"""Games on matrix factorisations beyond noised steps and draws from one posterior law."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.outcomes import GameScores
from dpaudit.claims.trained_games import DataGame, run_posteriors
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factorization.exact_posterior import ExactFactors


@dataclass(frozen=True, eq=False)
class _SampledGame(DataGame):
    """Base of the games on a posterior sampler.

    Attributes:
        truth: the exact ε of this pair, from the law, if known.
        trials: number of trials on each data set.
    """

    truth: Estimate | None = None
    trials: int = 20_000


@dataclass(frozen=True, eq=False)
class OwnBoundGame(_SampledGame):
    """Observer `public` of exact draws, with B = `max_u m_u (Δr + κ)²` of each data set."""

    def mechanism(self) -> str:
        """Description of the defense with its parameters."""
        return f"{super().mechanism()}; B from the data; exact draws of its law"

    def law(self, ratings: Ratings) -> ExactFactors:
        """Return the law on one of the two data sets, with that data set's B."""
        most = int(np.diff(ratings.by_user.start).max())
        bound = most * (ratings.scale.width + self.defense.margin) ** 2
        defense = replace(self.defense, loss_bound=bound)
        return defense.law(defense.prepare(ratings, self.data.public))

    def run(self, trials: int, seed: int) -> GameScores:
        """Draw from both laws, and score by the log-density ratio, on a grid."""
        before, after = (self.law(ratings) for ratings in (self.data.before, self.data.after))

        return run_posteriors(before, after, "own bound", trials, seed, self.truth)


@dataclass(frozen=True, eq=False)
class RetriesGame(_SampledGame):
    """Observer `public` of a run that may fail: whether any of its draws was in range.

    The draws are exact, from the posterior without a range; each trial makes all of its draws.
    """

    def mechanism(self) -> str:
        """Description of the defense with its parameters."""
        return f"{super().mechanism()}; a run fails that finds no draw in range"

    def run(self, trials: int, seed: int) -> GameScores:
        """Score 1 for a failed run, else 0."""
        draws = self.defense.retries + 1
        free = replace(self.defense, accept="any")

        def score(ratings: Ratings, dataset: str) -> NDArray[np.float64]:
            law = free.law(free.prepare(ratings, self.data.public))
            streams = Streams.first(seed, f"retries/{dataset}", trials * draws)
            passed = law.in_range(*law.draw_both(streams))
            tries: NDArray[np.bool_] = passed.reshape(trials, draws)
            return 1.0 - tries.max(1)

        return GameScores(
            score(self.data.before, "absent"), score(self.data.after, "present"), self.truth
        )


@dataclass(frozen=True, eq=False)
class MovedGame(DataGame):
    """Observer `public` of a descent that starts biases at 0: whether an item's bias has changed.

    Attributes:
        item: the item.
        truth: the exact ε of this pair, from the law, if known.
        trials: number of trials on each data set.
    """

    item: int
    truth: Estimate | None = None
    trials: int = 5_000

    def run(self, trials: int, seed: int) -> GameScores:
        """Score 1 for a bias that is not 0, else 0."""
        items = np.array([self.item], np.int32)

        def score(ratings: Ratings, dataset: str) -> NDArray[np.float64]:
            rows = self.defense.prepare(ratings, self.data.public)
            models = self.defense.train(rows, Streams.first(seed, f"moved/{dataset}", trials))
            return (models.public(items).factors[:, self.item, -1] != 0).astype(np.float64)

        return GameScores(
            score(self.data.before, "absent"), score(self.data.after, "present"), self.truth
        )
