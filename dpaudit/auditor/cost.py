"""What a run will cost: time and memory, estimated from the first task of each stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpaudit.auditor.run import measured, prepared
from dpaudit.config.schema import Config
from dpaudit.core.errors import ConfigError
from dpaudit.execution.executor import Executor
from dpaudit.execution.progress import Progress
from dpaudit.execution.sampling import Sample, Sampler, peak_memory


@dataclass(frozen=True)
class Cost:
    """The estimated cost of a run on one worker.

    Attributes:
        samples: the stages, without those of controls, whose number depends on results.
        controlled: the seconds of the games; a control takes as long again for each mutant.
        base: bytes that the data and what is prepared from them take.
        task: bytes that a running task takes besides.
    """

    samples: Sequence[Sample]
    controlled: float
    base: int
    task: int

    @property
    def stages(self) -> list[Sample]:
        """The stages, each with the tasks at all values of ε together."""
        found: dict[str, Sample] = {}
        for one in self.samples:
            sum_ = found.get(one.stage, Sample(one.stage, 0, 0, 0.0))
            found[one.stage] = Sample(
                one.stage,
                sum_.tasks + one.tasks,
                sum_.trials + one.trials,
                sum_.seconds + one.seconds,
            )
        return list(found.values())

    @property
    def seconds(self) -> float:
        """Seconds of all stages on one worker, without controls."""
        return sum(sample.seconds for sample in self.samples)

    def memory(self, workers: int) -> int:
        """Return the bytes that a run on this many threads takes."""
        return self.base + workers * self.task


def cost_of(config: Config, *, progress: Progress | None = None) -> Cost:
    """Read the data, prepare the models, and run the first task of each stage.

    A grid's first combination stands for the chosen one.

    Args:
        config: a checked config.
        progress: receives the stages.

    Raises:
        ConfigError: the config names a black box, or as in `run_audit`.
        DataError: as in `run_audit`.
    """
    if config.ordered:
        raise ConfigError(
            f"a run of {config.ordered} cannot be estimated, as its calls may depend on each "
            "other: run it with few trials first (-s audit.trials=400)"
        )
    if config.code:
        raise ConfigError(
            "a run of code that the config names cannot be estimated: run it with few trainings "
            "first (-s membership.trainings=8), which a longer run then uses"
        )
    progress, sampler = progress or Progress(), Sampler()
    with prepared(config, False, progress) as ratings:
        base = peak_memory()
        measured(config, ratings, Executor(progress=progress, sampler=sampler))
        most = peak_memory()
    games = [sample for sample in sampler.samples if ": game " in sample.stage]
    return Cost(sampler.samples, sum(game.seconds for game in games), base, most - base)
