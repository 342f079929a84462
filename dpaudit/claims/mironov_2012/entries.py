"""Noise added in floating point (Mironov 2012), with dpaudit's own first edition among the wrong.

The statement is that of every implementation that adds a sampled number to a computed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.distinguishing.float_bits import FloatBits, NumpyLaplaceBits
from dpaudit.attacks.distinguishing.likelihood_ratio import LikelihoodRatio
from dpaudit.bounds.accounting import laplace_epsilon
from dpaudit.claims.entry import PublishedClaim, Worlds
from dpaudit.claims.games import TRIALS, digest_of
from dpaudit.core.estimate import Estimate
from dpaudit.core.releases import LaplacePair, Predictions
from dpaudit.core.streams import Streams
from dpaudit.defenses.precision import grid, rounded
from dpaudit.kernels import exact_noise
from dpaudit.kernels.noise import philox_words

Reals = NDArray[np.float64]

# The released number in some worlds, from what it is without noise and the noise's scale.
Sampler = Callable[[float, float, Streams], Reals]
Score = Callable[[Reals], Reals]

_ABSENT, _PRESENT = 0.0, 1.0


def by_numpy(exact: float, scale: float, streams: Streams) -> Reals:
    """`f + rng.laplace(scale=s)`, in double precision."""
    rng = np.random.default_rng([*streams.key.tolist(), int(streams.worlds[0])])
    found: Reals = exact + rng.laplace(scale=scale, size=len(streams))
    return found


def by_first_edition(exact: float, scale: float, streams: Streams) -> Reals:
    """`f + s z` in single precision, z from 31 bits: how dpaudit 0.1 noised what trainings show."""
    words = np.empty(-(-len(streams) // 4) * 4, np.uint32)
    philox_words(words, 0, 0, int(streams.worlds[0]), streams.key)
    k = ((words[: len(streams)] >> 1) | 1).astype(np.float32).astype(np.float64)
    z = (-np.log(k / 2.0**31)).astype(np.float32)
    z = np.where(words[: len(streams)] & 1, -z, z)
    return (exact + scale * z.astype(np.float64)).astype(np.float32).astype(np.float64)


def on_a_grid(exact: float, scale: float, streams: Streams) -> Reals:
    """`g · round((f + s z)/g)`, z fine in body and tail: how dpaudit noises what it releases."""
    draws = np.empty((len(streams), 1))
    exact_noise.laplace(draws, streams.worlds, 0, streams.key)
    return rounded(exact + scale * draws[:, 0], grid(scale)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class FloatGame:
    """One number, 0 in D and 1 in D', with Laplace noise of scale 1/ε, released by a sampler.

    Attributes:
        label: what sets it apart within its entry.
        sampler: how noise is added.
        score: tells outputs of D' from those of D.
        words: the mechanism in words.
        law: the ε of what is computed.
        epsilon: ε.
        trials: worlds of either data set.
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
        """How the noise is made."""
        return f"{self.words}, scale 1/ε, ε = {self.epsilon:g}"

    def pair(self) -> str:
        """The two numbers."""
        return "a count is 0 in D and 1 in D'"

    def digest(self) -> str:
        """Of the two numbers."""
        return digest_of(repr((_ABSENT, _PRESENT)))

    def mutant(self, factor: float) -> FloatGame:
        """The same two numbers with noise for so many times ε."""
        return replace(self, epsilon=self.epsilon * factor)

    def play(self, trials: int, seed: int) -> Worlds:
        """Release and score."""
        found = [
            self.score(
                self.sampler(exact, 1 / self.epsilon, Streams.first(seed, f"float/{world}", trials))
            )
            for exact, world in ((_ABSENT, "absent"), (_PRESENT, "present"))
        ]
        return Worlds(found[0], found[1], self.law)


def _known(score: Callable[[Predictions, LaplacePair], Reals], step: float) -> Score:
    """A score of whoever knows both numbers, the scale and the grid's step."""
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
        sentence="A count of sensitivity 1 with a Laplace number of scale 1/ε added to it is "
        "ε-differentially private, as implementations in floating point compute it.",
        source="Dwork, McSherry, Nissim, Smith 2006, doi:10.1007/11681878_14, Proposition 1, as "
        "implemented; refuted by Mironov 2012, doi:10.1145/2382196.2382264, section 4",
        adjacency="rating-add-remove",
        observer="values",
        recorded="falsified",
        basis="on a reading",
        because="A floating-point sum f + s z has only the values that some drawable z leads to, "
        "and these differ between f and f'. Of what f = 0 leads to, 82 % with numpy's draws and "
        "43 % with 31 bits in single precision cannot come from f' = 1: ε = ∞ at any δ below.",
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
            f"{_GRID}, its bits": "Bits on a grid tell nothing, whatever the scale of the "
            "noise; the game of the likelihood ratio has the power."
        },
        reading="the noise is what a program adds in floating point; of real numbers the statement "
        "holds",
    ),
)
