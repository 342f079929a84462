"""What is measured on trained models: errors on test ratings, recovered ratings, and more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter

from dpaudit.auditor.measure import Measure, MetricKey, RecordPart, gated, metric_of, points
from dpaudit.auditor.trainings import attempted, diverged
from dpaudit.audits.trained import subject as trained
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.recovery import Recovery, recovery_keys
from dpaudit.audits.trained.subject import Numbers, ProbedTraining, TrainedModel, TrainedModels
from dpaudit.core.claim import Assumption
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.record import result as records
from dpaudit.record.result import Measurement

# A model's label and its ε.
Point = tuple[str, float]
# The quantiles over users; each is a value that occurs.
QUANTILES: Mapping[str, float] = {"median": 0.5, "90 %": 0.9, "largest": 1.0}
# What is measured of single users, and how.
_PERSONAL: Mapping[str, str] = {
    "personal.epsilon": "quantile over users",
    "personal.loss": "quantile over users and draws",
}
# What stands for the assumptions of a training without a model.
_NONE = ""
# The assumptions of a model, as text that keeps every bit.
_ASSUMPTIONS = TypeAdapter(list[Assumption], config=ConfigDict(ser_json_inf_nan="strings"))


class TrainedUtility(Measure[TrainedConfig, TrainedModel]):
    """`utility.…` on test ratings, and `reconstruction.…` of sensitive ones, over folds."""

    def __init__(self, subject: TrainedModels[Any]) -> None:
        """Create the attacks."""
        config = subject.context.config
        self.context, self.folds = subject.context, subject.folds
        self.train = config.training
        self.recovering = {attack.label: attack.create("attack") for attack in config.recovering}
        self.by_fold: dict[Point, Numbers] = {}
        self.kinds: Sequence[str] = ()

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield the numbers on test ratings, those of each attack, and the comparisons."""
        ranks = any(model.ranks for model in config.model)
        kinds = ("precision", "recall") if ranks else trained.KINDS
        against = config.training.against
        reference = next((m.epsilon for m in config.model if m.label == against), [])
        for model, epsilon in points(config):
            for kind in (*kinds, "ndcg") if ranks else kinds:
                yield _useful_key(config, kind, model, epsilon)
            for attack in config.recovering:
                for kind in kinds:
                    metric = metric_of("reconstruction", kind)
                    yield from recovery_keys(config, metric, model, epsilon, attack.label)
                if not ranks and gated(config, "attack.accuracy"):
                    yield MetricKey("attack.accuracy", model, epsilon, attack=attack.label)
            if reference and model != against and (epsilon in reference or len(reference) == 1):
                yield MetricKey("utility.difference", model, epsilon)

    def run(self, model: TrainedModel) -> Iterator[RecordPart]:
        """Train the model on the folds, and measure its errors and what attacks recover."""
        stage = f"{model.label}: folds"
        yield from self.context.unit(stage, partial(self._measured, stage, model))

    def _measured(self, stage: str, model: TrainedModel) -> Iterator[RecordPart]:
        """Measure one model at every ε, and keep its errors on test ratings by fold `(F, k)`."""
        label, defenses, progress = model.label, model.defenses, self.context.progress
        scores = trained.scores_of(defenses[0], self.train.top_k)
        recovery = Recovery(scores, self.folds, self.recovering, self.context.config)
        kinds = self.kinds = (*scores.kinds, *scores.more)

        def trials(number: int) -> Streams:
            return Streams.first(self.context.seed, f"fold/{number}", self.train.trials)

        def tested() -> Iterator[ProbedTraining]:
            for defense in defenses:
                progress.stage(f"{label}: ε = {defense.epsilon:g}")
                for number, fold in enumerate(self.folds):
                    probes = [scores.tested(fold), *recovery.of_released(fold)]
                    streams = trials(number)
                    yield ProbedTraining(f"fold {number}", defense, fold.train, probes, streams)
                yield from recovery.trainings(defense, trials)

        executor = self.context.tasks(stage, model.model, *self.context.config.attack)
        probed = iter(trained.run_all(tested(), self.train.trials, executor))
        most = np.max([scores.most(fold) for fold in self.folds], axis=0)
        for defense in defenses:
            released = [next(probed) for _ in self.folds]
            compared = [next(probed) for _ in range(recovery.count)]
            point = label, defense.epsilon
            yield from self._diverged(released, "utility", kinds, point)
            if self.recovering:
                every = (*released, *compared)
                yield from self._diverged(every, "reconstruction", scores.kinds, point)
            if _without_model(released):
                continue
            # Axes: trial, fold, number.
            rows = np.stack(released, axis=1)
            seen = np.stack([trained.over_trials(of_fold) for of_fold in released])
            self.by_fold[point] = seen[:, : len(kinds)]
            for column, kind in enumerate(kinds):
                key, numbers = _useful_key(self.context.config, kind, *point), rows[:, :, column]
                largest = float(most[column])
                yield trained.mean_measured(key, numbers, 0.0, largest, self.context.family)
            if self.recovering and not _without_model(compared):
                recovered = rows[:, :, len(kinds) :]
                for score in recovery.recoveries(point, recovered, iter(compared)):
                    yield trained.mean_measured(*score, self.context.family)

    def _diverged(
        self, probed: Sequence[Numbers], group: str, kinds: Sequence[str], point: Point
    ) -> Iterator[records.FindingRecord]:
        """Say how many trainings ended without a model, which leaves a group of metrics open."""
        metrics = [metric_of(group, kind) for kind in kinds]
        if group == "reconstruction":
            metrics.append("attack.accuracy")
        trainings = sum(map(len, probed))
        yield from diverged(_without_model(probed), trainings, group, *point, metrics=metrics)

    def compared(self) -> Iterator[Measurement]:
        """Compare errors with those of the reference model, paired fold by fold."""
        against, by_fold = self.train.against, self.by_fold
        rows = {epsilon: errors for (label, epsilon), errors in by_fold.items() if label == against}
        for (label, epsilon), errors in by_fold.items():
            if not rows or label == against or not (epsilon in rows or len(rows) == 1):
                continue
            base = rows.get(epsilon, next(iter(rows.values())))
            for column, kind in enumerate(self.kinds):
                differences = (errors - base)[:, column].tolist()
                difference = trained.over_folds(differences, self.context.family.confidence)
                key = MetricKey("utility.difference", label, epsilon)
                yield key.measured(difference, against=against, kind=kind)


