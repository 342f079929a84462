"""What is observed of a social training: submissions and their sums, and messages to friends."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.memory import check_memory
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.core.transcripts import Learning, Submissions
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import FactorModels, Floats
from dpaudit.defenses.observers import ObservedRound, ObservedTraining, observed_steps
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.settings import PrivSRSettings
from dpaudit.defenses.social.training import SocialTraining

Numbers = NDArray[np.float64]


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


def differing_users(
    defense: PrivSRSettings, before: SocialRows, after: SocialRows, *, sums: bool = False
) -> NDArray[np.bool_]:
    """Return the mask of the users in whom D and D' differ `(N,)`.

    Args:
        defense: the mechanism.
        before: data set `D`.
        after: data set `D'`.
        sums: whether sums of submissions are observed, so that no user may have friends.

    Raises:
        ConfigError: D and D' differ in which items are rated or which ratings are sensitive, no
            user differs, or one whose factors have to be computed has friends.
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
    if sums:
        _check_sums(defense, before.friends)
    return users


class Counterfactual:
    """The target users with their ratings of one data set, trained beside the actual training."""

    def __init__(
        self, rows: SocialRows, users: NDArray[np.bool_], training: SocialTraining
    ) -> None:
        """Copy the initial factors of the training.

        Args:
            rows: the data set.
            users: mask of the target users `(N,)`.
            training: the training whose V they learn from.
        """
        self.rows, self._training = rows.of_users(users), training
        self._order = np.arange(len(self.rows), dtype=np.int32)
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


