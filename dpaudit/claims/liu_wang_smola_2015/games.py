"""Games on matrix factorisations that neither their steps nor one posterior law describe."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.trained import DataPair
from dpaudit.claims.entry import Worlds
from dpaudit.claims.games import described
from dpaudit.claims.trained_games import DataGame, play_posteriors
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factorization.exact_posterior import ExactFactors
from dpaudit.defenses.factorization.sampled import SampledFactors
from dpaudit.defenses.factorization.sgd import SgdFactors


@dataclass(frozen=True, eq=False)
class _SampledGame(DataGame):
    """What the games on a posterior sampler say of themselves.

    Attributes:
        label: what sets it apart within its entry.
        defense: the mechanism.
        data: the two data sets.
        truth: the ε of this pair by the law, where it is known.
        trials: worlds of either data set.
    """

    label: str
    defense: SampledFactors
    data: DataPair
    truth: Estimate | None = None
    trials: int = 20_000


@dataclass(frozen=True, eq=False)
class OwnBoundGame(_SampledGame):
    """Observer `public` of exact draws, B being each data set's own `max_u m_u (Δr + κ)²`."""

    def mechanism(self) -> str:
        """The defense with its parameters."""
        return f"{described(self.defense)}; B from the data; exact draws of its law"

    def law(self, ratings: Ratings) -> ExactFactors:
        """The law on one of the two data sets, with its own B."""
        most = int(np.diff(ratings.by_user.start).max())
        bound = most * (ratings.scale.width + self.defense.margin) ** 2
        defense = replace(self.defense, bound=bound)
        return defense.law(defense.prepare(ratings, self.data.public))

    def play(self, trials: int, seed: int) -> Worlds:
        """Draw from either law and score by the ratio of the densities, on a grid."""
        before, after = (self.law(ratings) for ratings in (self.data.before, self.data.after))

        return play_posteriors(before, after, "own bound", trials, seed, self.truth)


@dataclass(frozen=True, eq=False)
class RetriesGame(_SampledGame):
    """Observer `public` of a run that may fail: whether any of its draws was in range.

    The draws are exact ones of the posterior that no range cuts off; a world makes all of them.
    """

    def mechanism(self) -> str:
        """The defense with its parameters."""
        return f"{described(self.defense)}; a run fails that finds no draw in range"

    def play(self, trials: int, seed: int) -> Worlds:
        """Score 1 for a failed run."""
        draws = self.defense.retries + 1
        free = replace(self.defense, accept="any")

        def score(ratings: Ratings, world: str) -> NDArray[np.float64]:
            law = free.law(free.prepare(ratings, self.data.public))
            streams = Streams.first(seed, f"retries/{world}", trials * draws)
            passed = law.in_range(*law.draw_both(streams))
            tries: NDArray[np.bool_] = passed.reshape(trials, draws)
            return 1.0 - tries.max(1)

        return Worlds(
            score(self.data.before, "absent"), score(self.data.after, "present"), self.truth
        )


@dataclass(frozen=True, eq=False)
class MovedGame(DataGame):
    """Observer `public` of a descent that starts biases at 0: whether an item's bias has moved.

    Attributes:
        label: what sets it apart within its entry.
        defense: the mechanism.
        data: the two data sets.
        item: the item.
        truth: the ε of this pair by the law, where it is known.
        trials: worlds of either data set.
    """

    label: str
    defense: SgdFactors
    data: DataPair
    item: int
    truth: Estimate | None = None
    trials: int = 5_000

    def play(self, trials: int, seed: int) -> Worlds:
        """Score 1 for a bias that is not 0."""
        items = np.array([self.item], np.int32)

        def score(ratings: Ratings, world: str) -> NDArray[np.float64]:
            rows = self.defense.prepare(ratings, self.data.public)
            models = self.defense.train(rows, Streams.first(seed, f"moved/{world}", trials))
            return (models.public(items).factors[:, self.item, -1] != 0).astype(np.float64)

        return Worlds(
            score(self.data.before, "absent"), score(self.data.after, "present"), self.truth
        )
