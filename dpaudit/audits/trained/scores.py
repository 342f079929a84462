"""Scores of trained models, errors of ratings or hits of lists, and trainings that have them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.means import joint_mean
from dpaudit.auditor.measure import MetricKey
from dpaudit.auditor.no_model import joined, outcomes
from dpaudit.auditor.top_lists import most_popular, ndcg, precision_and_recall
from dpaudit.bounds.frequentist.intervals import student_mean
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.defenses.training_checks import lane_blocks
from dpaudit.execution.executor import Executor
from dpaudit.execution.tasks import Task
from dpaudit.kernels.lanes import LANES
from dpaudit.record.result import Family, Measurement

Indices = NDArray[np.int32]
Numbers = NDArray[np.float64]
# Errors of ratings: root mean squared error, then mean absolute error.
KINDS = ("rmse", "mae")
# A function that computes k numbers from each of W trained models `(W, k)`.
Probe = Callable[[Any], Numbers]


@dataclass(frozen=True)
class Scores:
    """The scores of models of one kind.

    Attributes:
        kinds: names of two scores, on test ratings and of recovered ratings or items.
        more: names of further scores on test ratings.
        recovery_kinds: names of further scores of recovered ratings.
        sign: 1 if less is better (errors), −1 if more is better (hits).
        tested: makes the probe of a fold's test ratings, whose numbers are `kinds` and `more`.
        most: computes the largest possible value of each of these numbers.
        recovered: makes the probe of an attack on parts (masks `(R,)`) of the sensitive ratings,
            whose numbers of each part are `kinds` and `recovery_kinds`.
        recoverable: computes the largest possible value of each of these numbers of a part.
        guessed: computes the scores of guessing sensitive ratings without a model.
    """

    kinds: tuple[str, str]
    more: tuple[str, ...]
    recovery_kinds: tuple[str, ...]
    sign: float
    tested: Callable[[Fold], Probe]
    most: Callable[[Fold], Numbers]
    recovered: Callable[[Any, Ratings, Sequence[NDArray[np.bool_]]], Probe]
    recoverable: Callable[[Ratings, NDArray[np.bool_]], Numbers]
    guessed: Callable[[Ratings], Numbers]


def scores_of(defense: TrainedDefense[Any], k: int) -> Scores:
    """Return the scores of a defense: errors, or hits of lists of length k if it ranks."""
    if not defense.ranks:
        probes = errors, largest_errors, recovered, recoverable, guessed
        return Scores(KINDS, (), ("accuracy",), 1.0, *probes)

    def tested(fold: Fold) -> Probe:
        users = np.unique(fold.users)

        def probe(models: Any) -> Numbers:
            lists = models.top(users, k, fold.train.by_user)
            hits = _hits(lists, users, fold.users, fold.items)
            return np.column_stack([hits, ndcg(lists, users, fold.users, fold.items)])

        return probe

    def listed(attack: Any, ratings: Ratings, parts: Sequence[NDArray[np.bool_]]) -> Probe:
        shared, users, _ = _kept(ratings, np.logical_or.reduce(parts))
        kept = [ratings.only(mask) for mask in parts]

        def probe(models: Any) -> Numbers:
            release = models.public(np.arange(ratings.n_items, dtype=np.int32))
            lists = attack.lists(release, shared, users, k, held=ratings)
            hits = [_hits(lists, users, mask.user, mask.item) for mask in kept]
            return np.concatenate(hits, axis=1)

        return probe

    def popular(ratings: Ratings) -> Numbers:
        shared, users, kept = _kept(ratings, ratings.kept_private)
        lists = most_popular(shared, users, k)[None]
        return _hits(lists, users, kept.user, kept.item)[0]

    def most(_: Fold) -> Numbers:
        return np.ones(3)

    def at_most(_: Ratings, __: NDArray[np.bool_]) -> Numbers:
        return np.ones(2)

    hits = ("precision", "recall")
    return Scores(hits, ("ndcg",), (), -1.0, tested, most, listed, at_most, popular)


def _kept(
    ratings: Ratings, wanted: NDArray[np.bool_]
) -> tuple[Ratings, NDArray[np.int32], Ratings]:
    """Return the shared ratings, the users with wanted ratings, and the wanted ratings."""
    kept = ratings.only(wanted)
    return ratings.shared, np.unique(kept.user), kept


def _hits(
    lists: NDArray[np.int32],
    users: NDArray[np.int32],
    liked_by: NDArray[np.int32],
    liked: NDArray[np.int32],
) -> Numbers:
    return np.stack(precision_and_recall(lists, users, liked_by, liked), axis=1)


def errors(fold: Fold) -> Probe:
    """Return a probe of the root mean squared and mean absolute error on the test ratings."""

    def probe(models: Any) -> Numbers:
        return mean_errors(models.predict(fold.users, fold.items), fold.values)

    return probe


def largest_errors(fold: Fold) -> Numbers:
    """Compute the largest root mean squared and mean absolute error on the fold's test ratings."""
    return _largest(fold.values, fold.train.scale)


