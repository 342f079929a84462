"""Mironov 2012: samplers that add noise in floating point, and games on them.

The broken samplers include that of dpaudit 0.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing import FloatBits, LikelihoodRatio
from dpaudit.auditor.games import GameScores
from dpaudit.claims.games import TRIALS, scored, text_digest
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import LaplacePair, Predictions
from dpaudit.core.streams import Streams, generator
from dpaudit.defenses.precision import grid, rounded
from dpaudit.kernels import exact_noise
from dpaudit.kernels.noise import philox_words

Reals = NDArray[np.float64]

# Function of the exact number, the noise's scale and the streams that returns the released numbers.
Sampler = Callable[[float, float, Streams], Reals]
Score = Callable[[Reals], Reals]

_ABSENT, _PRESENT = 0.0, 1.0


def by_numpy(exact: float, scale: float, streams: Streams) -> Reals:
    """`f + rng.laplace(scale=s)`, in double precision."""
    rng = generator((*streams.key.tolist(), int(streams.trials[0])))
    draws: Reals = exact + rng.laplace(scale=scale, size=len(streams))
    return draws


def by_first_edition(exact: float, scale: float, streams: Streams) -> Reals:
    """`f + s z` in single precision, z from 31 bits: the noise of dpaudit 0.1 in training."""
    words = np.empty(-(-len(streams) // 4) * 4, np.uint32)
    philox_words(words, 0, 0, int(streams.trials[0]), streams.key)
    k = ((words[: len(streams)] >> 1) | 1).astype(np.float32).astype(np.float64)
    z = (-np.log(k / 2.0**31)).astype(np.float32)
    z = np.where(words[: len(streams)] & 1, -z, z)
    return (exact + scale * z.astype(np.float64)).astype(np.float32).astype(np.float64)


def on_a_grid(exact: float, scale: float, streams: Streams) -> Reals:
    """`g · round((f + s z)/g)`, z of high resolution in body and tail: dpaudit's present noise."""
    draws = np.empty((len(streams), 1))
    exact_noise.laplace(draws, streams.trials, 0, streams.key)
    return rounded(exact + scale * draws[:, 0], grid(scale)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class FloatGame:
    """One number, 0 on D and 1 on D', with Laplace noise of scale 1/ε, released by a sampler.

    Attributes:
        label: name of the game within its entry.
        sampler: adds the noise.
        score: scores outputs; larger on D'.
        words: description of the mechanism.
        law: the exact ε of the sampler.
        epsilon: ε.
        trials: number of trials on each data set.
    """

    label: str
    sampler: Sampler
    score: Score
    words: str
    law: Estimate
    epsilon: float = 1.0
    trials: int = TRIALS

    def claimed(self) -> tuple[float, float]:
        """ε, and δ = 0."""
        return self.epsilon, 0.0

    def mechanism(self) -> str:
        """Description of the sampler, its scale and ε."""
        return f"{self.words}, scale 1/ε, ε = {self.epsilon:g}"

    def pair(self) -> str:
        """Description of the two numbers."""
        return "a count is 0 in D and 1 in D'"

    def digest(self) -> str:
        """Digest of the two numbers."""
        return text_digest(repr((_ABSENT, _PRESENT)))

    def mutant(self, factor: float) -> FloatGame:
        """The same game with noise calibrated to `factor` times ε."""
        return replace(self, epsilon=self.epsilon * factor)

    def run(self, trials: int, seed: int) -> GameScores:
        """Release and score."""

        def score(exact: float, streams: Streams) -> Reals:
            return self.score(self.sampler(exact, 1 / self.epsilon, streams))

        return scored(score, (_ABSENT, _PRESENT), "float", trials, seed, self.law)


def known(attack: FloatBits | LikelihoodRatio, rounded_to_grid: bool = False) -> Score:
    """Return an attack's score for who knows both numbers, the scale and, if any, the grid."""
    step = grid(1.0) if rounded_to_grid else 0.0
    pair = LaplacePair(np.array([_ABSENT]), np.array([_PRESENT]), 1.0, step)

    def score(shown: Reals) -> Reals:
        values = shown[:, None].astype(np.float32)
        return attack.score(Predictions(np.zeros(values.shape, np.int32), values), pair)

    return score
