"""What a friend observes of a social training on D and D': a user's messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.social.observation import Counterfactual, Numbers, TargetUsers
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.training import SocialTraining
from dpaudit.defenses.step_observation import ObservedRound, ObservedTraining, observed_steps

if TYPE_CHECKING:
    from dpaudit.defenses.social.settings import PrivSRSettings


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

    The arguments are those of `observed_rounds`.

    Raises:
        ConfigError: D and D' differ in more than values of ratings, or not at all, the user has
            friends of their own, or the user is nobody's friend.
        NoModelError: a training diverged.
    """
    targets = TargetUsers.between(defense, before, after)
    observed_link = _receiver(before, np.flatnonzero(targets.users))
    trials = [
        _ObservedMessages(defense, targets, trained, trial, observed_link)
        for trial in streams.blocks(1)
    ]
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
        defense: PrivSRSettings,
        targets: TargetUsers,
        trained: SocialRows,
        trial: Streams,
        observed_link: tuple[int, int],
    ) -> None:
        self.training = SocialTraining(defense, trained, trial, observed_link=observed_link)
        self._observed_link = observed_link
        self.counterfactuals = targets.counterfactuals(self.training)

    def submit(self) -> ObservedRound:
        """Run a round with its messages, and return what the receiver observes."""
        means = [
            counterfactual.messages(*self._observed_link) for counterfactual in self.counterfactuals
        ]
        self.training.run_round()
        message = self.training.message
        seen: tuple[NDArray[Any], ...] = (
            message.shown, *means, message.deviations, message.steps,
        )  # fmt: skip
        return ObservedRound(*(part.astype(np.float64)[None] for part in seen))

    def learn(self) -> None:
        """Leave the training as it is: it learned in the round that was observed."""
