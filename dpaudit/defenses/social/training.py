"""A social matrix factorisation in which users submit to a recommender, one training at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, FactorModels, Floats, Indices
from dpaudit.defenses.precision import grids, rounded
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.shared_noise import SharedNoise
from dpaudit.defenses.training import check_finite
from dpaudit.kernels import exact_noise
from dpaudit.kernels.federated import submissions as kernels
from dpaudit.kernels.lanes import aligned

if TYPE_CHECKING:
    from dpaudit.defenses.social.settings import PrivSRSettings

# Steps of the noise source: the initial factors, then five a round.
_FIRST, _ROUND = 2, 5
_ITEM_SCALES, _OTHERS, _OWN, _USER_SCALES, _FRIENDS = range(_ROUND)

# Where single submissions are not wanted.
_NOT_KEPT = np.empty(0, np.float32)

_DIVERGED = "its steps grow instead of shrinking; lower params.rate or social, or raise epsilon"


@dataclass(frozen=True, eq=False)
class Submitted:
    """What is submitted in a round, and what the recommender knows of its noise.

    Attributes:
        shown: what the users submit who are watched, by row `(n, size)`.
        deviations: the standard deviation of its noise, given what the recommender drew, `(n, d)`.
        steps: those of the grids that it lies on `(n, 1)`.
        sums: all submissions about each item, added up `(M, size)`.
    """

    shown: Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]
    sums: Floats


@dataclass(frozen=True, eq=False)
class Message:
    """What a user receives from one friend in a round, and what she knows of its noise.

    Attributes:
        shown: `q − 2 S u_f`, or what the friend tells all, `u_f` and noise, `(d,)`.
        deviations: the standard deviation of its noise, given what the receiver drew, `(d,)`.
        steps: those of the grid that it lies on `(d,)`.
    """

    shown: Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]


class Society:
    """One training: the recommender, its users and their friends.

    Attributes:
        defense: the mechanism.
        rows: what is learned from.
        noise: how much noise there is.
        users: `U`, `(N, size)`; each row is on its user's device.
        items: `V`, `(M, size)`, which everybody has.
        steps: those of the grids that sums of submissions lie on `(M,)`.
        done: how many rounds are over.
        message: what was sent last between the two who are heard.
    """

    message: Message

    def __init__(
        self,
        defense: PrivSRSettings,
        rows: SocialRows,
        world: Streams,
        watched: NDArray[np.bool_] | None = None,
        heard: tuple[int, int] | None = None,
    ) -> None:
        """Draw the initial factors.

        Args:
            defense: the mechanism.
            rows: what is learned from.
            world: the only world.
            watched: the users whose noise is drawn one by one `(N,)`, whom `submit` shows; all
                others' is drawn as the sum that the recommender forms of it, which has the same
                law. Nobody unless given.
            heard: a user and a friend of hers whose noise is drawn by itself, so that `message` is
                known.
        """
        self.defense, self.rows, self._world, self._heard = defense, rows, world, heard
        self.noise, self.done = defense.noise(rows), 0
        self._noise = SharedNoise(world, defense.dimensions, self.noise.shared)
        self.users, self.items = (
            self._noise.factors(count, step, defense.spread, defense.start)
            for count, step in ((rows.n_users, USERS), (rows.n_items, ITEMS))
        )
        defense.project(self.users)
        apart = np.zeros(rows.n_users, np.bool_) if watched is None else watched
        self.watched = np.flatnonzero(apart[rows.users]).astype(np.int32)
        self._others = np.flatnonzero(~apart[rows.users]).astype(np.int32)
        # The noise of all whose is not drawn one by one, added up for each item, and for each user.
        variances = self.noise.of_rows(rows)
        self._own = np.sqrt(variances[self.watched])[:, None]
        # The recommender steps by sums on a grid as coarse as their noise allows.
        summed = np.bincount(rows.items, variances, rows.n_items)
        self.steps = grids(np.sqrt(summed))
        self._submitted: NDArray[np.float64] = np.bincount(
            rows.items[self._others], variances[self._others], rows.n_items
        ).astype(np.float64)
        self._sent = self.noise.sent * rows.friends

    def _step(self, kind: int) -> int:
        return _FIRST + _ROUND * self.done + kind

    def submit(self) -> Submitted:
        """Users submit, by V as it stands."""
        d, rows = self.defense.dimensions, self.rows
        sums = np.zeros(self.items.shape)
        self._gradients(rows, self._others, self.users, sums, _NOT_KEPT)
        shown = aligned(len(self.watched), self.items.shape[1])
        self._gradients(rows, self.watched, self.users, sums, shown)
        scales, deviations, steps = None, self._own, grids(self._own)
        if len(self.watched):
            scales = self._noise.scales(rows.n_items, self._step(_ITEM_SCALES))
        sums[:, :d] += self._noise.sums(self._submitted, scales, self._step(_OTHERS))
        if scales is not None:
            deviations = deviations * np.sqrt(scales[rows.items[self.watched]])
            draws = self._noise.draws(exact_noise.normal, len(self.watched), self._step(_OWN))
            exact = shown[:, :d].astype(np.float64)
            shown[:, :d] = rounded(exact + deviations * draws, steps)
            np.add.at(sums[:, :d], rows.items[self.watched], shown[:, :d] - exact)
        return Submitted(shown, deviations, steps, self._rounded(sums))

    def _rounded(self, sums: NDArray[np.float64]) -> Floats:
        """The sums on their grids; without noise there are none."""
        found, d = sums.astype(np.float32), self.defense.dimensions
        if self.steps.any():
            found[:, :d] = rounded(sums[:, :d], self.steps[:, None])
        return found

    def gradients(
        self, rows: SocialRows, order: Indices, users: Floats
    ) -> tuple[Floats, NDArray[np.float64]]:
        """`2 (u_i · v_j − r_ij) u_i`, cut where the defense cuts, by V as it stands.

        Args:
            rows: the ratings.
            order: which of them `(n,)`; all or none of a user.
            users: `U`, `(N, size)`.

        Returns:
            Each gradient `(n, size)`, and for each item the sum `(M, size)`.
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
        """The same, each in `shown` unless that is empty, and added to `sums`."""
        if not len(order):
            return
        weights = 2 * self.defense.cuts(rows, order, users, self.items)
        kernels.submit(
            order, rows.users, rows.items, self.defense.centred(rows), weights, users.reshape(-1),
            self.items.reshape(-1), self._no_fakes, self.items.shape[1], 0.0, 0.0, 0, 0,
            self._world.key, sums.reshape(-1), shown.reshape(-1),
        )  # fmt: skip

    @cached_property
    def _no_fakes(self) -> Floats:
        return np.zeros(self.items.size, np.float32)

    def learn(self, sums: Floats) -> None:
        """The recommender moves V by what was submitted, then users move U by V.

            v_j ← v_j − γ (Σ_i s_ij + 2λ v_j)
            u_i ← u_i − γ (2 Σ_j (u_i · v_j − r_ij) v_j + 2α Σ_f S_if (u_i − u_f) + α q_i + 2λ u_i)

        Raises:
            RunError: the training diverged.
        """
        defense = self.defense
        with np.errstate(over="ignore", invalid="ignore"):  # what diverges is refused below
            self.items *= np.float32(1 - 2 * defense.rate * defense.decay)
            self.items -= np.float32(defense.rate) * sums
            slopes = self.slopes(self.rows, self.users)
            if defense.social:
                slopes += np.float32(defense.social) * self._pull()
            self.move(self.users, slopes)
        self.done += 1
        check_finite(defense.name, self.done, "round", _DIVERGED, self.users, self.items)

    def move(self, users: Floats, slopes: Floats) -> None:
        """Users move U by their slopes, in place."""
        defense = self.defense
        users -= np.float32(defense.rate) * (slopes + np.float32(2 * defense.decay) * users)
        defense.project(users)

    def slopes(self, rows: SocialRows, users: Floats) -> Floats:
        """`2 Σ_j (u_i · v_j − r_ij) v_j` of each user by V as it stands `(N, size)`."""
        found = aligned(*users.shape)
        kernels.learn(
            rows.start, rows.items, self.defense.centred(rows), users.reshape(-1),
            self.items.reshape(-1), self.items.shape[1], found.reshape(-1),
        )  # fmt: skip
        # The kernel's is a mean.
        found *= (2 * np.diff(rows.start)).astype(np.float32)[:, None]
        return found

    def _pull(self) -> Floats:
        """`2 Σ_f S_if (u_i − u_f) + q_i` of each user `(N, size)`, from what friends sent her."""
        d, told = self.defense.dimensions, self.users
        if self.noise.told:
            told = told.copy()
            variances = np.full(len(told), self.noise.told)
            added = self._noise.sums(variances, None, self._step(_FRIENDS))
            told[:, :d] = rounded(told[:, :d] + added, grids(np.sqrt(variances))[:, None])
        pull: Floats = 2 * (self._likeness * self.users - self.rows.similarity @ told)
        added = self._noise.sums(self._sent, None, self._step(_FRIENDS))
        if self._heard and self.noise.told:
            deviations = np.full(d, np.sqrt(self.noise.told))
            self.message = Message(told[self._heard[1], :d], deviations, grids(deviations))
        elif self._heard:
            added[self._heard[0]] = self._hear(*self._heard)
        pull[:, :d] += added
        return pull

    def _hear(self, user: int, friend: int) -> NDArray[np.float64]:
        """Draw one friend's noise by itself; all that the user receives `(d,)`."""
        d, share = self.defense.dimensions, self.noise.sent[user]
        scales = self._noise.scales(1, self._step(_USER_SCALES))[0]
        deviations = np.sqrt(share * scales)
        # The first draws of this step are those of who is watched.
        drawn = self._noise.draws(exact_noise.normal, len(self.watched) + 2, self._step(_OWN))
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

    def play(self) -> None:
        """One round."""
        self.learn(self.submit().sums)

    def models(self) -> FactorModels:
        """The model as it stands."""
        defense = self.defense
        return FactorModels.single(
            self.users, self.items, defense.dimensions, defense.offset, self.rows.scale
        )
