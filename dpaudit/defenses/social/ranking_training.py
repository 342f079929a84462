"""The training of a social ranking whose users submit to a recommender, one trial at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.memory import check_memory
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import Floats, Indices, RankingModels, width
from dpaudit.defenses.precision import grids, rounded
from dpaudit.defenses.social.noise import RankingNoise
from dpaudit.defenses.social.rows import PreferenceSets, RankingRows
from dpaudit.defenses.social.settings import RankingSettings
from dpaudit.defenses.social.shared_training import Sent, SharedTraining
from dpaudit.kernels import exact_noise
from dpaudit.kernels.lanes import aligned
from dpaudit.kernels.social import preferences
from dpaudit.kernels.social.preferences import draw

# Steps of the noise source in a round.
_DRAWS = _TRIPLES, _SCALES, _OTHERS, _OWN = range(4)

# Stands for all triples, instead of drawn ones.
NONE: Indices = np.empty((0, 0), np.int32)


class RankingTraining(SharedTraining):
    """One training: the recommender and its users, who send each other no messages."""

    defense: RankingSettings
    rows: RankingRows
    noise: RankingNoise
    sign = 1
    draws = len(_DRAWS)
    diverged = "its steps grow instead of shrinking; lower params.learning_rate, or raise epsilon"

    def __init__(
        self,
        defense: RankingSettings,
        rows: RankingRows,
        trial: Streams,
        observed: Indices | None = None,
    ) -> None:
        """Draw the initial factors.

        Args:
            defense: the mechanism.
            rows: the training data.
            trial: the only trial.
            observed: the users whose noise is drawn individually, increasing `(n,)`; none if
                None. The noise of all other users is drawn as one sum for each item, which has
                the same law as the sum that the recommender forms.

        Raises:
            ConfigError: the factors or the observed users' submissions do not fit the memory.
        """
        super().__init__(defense, rows, trial)
        self.observed = np.empty(0, np.int32) if observed is None else observed
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
        self._own = self.noise.of_users(rows, self.observed)
        others = np.setdiff1d(np.arange(rows.n_users), self.observed)
        self._others = others.astype(np.int32)
        # Without other users, a nonzero difference is only a rounding error.
        self.summed = self.noise.summed(rows)
        rest = self.summed - self._own.sum(0)
        self._rest = np.maximum(rest, 0.0) if len(others) else np.zeros(rows.n_items)
        self._triples = NONE, NONE
        # The recommender rounds sums to a grid that is as coarse as their noise allows.
        self.steps = grids(np.sqrt(self.summed))

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

    def submit(self) -> Sent:
        """Compute the users' submissions of this round from the current V."""
        d = self.defense.dimensions
        self._triples = self._drawn()
        sums = self.gradients(self.rows.sets, self._others, self.users, self._triples, False)[0]
        observed_sums, shown = self.gradients(
            self.rows.sets, self.observed, self.users, self._triples
        )
        sums += observed_sums
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
        return Sent(shown, deviations, steps, exact, rounded(sums, self.steps[:, None]))

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

    def _learn_users(self) -> None:
        self.move(self.users, self.slopes(self.rows.sets, self.users, self._triples))

    def slopes(
        self, sets: PreferenceSets, users: Floats, triples: tuple[Indices, Indices]
    ) -> Floats:
        """Return `Σ_j a_ij v_j` of each user for the current V `(n, size)`."""
        slopes = aligned(*users.shape)
        preferences.learn(
            *triples, *sets.columns, users.reshape(-1), self.items.reshape(-1), users.shape[1],
            slopes.reshape(-1),
        )  # fmt: skip
        return slopes

    def models(self) -> RankingModels:
        """Return the current model."""
        return RankingModels([self.users], [self.items], self.defense.dimensions)
