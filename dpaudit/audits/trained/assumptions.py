"""How often trainings violate assumptions that a published claim rests on but does not enforce."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from dpaudit.auditor.measure import Measure, MetricKey, RecordPart
from dpaudit.auditor.no_model import attempted, diverged
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.subject import TrainedModel, TrainedModels
from dpaudit.core.claim import Assumption

# What stands for the assumptions of a training without a model.
_NONE = ""
# The assumptions of a model, as text that keeps every bit.
_ASSUMPTIONS = TypeAdapter(list[Assumption], config=ConfigDict(ser_json_inf_nan="strings"))


class Assumptions(Measure[TrainedConfig, TrainedModel]):
    """`assumption.denominator` and `….norm`: how often a published claim's assumptions fail."""

    def __init__(self, subject: TrainedModels[Any]) -> None:
        """Keep the context and the ratings."""
        self.context, self.ratings = subject.context, subject.learned

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield the assumptions that each published model counts."""
        for model in config.model:
            for epsilon in model.epsilon if model.variant == "published" else ():
                for metric in model.assumes:
                    yield _key(metric, model.label, epsilon)

    def run(self, model: TrainedModel) -> Iterator[RecordPart]:
        """Train the model at each ε and count violated assumptions."""
        published = [defense for defense in model.defenses if defense.variant == "published"]
        if published and model.model.assumes:
            stage = f"{model.label}: assumptions"
            counted = partial(self._counted, stage, model, published)
            yield from self.context.unit(stage, counted)

    def _counted(
        self, stage: str, model: TrainedModel, published: Sequence[Any]
    ) -> Iterator[RecordPart]:
        ratings, seed = self.ratings, self.context.seed

        def count(place: int) -> str:
            counts = attempted(lambda: list(published[place].assumptions(ratings, seed)), None)
            return _NONE if counts is None else _ASSUMPTIONS.dump_json(counts).decode()

        executor = self.context.tasks(stage, model.model, of=published)
        texts = executor.map("assumptions", count, range(len(published)), lambda _: 0)
        for defense, text in zip(published, texts, strict=True):
            where = model.label, defense.epsilon
            if text == _NONE:
                yield from diverged(1, 1, "assumptions", *where, model.model.assumes)
                continue
            for counted in _ASSUMPTIONS.validate_json(text):
                key = _key(counted.metric, *where)
                yield key.measured(counted.estimate, step=counted.step, detail=counted.part)


def _key(metric: str, model: str, epsilon: float) -> MetricKey:
    return MetricKey(metric, model, epsilon)
