"""What a run will cost: its time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpaudit.execution.sampling import Sample


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a run on one worker.

    Attributes:
        samples: the stages but for controls, which are chosen by what games find.
        base: bytes that the data and what is prepared from them take.
        task: bytes that a running task takes besides.
    """

    samples: Sequence[Sample]
    base: int
    task: int

    @property
    def stages(self) -> list[Sample]:
        """The stages, each with the tasks at all values of ε together."""
        sums: dict[str, Sample] = {}
        for sample in self.samples:
            sum_ = sums.get(sample.stage, Sample(sample.stage, 0, 0, 0.0))
            sums[sample.stage] = Sample(
                sample.stage,
                sum_.tasks + sample.tasks,
                sum_.trials + sample.trials,
                sum_.seconds + sample.seconds,
                sample.controlled,
            )
        return list(sums.values())

    @property
    def seconds(self) -> float:
        """Seconds of all stages on one worker, without controls."""
        return sum(sample.seconds for sample in self.samples)

    @property
    def controlled(self) -> float:
        """Seconds of the games; a control takes as long again for each mutant."""
        return sum(sample.seconds for sample in self.samples if sample.controlled)

    def memory(self, workers: int) -> int:
        """Return the bytes that a run on this many threads takes."""
        return self.base + workers * self.task
