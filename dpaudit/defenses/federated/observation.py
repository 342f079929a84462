"""What the server of a federated training sees of two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.federated.candidates import Candidates, Floats, Indices
from dpaudit.defenses.federated.sides import Devices
from dpaudit.defenses.federated.training import Federation
from dpaudit.defenses.precision import grid
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned

if TYPE_CHECKING:
    from dpaudit.defenses.federated.settings import FakeGradientsSettings


def watched_rounds(
    defense: FakeGradientsSettings,
    before: Candidates,
    after: Candidates,
    trained: Candidates,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """All submissions of the users in whom two data sets differ, round by round, `(W, C)`.

    Given what everybody submitted before, V and F are known, and so is what such a user would
    submit without noise in either world: her factors are computed from her ratings and V. All other
    users submit alike.

    Args:
        defense: one with normal noise.
        before: world `D`.
        after: world `D'`.
        trained: which of the two is learned from.
        streams: the worlds.

    Raises:
        ConfigError: the two data sets have other candidates, or nobody differs.
        RunError: a training diverged.
    """
    suspects = _Suspects.between(before, after)
    sigma = defense.sigma(trained)
    worlds = [_Watched(defense, trained, suspects, world) for world in streams.blocks(1)]
    for _ in range(defense.rounds):
        seen = [each.play() for each in worlds]
        shown, absent, present = (
            np.stack([part[index] for part in seen]).astype(np.float64) for index in range(3)
        )
        scale = np.full(shown.shape[1], sigma)
        yield NoisedSteps(shown), StepsPair(absent, present, scale, gaussian=True, grid=grid(sigma))


@dataclass(frozen=True, eq=False)
class _Suspects:
    """The users in whom two data sets differ.

    Attributes:
        users: who they are `(N,)`.
        place: where each candidate stands among theirs alone; of no use for others' `(P,)`.
        before: their candidates in world `D`.
        after: those in world `D'`.
    """

    users: NDArray[np.bool_]
    place: Indices
    before: Candidates
    after: Candidates

    @classmethod
    def between(cls, before: Candidates, after: Candidates) -> _Suspects:
        """Those of two data sets.

        Raises:
            ConfigError: their candidates differ, or nobody does.
        """
        same = np.array_equal(before.start, after.start) and np.array_equal(
            before.items, after.items
        )
        if not same:
            raise ConfigError(
                "the two data sets have other candidates, which are public: prepare both with the "
                "same public data"
            )
        differs = (before.real != after.real) | (before.real & (before.values != after.values))
        users = np.zeros(before.n_users, np.bool_)
        users[before.users[differs]] = True
        if not users.any():
            raise ConfigError("the two data sets are the same: one user must differ")
        rows = users[before.users]
        place = (np.cumsum(rows) - 1).astype(np.int32)
        return cls(users, place, before.only(rows), after.only(rows))


class _Watched:
    """One world's training and, beside it, what its suspects are in either data set."""

    def __init__(
        self,
        defense: FakeGradientsSettings,
        trained: Candidates,
        suspects: _Suspects,
        world: Streams,
    ) -> None:
        self.federation = Federation(defense, trained, world, apart=suspects.users)
        drawn = self.federation.devices.factors
        self.place = suspects.place
        self.shadows = [
            _Shadow(defense, own, np.where(suspects.users[:, None], drawn, 0))
            for own in (suspects.before, suspects.after)
        ]

    def play(self) -> tuple[Floats, Floats, Floats]:
        """A round: what suspects submitted, and would have submitted without noise in D and D'."""
        server, d = self.federation.server, self.federation.defense.dimensions
        sent = self.federation.submit()
        mine = self.place[sent.apart]
        means = [each.means(mine, server.factors, server.fakes) for each in self.shadows]
        self.federation.learn(sent)
        for shadow in self.shadows:
            shadow.devices.learn(server.factors)
        absent, present = (mean[:, :d].reshape(-1) for mean in means)
        return sent.shown[:, :d].reshape(-1), absent, present


class _Shadow:
    """The suspects as they are in one data set."""

    def __init__(self, defense: FakeGradientsSettings, own: Candidates, drawn: Floats) -> None:
        factors = aligned(*drawn.shape)
        factors[:] = drawn
        self.devices = Devices(defense, own, factors)

    def means(self, order: Indices, items: Floats, fakes: Floats) -> Floats:
        """What they submit without noise for these candidates of theirs, `(n, size)`."""
        own, size = self.devices.candidates, items.shape[1]
        shown = aligned(len(order), size)
        kernels.submit(
            order, own.users, own.items, self.devices.values,
            self.devices.weights(order, items, fakes), self.devices.factors.reshape(-1),
            items.reshape(-1), fakes.reshape(-1), size, 0.0, 0.0, 0, 0,
            np.zeros(2, np.uint32), aligned(items.size), shown.reshape(-1),
        )  # fmt: skip
        return shown
