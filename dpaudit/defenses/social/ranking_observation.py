"""What the recommender, or everybody, sees of a social ranking on two neighbouring data sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from dpaudit.defenses.social.ranking_training import NONE, RankingSociety, Submissions

if TYPE_CHECKING:
    from dpaudit.defenses.social.ranking_settings import RankingSettings

Numbers = NDArray[np.float64]
# A round: what was shown, would have been without noise in D and in D', the noise's scale and the
# grid's step.
Round = tuple[Numbers, Numbers, Numbers, Numbers, Numbers]


def watched_rounds(
    defense: RankingSettings,
    before: RankingRows,
    after: RankingRows,
    trained: RankingRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """All that the users in whom two data sets differ submit, round by round, `(W, C)`.

    The recommender drew what the noise is multiplied by, so given that it is normal. Given what was
    submitted before, V is known, and so is what such a user would submit without noise in either
    world: with all triples, her factors are computed from her sets, V and where they started.

    Args:
        defense: one whose noise is drawn by each user.
        before: world `D`.
        after: world `D'`.
        trained: which of the two is learned from.
        streams: the worlds.

    Raises:
        ConfigError: there is no noise or it differs, triples are drawn, or nobody differs.
        RunError: a training diverged.
    """
    suspects = _Suspects.between(defense, before, after)
    suspects.check(lambda noise, rows: noise.of_users(rows, suspects.users))
    noise = defense.noise(trained)
    worlds = [_Submitting(defense, suspects, trained, noise, one) for one in streams.blocks(1)]
    yield from _played(defense.rounds, worlds, gaussian=True)


def watched_sums(
    defense: RankingSettings,
    before: RankingRows,
    after: RankingRows,
    trained: RankingRows,
    streams: Streams,
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    """What moves all items, round by round, `(W, C)`.

    V is shared with everybody, so that two of them one after the other show the sum of submissions;
    whoever knows all other purchases knows what it would be without noise. Its noise is Laplace:
    `√(2h) c ~ Lap(1)` where h is not known (Meng et al. 2018, Lemma 1); normal in the corrected
    form.

    The arguments and errors are those of `watched_rounds`.
    """
    suspects = _Suspects.between(defense, before, after)
    suspects.check(lambda noise, rows: noise.summed(rows))
    noise = defense.noise(trained)
    worlds = [_Summing(defense, suspects, trained, noise, one) for one in streams.blocks(1)]
    yield from _played(defense.rounds, worlds, gaussian=not noise.shared)


def _played(
    rounds: int, worlds: Sequence[_Submitting | _Summing], gaussian: bool
) -> Iterator[tuple[NoisedSteps, StepsPair]]:
    for number in range(rounds):
        # What is learned after the last round nobody sees.
        if number:
            for each in worlds:
                each.learn()
        seen = zip(*(each.submit() for each in worlds), strict=True)
        shown, absent, present, scale, step = (np.stack(part) for part in seen)
        yield NoisedSteps(shown), StepsPair(absent, present, scale, gaussian, grid=step)


@dataclass(frozen=True, eq=False)
class _Suspects:
    """The users in whom two data sets differ.

    Attributes:
        users: who they are, increasing `(n,)`.
        before: world `D`.
        after: world `D'`.
        noise: the noise in either.
    """

    users: Indices
    before: RankingRows
    after: RankingRows
    noise: tuple[RankingNoise, RankingNoise]

    @classmethod
    def between(
        cls, defense: RankingSettings, before: RankingRows, after: RankingRows
    ) -> _Suspects:
        """Those of two data sets.

        Raises:
            ConfigError: there is no noise, triples are drawn, or nobody differs.
        """
        defense.check_observed("recommender")
        users = _changed(before.sets, after.sets)
        if not len(users):
            raise ConfigError("the two data sets are the same: one user must differ")
        return cls(users, before, after, (defense.noise(before), defense.noise(after)))

    def check(self, variances: Callable[[RankingNoise, RankingRows], Numbers]) -> None:
        """Refuse two data sets whose noise differs.

        Args:
            variances: those of what is seen, of the noise on some data.

        Raises:
            ConfigError: it does.
        """
        first, second = (
            variances(noise, rows)
            for noise, rows in zip(self.noise, (self.before, self.after), strict=True)
        )
        if not np.allclose(first, second, rtol=1e-9, atol=0):
            raise ConfigError(
                "what users keep private differs, which is public: prepare both data sets with "
                "the same public data"
            )


def _changed(before: PreferenceSets, after: PreferenceSets) -> Indices:
    """The users whose sets differ, increasing."""
    found = [
        user
        for user in range(len(before))
        for own, other in zip(before.of_user(user), after.of_user(user), strict=True)
        if not np.array_equal(own, other)
    ]
    return np.unique(found).astype(np.int32)


class _Shadow:
    """The suspects as they are in one data set."""

    def __init__(self, rows: RankingRows, suspects: Indices, society: RankingSociety) -> None:
        self._sets, self._society = rows.sets.of_users(suspects), society
        self._order = np.arange(len(suspects), dtype=np.int32)
        self._users = society.users[suspects]

    def each(self) -> Floats:
        """What each would submit without noise `(n, M, size)`."""
        return self._gradients(shows=True)[1]

    def sum(self) -> NDArray[np.float64]:
        """The sum of this for each item `(M, size)`."""
        return self._gradients(shows=False)[0]

    def _gradients(self, shows: bool) -> tuple[NDArray[np.float64], Floats]:
        both = NONE, NONE
        return self._society.gradients(self._sets, self._order, self._users, both, shows)

    def learn(self) -> None:
        """They learn by V as it stands."""
        self._society.move(self._sets, self._users, (NONE, NONE))


class _World:
    """One world's training and, beside it, its suspects as they are in some data sets."""

    def __init__(
        self, society: RankingSociety, suspects: _Suspects, data: Sequence[RankingRows]
    ) -> None:
        self._society = society
        self._shadows = [_Shadow(rows, suspects.users, society) for rows in data]
        self._dimensions = society.defense.dimensions
        self._sums = society.items

    def _sent(self) -> Submissions:
        sent = self._society.submit()
        self._sums = sent.sums
        return sent

    def learn(self) -> None:
        """All learn by what was submitted last, suspects as they are and as they would be."""
        self._society.learn(self._sums)
        for shadow in self._shadows:
            shadow.learn()


