"""Estimates of what a run will cost, from the first task of each stage."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from dpaudit.execution.tasks import Task

# A task is run twice, as the first time compiles kernels and prepares data that others share, which
# takes less than so many seconds; one that takes longer is run once.
_SHARED = 20.0


@dataclass(frozen=True)
class Sample:
    """The cost of the tasks that a stage runs together.

    Attributes:
        stage: the stage.
        tasks: number of tasks.
        trials: the trials that they finish.
        seconds: the time of all tasks on one worker.
        controlled: whether positive controls run the stage again on mutants.
    """

    stage: str
    tasks: int
    trials: int
    seconds: float
    controlled: bool = False


@dataclass
class Sampler:
    """Runs the first task of each stage, and counts the others.

    Attributes:
        samples: what was found, in the order of the stages.
    """

    samples: list[Sample] = field(default_factory=list)

    def take(self, stage: str, tasks: Iterable[Task], *, controlled: bool = False) -> bool:
        """Time the first task and count all; False if there is none."""
        rest = iter(tasks)
        first = next(rest, None)
        if first is None:
            return False
        seconds = _timed(first)
        if seconds < _SHARED:
            seconds = _timed(first)
        count, trials = 0, 0
        for task in itertools.chain([first], rest):
            count, trials = count + 1, trials + task.size
        # The last task of a block of trials may be smaller than the first.
        share = trials / first.size if first.size else count
        self.samples.append(Sample(stage, count, trials, seconds * share, controlled))
        return True


def _timed(task: Task) -> float:
    clock = time.perf_counter()
    task.work(task.part)
    return time.perf_counter() - clock


def peak_memory() -> int:
    """Return the largest memory that this process has had so far, in bytes."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
