"""Noise added in floating point (Mironov 2012); the broken samplers include that of dpaudit 0.1.

The claim is that of every implementation that adds a sampled number to a computed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.float_bits import FloatBits, NumpyLaplaceBits
from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.auditor.games.outcomes import GameScores
from dpaudit.bounds.accounting import laplace_epsilon
from dpaudit.claims.entry import PublishedClaim
from dpaudit.claims.games import TRIALS, text_digest
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
        scores = [
            self.score(
                self.sampler(
                    exact, 1 / self.epsilon, Streams.first(seed, f"float/{dataset}", trials)
                )
            )
            for exact, dataset in ((_ABSENT, "absent"), (_PRESENT, "present"))
        ]
        return GameScores(scores[0], scores[1], self.law)


def _known(score: Callable[[Predictions, LaplacePair], Reals], step: float) -> Score:
    """Return the score of an observer who knows both numbers, the scale and the grid's step."""
    known = LaplacePair(np.array([_ABSENT]), np.array([_PRESENT]), 1.0, step)

    def of(shown: Reals) -> Reals:
        values = shown[:, None].astype(np.float32)
        return score(Predictions(np.zeros(values.shape, np.int32), values), known)

    return of


_SINGLE = FloatBits(precision="single", bits=31)
_NEVER = Estimate.exact(math.inf, "supports that differ")
_EDITION = "dpaudit 0.1's sums in single precision"
_GRID = "exact draws on a public grid"

CLAIMS: tuple[PublishedClaim, ...] = (
    PublishedClaim(
        id="mironov12-s4-laplace",
        sentence="A count of sensitivity 1 plus Laplace noise of scale 1/ε, computed in floating "
        "point, is ε-differentially private.",
        source="Dwork, McSherry, Nissim, Smith 2006, doi:10.1007/11681878_14, Proposition 1, as "
        "implemented; refuted by Mironov 2012, doi:10.1145/2382196.2382264, section 4",
        adjacency="rating-add-remove",
        observer="values",
        recorded="falsified",
        basis="on a reading",
        because="A floating-point sum f + s z takes only values that some drawable z produces, and "
        "these differ between f and f'. Of the outputs for f = 0, 82 % with numpy's draws and 43 % "
        "with 31 bits in single precision are impossible for f' = 1: ε = ∞ at any δ below these "
        "shares.",
        published=(
            FloatGame(
                "numpy's draws, in double precision",
                by_numpy,
                NumpyLaplaceBits(_ABSENT, _PRESENT, 1.0),
                "f + numpy's rng.laplace",
                _NEVER,
                trials=20_000,
            ),
            FloatGame(
                _EDITION,
                by_first_edition,
                _known(_SINGLE.score, 0.0),
                "f + s z in single precision, z from 31 bits",
                _NEVER,
            ),
        ),
        corrected=(
            FloatGame(
                _GRID,
                on_a_grid,
                _known(LikelihoodRatio().score, grid(1.0)),
                "f + s z on a grid of s/8, z from 63 to 319 bits",
                laplace_epsilon(1.0, 1.0),
            ),
            FloatGame(
                f"{_GRID}, its bits",
                on_a_grid,
                _known(FloatBits().score, grid(1.0)),
                "f + s z on a grid of s/8, z from 63 to 319 bits",
                laplace_epsilon(1.0, 1.0),
            ),
        ),
        weak={
            f"{_GRID}, its bits": "Bits on a grid leak nothing, whatever the scale of the noise; "
            "the game with the likelihood ratio has the power."
        },
        reading="the noise is what a program adds in floating point; for real numbers the claim "
        "holds",
    ),
)
