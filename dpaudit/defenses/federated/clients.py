"""The two sides of a federated matrix factorisation: the clients (users) and the server."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.federated.candidates import Candidates, Floats, Indices
from dpaudit.defenses.federated.settings import FakeGradientsSettings
from dpaudit.defenses.training_checks import keep_finite
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned


@dataclass(eq=False)
class AdaDelta:
    """State of AdaDelta (Zeiler 2012, arXiv:1212.5701), one step size per coordinate.

        G ← ρ G + (1 − ρ) g²,   Δ = −√((D + ε)/(G + ε)) g,   D ← ρ D + (1 − ρ) Δ²,   x ← x + η Δ

    Attributes:
        memory: ρ, the decay rate of both running means.
        floor: ε, a small constant in both roots.
        rate: η, 1 in Zeiler's paper.
        squares: G, the running mean of squared gradients.
        steps: D, the running mean of squared steps.
    """

    memory: np.float32
    floor: np.float32
    rate: np.float32
    squares: Floats
    steps: Floats

    @classmethod
    def of(cls, defense: FakeGradientsSettings, factors: Floats) -> AdaDelta:
        """Return the initial state, G = D = 0, for these factors."""
        zeros = np.zeros_like(factors)
        memory, rate = np.float32(defense.memory), np.float32(defense.learning_rate)
        return cls(memory, np.float32(1e-6), rate, zeros, zeros.copy())

    def step(self, factors: Floats, slope: Floats) -> None:
        """Update `factors` in place, g being `slope`; overflows stay in the numbers."""
        rest = np.float32(1) - self.memory
        with np.errstate(over="ignore", invalid="ignore"):
            self.squares[:] = self.memory * self.squares + rest * slope**2
            delta = np.sqrt((self.steps + self.floor) / (self.squares + self.floor)) * slope
            self.steps[:] = self.memory * self.steps + rest * delta**2
            factors -= self.rate * delta


@dataclass(eq=False)
class Clients:
    """The users with their candidates and their factors.

    Attributes:
        defense: the mechanism.
        candidates: the users' candidates and ratings.
        factors: `U`, `(N, size)`.
    """

    defense: FakeGradientsSettings
    candidates: Candidates
    factors: Floats

    def __post_init__(self) -> None:
        self._adapt = AdaDelta.of(self.defense, self.factors)
        self._slopes = np.zeros_like(self.factors)

    @property
    def _own(self) -> tuple[Indices, Indices, Floats]:
        return self.candidates.users, self.candidates.items, self.values

    @cached_property
    def values(self) -> Floats:
        """The candidates' ratings less the offset `(P,)`."""
        return self.candidates.values - np.float32(self.defense.offset)

    @cached_property
    def _real(self) -> Floats:
        return self.candidates.real.astype(np.float32)

    @cached_property
    def rated(self) -> Indices:
        """The candidates that are rated, as row indices `(R,)`."""
        return np.flatnonzero(self.candidates.real).astype(np.int32)

    def learn(self, items: Floats) -> None:
        """Update each user's factors with the gradient on all their ratings."""
        rated = self.candidates.rated
        kernels.learn(
            rated.start,
            rated.items,
            rated.values - np.float32(self.defense.offset),
            self.factors.reshape(-1),
            items.reshape(-1),
            items.shape[1],
            self._slopes.reshape(-1),
        )
        self._adapt.step(self.factors, self._slopes + np.float32(self.defense.decay) * self.factors)
        if self.defense.variant == "corrected":
            keep_finite(self.factors)

    def weights(self, order: Indices, items: Floats, fakes: Floats) -> Floats:
        """The factor on `g − F` in each candidate's submission: 0 for a fake, `(P,)`."""
        if self.defense.variant != "corrected":
            return self._real
        return self._real * self.cuts(order, items, fakes)[self.candidates.users]

    def cuts(self, order: Indices, items: Floats, fakes: Floats) -> Floats:
        """The clipping factor of each user's submissions in a round `(N,)`.

        The corrected form clips a user's submissions of a round, less F, as one vector to the norm
        `clip_norm`; the other forms clip nothing, so the factors are 1.
        """
        if self.defense.variant != "corrected":
            return np.ones(self.candidates.n_users, np.float32)
        return self.cut(self.squares(order, items, fakes))

    def squares(self, order: Indices, items: Floats, fakes: Floats) -> NDArray[np.float64]:
        """The squared norm of each user's submissions less F, before clipping `(N,)`."""
        squares = np.zeros(self.candidates.n_users)
        kernels.deviations(
            order, *self._own, self._real, self.factors.reshape(-1), items.reshape(-1),
            fakes.reshape(-1), items.shape[1], squares,
        )  # fmt: skip
        return squares

    def cut(self, squares: NDArray[np.float64]) -> Floats:
        """The factors that bring vectors of these squared norms to at most `clip_norm`."""
        # Slightly below clip_norm, because the clipped vector is rounded.
        most = self.defense.clip_norm * (1 - 1e-5)
        return (most / np.maximum(np.sqrt(squares), most)).astype(np.float32)

    def gradients(self, order: Indices, values: Floats, items: Floats) -> Floats:
        """The gradients of the candidates in `order`, `(n, size)`.

        Args:
            order: the candidates, as row indices `(n,)`.
            values: the rating of each candidate less the offset `(P,)`.
            items: `V`.
        """
        slopes, candidates = aligned(len(order), items.shape[1]), self.candidates
        kernels.gradients(
            order, candidates.users, candidates.items, values, self.factors.reshape(-1),
            items.reshape(-1), items.shape[1], slopes.reshape(-1),
        )  # fmt: skip
        return slopes

    def moments(self, items: Floats) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """`Σ g` `(M, size)` and `Σ ‖g‖²` `(M,)` over the raters of each item."""
        sums, squares = np.zeros(items.size), np.zeros(len(items))
        kernels.moments(
            self.rated, *self._own, self.factors.reshape(-1), items.reshape(-1), items.shape[1],
            sums, squares,
        )  # fmt: skip
        return sums.reshape(items.shape), squares


