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
from dpaudit.auditor.games.certify import GameScores
from dpaudit.auditor.no_model import joined, outcomes
from dpaudit.core.releases import Observer, PreparedPair
from dpaudit.core.streams import Streams
from dpaudit.execution.executor import INLINE, Executor
from dpaudit.execution.tasks import Task

P = TypeVar("P")

# The score of an output that only one of the data sets can produce.
CERTAIN = 1e300
# The score of a trial whose training ends without a model, which the attacker sees. No other trial
# has it, and the test finds out in which data set it is likelier.
NO_MODEL = 2 * CERTAIN
# The fewest trials with a model, on each data set, that a learned attack is fitted on.
_FITTED = 8


@dataclass(frozen=True, eq=False)
class DistinguishingGame(Generic[P]):
    """A game in which one attack distinguishes D' from D by the view of one observer.

    Attributes:
        observer: the observer.
        pair: the two data sets, prepared.
        attack: the attack; its `reads` must contain what the observer is shown.
    """

    observer: Observer[P]
    pair: PreparedPair[P]
    attack: Distinguisher | LearnedDistinguisher

    def run(self, *, trials: int, seed: int, executor: Executor = INLINE) -> GameScores:
        """Run the mechanism in `trials` trials on D and as many on D', and score each.

        Every trial draws its own noise; D and D' share no stream. A learned attack is fitted on
        separate trials, which share no stream with those that are scored. A trial whose training
        ends without a model has the score `NO_MODEL`: whether it does may depend on the data, so
        this is part of what the mechanism shows.

        Args:
            trials: number of trials on each data set.
            seed: seed of every random stream.
            executor: runs the blocks of trials; the result does not depend on it.

        Raises:
            ConfigError: the observer sees nothing of this pair, or always the same.
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
            score = _fitted(attack, *(rows[rows[:, 0] == 0, 1:] for rows in seen))
            return GameScores(score(absent), score(present))
        absent, present = in_blocks(reads(self._score, "", trials), size, executor)
        return GameScores(absent, present)

    def _score(self, shown: P, streams: Streams) -> NDArray[np.float64]:
        """Sum the scores of the views, clipped because infinities of both signs cannot be summed.

        Bounds also need finite scores.
        """
        attack = self.attack
        if isinstance(attack, LearnedDistinguisher):
            raise TypeError(f"{attack.name} learns its score")

        def summed(part: Streams) -> NDArray[np.float64]:
            total = np.zeros(len(part))
            for release, knowledge in self.observer.views(self.pair, shown, part):
                total += np.clip(attack.score(release, knowledge), -CERTAIN, CERTAIN)
            return np.clip(total, -CERTAIN, CERTAIN)

        return outcomes(summed, streams, np.array([NO_MODEL]))

    def _features(self, shown: P, streams: Streams) -> NDArray[Any]:
        """Return 0 and the features of each trial, or 1 for one without a model `(W, 1 + F)`."""
        attack = self.attack
        if not isinstance(attack, LearnedDistinguisher):
            raise TypeError(f"{attack.name} reads no features")

        def read(part: Streams) -> NDArray[Any]:
            views = self.observer.views(self.pair, shown, part)
            features = np.concatenate([attack.features(*view) for view in views], axis=1)
            return np.column_stack([np.zeros(len(features), np.int8), features])

        return outcomes(read, streams, np.ones((1, 1), np.int8))


def _fitted(
    attack: LearnedDistinguisher, absent: NDArray[Any], present: NDArray[Any]
) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """Fit the attack on trials with a model, and return the score of outcomes `(T, 1 + F)`.

    With too few such trials to fit on, all trials with a model have the score 0.
    """
    enough = min(len(absent), len(present)) >= min(_FITTED, attack.fitted_on)
    ratio = attack.fit(absent, present) if enough else None

    def score(rows: NDArray[Any]) -> NDArray[np.float64]:
        scores, model = np.full(len(rows), NO_MODEL), rows[:, 0] == 0
        scores[model] = ratio.score(rows[model, 1:]) if ratio and model.any() else 0.0
        return scores

    return score


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
    results = executor.run(
        Task(read, block, len(block)) for read, streams in reads for block in streams.blocks(size)
    )
    ends = np.cumsum([0, *counts])
    return [joined(results[start:end]) for start, end in pairwise(ends)]
