"""The executor: it runs the tasks of an audit on workers, and keeps their results in a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError, DpauditError
from dpaudit.execution.sampling import Sampler
from dpaudit.execution.store import Store
from dpaudit.execution.tasks import Progress, Result, Shard, Task, digest_of
from dpaudit.execution.workers import Pool, Shared, Workers


class UnfinishedError(Exception):
    """Results are missing: other shards have them, or the tasks are only sampled."""


@dataclass
class Clock:
    """Adds up the time that workers spend on trainings.

    Attributes:
        trainings: the number of trainings that were run.
        spent: their seconds.
        deletions: of models that forget, the mean seconds of a training, and of the deletion after
            it, by the model's label.
    """

    trainings: int = 0
    spent: float = 0.0
    deletions: dict[str, tuple[float, float]] = field(default_factory=dict)

    def add(self, trainings: int, seconds: float) -> None:
        """Count trainings."""
        self.trainings += trainings
        self.spent += seconds

    def forgot(self, label: str, took: NDArray[np.float64]) -> None:
        """Note how long trainings of a model took, and the deletions after them `(n, 2)`."""
        if len(took):
            training, deletion = took.mean(0).tolist()
            self.deletions[label] = training, deletion

    @property
    def seconds(self) -> float | None:
        """The mean seconds of one training; None if none was run."""
        return self.spent / self.trainings if self.trainings else None


@dataclass(frozen=True)
class Executor:
    """Runs tasks; the results depend neither on the workers nor on what was stored.

    Attributes:
        pool: the workers.
        progress: receives the finished trials.
        store: where results are kept; None keeps them nowhere.
        shard: the part of the tasks to run; None for all.
        sampler: takes the tasks instead, to estimate what they cost.
        scope: identifies the inputs of the tasks, up to what the parts say themselves.
        stage: the words under which results are listed.
        controlled: whether positive controls run the stage again on mutants.
        clock: adds up the time of trainings.
    """

    pool: Pool = field(default_factory=lambda: Pool(Workers()))
    progress: Progress = field(default_factory=Progress)
    store: Store | None = None
    shard: Shard | None = None
    sampler: Sampler | None = None
    scope: tuple[str, ...] = ()
    stage: str = ""
    controlled: bool = False
    clock: Clock = field(default_factory=Clock)
    _asked: set[str] = field(default_factory=set)

    def within(self, stage: str, *words: str, controlled: bool = False) -> Executor:
        """Return an executor whose tasks depend on `words` besides those of this one.

        Args:
            stage: the words under which results are listed.
            words: everything that the results depend on.
            controlled: whether positive controls run the stage again on mutants.
        """
        scope = (*self.scope, stage, *words)
        return replace(self, stage=stage, scope=scope, controlled=controlled)

    def map(
        self,
        name: str,
        work: Callable[[Any], Result],
        parts: Iterable[Any],
        size: Callable[[Any], int] = len,
    ) -> list[Any]:
        """Apply one function to all parts, and return the results in their order.

        Args:
            name: distinguishes the function from others in this scope.
            work: the function; see `Task`.
            parts: the parts.
            size: maps a part to its number of trials.

        Raises:
            UnfinishedError: other shards have some of the results.
            DpauditError: the first error in the order of the parts.
        """
        return self.run(Task(work, part, size(part), name) for part in parts)

    def run(self, tasks: Iterable[Task]) -> list[Any]:
        """Run tasks, and return the results in their order; arguments and errors as in `map`.

        Args:
            tasks: consumed lazily, so that only the inputs of running tasks need exist.
        """
        if self.sampler and self.sampler.take(self.stage, tasks, controlled=self.controlled):
            raise UnfinishedError
        batch = _Batch(self)
        for number, result, seconds in self.pool.run(batch.missing(tasks)):
            batch.finish(number, result, seconds)
            self.progress.workers(self.pool.alive(), self.pool.workers.count)
        return batch.results()


# Bytes that a store writes, checks and reads in a second, at least.
_KEPT = 2e7


def _worth(result: Result, seconds: float) -> bool:
    """Whether it takes longer to compute a result again than to keep it."""
    size = len(result) if isinstance(result, str) else result.nbytes
    return seconds > size / _KEPT


# Runs tasks in the caller's thread, and stores nothing.
INLINE = Executor()


@dataclass
class _Batch:
    """The tasks of one call of `run`.

    Attributes:
        executor: the executor.
        answers: the results by the tasks' numbers.
        errors: the errors likewise.
    """

    executor: Executor
    answers: dict[int, Result] = field(default_factory=dict)
    errors: dict[int, DpauditError] = field(default_factory=dict)
    _open: dict[int, tuple[Task, str, Shared]] = field(default_factory=dict)
    _others: int = 0

    def missing(self, tasks: Iterable[Task]) -> Iterator[tuple[Shared, int, Any]]:
        """Yield the tasks to run: not stored, of this shard, and none after an error."""
        executor, store, shard = self.executor, self.executor.store, self.executor.shard
        shared: Shared | None = None
        for number, task in enumerate(tasks):
            key = ""
            if store is not None:
                key = self._new(digest_of(*executor.scope, task.name, task.part))
                stored = store.get(key)
                if stored is not None:
                    self.answers[number] = stored
                    executor.progress.stored(task.size)
                    continue
            if shard is not None and not shard.has(number, *executor.scope, task.name):
                self._others += 1
                continue
            if self.errors:
                return
            if shared is None or shared.work is not task.work:
                _end(shared)
                shared = executor.pool.shared(task.work)
            shared.running += 1
            self._open[number] = task, key, shared
            yield shared, number, task.part
        _end(shared)

    def _new(self, key: str) -> str:
        """Return the key of a task that this run asks for the first time.

        Raises:
            ConfigError: another stage of the run asked for it, whose result this one would get.
        """
        if key in self.executor._asked:
            raise ConfigError(
                f"{self.executor.stage}: its results would be those of an earlier stage of this "
                "run: give Context.tasks in of= what tells the two apart"
            )
        self.executor._asked.add(key)
        return key

    def finish(self, number: int, result: Result | DpauditError, seconds: float) -> None:
        """Take the answer to a task."""
        task, key, shared = self._open.pop(number)
        shared.running -= 1
        shared.clean()
        if isinstance(result, DpauditError):
            self.errors[number] = result
            return
        self.answers[number] = result
        if task.dear:
            self.executor.clock.add(task.size, seconds)
        store = self.executor.store
        if store is not None and (self.executor.shard or task.dear or _worth(result, seconds)):
            store.put(key, self.executor.stage, task.size, seconds, result)
        self.executor.progress.advance(task.size)

    def results(self) -> list[Any]:
        """Return the results in order, or raise the first error."""
        if self.errors:
            raise self.errors[min(self.errors)]
        if self._others:
            raise UnfinishedError
        return [self.answers[number] for number in sorted(self.answers)]


def _end(shared: Shared | None) -> None:
    """Note that a function gets no further tasks."""
    if shared is not None:
        shared.last = True
        shared.clean()
