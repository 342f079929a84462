"""The catalogue's games on trained recommenders."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.games.certify import GameScores, mutant_of
from dpaudit.auditor.games.game import CERTAIN
from dpaudit.audits.trained.pairs import DataPair, trained_game
from dpaudit.claims.games import TRIALS, DefenseGame, text_digest
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams

_GRID = 2.0**-8

S = TypeVar("S")


@dataclass(frozen=True, eq=False)
class DataGame(DefenseGame[Any]):
    """Base of the games on a defense and two data sets.

    Attributes:
        data: the two data sets.
        truth: the exact ε of this pair, from the mechanism's law, if known.
        trials: number of trials on each data set.
    """

    data: DataPair
    truth: Estimate | None = None
    trials: int = TRIALS

    def pair(self) -> str:
        """Description of the pair in one sentence."""
        return self.data.summary

    def digest(self) -> str:
        """Digest of the two data sets and of the public data."""
        pair = self.data
        public = pair.public.digest if pair.public else "each its own"
        return text_digest(pair.before.digest, pair.after.digest, public)

    def mutant(self, factor: float) -> Self:
        """The same game on the same data sets, with noise calibrated to `factor` times ε."""
        return replace(self, defense=mutant_of(self.defense, factor))

    def prepared(self) -> tuple[Any, Any]:
        """Return the defense's prepared training data of D and of D'."""
        prepare, public = self.defense.prepare, self.data.public
        return prepare(self.data.before, public), prepare(self.data.after, public)


@dataclass(frozen=True, eq=False)
class StepsGame(DataGame):
    """The noised training steps that an observer sees, scored by their likelihood ratio.

    Attributes:
        observer: who sees the steps; empty for the defense's first observer.
    """

    observer: str = ""

    def run(self, trials: int, seed: int) -> GameScores:
        """Train and score."""
        observer = self.observer or next(iter(self.defense.observers()))
        game = trained_game(self.defense, self.data, LikelihoodRatio(), observer)
        scores = game.run(trials=trials, seed=seed)
        return GameScores(scores.absent, scores.present, self.truth)


class PosteriorLaw(Protocol):
    """A law that can be drawn from exactly, with a density known up to its normaliser."""

    def draw(self, streams: Streams) -> NDArray[np.float64]:
        """Return one draw for each trial, `(W, ...)`."""
        ...

    def log_density(self, draws: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logarithm of the density, up to an additive constant, `(W,)`."""
        ...


@dataclass(frozen=True, eq=False)
class PosteriorGame(DataGame):
    """Observer `public` of a posterior sampler: exact draws, scored by their density ratio.

    The defense's `law(prepared)` is the law that its Markov chain approximates.

    Attributes:
        claim: the ε that is tested; None for the one that the defense claims.
    """

    claim: float | None = None

    def claimed(self) -> tuple[float, float]:
        """The ε that is tested, with δ = 0, or the ε and δ that the defense claims."""
        return super().claimed() if self.claim is None else (self.claim, 0.0)

    def mechanism(self) -> str:
        """The defense with its parameters."""
        return f"{super().mechanism()}; exact draws of its law"

    def run(self, trials: int, seed: int) -> GameScores:
        """Draw from both laws, and score by the log-density ratio, on a grid."""
        before, after = map(self.defense.law, self.prepared())
        return run_posteriors(before, after, "posterior", trials, seed, self.truth)


def run_posteriors(
    before: PosteriorLaw,
    after: PosteriorLaw,
    purpose: str,
    trials: int,
    seed: int,
    truth: Estimate | None,
) -> GameScores:
    """Draw from both laws, and score each draw by the log-density ratio, on a grid."""

    def score(law: PosteriorLaw, streams: Streams) -> NDArray[np.float64]:
        draws = law.draw(streams)
        return graded(after.log_density(draws) - before.log_density(draws))

    return scored(score, (before, after), purpose, trials, seed, truth)


def scored(
    score: Callable[[S, Streams], NDArray[np.float64]],
    sides: Iterable[S],
    purpose: str,
    trials: int,
    seed: int,
    truth: Estimate | None,
) -> GameScores:
    """Return the scores of what stands for D and for D', each with streams of its own."""
    absent, present = (
        score(side, Streams.first(seed, f"{purpose}/{dataset}", trials))
        for side, dataset in zip(sides, ("absent", "present"), strict=True)
    )
    return GameScores(absent, present, truth)


def graded(ratio: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round log-ratios to a grid; infinite ones, of draws that only one law allows, are clipped."""
    return np.clip(np.rint(ratio / _GRID) * _GRID, -CERTAIN, CERTAIN)
