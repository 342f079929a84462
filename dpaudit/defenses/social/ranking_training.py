"""A social ranking in which users submit to a recommender, one training at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, Floats, Indices
from dpaudit.defenses.precision import grids, rounded
from dpaudit.defenses.social.noise import RankingNoise
from dpaudit.defenses.social.ranking_models import RankingModels
from dpaudit.defenses.social.ranking_rows import PreferenceSets, RankingRows
from dpaudit.defenses.social.shared_noise import SharedNoise
from dpaudit.defenses.training import check_finite
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import aligned
from dpaudit.kernels.social import preferences
from dpaudit.kernels.social.triples import draw

if TYPE_CHECKING:
    from dpaudit.defenses.social.ranking_settings import RankingSettings

# Steps of the noise source: the initial factors, then four a round.
_FIRST, _ROUND = 2, 4
_TRIPLES, _SCALES, _OTHERS, _OWN = range(_ROUND)

# Instead of drawn triples: all that there are.
NONE: Indices = np.empty((0, 0), np.int32)

_DIVERGED = "its steps grow instead of shrinking; lower params.rate, or raise epsilon"


@dataclass(frozen=True, eq=False)
class Submissions:
    """What is submitted in a round, and what the recommender knows of its noise.

    Attributes:
        shown: what each watched user submits about every item `(n, M, size)`.
        deviations: the standard deviation of its noise, given what all users share, `(n, M, d)`.
        steps: those of the grids that it lies on `(n, M, 1)`.
        exact: all submissions about each item without noise, added up `(M, size)`.
        sums: the same with noise.
    """

    shown: Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]
    exact: NDArray[np.float64]
    sums: Floats


class RankingSociety:
    """One training: the recommender and its users, who send each other nothing.

    Attributes:
        defense: the mechanism.
        rows: what is learned from.
        noise: how much noise there is.
        watched: the users whom `submit` shows `(n,)`.
        users: U, `(N, size)`; each row is on its user's device.
        items: V, `(M, size)`, which everybody has.
        steps: those of the grids that sums of submissions lie on `(M,)`.
        done: how many rounds are over.
    """

    def __init__(
        self,
        defense: RankingSettings,
        rows: RankingRows,
        noise: RankingNoise,
        world: Streams,
        watched: Indices | None = None,
    ) -> None:
        """Draw the initial factors.

        Args:
            defense: the mechanism.
            rows: what is learned from.
            noise: its noise on these.
            world: the only world.
            watched: the users whose noise is drawn one by one, increasing `(n,)`; that of all
                others is drawn as the sum that the recommender forms of it, which has the same law.
                Nobody unless given.
        """
        self.defense, self.rows, self.noise, self._world = defense, rows, noise, world
        self.watched = np.empty(0, np.int32) if watched is None else watched
        self.done = 0
        self._noise = SharedNoise(world, defense.dimensions, noise.shared)
        self.users, self.items = (
            self._noise.factors(count, step, defense.spread, defense.start)
            for count, step in ((rows.n_users, USERS), (rows.n_items, ITEMS))
        )
        self._own = noise.of_users(rows, self.watched)
        others = np.setdiff1d(np.arange(rows.n_users), self.watched)
        self._others = others.astype(np.int32)
        # A rest of rounding is no noise.
        summed = noise.summed(rows)
        rest = summed - self._own.sum(0)
        self._rest = np.maximum(rest, 0.0) if len(others) else np.zeros(rows.n_items)
        self._triples = NONE, NONE
        # The recommender steps by sums on a grid as coarse as their noise allows.
        self.steps = grids(np.sqrt(summed))

    def _step(self, kind: int) -> int:
        return _FIRST + _ROUND * self.done + kind

    def _drawn(self) -> tuple[Indices, Indices]:
        """This round's triples of all users, or none where all that there are count."""
        if self.defense.triples == "all":
            return NONE, NONE
        shape = (self.rows.n_users, 2 * self.defense.triples)
        better, worse = np.empty(shape, np.int32), np.empty(shape, np.int32)
        draw(
            *self.rows.sets.columns, self.rows.sets.places, self.rows.n_items, self._step(_TRIPLES),
            int(self._world.worlds[0]), self._world.key, better, worse,
        )  # fmt: skip
        return better, worse

    def submit(self) -> Submissions:
        """Users submit about every item, by V as it stands."""
        d = self.defense.dimensions
        self._triples = self._drawn()
        sums = self.gradients(self.rows.sets, self._others, self.users, self._triples, False)[0]
        own, shown = self.gradients(self.rows.sets, self.watched, self.users, self._triples)
        sums += own
        exact, scales = sums.copy(), None
        deviations = np.sqrt(self._own)[:, :, None]
        steps = grids(deviations)
        if len(self.watched):
            scales = self._noise.scales(self.rows.n_items, self._step(_SCALES))
            deviations = deviations * np.sqrt(scales)
            draws = self._noise.draws(exact_noise.normal, shown[:, :, 0].size, self._step(_OWN))
            before = shown[:, :, :d].astype(np.float64)
            added = deviations * draws.reshape(deviations.shape)
            shown[:, :, :d] = rounded(before + added, steps)
            sums[:, :d] += (shown[:, :, :d] - before).sum(0)
        sums[:, :d] += self._noise.sums(self._rest, scales, self._step(_OTHERS))
        return Submissions(shown, deviations, steps, exact, rounded(sums, self.steps[:, None]))

    def gradients(
        self,
        sets: PreferenceSets,
        order: Indices,
        users: Floats,
        triples: tuple[Indices, Indices],
        shows: bool = True,
    ) -> tuple[NDArray[np.float64], Floats]:
        """What users submit without noise, cut where the defense cuts, by V as it stands.

        Args:
            sets: theirs.
            order: who of them submits `(n,)`.
            users: their factors.
            triples: their drawn ones, or none.
            shows: whether each user's submission is wanted, and not the sum alone.

        Returns:
            The sum for each item `(M, size)`, and each submission `(n, M, size)`.
        """
        items, size = self.items, self.items.shape[1]
        sums = np.zeros(items.shape)
        shown = aligned(len(order) if shows else 0, *items.shape)
        preferences.submit(
            order, *triples, *sets.columns, users.reshape(-1), items.reshape(-1), size,
            self.defense.most, sums.reshape(-1), shown.reshape(-1),
        )  # fmt: skip
        return sums, shown

    def learn(self, sums: Floats) -> None:
        """The recommender moves V by what was submitted, then users move U by V.

            v_j ← v_j + γ (Σ_i s_ij − 2λ v_j)
            u_i ← u_i + γ (Σ_j a_ij v_j − 2λ u_i)

        Raises:
            RunError: the training diverged.
        """
        defense = self.defense
        with np.errstate(over="ignore", invalid="ignore"):  # what diverges is refused below
            self.items *= np.float32(1 - 2 * defense.rate * defense.decay)
            self.items += np.float32(defense.rate) * sums
            self.move(self.rows.sets, self.users, self._triples)
        self.done += 1
        check_finite(defense.name, self.done, "round", _DIVERGED, self.users, self.items)

    def move(self, sets: PreferenceSets, users: Floats, triples: tuple[Indices, Indices]) -> None:
        """Users move U by V as it stands, in place."""
        slopes, defense = aligned(*users.shape), self.defense
        preferences.learn(
            *triples, *sets.columns, users.reshape(-1), self.items.reshape(-1), users.shape[1],
            slopes.reshape(-1),
        )  # fmt: skip
        users += np.float32(defense.rate) * (slopes - np.float32(2 * defense.decay) * users)

    def play(self) -> None:
        """One round."""
        self.learn(self.submit().sums)

    def models(self) -> RankingModels:
        """The model as it stands."""
        return RankingModels([self.users], [self.items], self.defense.dimensions)
