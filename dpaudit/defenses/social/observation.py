"""What the recommender, or everybody, sees of a social training on two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import NoisedSteps, StepsPair
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.factors import Floats, Indices
from dpaudit.defenses.social.rows import SocialRows
from dpaudit.defenses.social.training import Society

if TYPE_CHECKING:
    from dpaudit.defenses.social.settings import PrivSRSettings

Numbers = NDArray[np.float64]
# What was seen in a round, would have been without noise in D and in D', the noise's scale and the
# grid's step.
Round = tuple[Numbers, Numbers, Numbers, Numbers, Numbers]


def watched_rounds(
    defense: PrivSRSettings,
    before: SocialRows,
    after: SocialRows,
    trained: SocialRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """All submissions of the users in whom two data sets differ, round by round, `(W, C)`.

    The recommender drew what the noise is multiplied by, so given that it is normal. Given what was
    submitted before, V is known, and so is what such a user would submit without noise in either
    world: her factors are computed from her ratings and V, as she has no friends.

    Args:
        defense: one whose noise is drawn by each user.
        before: world `D`.
        after: world `D'`.
        trained: which of the two is learned from.
        streams: the worlds.

    Raises:
        ConfigError: the two data sets are no such neighbours, or the users have friends.
        RunError: a training diverged.
    """
    suspects = Suspects.between(defense, before, after)
    worlds = [_Submitting(defense, suspects, trained, world) for world in streams.blocks(1)]
    for _ in range(defense.rounds):
        shown, absent, present, scale, step = stacked([each.play() for each in worlds])
        yield NoisedSteps(shown), StepsPair(absent, present, scale, gaussian=True, grid=step)


def watched_sums(
    defense: PrivSRSettings,
    before: SocialRows,
    after: SocialRows,
    trained: SocialRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """What moves the items in which two data sets differ, round by round, `(W, C)`.

    V is shared with everybody, so that two of them one after the other show the sum of submissions;
    whoever knows all other ratings knows what it would be without noise. Its noise is Laplace:
    `√(2h) c ~ Lap(1)` where h is not known (Meng et al. 2018, Lemma 1); normal in the corrected
    form.

    The arguments and errors are those of `watched_rounds`; here nobody may have friends that weigh.
    """
    suspects = Suspects.between(defense, before, after)
    _check_sums(defense, before.friends)
    worlds = [_Summing(defense, suspects, trained, world) for world in streams.blocks(1)]
    for _ in range(defense.rounds):
        shown, absent, present, scale, step = stacked([each.play() for each in worlds])
        gaussian = not worlds[0].society.noise.shared
        yield NoisedSteps(shown), StepsPair(absent, present, scale, gaussian, grid=step)


def stacked(seen: list[Round]) -> tuple[Numbers, ...]:
    """What was seen in a round of several worlds, each part with the worlds in front."""
    return tuple(np.stack(part) for part in zip(*seen, strict=True))


def followed(defense: PrivSRSettings, ratings: Ratings, sums: bool) -> NDArray[np.bool_]:
    """The users whose factors can be followed, as no friend sends them anything, `(N,)`.

    Args:
        defense: what is watched.
        ratings: the data.
        sums: whether sums of submissions are seen, so that nobody may have friends.

    Raises:
        ConfigError: somebody has.
    """
    if not defense.social or defense.rounds == 1 or ratings.friends is None:
        return np.ones(ratings.n_users, np.bool_)
    friends = np.diff(ratings.friends.start)
    if sums:
        _check_sums(defense, friends)
    return friends == 0


def _check_sums(defense: PrivSRSettings, friends: NDArray[np.int64]) -> None:
    """Refuse games on sums where any of so many friends each `(N,)` hide the law."""
    if defense.social and defense.rounds > 1 and friends.any():
        raise ConfigError(
            "what moves V has a known law where users' factors are computed from their ratings and "
            "V alone: set params.social = 0"
        )


@dataclass(frozen=True, eq=False)
class Suspects:
    """The users in whom two data sets differ.

    Attributes:
        users: who they are `(N,)`.
        before: their ratings in world `D`; those of nobody else.
        after: those in world `D'`.
        rows: where these stand among everybody's.
    """

    users: NDArray[np.bool_]
    before: SocialRows
    after: SocialRows
    rows: Indices

    @classmethod
    def between(cls, defense: PrivSRSettings, before: SocialRows, after: SocialRows) -> Suspects:
        """Those of two data sets.

        Raises:
            ConfigError: other items are rated, or ratings kept; nobody differs; or friends weigh.
        """
        alike = (
            np.array_equal(before.start, after.start)
            and np.array_equal(before.items, after.items)
            and np.array_equal(before.sensitive, after.sensitive)
        )
        if not alike:
            raise ConfigError(
                "who rates what, and which ratings are sensitive, is seen by the recommender: "
                "compare data in which ratings' values differ"
            )
        users = np.zeros(before.n_users, np.bool_)
        users[before.users[before.values != after.values]] = True
        if not users.any():
            raise ConfigError("the two data sets are the same: one user must differ")
        if defense.social and defense.rounds > 1 and before.friends[users].any():
            raise ConfigError(
                "the user in doubt has friends, who send her what the recommender does not see: "
                "set params.social = 0"
            )
        rows = np.flatnonzero(users[before.users]).astype(np.int32)
        return cls(users, before.of_users(users), after.of_users(users), rows)


class Shadow:
    """The suspects as they are in one data set."""

    def __init__(self, rows: SocialRows, society: Society) -> None:
        """They start as they do in the training.

        Args:
            rows: their ratings in the data set.
            society: the training whose V they learn by.
        """
        self.rows, self._society = rows, society
        self._order = np.arange(len(rows), dtype=np.int32)
        self._users = society.users.copy()

    def gradients(self) -> tuple[Floats, Numbers]:
        """What they would submit without noise, by row, and for each item the sum."""
        return self._society.gradients(self.rows, self._order, self._users)

    def messages(self, user: int, friend: int) -> Floats:
        """What this friend would send the user without noise `(d,)`."""
        own = self._users[friend, : self._society.defense.dimensions]
        if self._society.noise.told:
            return own.copy()
        likeness: np.float32 = self._society.rows.similarity[user, friend]
        return -2 * likeness * own

    def learn(self) -> None:
        """They learn by V as it stands."""
        self._society.move(self._users, self._society.slopes(self.rows, self._users))


class _Submitting:
    """One world's training and, beside it, its suspects in either data set, seen one by one."""

    def __init__(
        self, defense: PrivSRSettings, suspects: Suspects, trained: SocialRows, world: Streams
    ) -> None:
        self.society = Society(defense, trained, world, suspects.users)
        self.shadows = [Shadow(one, self.society) for one in (suspects.before, suspects.after)]

    def play(self) -> Round:
        """A round: what they submitted, would have without noise in D and in D', deviations."""
        d = self.society.defense.dimensions
        sent = self.society.submit()
        means = [each.gradients()[0] for each in self.shadows]
        self.society.learn(sent.sums)
        for shadow in self.shadows:
            shadow.learn()
        shown, absent, present = (
            part[:, :d].reshape(-1).astype(np.float64) for part in (sent.shown, *means)
        )
        scale, step = (
            np.broadcast_to(part, (len(sent.shown), d)).reshape(-1)
            for part in (sent.deviations, sent.steps)
        )
        return shown, absent, present, scale, step


