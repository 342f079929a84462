"""Trainings of models on folds and their errors, as pieces that threads share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeVar

import numpy as np

from dpaudit.data.folds import Fold
from dpaudit.defenses.trained import lane_blocks
from dpaudit.errors import RunError
from dpaudit.releases import Streams

T = TypeVar("T")


@dataclass(eq=False)
class Training:
    """A defense that is trained on a fold and tested there, in pieces of up to 16 worlds.

    Attributes:
        defense: what is trained.
        fold: the ratings.
        streams: the worlds.
        diverged: the error of a training that diverges; such a one is refused unless given.
    """

    defense: Any
    fold: Fold
    streams: Streams
    diverged: float | None = None
    _prepared: Any = None
    _lock: Any = field(default_factory=Lock)

    def pieces(self) -> Iterator[Callable[[], list[float]]]:
        """Each gives the root mean squared errors of its worlds."""
        return (partial(self._roots, part) for part in lane_blocks(self.streams))

    def _roots(self, part: Streams) -> list[float]:
        with self._lock:  # the first piece prepares for all
            if self._prepared is None:
                self._prepared = self.defense.prepare(self.fold.train)
        try:
            models = self.defense.train(self._prepared, part)
            shown = models.predict(self.fold.users, self.fold.items)
        except RunError:
            if self.diverged is None:
                raise
            return [self.diverged] * len(part)
        square = np.mean((shown.astype(np.float64) - self.fold.values) ** 2, axis=1)
        return [float(root) for root in np.sqrt(square)]


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
