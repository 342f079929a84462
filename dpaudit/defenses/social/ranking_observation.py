"""What the recommender or everybody observes of a social ranking on D and D'."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.defenses.factors import Floats, Indices
from dpaudit.defenses.social.noise import RankingNoise
from dpaudit.defenses.social.ranking_rows import PreferenceSets, RankingRows
from dpaudit.defenses.social.ranking_training import NONE, RankingTraining
from dpaudit.defenses.social.shared_observation import Submitting, Summing
from dpaudit.defenses.step_observation import observed_steps

if TYPE_CHECKING:
    from dpaudit.defenses.social.ranking_settings import RankingSettings

Numbers = NDArray[np.float64]


def observed_rounds(
    defense: RankingSettings,
    before: RankingRows,
    after: RankingRows,
    trained: RankingRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """Return, round by round, all submissions of the users in whom D and D' differ, `(W, C)`.

    The recommender draws the factor h of the noise variance, and given h the noise is normal. Given
    all earlier submissions, V is known. With all triples, a user's factors are computed from their
    sets, V and their initial factors, so what the user would submit without noise on D and on D' is
    known too.

    Args:
        defense: a mechanism in which each user draws their own noise.
        before: data set `D`.
        after: data set `D'`.
        trained: the one of the two that is trained on.
        streams: the trials.

    Raises:
        ConfigError: there is no noise, the noise differs between D and D', triples are drawn, or
            no user differs.
        NoModelError: a training diverged.
    """
    targets = _TargetUsers.between(defense, before, after)
    targets.check(lambda noise, rows: noise.of_users(rows, targets.users))
    trials = []
    for trial in streams.blocks(1):
        training = RankingTraining(defense, trained, trial, targets.users)
        both = [
            _Counterfactual(rows, targets.users, training)
            for rows in (targets.before, targets.after)
        ]
        trials.append(Submitting(training, both))
    return observed_steps(trials, defense.rounds, gaussian=True)


def observed_sums(
    defense: RankingSettings,
    before: RankingRows,
    after: RankingRows,
    trained: RankingRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """Return, round by round, the sums of submissions for all items, `(W, C)`.

    Everybody has V, and two consecutive V reveal the sums of the submissions. Whoever knows all
    other purchases knows the sums without noise. The noise of a sum is Laplace,
    `√(2h) c ~ Lap(1)`, because h is unknown (Meng et al. 2018, Lemma 1); in the corrected form it
    is normal.

    The arguments and errors are those of `observed_rounds`.
    """
    targets = _TargetUsers.between(defense, before, after)
    targets.check(lambda noise, rows: noise.summed(rows))
    items, noise = np.arange(trained.n_items, dtype=np.int32), defense.noise(trained)
    variances = noise.summed(trained)
    trials = []
    for trial in streams.blocks(1):
        training = RankingTraining(defense, trained, trial)
        both_and_own = [
            _Counterfactual(rows, targets.users, training)
            for rows in (targets.before, targets.after, trained)
        ]
        trials.append(Summing(training, both_and_own, items, variances, training.steps))
    return observed_steps(trials, defense.rounds, gaussian=not noise.shared)


@dataclass(frozen=True, eq=False)
class _TargetUsers:
    """The users in whom two data sets differ.

    Attributes:
        users: their indices, increasing `(n,)`.
        before: data set `D`.
        after: data set `D'`.
        noise: the noise on D and on D'.
    """

    users: Indices
    before: RankingRows
    after: RankingRows
    noise: tuple[RankingNoise, RankingNoise]

    @classmethod
    def between(
        cls, defense: RankingSettings, before: RankingRows, after: RankingRows
    ) -> _TargetUsers:
        """Find the users in whom D and D' differ.

        Raises:
            ConfigError: there is no noise, triples are drawn, or no user differs.
        """
        defense.check_observed("recommender")
        users = _changed(before.sets, after.sets)
        if not len(users):
            raise ConfigError("the two data sets are the same: one user must differ")
        return cls(users, before, after, (defense.noise(before), defense.noise(after)))

    def check(self, variances: Callable[[RankingNoise, RankingRows], Numbers]) -> None:
        """Refuse two data sets whose noise differs.

        Args:
            variances: returns the variances of what is observed, from the noise and the data.

        Raises:
            ConfigError: the noise differs.
        """
        first, second = (
            variances(noise, rows)
            for noise, rows in zip(self.noise, (self.before, self.after), strict=True)
        )
        if not np.allclose(first, second, rtol=1e-9, atol=0):
            raise ConfigError(
                "the two data sets differ in which items users keep private, which is public: "
                "prepare both with the same public data"
            )


def _changed(before: PreferenceSets, after: PreferenceSets) -> Indices:
    """The users whose sets differ, increasing."""
    users = [
        user
        for user in range(len(before))
        for former, other in zip(before.of_user(user), after.of_user(user), strict=True)
        if not np.array_equal(former, other)
    ]
    return np.unique(users).astype(np.int32)


class _Counterfactual:
    """The target users with their sets of one data set, trained beside the actual training."""

    def __init__(self, rows: RankingRows, targets: Indices, training: RankingTraining) -> None:
        self._sets, self._training = rows.sets.of_users(targets), training
        self._order = np.arange(len(targets), dtype=np.int32)
        self._users = training.users[targets]

    def submissions(self) -> Floats:
        """Return what each would submit without noise `(n, M, size)`."""
        return self._gradients(shows=True)[1]

    def sum(self) -> NDArray[np.float64]:
        """Return the sum of their noiseless submissions for each item `(M, size)`."""
        return self._gradients(shows=False)[0]

    def _gradients(self, shows: bool) -> tuple[NDArray[np.float64], Floats]:
        both = NONE, NONE
        return self._training.gradients(self._sets, self._order, self._users, both, shows)

    def learn(self) -> None:
        """Update their factors from the current V."""
        slopes = self._training.slopes(self._sets, self._users, (NONE, NONE))
        self._training.move(self._users, slopes)