class _Submitting(_World):
    """A world whose suspects are seen one by one."""

    def __init__(
        self,
        defense: RankingSettings,
        suspects: _Suspects,
        trained: RankingRows,
        noise: RankingNoise,
        world: Streams,
    ) -> None:
        society = RankingSociety(defense, trained, noise, world, suspects.users)
        super().__init__(society, suspects, (suspects.before, suspects.after))

    def submit(self) -> Round:
        """What is seen of a round."""
        d, sent = self._dimensions, self._sent()
        means = [shadow.each() for shadow in self._shadows]
        shown, absent, present = (
            part[:, :, :d].reshape(-1).astype(np.float64) for part in (sent.shown, *means)
        )
        scale, step = (
            np.broadcast_to(part, (*sent.shown.shape[:2], d)).reshape(-1)
            for part in (sent.deviations, sent.steps)
        )
        return shown, absent, present, scale, step


class _Summing(_World):
    """A world whose sums of submissions are seen."""

    def __init__(
        self,
        defense: RankingSettings,
        suspects: _Suspects,
        trained: RankingRows,
        noise: RankingNoise,
        world: Streams,
    ) -> None:
        society = RankingSociety(defense, trained, noise, world)
        super().__init__(society, suspects, (suspects.before, suspects.after, trained))
        scale = np.sqrt(noise.summed(trained) / (2 if noise.shared else 1))
        self._scale = np.repeat(scale, defense.dimensions)
        self._step = np.repeat(society.steps, defense.dimensions)

    def submit(self) -> Round:
        """What is seen of a round."""
        d, sent = self._dimensions, self._sent()
        *means, own = (shadow.sum() for shadow in self._shadows)
        rest = sent.exact - own
        seen = (sent.sums.astype(np.float64), *(rest + mean for mean in means))
        shown, absent, present = (part[:, :d].reshape(-1) for part in seen)
        return shown, absent, present, self._scale, self._step