def observed_messages(
    defense: PrivSRSettings,
    before: SocialRows,
    after: SocialRows,
    trained: SocialRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """Return, round by round, the messages of the user in whom D and D' differ, `(W, C)`.

    The observer is the receiver for whom the user's messages have the highest signal-to-noise
    ratio. The receiver knows V and the h that they drew. Given these, a message is normal around
    what the user would send on D or on D', whatever was sent before: `q − 2 S u`, or `u` with noise
    if users broadcast. So the sum of the messages' log-likelihood ratios is a score that the
    receiver can compute. It leaves out what the changes of V and the messages to others reveal.

    Args:
        defense: a private mechanism with friends.
        before: data set `D`.
        after: data set `D'`.
        trained: the one of the two that is trained on.
        streams: the trials.

    Raises:
        ConfigError: D and D' differ in more than values of ratings, or not at all, the user has
            friends of their own, or the user is nobody's friend.
        NoModelError: a training diverged.
    """
    users = differing_users(defense, before, after)
    observed_link = _receiver(before, np.flatnonzero(users))
    trials = []
    for trial in streams.blocks(1):
        training = SocialTraining(defense, trained, trial, observed_link=observed_link)
        both = [Counterfactual(rows, users, training) for rows in (before, after)]
        trials.append(_ObservedMessages(training, both, observed_link))
    return observed_steps(trials, defense.rounds, gaussian=True)


def eligible(
    defense: PrivSRSettings, ratings: Ratings, able: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Mask of the users in `able` whose messages have a high signal-to-noise ratio `(N,)`.

    They must be somebody's friend. In the corrected form that suffices, as all receive the same
    broadcast. In the published form, their ratio must be at least half the largest ratio of the
    users in `able` who have two ratings or more and keep one private, if any rating is private.
    """
    rows = defense.prepare(ratings)
    links, signal = _signal_to_noise(rows)
    best = np.full(rows.n_users, -1.0)
    np.maximum.at(best, links[1], signal)
    best[~able] = -1
    if defense.noise(rows).broadcast:
        return best >= 0
    kept = rows.sensitive if rows.sensitive.any() else np.ones(len(rows), np.bool_)
    hides = (np.diff(rows.start) > 1) & (np.bincount(rows.users, kept, rows.n_users) > 0)
    eligible: NDArray[np.bool_] = (best > 0) & (best >= best[hides].max(initial=0) / 2)
    return eligible


def _signal_to_noise(rows: SocialRows) -> tuple[NDArray[np.int32], Numbers]:
    """Return the receiver and sender of each link `(2, L)`, and their ratio `S² |F|`, `(L,)`.

    Up to a constant, it is the squared change of a message over the variance of its noise.
    """
    links = rows.similarity.tocoo()
    signal = links.data.astype(np.float64) ** 2 * rows.friends[links.row]
    return np.stack([links.row, links.col]), signal


def _receiver(rows: SocialRows, users: NDArray[np.int64]) -> tuple[int, int]:
    """Return the receiver with the highest signal-to-noise ratio, and the user as sender.

    Raises:
        ConfigError: there are several users, or the user is nobody's friend.
    """
    (receivers, senders), signal = _signal_to_noise(rows)
    sent = np.isin(senders, users)
    if len(users) > 1 or not sent.any():
        raise ConfigError(
            "observe = 'friend' needs one target user who is somebody's friend: compare data sets "
            "that differ only in the ratings of such a user"
        )
    return int(receivers[np.argmax(np.where(sent, signal, -1))]), int(users[0])


class _ObservedMessages(ObservedTraining[Counterfactual]):
    """One trial's training, with the messages of one friend on D and on D'."""

    def __init__(
        self,
        training: SocialTraining,
        counterfactuals: Sequence[Counterfactual],
        observed_link: tuple[int, int],
    ) -> None:
        self._training, self.counterfactuals = training, counterfactuals
        self._observed_link = observed_link

    def submit(self) -> ObservedRound:
        """Run a round with its messages, and return what the receiver observes."""
        means = [
            counterfactual.messages(*self._observed_link) for counterfactual in self.counterfactuals
        ]
        self._training.run_round()
        message = self._training.message
        seen: tuple[NDArray[Any], ...] = (
            message.shown, *means, message.deviations, message.steps,
        )  # fmt: skip
        return ObservedRound(*(part.astype(np.float64)[None] for part in seen))

    def learn(self) -> None:
        """Leave the training as it is: it learned in the round that was observed."""


def submitted(
    defense: PrivSRSettings, rows: SocialRows, trial: Streams, users: NDArray[np.bool_]
) -> tuple[Submissions, FactorModels]:
    """Train once, and return all submissions of the observed users, and the model.

    Args:
        defense: a mechanism whose recommender sees single submissions.
        rows: the training data.
        trial: the only trial.
        users: mask of the observed users `(N,)`.

    Raises:
        ConfigError: the submissions do not fit the memory.
        NoModelError: the training diverged.
    """
    d, followed = defense.dimensions, int(users[rows.users].sum())
    check_memory(
        "the submissions of the observed users in all rounds",
        f"params.rounds ({defense.rounds:,}) times params.dimensions ({d}) times the number of "
        f"their ratings and of items ({followed + rows.n_items:,})",
        # Each as it is received and in one array: submissions and deviations, and V.
        2 * 4 * defense.rounds * d * (2 * followed + rows.n_items),
        "lower the attack's params.users, lower params.rounds or params.dimensions",
    )
    training = SocialTraining(defense, rows, trial, users)
    factors, shown, deviations = [], [], []
    for _ in range(defense.rounds):
        factors.append(training.items[:, :d].copy())
        sent = training.submit()
        training.learn(sent.sums)
        shown.append(sent.shown[:, :d])
        known = np.broadcast_to(sent.deviations, (len(sent.shown), d))
        deviations.append(known.astype(np.float32))
    observed = training.observed
    ratings = np.where(rows.sensitive[observed], np.nan, rows.values[observed].astype(np.float64))
    seen = Submissions(
        users=rows.users[observed],
        items=rows.items[observed],
        shared=ratings,
        shown=np.stack(shown),
        deviations=np.stack(deviations),
        usual=np.sqrt(training.noise.of_rows(rows)[observed]),
        factors=np.stack(factors),
        learning=_learning(defense),
    )
    return seen, training.models()


def _learning(defense: PrivSRSettings) -> Learning:
    alike, cut = defense.start == "constant", defense.variant == "corrected"
    return Learning(
        rate=defense.learning_rate,
        decay=defense.decay,
        offset=defense.offset,
        start=defense.spread if alike else 0.0,
        spread=0.0 if alike else defense.spread,
        clip=defense.clip_norm if cut else math.inf,
        ball=1.0 if cut else math.inf,
    )