def _useful_key(config: TrainedConfig, kind: str, model: str, epsilon: float) -> MetricKey:
    metric = metric_of("utility", kind)
    return MetricKey(metric, model, epsilon, joint=gated(config, metric))


def _without_model(probed: Sequence[Numbers]) -> int:
    """Count the trainings whose numbers `(W, k)` are not finite, as they end without a model."""
    return sum(int((~np.isfinite(rows).all(1)).sum()) for rows in probed)


class Personal(Measure[TrainedConfig, TrainedModel]):
    """`personal.epsilon` and `….loss`: the ε of single users, and their losses in draws."""

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield both metrics at every ε of the models whose users have an ε of their own."""
        for model in config.model:
            for epsilon in model.epsilon if model.personal else ():
                for metric in _PERSONAL:
                    yield MetricKey(metric, model.label, epsilon)

    def run(self, model: TrainedModel) -> Iterator[Measurement]:
        """Train the model at each ε, and compute the quantiles over users.

        Raises:
            RunError: a training diverged, or no draw was accepted.
        """
        if model.model.personal:
            stage = f"{model.label}: losses of users"
            yield from self.context.unit(stage, partial(self._quantiles, stage, model))

    def _quantiles(self, stage: str, model: TrainedModel) -> Iterator[Measurement]:
        ratings, seed = self.subject.learned, self.context.seed

        def of(index: int) -> NDArray[np.float64]:
            losses = model.defenses[index].personal_losses(ratings, seed)
            levels, numbers = list(QUANTILES.values()), (losses.epsilon, losses.loss)
            return np.stack([np.quantile(row, levels, method="higher") for row in numbers])

        executor = self.context.tasks(stage, model.model, of=model.defenses)
        quantiles = executor.map("personal", of, range(len(model.defenses)), lambda _: 0)
        for defense, rows in zip(model.defenses, quantiles, strict=True):
            for (metric, method), values in zip(_PERSONAL.items(), rows, strict=True):
                key = MetricKey(metric, model.label, defense.epsilon)
                for name, value in zip(QUANTILES, values, strict=True):
                    yield key.measured(Estimate.exact(float(value), method), detail=name)


class Assumptions(Measure[TrainedConfig, TrainedModel]):
    """`assumption.denominator` and `….norm`: how often a published claim's assumptions fail."""

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield the assumptions that each published model counts."""
        for model in config.model:
            for epsilon in model.epsilon if model.variant == "published" else ():
                for metric in model.assumes:
                    yield MetricKey(metric, model.label, epsilon)

    def run(self, model: TrainedModel) -> Iterator[RecordPart]:
        """Train the model at each ε and count violated assumptions."""
        published = [defense for defense in model.defenses if defense.variant == "published"]
        if published and model.model.assumes:
            stage = f"{model.label}: assumptions"
            yield from self.context.unit(stage, partial(self._counted, stage, model, published))

    def _counted(
        self, stage: str, model: TrainedModel, published: Sequence[Any]
    ) -> Iterator[RecordPart]:
        ratings, seed = self.subject.learned, self.context.seed

        def count(index: int) -> str:
            counts = attempted(lambda: list(published[index].assumptions(ratings, seed)), None)
            return _NONE if counts is None else _ASSUMPTIONS.dump_json(counts).decode()

        executor = self.context.tasks(stage, model.model, of=published)
        texts = executor.map("assumptions", count, range(len(published)), lambda _: 0)
        for defense, text in zip(published, texts, strict=True):
            where = model.label, defense.epsilon
            if text == _NONE:
                yield from diverged(1, 1, "assumptions", *where, model.model.assumes)
                continue
            for counted in _ASSUMPTIONS.validate_json(text):
                key = MetricKey(counted.metric, *where)
                yield key.measured(counted.estimate, step=counted.step, detail=counted.part)
