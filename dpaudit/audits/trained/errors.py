"""Trainings of models on folds and their errors, in pieces that run on several threads."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.no_model import joined, outcomes
from dpaudit.audits.trained.baselines import guess_means
from dpaudit.bounds.frequentist.clusters import student_mean
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.training_checks import lane_blocks
from dpaudit.execution.executor import Executor
from dpaudit.execution.tasks import Task
from dpaudit.kernels.lanes import LANES

Numbers = NDArray[np.float64]


# Errors of ratings: root mean squared error, then mean absolute error.
KINDS = ("rmse", "mae")

# A function that computes k numbers from each of W trained models `(W, k)`.
Probe = Callable[[Any], Numbers]


def errors(fold: Fold) -> Probe:
    """Return a probe of the root mean squared and mean absolute error on the test ratings."""

    def probe(models: Any) -> Numbers:
        return mean_errors(models.predict(fold.users, fold.items), fold.values)

    return probe


def largest_errors(fold: Fold) -> Numbers:
    """Compute the largest root mean squared and mean absolute error on the fold's test ratings."""
    return largest(fold.values, fold.train.scale)


def largest(values: NDArray[Any], scale: Scale) -> Numbers:
    """Compute the largest root mean squared and mean absolute error of guesses on the scale.

    A rating's largest error is its distance from the farther end of the scale.

    Args:
        values: the ratings, at least one `(n,)`.
        scale: the rating scale.

    Returns:
        Both `(2,)`; no guesses on the scale err by more.
    """
    values = values.astype(np.float64)
    ends = np.stack([np.full_like(values, scale.minimum), np.full_like(values, scale.maximum)])
    farther = np.abs(ends - values).max(0)
    return np.array([np.sqrt(np.mean(farther**2)), np.mean(farther)])


def recovered(attack: Any, ratings: Ratings, parts: Sequence[NDArray[np.bool_]]) -> Probe:
    """Return a probe of an attack's errors and accuracy on parts of `ratings`.

    Guesses off the rating scale are moved to its end, which is never a worse guess.

    Args:
        attack: reconstructs ratings from the released model and the shared ratings.
        ratings: the ratings.
        parts: masks of the ratings to reconstruct, each `(R,)`, with three numbers for each.
    """
    shared, wanted = ratings.shared, np.logical_or.reduce(parts)
    users, items = ratings.user[wanted], ratings.item[wanted]

    def probe(models: Any) -> Numbers:
        release = models.public(np.arange(ratings.n_items, dtype=np.int32))
        shown = attack.reconstruct(release, shared, users, items)
        shown = np.clip(shown, ratings.scale.minimum, ratings.scale.maximum)
        values = ratings.value[wanted]
        masks = [part[wanted] for part in parts]
        numbers = [_recovered(shown[:, rows], values[rows], ratings.scale) for rows in masks]
        return np.concatenate(numbers, axis=1)

    return probe


def recoverable(ratings: Ratings, part: NDArray[np.bool_]) -> Numbers:
    """Compute the largest possible errors and accuracy of an attack on a part `(R,)`, `(3,)`."""
    return np.append(largest(ratings.value[part], ratings.scale), 1.0)


def guessed(ratings: Ratings, wanted: NDArray[np.bool_] | None = None) -> Numbers:
    """Compute both errors and the accuracy of guessing the items' means `(3,)`.

    Args:
        ratings: the ratings.
        wanted: mask of the ratings to guess; all sensitive ones by default.
    """
    rows = ratings.kept_private if wanted is None else wanted
    means = guess_means(ratings.shared, ratings.item[rows])
    return _recovered(means[None], ratings.value[rows], ratings.scale)[0]


def _recovered(shown: NDArray[Any], values: NDArray[Any], scale: Scale) -> Numbers:
    """Compute both errors, and the share of guesses nearest to the true rating `(W, 3)`."""
    near = 2 * abs(shown.astype(np.float64) - values) < scale.step
    return np.column_stack([mean_errors(shown, values), near.mean(axis=1)])


def mean_errors(shown: NDArray[Any], values: NDArray[Any]) -> Numbers:
    """Compute the root mean squared and mean absolute errors `(W, 2)` of predictions `(W, n)`."""
    # Trial by trial, which saves memory, where that keeps the order of the sums.
    parts = np.split(shown, len(shown)) if shown.flags.c_contiguous and len(shown) else [shown]
    means = []
    for part in parts:
        away = part.astype(np.float64) - values
        squares = np.sqrt(np.mean(away**2, axis=1))
        means.append(np.stack([squares, np.mean(abs(away), axis=1)], axis=1))
    return np.concatenate(means)


@dataclass(eq=False)
class Training:
    """A defense to train on ratings and to probe, in pieces of up to 16 trials.

    Attributes:
        words: which training it is: what decides its ratings and probes, beside the run's config.
        defense: the defense.
        ratings: the training ratings.
        probes: the functions that are applied to its models.
        streams: the trials.
    """

    words: str
    defense: Any
    ratings: Ratings
    probes: Sequence[Probe]
    streams: Streams
    _prepared: Any = None
    _lock: Any = field(default_factory=Lock)

    def tasks(self) -> Iterator[Task]:
        """Yield tasks that train a piece and return the probes' numbers, joined `(W, k)`."""
        name = f"{self.words}, {self.defense!r}"
        return (Task(self, part, len(part), name) for part in lane_blocks(self.streams))

    def __call__(self, part: Streams) -> Numbers:
        """Train a piece and return the probes' numbers `(W, k)`, NaN without a model."""
        with self._lock:  # the first piece prepares the data for all pieces
            if self._prepared is None:
                self._prepared = self.defense.prepare(self.ratings)
        return outcomes(self._probed, part, np.full((1, 1), np.nan))

    def _probed(self, part: Streams) -> Numbers:
        models = self.defense.train(self._prepared, part)
        return np.concatenate([probe(models) for probe in self.probes], axis=1)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process, which prepares the data itself."""
        return {**vars(self), "_prepared": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())


def run_all(trainings: Iterable[Training], trials: int, executor: Executor) -> list[Numbers]:
    """Run trainings, created lazily, and return each one's probes `(W, k)`."""
    parts = executor.run(task for training in trainings for task in training.tasks())
    blocks = -(-trials // LANES)
    return [joined(parts[k : k + blocks]) for k in range(0, len(parts), blocks)]


def over_trials(rows: Numbers) -> Numbers:
    """Average probes `(W, k)` over trials `(k,)`."""
    return np.array([math.fsum(column) / len(rows) for column in rows.T])


def over_folds(errors: Sequence[float], confidence: float) -> Estimate:
    """Compute the mean over folds with Student's interval.

    The folds share training data, so their errors are not independent, and they are too few to
    establish normality. The interval therefore only shows scatter and cannot gate. It is not part
    of the family of joint intervals.
    """
    return student_mean(errors, 1 - confidence, "folds")
