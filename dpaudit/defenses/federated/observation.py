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
from dpaudit.defenses.step_observation import ObservedRound, ObservedTraining, observed_steps
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
    """Return, round by round, all submissions of the users in whom D and D' differ, `(W, C)`.

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
        NoModelError: a training diverged before the last round.
    """
    targets = _TargetUsers.between(before, after)
    trials = [_Submitting(defense, trained, targets, trial) for trial in streams.blocks(1)]
    return observed_steps(trials, defense.rounds, gaussian=True)


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


class _Submitting(ObservedTraining["_Counterfactual"]):
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
        self._place = targets.place
        self.counterfactuals = [
            _Counterfactual(self.training, candidates, np.where(targets.users[:, None], drawn, 0))
            for candidates in (targets.before, targets.after)
        ]

    def submit(self) -> ObservedRound:
        """Return the target users' submissions."""
        d = self.training.defense.dimensions
        self._sent = self.training.submit()
        places = self._place[self._sent.apart]
        means = [counterfactual.means(places) for counterfactual in self.counterfactuals]
        shown, absent, present = (
            part[:, :d].reshape(1, -1).astype(np.float64) for part in (self._sent.shown, *means)
        )
        sigma = self.training.sigma
        scale, step = (np.full(shown.shape, value) for value in (sigma, grid(sigma)))
        return ObservedRound(shown, absent, present, scale, step)

    def learn(self) -> None:
        """Update the training with the last submissions."""
        self.training.learn(self._sent)


class _Counterfactual:
    """The target users with their ratings of one data set, trained beside the actual training."""

    def __init__(self, training: FederatedTraining, candidates: Candidates, drawn: Floats) -> None:
        factors = aligned(*drawn.shape)
        factors[:] = drawn
        self.clients, self._server = Clients(training.defense, candidates, factors), training.server

    def learn(self) -> None:
        """Update their factors from the current V."""
        self.clients.learn(self._server.factors)

    def means(self, order: Indices) -> Floats:
        """What they would submit without noise for their candidates in `order`, `(n, size)`."""
        items, fakes = self._server.factors, self._server.fakes
        candidates, size = self.clients.candidates, items.shape[1]
        shown = aligned(len(order), size)
        kernels.submit(
            order, candidates.users, candidates.items, self.clients.values,
            self.clients.weights(order, items, fakes), self.clients.factors.reshape(-1),
            items.reshape(-1), fakes.reshape(-1), size, 0.0, 0.0, 0, 0,
            np.zeros(2, np.uint32), aligned(items.size), shown.reshape(-1),
        )  # fmt: skip
        return shown
