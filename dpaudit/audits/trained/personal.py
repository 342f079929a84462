"""The ε of single users, and what their ratings change in draws of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.measure import Measure, MetricKey
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.subject import TrainedModel, TrainedModels
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Measurement

# The quantiles over users; each is a value that occurs.
QUANTILES: Mapping[str, float] = {"median": 0.5, "90 %": 0.9, "largest": 1.0}


class Personal(Measure[TrainedConfig, TrainedModel]):
    """`personal.epsilon` and `….loss`: the ε of single users, and their losses in draws."""

    def __init__(self, subject: TrainedModels[Any]) -> None:
        """Keep the context and the ratings."""
        self.context, self.ratings = subject.context, subject.learned

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield both metrics at every ε of the models whose users have an ε of their own."""
        for model in config.model:
            for epsilon in model.epsilon if model.personal else ():
                yield from _keys(model.label, epsilon)

    def run(self, model: TrainedModel) -> Iterator[Measurement]:
        """Train the model at each ε, and compute the quantiles over users.

        Raises:
            RunError: a training diverged, or no draw was accepted.
        """
        if model.model.personal:
            stage = f"{model.label}: losses of users"
            yield from self.context.unit(stage, partial(self._quantiles, stage, model))

    def _quantiles(self, stage: str, model: TrainedModel) -> Iterator[Measurement]:
        ratings, seed = self.ratings, self.context.seed

        def of(place: int) -> NDArray[np.float64]:
            losses = model.defenses[place].personal_losses(ratings, seed)
            levels = list(QUANTILES.values())
            return np.stack(
                [np.quantile(row, levels, method="higher") for row in (losses.epsilon, losses.loss)]
            )

        executor = self.context.tasks(stage, model.model, of=model.defenses)
        quantiles = executor.map("personal", of, range(len(model.defenses)), lambda _: 0)
        over = "quantile over users", "quantile over users and draws"
        for defense, both in zip(model.defenses, quantiles, strict=True):
            keys = _keys(model.label, defense.epsilon)
            for key, values, method in zip(keys, both, over, strict=True):
                for part, value in zip(QUANTILES, values, strict=True):
                    yield key.measured(Estimate.exact(float(value), method), detail=part)


def _keys(model: str, epsilon: float) -> Iterator[MetricKey]:
    for metric in ("personal.epsilon", "personal.loss"):
        yield MetricKey(metric, model, epsilon)