class _Summing:
    """One world's training and, beside it, the sums of submissions in either data set."""

    def __init__(
        self, defense: PrivSRSettings, suspects: Suspects, trained: SocialRows, world: Streams
    ) -> None:
        self.society = Society(defense, trained, world)
        self.shadows = [Shadow(one, self.society) for one in (suspects.before, suspects.after)]
        self._mine = Shadow(trained.of_users(suspects.users), self.society)
        self._items = np.unique(trained.items[suspects.rows])
        spread = np.bincount(trained.items, self.society.noise.of_rows(trained), trained.n_items)
        scale = np.sqrt(spread[self._items] / (2 if self.society.noise.shared else 1))
        self._scale = np.repeat(scale, defense.dimensions)
        self._step = np.repeat(self.society.steps[self._items], defense.dimensions)

    def play(self) -> Round:
        """A round: what moved the items, would have moved them without noise, and the scale."""
        society, d = self.society, self.society.defense.dimensions
        order = np.arange(len(society.rows), dtype=np.int32)
        exact = society.gradients(society.rows, order, society.users)[1]
        rest = exact.astype(np.float64) - self._mine.gradients()[1]
        means = [rest + each.gradients()[1] for each in self.shadows]
        sums = society.submit().sums
        society.learn(sums)
        for shadow in (*self.shadows, self._mine):
            shadow.learn()
        seen: list[NDArray[Any]] = [sums, *means]
        shown, absent, present = (
            part[self._items, :d].reshape(-1).astype(np.float64) for part in seen
        )
        return shown, absent, present, self._scale, self._step
