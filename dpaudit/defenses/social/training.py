"""The training of a social matrix factorisation with a recommender, one trial at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, FactorModels, Floats, Indices, check_factors
from dpaudit.defenses.precision import grids, rounded
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.shared_noise import SharedNoise
from dpaudit.defenses.training import end_step
from dpaudit.kernels import exact_noise
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned

if TYPE_CHECKING:
    from dpaudit.defenses.social.settings import PrivSRSettings

# Steps of the noise source: two for the initial factors, then five a round.
_FIRST, _ROUND = 2, 5
_ITEM_SCALES, _OTHERS, _OWN, _USER_SCALES, _FRIENDS = range(_ROUND)

# The most bytes of a coordinate of a user or item: factors, sums and updates.
_COORDINATE = 40
# Passed to the kernel if single submissions are not needed.
_NOT_KEPT = np.empty(0, np.float32)

_DIVERGED = (
    "its steps grow instead of shrinking; lower params.learning_rate or social, or raise epsilon"
)


@dataclass(frozen=True, eq=False)
class Submitted:
    """The submissions of a round, and what the recommender knows about their noise.

    Attributes:
        shown: the submissions of the observed users, by row `(n, size)`.
        deviations: the standard deviation of their noise, given the recommender's draws, `(n, d)`.
        steps: the steps of the grids to which they are rounded `(n, 1)`.
        sums: the sum of all users' submissions for each item `(M, size)`.
    """

    shown: Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]
    sums: Floats


@dataclass(frozen=True, eq=False)
class Message:
    """A message from one friend in a round, and what the receiver knows about its noise.

    Attributes:
        shown: `q − 2 S u_f`, or `u_f` with noise if users broadcast, `(d,)`.
        deviations: the standard deviation of the noise, given the receiver's draws, `(d,)`.
        steps: the steps of the grid to which the message is rounded `(d,)`.
    """

    shown: Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]


class SocialTraining:
    """One training: the recommender, its users and their friends.

    Attributes:
        defense: the mechanism.
        rows: the training data.
        noise: the noise on submissions and messages.
        users: `U`, `(N, size)`; each row is on its user's device.
        items: `V`, `(M, size)`, which everybody has.
        steps: the steps of the grids to which the sums of submissions are rounded `(M,)`.
        done: the number of finished rounds.
        message: the last message over the observed link.
    """

    message: Message

    def __init__(
        self,
        defense: PrivSRSettings,
        rows: SocialRows,
        trial: Streams,
        observed: NDArray[np.bool_] | None = None,
        observed_link: tuple[int, int] | None = None,
    ) -> None:
        """Draw the initial factors.

        Args:
            defense: the mechanism.
            rows: the training data.
            trial: the only trial.
            observed: mask of the users whose noise is drawn individually and whose submissions
                `submit` returns `(N,)`; no user if None. The noise of all other users is drawn as
                one sum for each item, which has the same law as the sum that the recommender forms.
            observed_link: the receiver and the sender of the messages whose noise is drawn
                individually, so that `message` is known.
        """
        self.defense, self.rows, self._trial, self._observed_link = (
            defense,
            rows,
            trial,
            observed_link,
        )
        check_factors(
            rows.n_users, rows.n_items, defense.dimensions, _COORDINATE, "one trial at a time"
        )
        self.noise, self.done = defense.noise(rows), 0
        self._noise = SharedNoise(trial, defense.dimensions, self.noise.shared)
        self.users, self.items = (
            self._noise.factors(count, step, defense.spread, defense.start)
            for count, step in ((rows.n_users, USERS), (rows.n_items, ITEMS))
        )
        defense.project(self.users)
        apart = np.zeros(rows.n_users, np.bool_) if observed is None else observed
        self.observed = np.flatnonzero(apart[rows.users]).astype(np.int32)
        self._others = np.flatnonzero(~apart[rows.users]).astype(np.int32)
        variances = self.noise.of_rows(rows)
        self._own = np.sqrt(variances[self.observed])[:, None]
        # The recommender rounds sums to a grid that is as coarse as their noise allows.
        summed = np.bincount(rows.items, variances, rows.n_items)
        self.steps = grids(np.sqrt(summed))
        # The total variances of the noise that is drawn as sums, for each item and for each user.
        self._submitted: NDArray[np.float64] = np.bincount(
            rows.items[self._others], variances[self._others], rows.n_items
        ).astype(np.float64)
        self._sent = self.noise.sent * rows.friends

    def _step(self, kind: int) -> int:
        return _FIRST + _ROUND * self.done + kind

    def submit(self) -> Submitted:
        """Compute the users' submissions of this round from the current V."""
        d, rows = self.defense.dimensions, self.rows
        sums = np.zeros(self.items.shape)
        self._gradients(rows, self._others, self.users, sums, _NOT_KEPT)
        shown = aligned(len(self.observed), self.items.shape[1])
        self._gradients(rows, self.observed, self.users, sums, shown)
        scales, deviations, steps = None, self._own, grids(self._own)
        if len(self.observed):
            scales = self._noise.scales(rows.n_items, self._step(_ITEM_SCALES))
        sums[:, :d] += self._noise.sums(self._submitted, scales, self._step(_OTHERS))
        if scales is not None:
            deviations = deviations * np.sqrt(scales[rows.items[self.observed]])
            draws = self._noise.draws(exact_noise.normal, len(self.observed), self._step(_OWN))
            exact = shown[:, :d].astype(np.float64)
            shown[:, :d] = rounded(exact + deviations * draws, steps)
            np.add.at(sums[:, :d], rows.items[self.observed], shown[:, :d] - exact)
        return Submitted(shown, deviations, steps, self._rounded(sums))

    def _rounded(self, sums: NDArray[np.float64]) -> Floats:
        """Round the sums to their grids; without noise there are no grids."""
        found, d = sums.astype(np.float32), self.defense.dimensions
        if self.steps.any():
            found[:, :d] = rounded(sums[:, :d], self.steps[:, None])
        return found

    def gradients(
        self, rows: SocialRows, order: Indices, users: Floats
    ) -> tuple[Floats, NDArray[np.float64]]:
        """Return `2 (u_i · v_j − r_ij) u_i` for the current V, clipped if the defense clips.

        Args:
            rows: the ratings.
            order: the rows to use `(n,)`: all of a user's, or none.
            users: `U`, `(N, size)`.

        Returns:
            Each gradient `(n, size)`, and the sum for each item `(M, size)`.
        """
        shown, sums = aligned(len(order), self.items.shape[1]), np.zeros(self.items.shape)
        self._gradients(rows, order, users, sums, shown)
        return shown, sums

    def _gradients(
        self,
        rows: SocialRows,
        order: Indices,
        users: Floats,
        sums: NDArray[np.float64],
        shown: Floats,
    ) -> None:
        """Add the gradients to `sums`, and write each to `shown` unless that is empty."""
        if not len(order):
            return
        weights = 2 * self.defense.cuts(rows, order, users, self.items)
        kernels.submit(
            order, rows.users, rows.items, self.defense.centred(rows), weights, users.reshape(-1),
            self.items.reshape(-1), self._no_fakes, self.items.shape[1], 0.0, 0.0, 0, 0,
            self._trial.key, sums.reshape(-1), shown.reshape(-1),
        )  # fmt: skip

    @cached_property
    def _no_fakes(self) -> Floats:
        return np.zeros(self.items.size, np.float32)

    def learn(self, sums: Floats) -> None:
        """Update V with the sums of submissions, then U with the new V and friends' messages.

            v_j ← v_j − γ (Σ_i s_ij + 2λ v_j)
            u_i ← u_i − γ (2 Σ_j (u_i · v_j − r_ij) v_j + 2α Σ_f S_if (u_i − u_f) + α q_i + 2λ u_i)

        Raises:
            NoModelError: the training diverged.
        """
        defense = self.defense
        with np.errstate(over="ignore", invalid="ignore"):  # see _end_step
            self.items *= np.float32(1 - 2 * defense.learning_rate * defense.decay)
            self.items -= np.float32(defense.learning_rate) * sums
            self._end_step(self.items)
            slopes = self.slopes(self.rows, self.users)
            if defense.social:
                slopes += np.float32(defense.social) * self._pull()
            self.move(self.users, slopes)
        self.done += 1

    def _end_step(self, factors: Floats) -> None:
        defense = self.defense
        end_step(defense.variant, defense.name, self.done + 1, "round", _DIVERGED, factors)

    def move(self, users: Floats, slopes: Floats) -> None:
        """Update the users' factors in place with the gradients `slopes`, and project them.

        Raises:
            NoModelError: the training diverged.
        """
        defense = self.defense
        users -= np.float32(defense.learning_rate) * (
            slopes + np.float32(2 * defense.decay) * users
        )
        self._end_step(users)
        defense.project(users)

    def slopes(self, rows: SocialRows, users: Floats) -> Floats:
        """Return `2 Σ_j (u_i · v_j − r_ij) v_j` of each user for the current V `(N, size)`."""
        found = aligned(*users.shape)
        kernels.learn(
            rows.start, rows.items, self.defense.centred(rows), users.reshape(-1),
            self.items.reshape(-1), self.items.shape[1], found.reshape(-1),
        )  # fmt: skip
        # The kernel returns the mean over j, without the factor 2.
        found *= (2 * np.diff(rows.start)).astype(np.float32)[:, None]
        return found

    def _pull(self) -> Floats:
        """Return `2 Σ_f S_if (u_i − u_f) + q_i` of each user, from the messages `(N, size)`."""
        d, broadcast = self.defense.dimensions, self.users
        if self.noise.broadcast:
            broadcast = broadcast.copy()
            variances = np.full(len(broadcast), self.noise.broadcast)
            added = self._noise.sums(variances, None, self._step(_FRIENDS))
            broadcast[:, :d] = rounded(broadcast[:, :d] + added, grids(np.sqrt(variances))[:, None])
        pull: Floats = 2 * (self._likeness * self.users - self.rows.similarity @ broadcast)
        added = self._noise.sums(self._sent, None, self._step(_FRIENDS))
        if self._observed_link and self.noise.broadcast:
            deviations = np.full(d, np.sqrt(self.noise.broadcast))
            self.message = Message(
                broadcast[self._observed_link[1], :d], deviations, grids(deviations)
            )
        elif self._observed_link:
            added[self._observed_link[0]] = self._hear(*self._observed_link)
        pull[:, :d] += added
        return pull

    def _hear(self, user: int, friend: int) -> NDArray[np.float64]:
        """Draw one friend's noise individually, and return the noise of all messages to the user.

        Sets `message`. The returned noise `(d,)` includes the rounding of the message.
        """
        d, share = self.defense.dimensions, self.noise.sent[user]
        scales = self._noise.scales(1, self._step(_USER_SCALES))[0]
        deviations = np.sqrt(share * scales)
        # The first draws of this step belong to the observed submissions.
        drawn = self._noise.draws(exact_noise.normal, len(self.observed) + 2, self._step(_OWN))
        one, others = drawn[-2:]
        exact = -2 * np.float32(self.rows.similarity[user, friend]) * self.users[friend, :d]
        steps = grids(np.full(d, np.sqrt(share)))
        shown = rounded(exact + deviations * one, steps)
        self.message = Message(shown, deviations, steps)
        rest = np.sqrt(self.rows.friends[user] - 1)
        whole: NDArray[np.float64] = shown - exact + deviations * rest * others
        return whole

    @cached_property
    def _likeness(self) -> Floats:
        """`Σ_f S_if` `(N, 1)`."""
        return np.asarray(self.rows.similarity.sum(1), np.float32)[:, None]

    def run_round(self) -> None:
        """Run one round."""
        self.learn(self.submit().sums)

    def models(self) -> FactorModels:
        """Return the current model."""
        defense = self.defense
        return FactorModels.single(
            self.users, self.items, defense.dimensions, defense.offset, self.rows.scale
        )
