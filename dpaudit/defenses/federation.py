"""Users and server of a federated matrix factorisation, one training at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.candidates import Candidates, Floats, Indices
from dpaudit.defenses.factors import ITEMS, USERS, FactorModels
from dpaudit.defenses.trained import check_finite
from dpaudit.kernels import federated as kernels
from dpaudit.kernels import noise
from dpaudit.kernels.lanes import LANES, aligned
from dpaudit.releases import Streams

if TYPE_CHECKING:
    from dpaudit.defenses.fake_gradients import FakeGradients

# Steps of the noise source: the initial factors, the responses, then four a round.
_RESPONSES, _FIRST = 2, 3
_NOISE, _CHOICE, _OTHERS, _MADE_UP = range(4)
_ROUND = 4

# A training that left the range of numbers; AdaDelta's steps are bounded, so only noise can do it.
_DIVERGED = "the noise is beyond what single precision holds: raise epsilon"


def width(dimensions: int) -> int:
    """The room of a row of factors: the least power of two of at least 16 that holds them."""
    return max(LANES, 1 << (dimensions - 1).bit_length())


@dataclass(eq=False)
class AdaDelta:
    """Steps whose size adapts to each coordinate (Zeiler 2012, arXiv:1212.5701).

        G ← ρ G + (1 − ρ) g²,   Δ = −√((D + ε)/(G + ε)) g,   D ← ρ D + (1 − ρ) Δ²,   x ← x + Δ

    Attributes:
        memory: ρ.
        floor: ε.
        squares: G.
        steps: D.
    """

    memory: np.float32
    floor: np.float32
    squares: Floats
    steps: Floats

    @classmethod
    def like(cls, factors: Floats, memory: float, floor: float) -> AdaDelta:
        """Nothing remembered yet."""
        zeros = np.zeros_like(factors)
        return cls(np.float32(memory), np.float32(floor), zeros, zeros.copy())

    def step(self, factors: Floats, slope: Floats) -> None:
        """Move the factors in place against their slope."""
        rest = np.float32(1) - self.memory
        self.squares[:] = self.memory * self.squares + rest * slope**2
        delta = np.sqrt((self.steps + self.floor) / (self.squares + self.floor)) * slope
        self.steps[:] = self.memory * self.steps + rest * delta**2
        factors -= delta


@dataclass(eq=False)
class Devices:
    """The users, each with her candidates and her own factors.

    Attributes:
        defense: the mechanism.
        candidates: what they may submit for, and their ratings.
        factors: `U`, `(N, size)`.
    """

    defense: FakeGradients
    candidates: Candidates
    factors: Floats

    def __post_init__(self) -> None:
        self._adapt = self.defense.adaptive(self.factors)
        self._slopes = np.zeros_like(self.factors)

    @property
    def _own(self) -> tuple[Indices, Indices, Floats]:
        return self.candidates.users, self.candidates.items, self.values

    @cached_property
    def values(self) -> Floats:
        """Their ratings less the offset `(P,)`."""
        return self.candidates.values - np.float32(self.defense.offset)

    @cached_property
    def _rated(self) -> Candidates:
        return self.candidates.only(self.candidates.real)

    @cached_property
    def rated(self) -> Indices:
        """The rows of the ratings `(R,)`."""
        return np.flatnonzero(self.candidates.real).astype(np.int32)

    def learn(self, items: Floats) -> None:
        """Every user moves her factors by the gradient on all her ratings."""
        own = self._rated
        kernels.learn(
            own.start,
            own.items,
            own.values - np.float32(self.defense.offset),
            self.factors.reshape(-1),
            items.reshape(-1),
            items.shape[1],
            self._slopes.reshape(-1),
        )
        self._adapt.step(self.factors, self._slopes + np.float32(self.defense.decay) * self.factors)

    def weights(self, order: Indices, items: Floats, fakes: Floats) -> Floats:
        """How much of her gradient's distance from the fake each candidate submits `(P,)`."""
        real = self.candidates.real
        return real * self.cuts(order, items, fakes)[self.candidates.users]

    def cuts(self, order: Indices, items: Floats, fakes: Floats) -> Floats:
        """By how much each user's distances from the fakes are cut in a round `(N,)`.

        The corrected form cuts what a user submits in a round, less F, as one vector to the norm
        `bound`; the others cut nothing.
        """
        if self.defense.variant != "corrected":
            return np.ones(self.candidates.n_users, np.float32)
        weights = self.candidates.real.astype(np.float32)
        squares = np.zeros(self.candidates.n_users)
        kernels.deviations(
            order, *self._own, weights, self.factors.reshape(-1), items.reshape(-1),
            fakes.reshape(-1), items.shape[1], squares,
        )  # fmt: skip
        # A hair less, as the cut vector is rounded.
        most = self.defense.bound * (1 - 1e-5)
        return (most / np.maximum(np.sqrt(squares), most)).astype(np.float32)

    def gradients(self, order: Indices, values: Floats, items: Floats) -> Floats:
        """The gradient of each candidate in `order` with these ratings `(P,)`, `(n, size)`."""
        found, own = aligned(len(order), items.shape[1]), self.candidates
        kernels.gradients(
            order, own.users, own.items, values, self.factors.reshape(-1), items.reshape(-1),
            items.shape[1], found.reshape(-1),
        )  # fmt: skip
        return found

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
    """What the server keeps, all of which it knows: `V`, `F` and the shares of real submissions.

    Attributes:
        defense: the mechanism.
        factors: `V`, `(M, size)`.
        fakes: `F`, `(M, size)`.
        shares: `π̂`, as it uses them `(M,)`.
        floored: how many of the response's estimates were below the least that is used.
    """

    defense: FakeGradients
    factors: Floats
    fakes: Floats
    shares: NDArray[np.float64]
    floored: int

    def __post_init__(self) -> None:
        self._adapt = self.defense.adaptive(self.factors)

    def receive(self, sums: Floats, counts: NDArray[np.int64]) -> None:
        """Estimate each item's mean gradient from the sum of `counts` submissions, and step.

        ĝ_j = (Σ x − (1 − π̂_j) n_j F_j) / (π̂_j n_j),   F_j ← ĝ_j,   v_j moves by ĝ_j + λ v_j
        """
        there = counts > 0
        total = np.maximum(counts, 1)[:, None] * self.shares[:, None]
        rest = ((1 - self.shares) * counts)[:, None]
        mean = ((sums - rest * self.fakes) / total).astype(np.float32)
        mean[:, self.defense.dimensions :] = 0
        slope = np.where(there[:, None], mean + np.float32(self.defense.decay) * self.factors, 0)
        # An item for which nobody submitted stays where it is.
        self._adapt.step(self.factors, slope.astype(np.float32))
        if self.defense.fakes == "delayed-mean" and self.defense.variant != "nonprivate":
            norm = np.sqrt(np.einsum("mf,mf->m", mean, mean, dtype=np.float64))
            cut = self.defense.fake_bound / np.maximum(norm, self.defense.fake_bound)
            self.fakes[there] = (mean * cut[:, None].astype(np.float32))[there]


