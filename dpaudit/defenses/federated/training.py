"""A federated matrix factorisation, one training at a time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, FactorModels, width
from dpaudit.defenses.federated.candidates import Candidates, Floats, Indices
from dpaudit.defenses.federated.sides import Devices, Server
from dpaudit.defenses.precision import grid
from dpaudit.defenses.training import check_finite
from dpaudit.kernels import noise
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned

if TYPE_CHECKING:
    from dpaudit.defenses.federated.settings import FakeGradientsSettings

# Steps of the noise source: the initial factors, the responses, then four a round.
_RESPONSES, _FIRST = 2, 3
_NOISE, _CHOICE, _OTHERS, _MADE_UP = range(4)
_ROUND = 4

# A training that left the range of numbers. AdaDelta bounds steps: only noise or a rate can do it.
_DIVERGED = "the factors are beyond what single precision holds: raise epsilon, or lower rate"


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


@dataclass(frozen=True, eq=False)
class _Turns:
    """Who submits in a round.

    Attributes:
        order: the candidates that submit, by user.
        apart: those of users whose noise is drawn one by one.
        sent: those of the others that are no fakes.
        counts: how many submit for each item `(M,)`.
        others: how many of the others do.
        fakes: how many of these submit a fake.
    """

    order: Indices
    apart: Indices
    sent: Indices
    counts: NDArray[np.int64]
    others: NDArray[np.int64]
    fakes: NDArray[np.int64]


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
        defense: FakeGradientsSettings,
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
            narrow = self._normal(count * defense.dimensions, step)
            factors[:, : defense.dimensions] = narrow.reshape(count, -1)
            factors *= np.float32(defense.spread)
            return factors

        self.devices = Devices(defense, candidates, drawn(candidates.n_users, USERS))
        shares, floored = self._shares()
        items = drawn(candidates.n_items, ITEMS)
        self.server = Server(defense, items, np.zeros_like(items), shares, floored)
        self.done = 0
        # What the server has not stepped by yet.
        self._received: deque[tuple[Floats, NDArray[np.int64], Floats]] = deque()
        # Two-valued submissions have no sum whose law is a known one.
        everybody = np.full(candidates.n_users, defense.fakes == "two-valued")
        self._apart = everybody if apart is None else apart | everybody
        self._mixed = np.arange(len(candidates), dtype=np.int32)
        some = (self._batches < candidates.counts).any()
        self._fixed = None if some else self._sorted(self._mixed)

    @property
    def all_submit(self) -> bool:
        """Whether users submit all their candidates in each round."""
        return self._fixed is not None

    @cached_property
    def _batches(self) -> NDArray[np.int64]:
        """How many candidates each user submits in a round `(N,)`."""
        counts = self.candidates.counts
        return counts if self.defense.batch is None else np.minimum(counts, self.defense.batch)

    def _uniform(self, count: int, step: int) -> Floats:
        draws = np.empty((1, count), np.float32)
        noise.uniform(draws, self._world.worlds, step, self._world.key)
        return draws[0]

    def _normal(self, count: int, step: int) -> Floats:
        draws = np.empty((1, count), np.float32)
        noise.normal(draws, self._world.worlds, step, self._world.key)
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

    def _turns(self) -> _Turns:
        """Who submits in this round."""
        if self._fixed is not None:
            return self._fixed
        chosen = np.empty(int(self._batches.sum()), np.int32)
        draws = self._uniform(len(chosen), self._step(_CHOICE))
        kernels.choose(self.candidates.start, self._batches, draws, self._mixed, chosen)
        return self._sorted(chosen)

    def _sorted(self, order: Indices) -> _Turns:
        own = self.candidates
        rows = self._apart[own.users[order]]
        others = order[~rows]
        # A rating that is made up has a gradient like any other.
        sent = others if self.defense.fakes == "rating" else others[own.real[others]]
        all_, left, real = (
            np.bincount(own.items[part], minlength=own.n_items) for part in (order, others, sent)
        )
        return _Turns(order, order[rows], sent, all_, left, left - real)

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
            step, mean = self._step(_MADE_UP), defense.made_up_mean
            if mean is None:
                values, draws = own.scale.values, self._uniform(len(own), step)
                found = values[np.minimum((draws * len(values)).astype(np.int64), len(values) - 1)]
            else:
                found = self._normal(len(own), step) + np.float32(mean)
        return found - np.float32(defense.offset)

    def submit(self) -> Submitted:
        """Users submit, by V and F as they stand."""
        items, fakes = self.server.factors, self.server.fakes
        turns = self._turns()
        weights = self.devices.weights(turns.order, items, fakes)
        if self.defense.fakes == "rating":
            weights = np.ones_like(weights)
        values = self.submitted()
        sums = aligned(*items.shape)
        shown = aligned(len(turns.apart), items.shape[1])
        self._send(turns.apart, values, weights, sums, shown)
        if turns.others.any():
            self._add_others(turns, values, weights, sums)
        return Submitted(turns.order, turns.apart, shown, sums, turns.counts)

    def learn(self, submitted: Submitted) -> None:
        """The server steps, and users learn.

        Raises:
            RunError: the training diverged.
        """
        self._received.append((submitted.sums, submitted.counts, self.server.fakes.copy()))
        if len(self._received) > self.defense.delay:
            self.server.receive(*self._received.popleft())
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
            size, self.sigma, grid(self.sigma), self._step(_NOISE), int(self._world.worlds[0]),
            self._world.key, sums.reshape(-1), shown.reshape(-1),
        )  # fmt: skip

    def _add_others(self, turns: _Turns, values: Floats, weights: Floats, sums: Floats) -> None:
        """Submissions of which only the sum is drawn: n normals of deviation σ add up to σ√n."""
        own, shape = self.candidates, sums.shape
        kernels.submit(
            turns.sent, own.users, own.items, values, weights, self.devices.factors.reshape(-1),
            self.server.factors.reshape(-1), self.server.fakes.reshape(-1), shape[1],
            0.0, 0.0, 0, 0, self._world.key, sums.reshape(-1), np.empty(0, np.float32),
        )  # fmt: skip
        draws = self._normal(sums.size, self._step(_OTHERS))
        spread = (self.sigma * np.sqrt(turns.others)).astype(np.float32)[:, None]
        sums += turns.fakes.astype(np.float32)[:, None] * self.server.fakes
        sums += spread * draws.reshape(shape)

    def models(self) -> FactorModels:
        """The model as it stands."""
        return FactorModels.single(
            self.devices.factors,
            self.server.factors,
            self.defense.dimensions,
            self.defense.offset,
            self.candidates.scale,
        )
