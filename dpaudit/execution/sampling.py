"""Estimates of what a run will cost, from the first tasks of its stages.

These are timed in a process of its own, which is ended if one takes too long.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from dpaudit.execution.stopwatch import Stopwatch
from dpaudit.execution.tasks import Task

# A first task that is shorter, in seconds, is run again at once, as the first time compiles kernels
# and prepares data that tasks share. A longer one is run again if there is time at the end.
_QUICK = 0.5
# The share of the time in which every first task has an equal part, so that short ones are timed.
_BRIEF = 0.25
# Less time, in seconds, is not worth the start of a longer task.
_LEAST = 0.2


@dataclass(frozen=True)
class Sample:
    """The cost of the tasks of a stage, at all values of ε together.

    Attributes:
        stage: the stage.
        tasks: number of tasks.
        trials: the trials that they finish.
        seconds: the time of all tasks on one worker; None if the stage is not timed.
        once: whether no task ran again, so that `seconds` may count for each what is prepared once.
        limit: the seconds that the first task exceeds; 0 if it did not run, or was timed.
        controlled: whether positive controls run the stage again on mutants.
    """

    stage: str
    tasks: int
    trials: int
    seconds: float | None
    once: bool = False
    limit: float = 0.0
    controlled: bool = False


class _Batch(NamedTuple):
    """The tasks that a stage runs together: the first, and how many and how large all are."""

    stage: str
    first: Task
    tasks: int
    trials: int
    controlled: bool

    @property
    def unit(self) -> int:
        """The amount of the first task."""
        return self.first.size or 1

    @property
    def amount(self) -> int:
        """Trials, or tasks if these have none; the last task may have fewer trials."""
        return self.trials if self.first.size else self.tasks


@dataclass
class Sampler:
    """Counts tasks, and times the first of them."""

    _batches: list[_Batch] = field(default_factory=list)

    def take(self, stage: str, tasks: Iterable[Task], *, controlled: bool = False) -> bool:
        """Count tasks that a stage runs together; False if there are none."""
        first, count, trials = None, 0, 0
        for task in tasks:
            first = first or task
            count, trials = count + 1, trials + task.size
        if first is not None:
            self._batches.append(_Batch(stage, first, count, trials, controlled))
        return first is not None

    def timed(self, seconds: float) -> tuple[list[Sample], int]:
        """Time the first task of each batch, as time allows.

        Short tasks come first. Of the longer ones none takes more than half of the time that is
        left. The first batch of each stage comes first, then the second of each, and so on.

        Args:
            seconds: the time for all.

        Returns:
            The stages in their order, and the bytes that tasks take. A batch that is not reached
            has the slowest pace of its stage.

        Raises:
            DpauditError: as a task does.
        """
        with closing(Stopwatch([batch.first for batch in self._batches])) as stopwatch:
            stopwatch.start()
            timings = _Timings(self._batches, stopwatch, time.monotonic() + seconds)
            timings.run()
        stages = dict.fromkeys(batch.stage for batch in self._batches)
        return [timings.sample(stage) for stage in stages], stopwatch.memory


@dataclass
class _Timings:
    """The seconds of first tasks, by the numbers of their batches.

    Attributes:
        first: the seconds of the first run.
        again: those of the second.
        limits: what the first task of a stage exceeds.
    """

    batches: Sequence[_Batch]
    stopwatch: Stopwatch
    deadline: float
    first: dict[int, float] = field(default_factory=dict)
    again: dict[int, float] = field(default_factory=dict)
    limits: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        """Run the first tasks until the deadline, those that turn out to be short before others."""
        order = self._order()
        stages = len({batch.stage for batch in self.batches})
        brief = self._left() * _BRIEF / stages if len(order) > 1 else 0.0
        short = [number for number in order[:stages] if self._timed(number, brief)]
        long = [number for number in order if number not in short]
        for number in long:
            left = self._left()
            if left >= _LEAST:
                self._timed(number, left if number == long[-1] else left / 2)
        for number in sorted(self.first, key=self.first.__getitem__):
            if self._once(self.batches[number].stage):
                self._repeat(number)

    def _timed(self, number: int, limit: float) -> bool:
        """Time a first task, unless it surely takes longer than the limit, or nearly so long."""
        batch, stage = self.batches[number], self.batches[number].stage
        expected = max(self._paces(stage).values(), default=0.0) * batch.unit
        if self.limits.get(stage, 0.0) >= limit or 2 * expected > limit:
            return False
        seconds = self.stopwatch.time(number, limit)
        if seconds is None:
            self.limits[stage] = limit
            return False
        self.limits.pop(stage, None)
        self.first[number] = seconds
        if seconds < _QUICK:
            self._repeat(number)
        return True

    def sample(self, stage: str) -> Sample:
        """Return what is known of a stage."""
        numbers = [n for n, batch in enumerate(self.batches) if batch.stage == stage]
        paces = self._paces(stage)
        seconds = None
        if paces and stage not in self.limits:
            slowest = max(paces.values())
            seconds = sum(self.batches[n].amount * paces.get(n, slowest) for n in numbers)
        return Sample(
            stage,
            sum(self.batches[n].tasks for n in numbers),
            sum(self.batches[n].trials for n in numbers),
            seconds,
            once=seconds is not None and self._once(stage),
            limit=self.limits.get(stage, 0.0),
            controlled=self.batches[numbers[0]].controlled,
        )

    def _once(self, stage: str) -> bool:
        """Whether no task of a stage ran again."""
        return all(self.batches[number].stage != stage for number in self.again)

    def _paces(self, stage: str) -> dict[int, float]:
        """Return the seconds of a trial, or of a task if these have none, by number of batch."""
        batches = {n: self.batches[n] for n in self.first if self.batches[n].stage == stage}
        return {n: self.again.get(n, self.first[n]) / batch.unit for n, batch in batches.items()}

    def _order(self) -> list[int]:
        """Return the numbers of the batches: the first of each stage, then the second of each."""
        ranks, seen = [], Counter[str]()
        for batch in self.batches:
            ranks.append(seen[batch.stage])
            seen[batch.stage] += 1
        return sorted(range(len(ranks)), key=ranks.__getitem__)

    def _repeat(self, number: int) -> None:
        left = self._left()
        if self.first[number] < left:
            seconds = self.stopwatch.time(number, left)
            if seconds is not None:
                self.again[number] = seconds

    def _left(self) -> float:
        return self.deadline - time.monotonic()


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a run on one worker.

    Attributes:
        stages: the stages but for controls, which are chosen by what games find.
        base: bytes that the data and what is prepared from them take.
        task: bytes that a running task takes besides.
        decisions: what the trainings can decide, as the kind of audit says it.
    """

    stages: Sequence[Sample]
    base: int
    task: int
    decisions: Sequence[str] = ()

    @property
    def untimed(self) -> list[Sample]:
        """The stages whose time is not known."""
        return [stage for stage in self.stages if stage.seconds is None]

    @property
    def once(self) -> bool:
        """Whether a stage counts for each task what is prepared once, so that times are limits."""
        return any(stage.once for stage in self.stages)

    @property
    def seconds(self) -> float:
        """Seconds of all stages that are timed on one worker, without controls."""
        return sum(stage.seconds or 0.0 for stage in self.stages)

    @property
    def controlled(self) -> float:
        """Seconds of the games that are timed; a control takes as long again for each mutant."""
        return sum(stage.seconds or 0.0 for stage in self.stages if stage.controlled)

    def memory(self, workers: int) -> int:
        """Return the bytes that a run on this many threads takes."""
        return self.base + workers * self.task