@dataclass(frozen=True, eq=False)
class Submitted:
    """What is submitted in a round.

    Attributes:
        order: the candidates that submit, by user.
        apart: those of them whose noise is drawn one by one `(n,)`.
        shown: what these submit `(n, size)`.
        sums: the sum of all submissions for each item `(M, size)`.
        counts: how many there are `(M,)`.
    """

    order: Indices
    apart: Indices
    shown: Floats
    sums: Floats
    counts: NDArray[np.int64]


class Federation:
    """One training: the server and its users.

    Attributes:
        defense: the mechanism.
        candidates: who may submit for what.
        sigma: σ.
        devices: the users.
        server: the server.
        done: how many rounds are over.
    """

    def __init__(
        self,
        defense: FakeGradients,
        candidates: Candidates,
        world: Streams,
        apart: NDArray[np.bool_] | None = None,
    ) -> None:
        """Draw the initial factors, and let users answer which of their candidates they rated.

        Args:
            defense: the mechanism.
            candidates: who may submit for what.
            world: the only world.
            apart: the users whose noise is drawn one by one `(N,)`, whom `submit` shows; all
                others' is drawn as the sum that the server forms of it, which has the same law.
                Nobody unless given.
        """
        self.defense, self.candidates, self._world = defense, candidates, world
        self.sigma = defense.sigma(candidates)
        size = width(defense.dimensions)

        def drawn(count: int, step: int) -> Floats:
            factors = aligned(count, size)
            narrow = np.empty((1, count * defense.dimensions), np.float32)
            noise.normal(narrow, world.worlds, step, world.key)
            factors[:, : defense.dimensions] = narrow.reshape(count, -1)
            factors *= np.float32(defense.spread)
            return factors

        self.devices = Devices(defense, candidates, drawn(candidates.n_users, USERS))
        shares, floored = self._shares()
        items = drawn(candidates.n_items, ITEMS)
        self.server = Server(defense, items, np.zeros_like(items), shares, floored)
        self.done = 0
        # Two-valued submissions have no sum whose law is a known one.
        everybody = np.full(candidates.n_users, defense.fakes == "two-valued")
        self._apart = everybody if apart is None else apart | everybody
        self._mixed = np.arange(len(candidates), dtype=np.int32)
        self._fixed = None if (self._batches < candidates.counts).any() else self._mixed

    @cached_property
    def _batches(self) -> NDArray[np.int64]:
        """How many candidates each user submits in a round `(N,)`."""
        counts = self.candidates.counts
        return counts if self.defense.batch is None else np.minimum(counts, self.defense.batch)

    def _uniform(self, count: int, step: int) -> Floats:
        draws = np.empty((1, count), np.float32)
        noise.uniform(draws, self._world.worlds, step, self._world.key)
        return draws[0]

    def _shares(self) -> tuple[NDArray[np.float64], int]:
        """`π̂` of each item: by Warner's response where the mechanism asks, else what is public."""
        own, defense = self.candidates, self.defense
        known = defense.public_share
        if known is not None:
            return np.full(own.n_items, known), 0
        p = defense.truth
        says = own.real == (self._uniform(len(own), _RESPONSES) < p)
        answers = np.bincount(own.items, minlength=own.n_items)
        yes = np.bincount(own.items[says], minlength=own.n_items)
        # π̂ = (p − 1)/(2p − 1) + n₁/((2p − 1) n)
        found = (p - 1 + yes / np.maximum(answers, 1)) / (2 * p - 1)
        low = (found < defense.least_share) & (answers > 0)
        return np.clip(found, defense.least_share, 1.0), int(low.sum())

    def _step(self, kind: int) -> int:
        return _FIRST + _ROUND * self.done + kind

    def _order(self) -> Indices:
        """The candidates that submit in this round, by user."""
        if self._fixed is not None:
            return self._fixed
        chosen = np.empty(int(self._batches.sum()), np.int32)
        draws = self._uniform(len(chosen), self._step(_CHOICE))
        kernels.choose(self.candidates.start, self._batches, draws, self._mixed, chosen)
        return chosen

    def submitted(self) -> Floats:
        """The rating whose gradient each submits in this round, less the offset `(P,)`."""
        if self.defense.fakes != "rating":
            return self.devices.values
        return np.where(self.candidates.real, self.devices.values, self.made_up())

    def made_up(self) -> Floats:
        """The rating that is made up for each candidate in this round, less the offset `(P,)`."""
        own, defense = self.candidates, self.defense
        found = own.made_up
        if defense.made_up == "each-round":
            values = own.scale.values
            draws = self._uniform(len(own), self._step(_MADE_UP))
            found = values[np.minimum((draws * len(values)).astype(np.int64), len(values) - 1)]
        return found - np.float32(defense.offset)

    def submit(self) -> Submitted:
        """Users submit, by V and F as they stand."""
        items, fakes = self.server.factors, self.server.fakes
        order = self._order()
        rows = self._apart[self.candidates.users[order]]
        mine = order if rows.all() else order[rows]
        weights = self.devices.weights(order, items, fakes)
        if self.defense.fakes == "rating":
            weights[:] = 1
        values = self.submitted()
        sums = aligned(*items.shape)
        shown = aligned(len(mine), items.shape[1])
        self._send(mine, values, weights, sums, shown)
        if len(mine) < len(order):
            self._add_others(order[~rows], values, weights, sums)
        counts = np.bincount(self.candidates.items[order], minlength=len(items))
        return Submitted(order, mine, shown, sums, counts)

    def learn(self, submitted: Submitted) -> None:
        """The server steps, and users learn.

        Raises:
            RunError: the training diverged.
        """
        self.server.receive(submitted.sums, submitted.counts)
        check_finite("fake-gradients", self.done + 1, "round", _DIVERGED, self.server.factors)
        self.devices.learn(self.server.factors)
        self.done += 1

    def play(self) -> None:
        """One round."""
        self.learn(self.submit())

    def _send(
        self, order: Indices, values: Floats, weights: Floats, sums: Floats, shown: Floats
    ) -> None:
        """Submissions with noise of their own."""
        own, size = self.candidates, sums.shape[1]
        state = self.devices.factors.reshape(-1), self.server.factors.reshape(-1)
        if self.defense.fakes == "two-valued":
            draws = self._uniform(2 * len(order), self._step(_NOISE)).reshape(2, -1)
            kernels.submit_signs(
                order, own.users, own.items, values, weights, *state, size,
                self.defense.dimensions, self.defense.level, draws, sums.reshape(-1),
                shown.reshape(-1),
            )  # fmt: skip
            return
        kernels.submit(
            order, own.users, own.items, values, weights, *state, self.server.fakes.reshape(-1),
            size, np.float32(self.sigma), self._step(_NOISE), int(self._world.worlds[0]),
            self._world.key, sums.reshape(-1), shown.reshape(-1),
        )  # fmt: skip

    def _add_others(self, order: Indices, values: Floats, weights: Floats, sums: Floats) -> None:
        """Submissions of which only the sum is drawn: n normals of deviation σ add up to σ√n."""
        own, shape = self.candidates, sums.shape
        real = order[weights[order] > 0]
        kernels.submit(
            real, own.users, own.items, values, weights, self.devices.factors.reshape(-1),
            self.server.factors.reshape(-1), self.server.fakes.reshape(-1), shape[1],
            np.float32(0), 0, 0, self._world.key, sums.reshape(-1), np.empty(0, np.float32),
        )  # fmt: skip
        counts = np.bincount(own.items[order], minlength=shape[0])
        fakes = counts - np.bincount(own.items[real], minlength=shape[0])
        draws = np.empty((1, sums.size), np.float32)
        noise.normal(draws, self._world.worlds, self._step(_OTHERS), self._world.key)
        spread = (self.sigma * np.sqrt(counts)).astype(np.float32)[:, None]
        sums += fakes.astype(np.float32)[:, None] * self.server.fakes + spread * draws.reshape(
            shape
        )

    def models(self) -> FactorModels:
        """The model as it stands."""

        def side(factors: Floats) -> Floats:
            own = factors[:, : self.defense.dimensions]
            return np.column_stack([own, np.zeros(len(own), np.float32)])[:, :, None]

        return FactorModels(
            users=[side(self.devices.factors)],
            items=[side(self.server.factors)],
            worlds=1,
            mean=self.defense.offset,
            scale=self.candidates.scale,
        )


def joined(models: list[FactorModels]) -> FactorModels:
    """The models of several worlds as one, in their order."""
    return FactorModels(
        users=[users for each in models for users in each.users],
        items=[items for each in models for items in each.items],
        worlds=len(models),
        mean=models[0].mean,
        scale=models[0].scale,
    )
