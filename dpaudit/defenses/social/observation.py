"""What the recommender or everybody observes of a social training on D and D'."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import Floats, Indices
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.shared_observation import Submitting, Summing
from dpaudit.defenses.social.training import SocialTraining
from dpaudit.defenses.step_observation import observed_steps

if TYPE_CHECKING:
    from dpaudit.defenses.social.settings import PrivSRSettings

Numbers = NDArray[np.float64]


def observed_rounds(
    defense: PrivSRSettings,
    before: SocialRows,
    after: SocialRows,
    trained: SocialRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """Return, round by round, all submissions of the users in whom D and D' differ, `(W, C)`.

    The recommender draws the factor h of the noise variance, and given h the noise is normal. Given
    all earlier submissions, V is known. A target user has no friends, so their factors are computed
    from their ratings and V, and what they would submit without noise on D and on D' is known too.

    Args:
        defense: a mechanism in which each user draws their own noise.
        before: data set `D`.
        after: data set `D'`.
        trained: the one of the two that is trained on.
        streams: the trials.

    Raises:
        ConfigError: D and D' differ in more than values of ratings, or not at all, or a user in
            whom they differ has friends.
        NoModelError: a training diverged before the last round.
    """
    targets = TargetUsers.between(defense, before, after)
    trials = []
    for trial in streams.blocks(1):
        training = SocialTraining(defense, trained, trial, targets.users)
        trials.append(Submitting(training, targets.counterfactuals(training)))
    return observed_steps(trials, defense.rounds, gaussian=True)


def observed_sums(
    defense: PrivSRSettings,
    before: SocialRows,
    after: SocialRows,
    trained: SocialRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """Return, round by round, the sums of submissions for the target users' items, `(W, C)`.

    Everybody has V, and two consecutive V reveal the sums of the submissions. Whoever knows all
    other ratings knows the sums without noise. The noise of a sum is Laplace,
    `√(2h) c ~ Lap(1)`, because h is unknown (Meng et al. 2018, Lemma 1); in the corrected form it
    is normal.

    The arguments and errors are those of `observed_rounds`; here, no user may have friends unless
    `social` is 0 or there is one round.
    """
    targets = TargetUsers.between(defense, before, after)
    _check_sums(defense, before.friends)
    items, noise = np.unique(trained.items[targets.rows]), defense.noise(trained)
    variances = np.bincount(trained.items, noise.of_rows(trained), trained.n_items)
    trials = []
    for trial in streams.blocks(1):
        training = SocialTraining(defense, trained, trial)
        actual = Counterfactual(trained.of_users(targets.users), training)
        both = targets.counterfactuals(training)
        trials.append(Summing(training, [*both, actual], items, variances, training.steps))
    return observed_steps(trials, defense.rounds, gaussian=not noise.shared)


def followed(defense: PrivSRSettings, ratings: Ratings, sums: bool) -> NDArray[np.bool_]:
    """Mask of the users whose factors can be computed, as no friend sends them messages, `(N,)`.

    Args:
        defense: the mechanism.
        ratings: the data.
        sums: whether sums of submissions are observed, so that no user may have friends.

    Raises:
        ConfigError: `sums` is set and a user has friends.
    """
    if not defense.social or defense.rounds == 1 or ratings.friends is None:
        return np.ones(ratings.n_users, np.bool_)
    friends = np.diff(ratings.friends.start)
    if sums:
        _check_sums(defense, friends)
    return friends == 0


def _check_sums(defense: PrivSRSettings, friends: NDArray[np.int64]) -> None:
    """Refuse games on sums if messages of friends hide the law; `friends` counts them `(N,)`."""
    if defense.social and defense.rounds > 1 and friends.any():
        raise ConfigError(
            "a game on sums of submissions needs users' factors that depend on their ratings and V "
            "alone: set params.social = 0"
        )


@dataclass(frozen=True, eq=False)
class TargetUsers:
    """The users in whom two data sets differ.

    Attributes:
        users: mask of these users `(N,)`.
        before: their ratings in data set `D`, without those of other users.
        after: their ratings in data set `D'`.
        rows: the rows of their ratings among all users' ratings.
    """

    users: NDArray[np.bool_]
    before: SocialRows
    after: SocialRows
    rows: Indices

    @classmethod
    def between(cls, defense: PrivSRSettings, before: SocialRows, after: SocialRows) -> TargetUsers:
        """Find the users in whom D and D' differ.

        Raises:
            ConfigError: D and D' differ in which items are rated or which ratings are sensitive,
                no user differs, or one who does has friends.
        """
        alike = (
            np.array_equal(before.start, after.start)
            and np.array_equal(before.items, after.items)
            and np.array_equal(before.sensitive, after.sensitive)
        )
        if not alike:
            raise ConfigError(
                "the recommender sees who rates what and which ratings are sensitive: compare data "
                "sets that differ only in values of ratings"
            )
        users = np.zeros(before.n_users, np.bool_)
        users[before.users[before.values != after.values]] = True
        if not users.any():
            raise ConfigError("the two data sets are the same: one user must differ")
        if defense.social and defense.rounds > 1 and before.friends[users].any():
            raise ConfigError(
                "the target user has friends, whose messages the recommender does not see: "
                "set params.social = 0"
            )
        rows = np.flatnonzero(users[before.users]).astype(np.int32)
        return cls(users, before.of_users(users), after.of_users(users), rows)

    def counterfactuals(self, training: SocialTraining) -> list[Counterfactual]:
        """Return these users on D and on D', beside a training."""
        return [Counterfactual(rows, training) for rows in (self.before, self.after)]


class Counterfactual:
    """The target users with their ratings of one data set, trained beside the actual training."""

    def __init__(self, rows: SocialRows, training: SocialTraining) -> None:
        """Copy the initial factors of the training.

        Args:
            rows: the target users' ratings in the data set.
            training: the training whose V they learn from.
        """
        self.rows, self._training = rows, training
        self._order = np.arange(len(rows), dtype=np.int32)
        self._users = training.users.copy()

    def submissions(self) -> Floats:
        """Return what they would submit without noise, by row, `(n, size)`."""
        return self._training.gradients(self.rows, self._order, self._users)[0]

    def sum(self) -> Numbers:
        """Return the sum of these submissions for each item `(M, size)`."""
        return self._training.gradients(self.rows, self._order, self._users)[1]

    def messages(self, user: int, friend: int) -> Floats:
        """Return what this friend would send the user without noise `(d,)`."""
        factors = self._users[friend, : self._training.defense.dimensions]
        if self._training.noise.broadcast:
            return factors.copy()
        likeness: np.float32 = self._training.rows.similarity[user, friend]
        return -2 * likeness * factors

    def learn(self) -> None:
        """Update their factors from the current V."""
        self._training.move(self._users, self._training.slopes(self.rows, self._users))
