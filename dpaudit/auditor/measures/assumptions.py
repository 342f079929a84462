"""What trainings show of assumptions that a published claim rests on and that nothing enforces."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.auditor.measures.base import Measure, MetricKey
from dpaudit.auditor.subjects.trained import TrainedModel, TrainedModels
from dpaudit.config.schema import Config
from dpaudit.record.result import Measurement, measured


class Assumptions(Measure[TrainedModel]):
    """`assumption.denominator` and `….norm`: how often what a published claim assumes fails."""

    def __init__(self, subject: TrainedModels) -> None:
        """Take what the measures share."""
        self.ratings, self.seed = subject.learned, subject.context.seed

    @classmethod
    def plan(cls, config: Config) -> Iterator[MetricKey]:
        """What the models' classes count, of published variants."""
        for model in config.model:
            for epsilon in model.epsilon if model.variant == "published" else ():
                for metric in model.assumes:
                    yield MetricKey(metric, model.label, epsilon, joint=False)

    def run(self, model: TrainedModel) -> Iterator[Measurement]:
        """Train the model at each ε and count.

        Raises:
            RunError: a training of which denominators are counted diverged.
        """
        for defense in model.defenses:
            if defense.variant != "published":
                continue
            for found in defense.assumptions(self.ratings, self.seed):
                yield measured(
                    found.metric,
                    model.label,
                    defense.epsilon,
                    found.estimate,
                    step=found.step,
                    detail=found.part,
                )
