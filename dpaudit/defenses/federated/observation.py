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
from dpaudit.defenses.federated.clients import Clients
from dpaudit.defenses.federated.training import FederatedTraining
from dpaudit.defenses.precision import grid
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned

if TYPE_CHECKING:
    from dpaudit.defenses.federated.settings import FakeGradientsSettings


def observed_rounds(
    defense: FakeGradientsSettings,
    before: Candidates,
    after: Candidates,
    trained: Candidates,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """Yield, round by round, all submissions of the users in whom D and D' differ, `(W, C)`.

    Given all earlier submissions, V and F are known. A user's factors are computed from their
    ratings and V, so what they would submit without noise on D and on D' is known too. All other
    users submit the same on D and D'.

    Args:
        defense: a mechanism with normal noise.
        before: data set `D`.
        after: data set `D'`.
        trained: the one of the two that is trained on.
        streams: the trials.

    Raises:
        ConfigError: the two data sets have different candidates, or no user differs.
        RunError: a training diverged.
    """
    targets = _TargetUsers.between(before, after)
    sigma = defense.sigma(trained)
    trials = [_ObservedTraining(defense, trained, targets, trial) for trial in streams.blocks(1)]
    for _ in range(defense.rounds):
        seen = [each.run_round() for each in trials]
        shown, absent, present = (
            np.stack([part[index] for part in seen]).astype(np.float64) for index in range(3)
        )
        scale = np.full(shown.shape[1], sigma)
        yield NoisedSteps(shown), StepsPair(absent, present, scale, gaussian=True, grid=grid(sigma))


@dataclass(frozen=True, eq=False)
class _TargetUsers:
    """The users in whom two data sets differ.

    Attributes:
        users: mask of these users `(N,)`.
        place: for each of their candidates, its index among their candidates; undefined for
            other users' candidates `(P,)`.
        before: their candidates in data set `D`.
        after: their candidates in data set `D'`.
    """

    users: NDArray[np.bool_]
    place: Indices
    before: Candidates
    after: Candidates

    @classmethod
    def between(cls, before: Candidates, after: Candidates) -> _TargetUsers:
        """Find the users in whom D and D' differ.

        Raises:
            ConfigError: the candidates differ, or no user does.
        """
        same = np.array_equal(before.start, after.start) and np.array_equal(
            before.items, after.items
        )
        if not same:
            raise ConfigError(
                "the two data sets have different candidates, which are public: prepare both with "
                "the same public data"
            )
        differs = (before.real != after.real) | (before.real & (before.values != after.values))
        users = np.zeros(before.n_users, np.bool_)
        users[before.users[differs]] = True
        if not users.any():
            raise ConfigError("the two data sets are the same: one user must differ")
        rows = users[before.users]
        place = (np.cumsum(rows) - 1).astype(np.int32)
        return cls(users, place, before.only(rows), after.only(rows))


class _ObservedTraining:
    """One trial's training, with the counterfactual target users on D and on D'."""

    def __init__(
        self,
        defense: FakeGradientsSettings,
        trained: Candidates,
        targets: _TargetUsers,
        trial: Streams,
    ) -> None:
        self.training = FederatedTraining(defense, trained, trial, apart=targets.users)
        drawn = self.training.clients.factors
        self.place = targets.place
        self.counterfactuals = [
            _Counterfactual(defense, own, np.where(targets.users[:, None], drawn, 0))
            for own in (targets.before, targets.after)
        ]

    def run_round(self) -> tuple[Floats, Floats, Floats]:
        """Run a round.

        Returns:
            The target users' submissions, and what they would be without noise on D and on D'.
        """
        server, d = self.training.server, self.training.defense.dimensions
        sent = self.training.submit()
        places = self.place[sent.apart]
        means = [each.means(places, server.factors, server.fakes) for each in self.counterfactuals]
        self.training.learn(sent)
        for counterfactual in self.counterfactuals:
            counterfactual.clients.learn(server.factors)
        absent, present = (mean[:, :d].reshape(-1) for mean in means)
        return sent.shown[:, :d].reshape(-1), absent, present


class _Counterfactual:
    """The target users with their ratings of one data set, trained beside the actual training."""

    def __init__(self, defense: FakeGradientsSettings, own: Candidates, drawn: Floats) -> None:
        factors = aligned(*drawn.shape)
        factors[:] = drawn
        self.clients = Clients(defense, own, factors)

    def means(self, order: Indices, items: Floats, fakes: Floats) -> Floats:
        """What they would submit without noise for their candidates in `order`, `(n, size)`."""
        own, size = self.clients.candidates, items.shape[1]
        shown = aligned(len(order), size)
        kernels.submit(
            order, own.users, own.items, self.clients.values,
            self.clients.weights(order, items, fakes), self.clients.factors.reshape(-1),
            items.reshape(-1), fakes.reshape(-1), size, 0.0, 0.0, 0, 0,
            np.zeros(2, np.uint32), aligned(items.size), shown.reshape(-1),
        )  # fmt: skip
        return shown
