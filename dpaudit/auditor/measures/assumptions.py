"""How often trainings violate assumptions that a published claim rests on but does not enforce."""

from __future__ import annotations

from collections.abc import Iterator

from dpaudit.auditor.measures.base import Measure, MetricKey
from dpaudit.auditor.subjects.trained import TrainedModel, TrainedModels
from dpaudit.config.schema import Config
from dpaudit.record.result import Measurement, measured


class Assumptions(Measure[TrainedModel]):
    """`assumption.denominator` and `….norm`: how often a published claim's assumptions fail."""

    def __init__(self, subject: TrainedModels) -> None:
        """Keep the ratings and the seed."""
        self.ratings, self.seed = subject.learned, subject.context.seed

    @classmethod
    def plan(cls, config: Config) -> Iterator[MetricKey]:
        """Yield the assumptions that each published model counts."""
        for model in config.model:
            for epsilon in model.epsilon if model.variant == "published" else ():
                for metric in model.assumes:
                    yield MetricKey(metric, model.label, epsilon, joint=False)

    def run(self, model: TrainedModel) -> Iterator[Measurement]:
        """Train the model at each ε and count violated assumptions.

        Raises:
            RunError: a training whose denominators are counted diverged.
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
