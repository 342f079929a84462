"""What the server of a federated training sees of two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.defenses.candidates import Candidates, Floats, Indices
from dpaudit.defenses.federated_sides import Devices
from dpaudit.defenses.federation import Federation
from dpaudit.errors import ConfigError
from dpaudit.kernels import federated as kernels
from dpaudit.kernels.lanes import aligned
from dpaudit.releases import NoisedSteps, StepsPair, Streams

if TYPE_CHECKING:
    from dpaudit.defenses.fake_gradients import FakeGradients


def watched_rounds(
    defense: FakeGradients,
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
    suspects = _suspects(before, after)
    sigma = defense.sigma(trained)
    worlds = [_Watched(defense, (before, after), trained, suspects, w) for w in streams.blocks(1)]
    for _ in range(defense.rounds):
        seen = [each.play() for each in worlds]
        shown, absent, present = (
            np.stack([part[index] for part in seen]).astype(np.float64) for index in range(3)
        )
        scale = np.full(shown.shape[1], sigma)
        yield NoisedSteps(shown), StepsPair(absent, present, scale, gaussian=True)


def _suspects(before: Candidates, after: Candidates) -> NDArray[np.bool_]:
    """The users in whom two data sets differ `(N,)`.

    Raises:
        ConfigError: their candidates differ, or nobody does.
    """
    same = np.array_equal(before.start, after.start) and np.array_equal(before.items, after.items)
    if not same:
        raise ConfigError(
            "the two data sets have other candidates, which are public: prepare both with the "
            "same public data"
        )
    differs = (before.real != after.real) | (before.real & (before.values != after.values))
    suspects = np.zeros(before.n_users, np.bool_)
    suspects[before.users[differs]] = True
    if not suspects.any():
        raise ConfigError("the two data sets are the same: one user must differ")
    return suspects


class _Watched:
    """One world's training and, beside it, what its suspects are in either data set."""

    def __init__(
        self,
        defense: FakeGradients,
        both: tuple[Candidates, Candidates],
        trained: Candidates,
        suspects: NDArray[np.bool_],
        world: Streams,
    ) -> None:
        self.federation = Federation(defense, trained, world, apart=suspects)
        drawn = self.federation.devices.factors
        self.shadows = [_Shadow(defense, one, suspects, drawn) for one in both]

    def play(self) -> tuple[Floats, Floats, Floats]:
        """A round: what suspects submitted, and would have submitted without noise in D and D'."""
        server, d = self.federation.server, self.federation.defense.dimensions
        sent = self.federation.submit()
        means = [each.means(sent.apart, server.factors, server.fakes) for each in self.shadows]
        self.federation.learn(sent)
        for shadow in self.shadows:
            shadow.devices.learn(server.factors)
        absent, present = (mean[:, :d].reshape(-1) for mean in means)
        return sent.shown[:, :d].reshape(-1), absent, present


class _Shadow:
    """The suspects as they are in one data set."""

    def __init__(
        self,
        defense: FakeGradients,
        candidates: Candidates,
        suspects: NDArray[np.bool_],
        drawn: Floats,
    ) -> None:
        rows = suspects[candidates.users]
        # The place of each row among the suspects' own.
        self.place = (np.cumsum(rows) - 1).astype(np.int32)
        factors = aligned(*drawn.shape)
        factors[suspects] = drawn[suspects]
        self.devices = Devices(defense, candidates.only(rows), factors)

    def means(self, order: Indices, items: Floats, fakes: Floats) -> Floats:
        """What they submit without noise for the candidates in `order`, `(n, size)`."""
        own, size, mine = self.devices.candidates, items.shape[1], self.place[order]
        shown = aligned(len(order), size)
        kernels.submit(
            mine, own.users, own.items, self.devices.values,
            self.devices.weights(mine, items, fakes), self.devices.factors.reshape(-1),
            items.reshape(-1), fakes.reshape(-1), size, np.float32(0), 0, 0,
            np.zeros(2, np.uint32), aligned(items.size), shown.reshape(-1),
        )  # fmt: skip
        return shown
