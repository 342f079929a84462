"""The games of the catalogue on recommenders that are trained."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.games.controls import mutant_of
from dpaudit.auditor.games.game import CERTAIN
from dpaudit.auditor.games.trained import DataPair, trained_game
from dpaudit.claims.entry import Worlds
from dpaudit.claims.games import TRIALS, claim_of, described, digest_of
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams

_GRID = 2.0**-8


class DataGame:
    """What all games on two data sets say of themselves.

    Attributes:
        defense: the mechanism.
        data: the two data sets.
    """

    defense: Any
    data: DataPair

    def claimed(self) -> tuple[float, float]:
        """What the defense claims."""
        return claim_of(self.defense)

    def mechanism(self) -> str:
        """The defense with its parameters."""
        return described(self.defense)

    def pair(self) -> str:
        """The pair in one sentence."""
        return self.data.summary

    def digest(self) -> str:
        """Of the two data sets and of what is public."""
        return digest_of_pair(self.data)

    def mutant(self, factor: float) -> Self:
        """The same game on the same data sets with the noise of so many times the ε."""
        copy: Self = replace(self, defense=mutant_of(self.defense, factor))  # type: ignore[type-var]
        return copy


@dataclass(frozen=True, eq=False)
class StepsGame(DataGame):
    """The noised steps of a training that an observer sees, told apart by their law.

    Attributes:
        label: what sets it apart within its entry.
        defense: the mechanism.
        pair: the two data sets.
        truth: the ε of this pair by the mechanism's law, where it is known.
        trials: worlds of either data set.
        observer: who sees the steps; the defense's first observer unless given.
    """

    label: str
    defense: Any
    data: DataPair
    truth: Estimate | None = None
    trials: int = TRIALS
    observer: str = ""

    def play(self, trials: int, seed: int) -> Worlds:
        """Train and score."""
        observer = self.observer or next(iter(self.defense.observers()))
        game = trained_game(self.defense, self.data, LikelihoodRatio(), observer)
        found = game.run(trials=trials, seed=seed)
        return Worlds(found.absent, found.present, self.truth)


class PosteriorLaw(Protocol):
    """A law that is known up to its normaliser and can be drawn from exactly."""

    def draw(self, streams: Streams) -> NDArray[np.float64]:
        """A draw in each world, `(W, ...)`."""
        ...

    def log_density(self, draws: NDArray[np.float64]) -> NDArray[np.float64]:
        """The logarithm of its density, less a constant, `(W,)`."""
        ...


@dataclass(frozen=True, eq=False)
class PosteriorGame(DataGame):
    """Observer `public` of a posterior sampler: exact draws, told apart by their densities.

    Attributes:
        label: what sets it apart within its entry.
        defense: the mechanism; `law(prepared)` is what its chain is to reach.
        data: the two data sets.
        claim: the ε that is tried, where it is not the defense's own.
        truth: the ε of this pair by the law, where it is known.
        trials: worlds of either data set.
    """

    label: str
    defense: Any
    data: DataPair
    claim: float | None = None
    truth: Estimate | None = None
    trials: int = TRIALS

    def claimed(self) -> tuple[float, float]:
        """What the defense claims, or what is tried."""
        return claim_of(self.defense) if self.claim is None else (self.claim, 0.0)

    def mechanism(self) -> str:
        """The defense with its parameters."""
        return f"{described(self.defense)}; exact draws of its law"

    def play(self, trials: int, seed: int) -> Worlds:
        """Draw from either law and score by the ratio of the densities, on a grid."""
        before, after = (
            self.defense.law(self.defense.prepare(ratings, self.data.public))
            for ratings in (self.data.before, self.data.after)
        )

        return play_posteriors(before, after, "posterior", trials, seed, self.truth)


def play_posteriors(
    before: PosteriorLaw,
    after: PosteriorLaw,
    purpose: str,
    trials: int,
    seed: int,
    truth: Estimate | None,
) -> Worlds:
    """Draw from either law and score by the ratio of the densities, on a grid."""

    def score(law: PosteriorLaw, world: str) -> NDArray[np.float64]:
        draws = law.draw(Streams.first(seed, f"{purpose}/{world}", trials))
        return graded(after.log_density(draws) - before.log_density(draws))

    return Worlds(score(before, "absent"), score(after, "present"), truth)


def graded(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-ratios on a grid; finite where only one law allows a draw."""
    return np.clip(np.rint(ratio / _GRID) * _GRID, -CERTAIN, CERTAIN)


def digest_of_pair(pair: DataPair) -> str:
    """Tells two data sets, and what is public, from all others."""
    public = pair.public.digest if pair.public else "each its own"
    return digest_of(pair.before.digest, pair.after.digest, public)
