"""What a run will cost: its time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpaudit.execution.sampling import Sample


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
