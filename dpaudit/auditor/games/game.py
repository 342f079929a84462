"""The distinguishing game of one observer, two neighbouring data sets and one attack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Distinguisher, LearnedDistinguisher
from dpaudit.core.observation import Observer, PreparedPair
from dpaudit.core.streams import Streams
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.execution.tasks import Task

P = TypeVar("P")

# The score of an output that only one of the data sets can produce.
CERTAIN = 1e300


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

    def run(self, *, trials: int, seed: int, executor: Executor = INLINE) -> Scores:
        """Run the mechanism in `trials` trials on D and as many on D', and score each.

        Every trial draws its own noise; D and D' share no stream. A learned attack is fitted on
        separate trials, which share no stream with those that are scored.

        Args:
            trials: number of trials on each data set.
            seed: seed of every random stream.
            executor: runs the blocks of trials; the result does not depend on it.

        Raises:
            ConfigError: the observer sees nothing of this pair, or always the same.
            RunError: a training diverged.
        """

        def reads(of: Callable[[P, Streams], NDArray[Any]], purpose: str, count: int) -> list[Read]:
            return [
                (
                    partial(of, shown),
                    Streams.first(seed, f"{self.observer.purpose}/{purpose}{name}", count),
                )
                for shown, name in ((self.pair.before, "absent"), (self.pair.after, "present"))
            ]

        attack, size = self.attack, self.observer.block
        if isinstance(attack, LearnedDistinguisher):
            fitted = reads(self._features, "fit/", attack.fitted_on)
            scored = reads(self._features, "play/", trials)
            *seen, absent, present = in_blocks([*fitted, *scored], size, executor)
            ratio = attack.fit(*seen)
            return Scores(ratio.score(absent), ratio.score(present))
        absent, present = in_blocks(reads(self._score, "", trials), size, executor)
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


# A function that returns an array with one entry per trial, and all trials to apply it to.
Read = tuple[Callable[[Streams], NDArray[Any]], Streams]


def in_blocks(reads: Sequence[Read], size: int, executor: Executor) -> list[NDArray[Any]]:
    """Apply each function to all its trials, in blocks of a fixed size; return an array of each.

    Args:
        reads: the functions with their trials.
        size: number of trials in a block.
        executor: runs the blocks of all functions together.
    """
    counts = [-(-len(streams) // size) for _, streams in reads]
    found = executor.run(
        Task(read, block, len(block)) for read, streams in reads for block in streams.blocks(size)
    )
    ends = np.cumsum([0, *counts])
    return [np.concatenate(found[start:end]) for start, end in pairwise(ends)]
