"""Trainings of models on folds and their errors, as pieces that threads share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.reconstruction.ratings import guess_means
from dpaudit.bounds.frequentist.clusters import student_mean
from dpaudit.core.errors import RunError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.training import lane_blocks
from dpaudit.kernels.lanes import LANES

T = TypeVar("T")
Numbers = NDArray[np.float64]


# Of ratings: root mean squared, then mean absolute error.
KINDS = ("rmse", "mae")

# Reads numbers off the models of some worlds `(W, k)`.
Probe = Callable[[Any], Numbers]


def errors(fold: Fold) -> Probe:
    """The root mean squared and the mean absolute error on the test ratings."""

    def probe(models: Any) -> Numbers:
        return mean_errors(models.predict(fold.users, fold.items), fold.values)

    return probe


def recovered(attack: Any, ratings: Ratings, parts: Sequence[NDArray[np.bool_]]) -> Probe:
    """The same errors of an attacker who recovers parts of `ratings` `(R,)` from what is shared."""
    shared, wanted = ratings.shared, np.logical_or.reduce(parts)
    users, items = ratings.user[wanted], ratings.item[wanted]

    def probe(models: Any) -> Numbers:
        release = models.public(np.arange(ratings.n_items, dtype=np.int32))
        shown = attack.reconstruct(release, shared, users, items)
        values = ratings.value[wanted]
        each = [mean_errors(shown[:, part[wanted]], values[part[wanted]]) for part in parts]
        return np.concatenate(each, axis=1)

    return probe


def guessed(ratings: Ratings, wanted: NDArray[np.bool_] | None = None) -> Numbers:
    """The same errors of who guesses the items' means `(k,)`, of all or of the `wanted` ratings."""
    rows = ratings.kept_private if wanted is None else wanted
    means = guess_means(ratings.shared, ratings.item[rows])
    return mean_errors(means[None], ratings.value[rows])[0]


def mean_errors(shown: NDArray[Any], values: NDArray[Any]) -> Numbers:
    """The root mean squared and the mean absolute error of what is shown `(W, n)`, `(W, 2)`."""
    away = shown.astype(np.float64) - values
    return np.stack([np.sqrt(np.mean(away**2, axis=1)), np.mean(abs(away), axis=1)], axis=1)


@dataclass(eq=False)
class Training:
    """A defense that is trained on ratings and probed, in pieces of up to 16 worlds.

    Attributes:
        defense: what is trained.
        ratings: what it learns from.
        probes: what is read off its models.
        streams: the worlds.
        diverged: the error of a training that diverges; such a one is refused unless given.
    """

    defense: Any
    ratings: Ratings
    probes: Sequence[Probe]
    streams: Streams
    diverged: float | None = None
    _prepared: Any = None
    _lock: Any = field(default_factory=Lock)

    def pieces(self) -> Iterator[Callable[[], Numbers]]:
        """Each gives what the probes read off its worlds, side by side `(W, k)`."""
        return (partial(self._read, part) for part in lane_blocks(self.streams))

    def _read(self, part: Streams) -> Numbers:
        with self._lock:  # the first piece prepares for all
            if self._prepared is None:
                self._prepared = self.defense.prepare(self.ratings)
        try:
            models = self.defense.train(self._prepared, part)
            return np.concatenate([probe(models) for probe in self.probes], axis=1)
        except RunError:
            if self.diverged is None:
                raise
            return np.full((len(part), 1), self.diverged)


def in_threads(
    pieces: Iterable[Callable[[], T]], threads: int, tell: Callable[[T], None]
) -> list[T]:
    """Call all pieces, at most so many at a time, and return their results in order.

    Args:
        pieces: taken one by one, so that no more than `threads` and one exist.
        threads: at least 1.
        tell: told each result as it comes, in the caller's thread.

    Raises:
        Exception: what the first piece raises, in their order, that raises anything.
    """
    submitted: list[Future[T]] = []
    running: set[Future[T]] = set()

    def well_until(most: int) -> bool:
        """Wait until at most so many are running; whether none raised anything."""
        nonlocal running
        while len(running) > most:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            if any(each.exception() for each in done):
                return False
            for each in done:
                tell(each.result())
        return True

    with ThreadPoolExecutor(max_workers=threads) as pool:
        for piece in pieces:
            if not well_until(threads - 1):
                break
            submitted.append(pool.submit(piece))
            running.add(submitted[-1])
        else:
            well_until(0)
    return [each.result() for each in submitted]


def played(
    trainings: Iterable[Training], worlds: int, threads: int, advance: Callable[[int], None]
) -> list[Numbers]:
    """What is read off each training, a mean over its worlds `(k,)`; each is made in its turn."""
    pieces = (piece for training in trainings for piece in training.pieces())
    parts = in_threads(pieces, threads, lambda part: advance(len(part)))
    each = -(-worlds // LANES)
    found = [np.concatenate(parts[k : k + each]) for k in range(0, len(parts), each)]
    return [np.array([math.fsum(column) / worlds for column in rows.T]) for rows in found]


def over_folds(errors: Sequence[float], confidence: float) -> Estimate:
    """The mean over folds with Student's interval.

    The folds share training data, so their errors are not quite independent, and few of them are no
    proof of a normal law: the interval shows scatter and gates nothing. It stands for itself, not
    together with others.
    """
    return student_mean(errors, 1 - confidence, "folds")
