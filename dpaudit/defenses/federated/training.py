"""The training of a federated matrix factorisation: its clients (users), its server, their rounds.

Trials are trained one at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.memory import check_memory
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, FactorModels, check_factors, width
from dpaudit.defenses.federated.settings import Candidates, FakeGradientsSettings, Floats, Indices
from dpaudit.defenses.precision import grid
from dpaudit.defenses.training_checks import end_step, keep_finite
from dpaudit.kernels import noise
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned

# ε, a small constant in both roots of AdaDelta.
_FLOOR = np.float32(1e-6)


class AdaDelta:
    """State of AdaDelta (Zeiler 2012, arXiv:1212.5701), one step size per coordinate.

        G ← ρ G + (1 − ρ) g²,   Δ = −√((D + ε)/(G + ε)) g,   D ← ρ D + (1 − ρ) Δ²,   x ← x + η Δ

    Attributes:
        memory: ρ, the decay rate of both running means.
        rate: η, 1 in Zeiler's paper.
        squares: G, the running mean of squared gradients.
        steps: D, the running mean of squared steps.
    """

    def __init__(self, defense: FakeGradientsSettings, factors: Floats) -> None:
        """Start at G = D = 0 for these factors."""
        self.memory, self.rate = np.float32(defense.memory), np.float32(defense.learning_rate)
        self.squares, self.steps = np.zeros_like(factors), np.zeros_like(factors)

    def step(self, factors: Floats, slope: Floats) -> None:
        """Update `factors` in place, g being `slope`; overflows stay in the numbers."""
        rest = np.float32(1) - self.memory
        with np.errstate(over="ignore", invalid="ignore"):
            self.squares[:] = self.memory * self.squares + rest * slope**2
            delta = np.sqrt((self.steps + _FLOOR) / (self.squares + _FLOOR)) * slope
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
        self._adapt = AdaDelta(self.defense, self.factors)
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
        """The factor on `g − F` in each candidate's submission: 0 for a fake, `(P,)`.

        The corrected form clips a user's submissions of a round, less F, as one vector to the norm
        `clip_norm`; the other forms clip nothing.
        """
        if self.defense.variant != "corrected":
            return self._real
        return self._real * self.cut(self.squares(order, items, fakes))[self.candidates.users]

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
        self._adapt = AdaDelta(self.defense, self.factors)

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


# Steps of the noise source: two for the initial factors, one for the responses, four a round.
_RESPONSES, _FIRST = 2, 3
_NOISE, _CHOICE, _OTHERS, _MADE_UP = range(4)
_ROUND = 4

# The most bytes of a coordinate of a user or item: factors, AdaDelta's means, slopes and sums.
_COORDINATE = 40
# AdaDelta bounds its steps, so only the noise or the learning rate can make training diverge.
_DIVERGED = "the factors exceed single precision: raise epsilon, or lower params.learning_rate"


@dataclass(frozen=True, eq=False)
class Submitted:
    """The submissions of a round.

    Attributes:
        order: the candidates that are submitted, by user.
        apart: those of them whose noise is drawn individually `(n,)`.
        shown: the submissions for the candidates in `apart`, `(n, size)`.
        sums: the sum of all submissions for each item `(M, size)`.
        counts: the number of submissions for each item `(M,)`.
    """

    order: Indices
    apart: Indices
    shown: Floats
    sums: Floats
    counts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Participation:
    """The candidates that are submitted in a round.

    Attributes:
        order: all of them, by user.
        apart: those of users whose noise is drawn individually.
        sent: those of all other users, without fakes.
        counts: the number of submissions for each item `(M,)`.
        others: the number of submissions of users whose noise is drawn as a sum `(M,)`.
        fakes: how many of `others` are fakes `(M,)`.
    """

    order: Indices
    apart: Indices
    sent: Indices
    counts: NDArray[np.int64]
    others: NDArray[np.int64]
    fakes: NDArray[np.int64]


class FederatedTraining:
    """One training: the server and its clients.

    Attributes:
        defense: the mechanism.
        candidates: each user's candidates.
        sigma: σ.
        clients: the users.
        server: the server.
        done: the number of finished rounds.
    """

    def __init__(
        self,
        defense: FakeGradientsSettings,
        candidates: Candidates,
        trial: Streams,
        apart: NDArray[np.bool_] | None = None,
    ) -> None:
        """Draw the initial factors and the users' randomised responses.

        Args:
            defense: the mechanism.
            candidates: each user's candidates.
            trial: the only trial.
            apart: mask of the users whose noise is drawn individually and whose submissions
                `submit` returns `(N,)`; no user if None. The noise of all other users is drawn
                as one sum for each item, which has the same law as the sum that the server forms.

        Raises:
            ConfigError: the factors or the single submissions do not fit the memory.
        """
        self.defense, self.candidates, self._trial = defense, candidates, trial
        self.sigma = defense.sigma(candidates)
        size = width(defense.dimensions)
        check_factors(
            candidates.n_users, candidates.n_items, size, _COORDINATE, "one trial at a time"
        )

        def drawn(count: int, step: int) -> Floats:
            factors = aligned(count, size)
            narrow = self._drawn(noise.normal, count * defense.dimensions, step)
            factors[:, : defense.dimensions] = narrow.reshape(count, -1)
            factors *= np.float32(defense.spread)
            return factors

        self.clients = Clients(defense, candidates, drawn(candidates.n_users, USERS))
        shares, floored = self._shares()
        items = drawn(candidates.n_items, ITEMS)
        self.server = Server(defense, items, np.zeros_like(items), shares, floored)
        self.done = 0
        # Submissions that the server has received and not used yet.
        self._received: deque[tuple[Floats, NDArray[np.int64], Floats]] = deque()
        # The sum of two-valued submissions has no law that could be drawn from directly.
        everybody = np.full(candidates.n_users, defense.fakes == "two-valued")
        self._apart = everybody if apart is None else apart | everybody
        single = int(self._batches[self._apart].sum())
        check_memory(
            "the single submissions of a round",
            f"the number of candidates of the users whose submissions are observed ({single:,}) "
            f"times params.dimensions ({defense.dimensions})",
            4 * single * (size + 2),
            "lower params.dimensions, params.density or transcript.users, set params.batch_size",
        )
        self._mixed = np.arange(len(candidates), dtype=np.int32)
        some = (self._batches < candidates.counts).any()
        self._fixed = None if some else self._sorted(self._mixed)

    @property
    def all_submit(self) -> bool:
        """Whether all candidates are submitted in each round."""
        return self._fixed is not None

    @cached_property
    def _batches(self) -> NDArray[np.int64]:
        """The number of candidates that each user submits in a round `(N,)`."""
        counts = self.candidates.counts
        return (
            counts
            if self.defense.batch_size is None
            else np.minimum(counts, self.defense.batch_size)
        )

    def _drawn(self, law: Callable[..., None], count: int, step: int) -> Floats:
        draws = np.empty((1, count), np.float32)
        law(draws, self._trial.trials, step, self._trial.key)
        return draws[0]

    def _shares(self) -> tuple[NDArray[np.float64], int]:
        """Return `π̂` of each item, and how many were raised to `least_share`.

        `π̂` is estimated by Warner's randomised response, unless the mechanism uses a public share.
        """
        candidates, defense = self.candidates, self.defense
        known = defense.public_share
        if known is not None:
            return np.full(candidates.n_items, known), 0
        p = defense.truth
        says = candidates.real == (self._drawn(noise.uniform, len(candidates), _RESPONSES) < p)
        answers = np.bincount(candidates.items, minlength=candidates.n_items)
        yes = np.bincount(candidates.items[says], minlength=candidates.n_items)
        # π̂ = (p − 1)/(2p − 1) + n₁/((2p − 1) n)
        shares = (p - 1 + yes / np.maximum(answers, 1)) / (2 * p - 1)
        low = (shares < defense.least_share) & (answers > 0)
        return np.clip(shares, defense.least_share, 1.0), int(low.sum())

    def _step(self, kind: int) -> int:
        return _FIRST + _ROUND * self.done + kind

    def _sorted(self, order: Indices) -> _Participation:
        candidates = self.candidates
        rows = self._apart[candidates.users[order]]
        others = order[~rows]
        # With fakes = 'rating', a fake is a gradient like a real submission.
        sent = others if self.defense.fakes == "rating" else others[candidates.real[others]]
        all_, left, real = (
            np.bincount(candidates.items[part], minlength=candidates.n_items)
            for part in (order, others, sent)
        )
        return _Participation(order, order[rows], sent, all_, left, left - real)

    def submitted(self) -> Floats:
        """The rating behind each candidate's gradient in this round, less the offset `(P,)`."""
        if self.defense.fakes != "rating":
            return self.clients.values
        return np.where(self.candidates.real, self.clients.values, self.made_up())

    def made_up(self) -> Floats:
        """The made-up rating of each candidate in this round, less the offset `(P,)`."""
        candidates, defense = self.candidates, self.defense
        ratings = candidates.made_up
        if defense.made_up == "each-round":
            step, mean = self._step(_MADE_UP), defense.made_up_mean
            if mean is None:
                values, draws = (
                    candidates.scale.values,
                    self._drawn(noise.uniform, len(candidates), step),
                )
                ratings = values[
                    np.minimum((draws * len(values)).astype(np.int64), len(values) - 1)
                ]
            else:
                ratings = self._drawn(noise.normal, len(candidates), step) + np.float32(mean)
        return ratings - np.float32(defense.offset)

    def submit(self) -> Submitted:
        """Compute the users' submissions of this round from the current V and F."""
        items, fakes = self.server.factors, self.server.fakes
        participation = self._fixed
        if participation is None:
            chosen = np.empty(int(self._batches.sum()), np.int32)
            draws = self._drawn(noise.uniform, len(chosen), self._step(_CHOICE))
            kernels.choose(self.candidates.start, self._batches, draws, self._mixed, chosen)
            participation = self._sorted(chosen)
        weights = self.clients.weights(participation.order, items, fakes)
        if self.defense.fakes == "rating":
            weights = np.ones_like(weights)
        values = self.submitted()
        sums = aligned(*items.shape)
        shown = aligned(len(participation.apart), items.shape[1])
        self._send(participation.apart, values, weights, sums, shown)
        if participation.others.any():
            self._add_others(participation, values, weights, sums)
        return Submitted(
            participation.order, participation.apart, shown, sums, participation.counts
        )

    def learn(self, submitted: Submitted) -> None:
        """Update the server with the submissions of a round, then the users.

        Raises:
            NoModelError: the training diverged.
        """
        self._received.append((submitted.sums, submitted.counts, self.server.fakes.copy()))
        if len(self._received) > self.defense.delay:
            self.server.receive(*self._received.popleft())
        factors, variant = self.server.factors, self.defense.variant
        end_step(variant, "fake-gradients", self.done + 1, "round", _DIVERGED, factors)
        self.clients.learn(factors)
        self.done += 1

    def run_round(self) -> None:
        """Run one round."""
        self.learn(self.submit())

    def _send(
        self, order: Indices, values: Floats, weights: Floats, sums: Floats, shown: Floats
    ) -> None:
        """Compute submissions with individual noise into `shown`, and add them to `sums`."""
        candidates, size = self.candidates, sums.shape[1]
        state = self.clients.factors.reshape(-1), self.server.factors.reshape(-1)
        if self.defense.fakes == "two-valued":
            draws = self._drawn(noise.uniform, 2 * len(order), self._step(_NOISE)).reshape(2, -1)
            kernels.submit_signs(
                order, candidates.users, candidates.items, values, weights, *state, size,
                self.defense.dimensions, self.defense.level, draws, sums.reshape(-1),
                shown.reshape(-1),
            )  # fmt: skip
            return
        kernels.submit(
            order, candidates.users, candidates.items, values, weights, *state,
            self.server.fakes.reshape(-1), size, self.sigma, grid(self.sigma), self._step(_NOISE),
            int(self._trial.trials[0]), self._trial.key, sums.reshape(-1), shown.reshape(-1),
        )  # fmt: skip

    def _add_others(
        self, participation: _Participation, values: Floats, weights: Floats, sums: Floats
    ) -> None:
        """Add the other users' submissions to `sums`, with the noise drawn as one sum.

        The sum of n normal variables of standard deviation σ has standard deviation σ√n.
        """
        candidates, shape = self.candidates, sums.shape
        kernels.submit(
            participation.sent, candidates.users, candidates.items, values, weights,
            self.clients.factors.reshape(-1), self.server.factors.reshape(-1),
            self.server.fakes.reshape(-1), shape[1],
            0.0, 0.0, 0, 0, self._trial.key, sums.reshape(-1), np.empty(0, np.float32),
        )  # fmt: skip
        draws = self._drawn(noise.normal, sums.size, self._step(_OTHERS))
        spread = (self.sigma * np.sqrt(participation.others)).astype(np.float32)[:, None]
        sums += participation.fakes.astype(np.float32)[:, None] * self.server.fakes
        sums += spread * draws.reshape(shape)

    def models(self) -> FactorModels:
        """Return the current model."""
        return FactorModels.single(
            self.clients.factors,
            self.server.factors,
            self.defense.dimensions,
            self.defense.offset,
            self.candidates.scale,
        )
