"""The distinguishing game: one observer, two neighbouring data sets, one attack."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher, LearnedDistinguisher
from dpaudit.core.observation import Observer, PreparedPair
from dpaudit.core.streams import Streams

P = TypeVar("P")

# The score of an output that only one data set can have.
CERTAIN = 1e300
_NAMES = ("absent", "present")


@dataclass(frozen=True, eq=False)
class Scores:
    """The outcome of a game.

    Attributes:
        absent: the attack's score in each trial of D `(T,)`.
        present: its score in each trial of D' `(T,)`.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Game(Generic[P]):
    """One attack that tells D' from D by what one observer sees.

    Attributes:
        observer: who sees what.
        pair: the two data sets, prepared.
        attack: who guesses; its `reads` holds what the observer is shown.
    """

    observer: Observer[P]
    pair: PreparedPair[P]
    attack: Distinguisher | LearnedDistinguisher

    def run(self, *, trials: int, seed: int, threads: int = 1) -> Scores:
        """Release D in `trials` trials and D' in as many, and score each.

        Every trial draws its own noise; D and D' share no stream. A learned attack is fitted to
        trials of its own: no stream is shared with those that are scored.

        Args:
            trials: of either data set.
            seed: decides every stream.
            threads: at most so many blocks at a time; the numbers do not depend on it.

        Raises:
            ConfigError: the observer sees nothing of this pair, or always the same.
            RunError: a training diverged.
        """

        def read(
            of: Callable[[Any, Streams], NDArray[Any]], purpose: str, index: int, count: int
        ) -> NDArray[Any]:
            shown = (self.pair.before, self.pair.after)[index]
            name = f"{self.observer.purpose}/{purpose}{_NAMES[index]}"
            streams = Streams.first(seed, name, count)
            return in_blocks(lambda part: of(shown, part), streams, self.observer.block, threads)

        attack = self.attack
        if isinstance(attack, LearnedDistinguisher):
            seen = [read(self._features, "fit/", index, attack.fitted_on) for index in (0, 1)]
            ratio = attack.fit(*seen)
            absent, present = (
                ratio.score(read(self._features, "play/", index, trials)) for index in (0, 1)
            )
        else:
            absent, present = (read(self._score, "", index, trials) for index in (0, 1))
        return Scores(absent, present)

    def _score(self, shown: P, streams: Streams) -> NDArray[np.float64]:
        """The sum of the views' scores; bounds take finite ones, and infinities clash in sums."""
        if isinstance(self.attack, LearnedDistinguisher):
            raise TypeError(f"{self.attack.name} learns its score")
        total = np.zeros(len(streams))
        for release, knowledge in self.observer.views(self.pair, shown, streams):
            total += np.clip(self.attack.score(release, knowledge), -CERTAIN, CERTAIN)
        return np.clip(total, -CERTAIN, CERTAIN)

    def _features(self, shown: P, streams: Streams) -> NDArray[Any]:
        if not isinstance(self.attack, LearnedDistinguisher):
            raise TypeError(f"{self.attack.name} reads no features")
        views = self.observer.views(self.pair, shown, streams)
        return np.concatenate([self.attack.features(*view) for view in views], axis=1)


def in_blocks(
    read: Callable[[Streams], NDArray[Any]], streams: Streams, size: int, threads: int
) -> NDArray[Any]:
    """What is read off all trials, in blocks whose size depends on nothing.

    Args:
        read: what is read off some trials, one entry each.
        streams: all trials.
        size: of a block.
        threads: at most so many blocks at a time.
    """
    blocks = streams.blocks(size)
    if threads == 1:
        # To hand a small training to another thread takes as long as the training.
        return np.concatenate([read(block) for block in blocks])
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return np.concatenate(list(pool.map(read, blocks)))