@dataclass(eq=False)
class Server:
    """The server's state: `V`, `F` and the shares of real submissions.

    Attributes:
        defense: the mechanism.
        factors: `V`, `(M, size)`.
        fakes: `F`, `(M, size)`.
        shares: `π̂`, after flooring `(M,)`.
        floored: the number of items whose estimated share was below `least_share`.
    """

    defense: FakeGradientsSettings
    factors: Floats
    fakes: Floats
    shares: NDArray[np.float64]
    floored: int

    def __post_init__(self) -> None:
        self._adapt = AdaDelta.of(self.defense, self.factors)

    def receive(self, sums: Floats, counts: NDArray[np.int64], fakes: Floats) -> None:
        """Estimate each item's mean gradient from its submissions, and take an AdaDelta step.

        ĝ_j = (Σ x − (1 − π̂_j) n_j F_j) / (π̂_j n_j),   F_j ← ĝ_j,   v_j moves by ĝ_j + λ v_j

        Args:
            sums: the sum of the submissions for each item, `Σ x`, `(M, size)`.
            counts: their number, `n_j`, `(M,)`.
            fakes: the F that users had when they submitted `(M, size)`.
        """
        there = counts > 0
        total = np.maximum(counts, 1)[:, None] * self.shares[:, None]
        rest = ((1 - self.shares) * counts)[:, None]
        mean = ((sums - rest * fakes) / total).astype(np.float32)
        mean[:, self.defense.dimensions :] = 0
        slope = np.where(there[:, None], mean + np.float32(self.defense.decay) * self.factors, 0)
        # An item without submissions keeps its factors.
        self._adapt.step(self.factors, slope.astype(np.float32))
        if self.defense.fakes == "delayed-mean" and self.defense.variant != "nonprivate":
            norm = np.sqrt(np.einsum("mf,mf->m", mean, mean, dtype=np.float64))
            cut = self.defense.fake_clip_norm / np.maximum(norm, self.defense.fake_clip_norm)
            self.fakes[there] = (mean * cut[:, None].astype(np.float32))[there]
