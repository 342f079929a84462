"""The distinguishing game of one observer, two neighbouring data sets and one attack."""

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

# The score of an output that only one of the data sets can produce.
CERTAIN = 1e300
_NAMES = ("absent", "present")


@dataclass(frozen=True, eq=False)
class Scores:
    """The scores of a game.

    Attributes:
        absent: the attack's score in each trial on D `(T,)`.
        present: its score in each trial on D' `(T,)`.
    """

    absent: NDArray[np.float64]
    present: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Game(Generic[P]):
    """A game in which one attack distinguishes D' from D by the view of one observer.

    Attributes:
        observer: the observer.
        pair: the two data sets, prepared.
        attack: the attack; its `reads` must contain what the observer is shown.
    """

    observer: Observer[P]
    pair: PreparedPair[P]
    attack: Distinguisher | LearnedDistinguisher

    def run(self, *, trials: int, seed: int, threads: int = 1) -> Scores:
        """Run the mechanism in `trials` trials on D and as many on D', and score each.

        Every trial draws its own noise; D and D' share no stream. A learned attack is fitted on
        separate trials, which share no stream with those that are scored.

        Args:
            trials: number of trials on each data set.
            seed: seed of every random stream.
            threads: largest number of blocks at a time; the result does not depend on it.

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
        """Sum the scores of the views, clipped because infinities of both signs cannot be summed.

        Bounds also need finite scores.
        """
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
    """Apply `read` to all trials, in blocks of a fixed size, and concatenate the results.

    Args:
        read: returns an array with one entry per trial of a block.
        streams: the streams of all trials.
        size: number of trials in a block.
        threads: largest number of blocks at a time.
    """
    blocks = streams.blocks(size)
    if threads == 1:
        # Handing a small training to another thread takes as long as the training itself.
        return np.concatenate([read(block) for block in blocks])
    with ThreadPoolExecutor(max_workers=threads) as pool:
        return np.concatenate(list(pool.map(read, blocks)))