def _largest(values: NDArray[Any], scale: Scale) -> Numbers:
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
        guesses = attack.reconstruct(release, shared, users, items)
        guesses = np.clip(guesses, ratings.scale.minimum, ratings.scale.maximum)
        values = ratings.value[wanted]
        masks = [mask[wanted] for mask in parts]
        numbers = [_recovered(guesses[:, rows], values[rows], ratings.scale) for rows in masks]
        return np.concatenate(numbers, axis=1)

    return probe


def recoverable(ratings: Ratings, mask: NDArray[np.bool_]) -> Numbers:
    """Compute the largest possible errors and accuracy of an attack on a part `(R,)`, `(3,)`."""
    return np.append(_largest(ratings.value[mask], ratings.scale), 1.0)


def guessed(ratings: Ratings, wanted: NDArray[np.bool_] | None = None) -> Numbers:
    """Compute both errors and the accuracy of guessing the items' means `(3,)`.

    Args:
        ratings: the ratings.
        wanted: mask of the ratings to guess; all sensitive ones by default.
    """
    rows = ratings.kept_private if wanted is None else wanted
    means = guess_means(ratings.shared, ratings.item[rows])
    return _recovered(means[None], ratings.value[rows], ratings.scale)[0]


def _recovered(guesses: NDArray[Any], values: NDArray[Any], scale: Scale) -> Numbers:
    """Compute both errors, and the share of guesses nearest to the true rating `(W, 3)`."""
    near = 2 * abs(guesses.astype(np.float64) - values) < scale.step
    return np.column_stack([mean_errors(guesses, values), near.mean(axis=1)])


def mean_errors(predictions: NDArray[Any], values: NDArray[Any]) -> Numbers:
    """Compute the root mean squared and mean absolute errors `(W, 2)` of predictions `(W, n)`."""
    # Trial by trial, which saves memory, where that keeps the order of the sums.
    by_trial = predictions.flags.c_contiguous and len(predictions)
    means = []
    for piece in np.split(predictions, len(predictions)) if by_trial else [predictions]:
        away = piece.astype(np.float64) - values
        squares = np.sqrt(np.mean(away**2, axis=1))
        means.append(np.stack([squares, np.mean(abs(away), axis=1)], axis=1))
    return np.concatenate(means)


def guess_means(shared: Ratings, items: Indices) -> NDArray[np.float64]:
    """Return the mean shared rating of each item `(n,)`.

    For an item without shared ratings it is the mean of all shared ratings, without any rating the
    middle of the scale.
    """
    counts = np.bincount(shared.item, minlength=shared.n_items)
    sums = np.bincount(shared.item, shared.value, shared.n_items)
    middle = (shared.scale.minimum + shared.scale.maximum) / 2
    everything = shared.value.mean(dtype=np.float64) if len(shared) else middle
    means = np.where(counts > 0, sums / np.maximum(counts, 1), everything)
    return np.asarray(means[items], np.float64)


@dataclass(eq=False)
class ProbedTraining:
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
        return (Task(self, piece, len(piece), name) for piece in lane_blocks(self.streams))

    def __call__(self, piece: Streams) -> Numbers:
        """Train a piece and return the probes' numbers `(W, k)`, NaN without a model."""
        with self._lock:  # the first piece prepares the data for all pieces
            if self._prepared is None:
                self._prepared = self.defense.prepare(self.ratings)
        return outcomes(self._probed, piece, np.full((1, 1), np.nan))

    def _probed(self, piece: Streams) -> Numbers:
        models = self.defense.train(self._prepared, piece)
        return np.concatenate([probe(models) for probe in self.probes], axis=1)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process, which prepares the data itself."""
        return {**vars(self), "_prepared": None, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())


def run_all(trainings: Iterable[ProbedTraining], trials: int, executor: Executor) -> list[Numbers]:
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


def mean_measured(
    key: MetricKey, numbers: Numbers, family: Family, least: float, most: float
) -> Measurement:
    """Measure the mean of a number over folds, jointly over trainings if a gate judges it.

    Args:
        key: the key, which says whether a gate judges it.
        numbers: the number in each trial on each fold `(W, F)`.
        family: the family of the run's intervals.
        least: the least possible number.
        most: the largest possible number.
    """
    if key.joint:
        return key.measured(joint_mean(numbers, family, least=least, most=most))
    return key.measured(over_folds(over_trials(numbers).tolist(), family.confidence))
