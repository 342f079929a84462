"""What a friend receives in a social training on two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.social.observation import Numbers, Round, Shadow, Suspects, stacked
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.training import Society

if TYPE_CHECKING:
    from dpaudit.defenses.social.settings import PrivSRSettings


def watched_messages(
    defense: PrivSRSettings,
    before: SocialRows,
    after: SocialRows,
    trained: SocialRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """What a friend receives from the user in whom two data sets differ, round by round, `(W, C)`.

    Of those whose friend she is, the one for whom her messages have the least noise. Given V, which
    the friend sees as well, and what she drew, a message is normal around what the user would send
    in either world, whatever was sent before: `q − 2 S u`, or `u` and noise. So the sum of the
    messages' log-ratios is a score that a friend can compute; V's own moves, which tell of the user
    too, are not in it, nor what others receive.

    The arguments are those of `watched_rounds`.

    Raises:
        ConfigError: the two data sets are no such neighbours, the user has friends herself, or she
            is nobody's.
        RunError: a training diverged.
    """
    suspects = Suspects.between(defense, before, after)
    heard = _listener(before, np.flatnonzero(suspects.users))
    worlds = [_Hearing(defense, suspects, trained, world, heard) for world in streams.blocks(1)]
    for _ in range(defense.rounds):
        shown, absent, present, scale, step = stacked([each.play() for each in worlds])
        yield NoisedSteps(shown), StepsPair(absent, present, scale, gaussian=True, grid=step)


def audible(
    defense: PrivSRSettings, ratings: Ratings, able: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Of some users those whose messages show much: somebody's friend, and loud `(N,)`.

    In the corrected form all are told the same. In the published one they are at least half as loud
    as the loudest of those who have two ratings and keep one to themselves, if anybody does.
    """
    rows = defense.prepare(ratings)
    links, loud = _loudness(rows)
    best = np.full(rows.n_users, -1.0)
    np.maximum.at(best, links[1], loud)
    best[~able] = -1
    if defense.noise(rows).told:
        return best >= 0
    kept = rows.sensitive if rows.sensitive.any() else np.ones(len(rows), np.bool_)
    hides = (np.diff(rows.start) > 1) & (np.bincount(rows.users, kept, rows.n_users) > 0)
    found: NDArray[np.bool_] = (best > 0) & (best >= best[hides].max(initial=0) / 2)
    return found


def _loudness(rows: SocialRows) -> tuple[NDArray[np.int32], Numbers]:
    """Each link's user and friend `(2, L)`, and `S² |F|`, the friend's message's, `(L,)`.

    It is what the message moves by, squared, in units of the variance of its noise and but for
    constants.
    """
    links = rows.similarity.tocoo()
    loud = links.data.astype(np.float64) ** 2 * rows.friends[links.row]
    return np.stack([links.row, links.col]), loud


def _listener(rows: SocialRows, users: NDArray[np.int64]) -> tuple[int, int]:
    """The friend who hears a user best, and the user.

    Raises:
        ConfigError: there are several users, or she is nobody's friend.
    """
    (receivers, senders), loud = _loudness(rows)
    mine = np.isin(senders, users)
    if len(users) > 1 or not mine.any():
        raise ConfigError(
            "what a friend receives is compared of one user who is somebody's friend: let her "
            "ratings differ alone"
        )
    return int(receivers[np.argmax(np.where(mine, loud, -1))]), int(users[0])


class _Hearing:
    """One world's training and, beside it, what one friend would send in either data set."""

    def __init__(
        self,
        defense: PrivSRSettings,
        suspects: Suspects,
        trained: SocialRows,
        world: Streams,
        heard: tuple[int, int],
    ) -> None:
        self.society, self._heard = Society(defense, trained, world, heard=heard), heard
        self.shadows = [Shadow(one, self.society) for one in (suspects.before, suspects.after)]

    def play(self) -> Round:
        """A round: what was sent, would have been without noise in D and in D', deviations."""
        means = [each.messages(*self._heard) for each in self.shadows]
        self.society.play()
        for shadow in self.shadows:
            shadow.learn()
        message = self.society.message
        shown, absent, present = (part.astype(np.float64) for part in (message.shown, *means))
        return shown, absent, present, message.deviations, message.steps
