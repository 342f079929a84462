"""The training of a social ranking whose users submit to a recommender, one trial at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.memory import check_memory
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import ITEMS, USERS, Floats, Indices, check_factors, width
from dpaudit.defenses.precision import grids, rounded
from dpaudit.defenses.social.noise import RankingNoise
from dpaudit.defenses.social.ranking_models import RankingModels
from dpaudit.defenses.social.ranking_rows import PreferenceSets, RankingRows
from dpaudit.defenses.social.shared_noise import SharedNoise
from dpaudit.defenses.training import end_step
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import aligned
from dpaudit.kernels.social import preferences
from dpaudit.kernels.social.triples import draw

if TYPE_CHECKING:
    from dpaudit.defenses.social.ranking_settings import RankingSettings

# Steps of the noise source: two for the initial factors, then four a round.
_FIRST, _ROUND = 2, 4
_TRIPLES, _SCALES, _OTHERS, _OWN = range(_ROUND)

# The most bytes of a coordinate of a user or item: factors, sums and updates.
_COORDINATE = 40
# Stands for all triples, instead of drawn ones.
NONE: Indices = np.empty((0, 0), np.int32)

_DIVERGED = "its steps grow instead of shrinking; lower params.learning_rate, or raise epsilon"


@dataclass(frozen=True, eq=False)
class Submissions:
    """The submissions of a round, and what the recommender knows about their noise.

    Attributes:
        shown: what each observed user submits about every item `(n, M, size)`.
        deviations: the standard deviation of the noise, given the shared draws, `(n, M, d)`.
        steps: the steps of the grids to which submissions are rounded `(n, M, 1)`.
        exact: the sum of all users' submissions about each item, without noise, `(M, size)`.
        sums: the same with noise `(M, size)`.
    """

    shown: Floats
    deviations: NDArray[np.float64]
    steps: NDArray[np.float64]
    exact: NDArray[np.float64]
    sums: Floats


class RankingTraining:
    """One training: the recommender and its users, who send each other no messages.

    Attributes:
        defense: the mechanism.
        rows: the training data.
        noise: the noise on submissions.
        observed: the users whose submissions `submit` returns `(n,)`.
        users: U, `(N, size)`; each row is on its user's device.
        items: V, `(M, size)`, which everybody has.
        steps: the steps of the grids to which the sums of submissions are rounded `(M,)`.
        done: the number of finished rounds.
    """

    def __init__(
        self,
        defense: RankingSettings,
        rows: RankingRows,
        noise: RankingNoise,
        trial: Streams,
        observed: Indices | None = None,
    ) -> None:
        """Draw the initial factors.

        Args:
            defense: the mechanism.
            rows: the training data.
            noise: the mechanism's noise on these data.
            trial: the only trial.
            observed: the users whose noise is drawn individually, increasing `(n,)`; none if
                None. The noise of all other users is drawn as one sum for each item, which has
                the same law as the sum that the recommender forms.

        Raises:
            ConfigError: the factors or the observed users' submissions do not fit the memory.
        """
        self.defense, self.rows, self.noise, self._trial = defense, rows, noise, trial
        self.observed = np.empty(0, np.int32) if observed is None else observed
        check_factors(
            rows.n_users, rows.n_items, defense.dimensions, _COORDINATE, "one trial at a time"
        )
        check_memory(
            "the submissions of the observed users",
            f"their number ({len(self.observed):,}) times that of items ({rows.n_items:,}) times "
            f"params.dimensions ({defense.dimensions})",
            # One in single precision with padding; its noise, deviation and mean in double.
            len(self.observed)
            * rows.n_items
            * (4 * width(defense.dimensions) + 48 * defense.dimensions),
            "lower params.dimensions, raise data.least_raters",
        )
        self.done = 0
        self._noise = SharedNoise(trial, defense.dimensions, noise.shared)
        self.users, self.items = (
            self._noise.factors(count, step, defense.spread, defense.start)
            for count, step in ((rows.n_users, USERS), (rows.n_items, ITEMS))
        )
        self._own = noise.of_users(rows, self.observed)
        others = np.setdiff1d(np.arange(rows.n_users), self.observed)
        self._others = others.astype(np.int32)
        # Without other users, a nonzero difference is only a rounding error.
        summed = noise.summed(rows)
        rest = summed - self._own.sum(0)
        self._rest = np.maximum(rest, 0.0) if len(others) else np.zeros(rows.n_items)
        self._triples = NONE, NONE
        # The recommender rounds sums to a grid that is as coarse as their noise allows.
        self.steps = grids(np.sqrt(summed))

    def _step(self, kind: int) -> int:
        return _FIRST + _ROUND * self.done + kind

    def _drawn(self) -> tuple[Indices, Indices]:
        """Draw this round's triples of all users; `NONE` if all triples are used.

        Raises:
            ConfigError: they do not fit the memory.
        """
        if self.defense.triples == "all":
            return NONE, NONE
        shape = (self.rows.n_users, 2 * self.defense.triples)
        check_memory(
            "the triples of a round",
            f"the number of users ({self.rows.n_users:,}) times params.triples "
            f"({self.defense.triples:,})",
            2 * 4 * shape[0] * shape[1],
            "lower params.triples",
        )
        better, worse = np.empty(shape, np.int32), np.empty(shape, np.int32)
        draw(
            *self.rows.sets.columns, self.rows.sets.places, self.rows.n_items, self._step(_TRIPLES),
            int(self._trial.trials[0]), self._trial.key, better, worse,
        )  # fmt: skip
        return better, worse

    def submit(self) -> Submissions:
        """Compute the users' submissions of this round from the current V."""
        d = self.defense.dimensions
        self._triples = self._drawn()
        sums = self.gradients(self.rows.sets, self._others, self.users, self._triples, False)[0]
        own, shown = self.gradients(self.rows.sets, self.observed, self.users, self._triples)
        sums += own
        exact, scales = sums.copy(), None
        deviations = np.sqrt(self._own)[:, :, None]
        steps = grids(deviations)
        if len(self.observed):
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
        """Compute submissions without noise from the current V, clipped if the defense clips.

        Args:
            sets: the users' sets.
            order: the indices of the users who submit `(n,)`.
            users: the users' factors.
            triples: the users' drawn triples, or `NONE` twice for all triples.
            shows: whether to return single submissions, and not only the sums.

        Returns:
            The sum for each item `(M, size)`, and each submission `(n, M, size)`, with n = 0 unless
            `shows`.
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
        """Update V with the sums of submissions, then U with the new V.

            v_j ← v_j + γ (Σ_i s_ij − 2λ v_j)
            u_i ← u_i + γ (Σ_j a_ij v_j − 2λ u_i)

        Raises:
            NoModelError: the training diverged.
        """
        defense = self.defense
        with np.errstate(over="ignore", invalid="ignore"):  # see _end_step
            self.items *= np.float32(1 - 2 * defense.learning_rate * defense.decay)
            self.items += np.float32(defense.learning_rate) * sums
            self._end_step(self.items)
            self.move(self.rows.sets, self.users, self._triples)
        self.done += 1

    def _end_step(self, factors: Floats) -> None:
        defense = self.defense
        end_step(defense.variant, defense.name, self.done + 1, "round", _DIVERGED, factors)

    def move(self, sets: PreferenceSets, users: Floats, triples: tuple[Indices, Indices]) -> None:
        """Update the users' factors in place from the current V.

        Raises:
            NoModelError: the training diverged.
        """
        slopes, defense = aligned(*users.shape), self.defense
        preferences.learn(
            *triples, *sets.columns, users.reshape(-1), self.items.reshape(-1), users.shape[1],
            slopes.reshape(-1),
        )  # fmt: skip
        users += np.float32(defense.learning_rate) * (
            slopes - np.float32(2 * defense.decay) * users
        )
        self._end_step(users)

    def run_round(self) -> None:
        """Run one round."""
        self.learn(self.submit().sums)

    def models(self) -> RankingModels:
        """Return the current model."""
        return RankingModels([self.users], [self.items], self.defense.dimensions)
