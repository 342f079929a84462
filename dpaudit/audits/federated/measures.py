"""What the server of a federated training can infer from the submissions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, TypeAdapter

from dpaudit.attacks.base import SubmissionTest
from dpaudit.auditor.measure import (
    Context,
    Measure,
    MetricKey,
    RecordPart,
    attack_record,
    gated,
    points,
)
from dpaudit.auditor.trainings import attempted, diverged
from dpaudit.audits.federated import transcripts
from dpaudit.audits.federated.config import FederatedConfig, Transcript
from dpaudit.audits.federated.transcripts import Finding, Truth, gated_divergence
from dpaudit.audits.trained.subject import TrainedModel, TrainedModels
from dpaudit.bounds.frequentist.intervals import student_mean
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams, generator
from dpaudit.data.folds import Fold
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import FederatedDefense
from dpaudit.execution.tasks import Task
from dpaudit.record import result as records
from dpaudit.record.metrics import entry


@dataclass(frozen=True)
class FederatedModels(TrainedModels[FederatedConfig]):
    """Federated recommenders."""

    @classmethod
    def of(cls, context: Context[FederatedConfig], ratings: Ratings | None) -> Self:
        """Check that `[transcript]` fits the models, and prepare as for any training.

        Raises:
            DataError: as in `TrainedModels.of`.
            ConfigError: `[transcript]` does not fit, or as in `TrainedModels.of`.
        """
        context.config.check_transcript()
        return super().of(context, ratings)

    def trials(self) -> int:
        """Return the number of trainings, with the observed ones."""
        config = self.context.config
        points = sum(len(model.epsilon) for model in config.model)
        return super().trials() + points * config.transcript.trials

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attacks on submissions by label, then the others."""
        tests = self.context.config.submission_tests
        records = {test.label: attack_record(test.create("attack")) for test in tests}
        return {**records, **super().attacks()}


# The error is measured at about this many checkpoints.
_CURVE = 40
_ERROR: str = "transcript.rmse"
# The findings of a training and its largest possible divergence, as text that keeps every bit; and
# what stands for those of a training without a model.
_NONE: tuple[list[Finding], float] = ([], 0.0)
_FINDINGS = TypeAdapter(tuple[list[Finding], float], config=ConfigDict(ser_json_inf_nan="strings"))
# The confidence of intervals that hold by themselves and gate nothing. It is not that of the run,
# so that a run with another one trains nothing again.
_ALONE = 0.95
# The first metric is measured for every model, the others only for those whose users submit fakes.
_SEEN: tuple[str, ...] = (
    _ERROR, "assumption.floor", "transcript.auc", "transcript.tpr", "transcript.roc",
    "transcript.power", "transcript.exposed", "transcript.false", "transcript.kl",
)  # fmt: skip


class Transcripts(Measure[FederatedConfig, TrainedModel]):
    """`attack.auc` and `transcript.…`: what the server learns in trainings on the first fold."""

    def __init__(self, subject: FederatedModels) -> None:
        """Create the attacks."""
        config = subject.context.config
        self.context, self.fold, self.wanted = subject.context, subject.folds[0], config.transcript
        self.gated = {metric: gated(config, metric) for metric in ("attack.auc", "transcript.kl")}
        self.attacks: dict[str, SubmissionTest] = {
            attack.label: attack.create("attack") for attack in config.submission_tests
        }

    @classmethod
    def plan(cls, config: FederatedConfig) -> Iterator[MetricKey]:
        """Yield gated AUCs and divergences where users submit fakes, and the transcript metrics."""
        private = {model.label for model in config.model if model.variant != "nonprivate"}
        areas, divergences = gated(config, "attack.auc"), gated(config, "transcript.kl")
        for model, epsilon in points(config):
            for attack in config.judged_tests if areas and model in private else ():
                yield MetricKey("attack.auc", model, epsilon, attack=attack.label)
            if divergences and model in private:
                yield MetricKey("transcript.kl", model, epsilon)
        for model, epsilon in points(config):
            for metric in _SEEN if model in private else _SEEN[:1]:
                yield MetricKey(metric, model, epsilon, joint=False)

    def run(self, model: TrainedModel) -> Iterator[RecordPart]:
        """Train the model at every ε, and run the attacks at the chosen rounds.

        Raises:
            ConfigError: the data do not fit the model, or a chosen round is beyond its last.
        """
        stage = f"{model.label}: transcripts"
        yield from self.context.unit(stage, partial(self._measured, stage, model))

    def _measured(self, stage: str, model: TrainedModel) -> Iterator[RecordPart]:
        context, wanted = self.context, self.wanted
        streams = Streams.first(context.seed, "transcript", wanted.trials)
        tasks = (
            Task(work, trial, 1, repr(defense))
            for defense in model.defenses
            for work in [_Training(defense, self.fold, self.attacks, wanted, context.seed)]
            for trial in streams.blocks(1)
        )
        executor = context.tasks(stage, model.model, *context.config.attack)
        finished = [_FINDINGS.validate_json(text) for text in executor.run(tasks)]
        for index, defense in enumerate(model.defenses):
            trials = finished[index * wanted.trials : (index + 1) * wanted.trials]
            if not isinstance(defense, FederatedDefense):
                raise TypeError(f"users of {defense.name} submit nothing to a server")
            where = model.label, defense.epsilon
            lost = trials.count(_NONE)
            yield from diverged(lost, len(trials), "transcripts", *where, ("attack.auc", *_SEEN))
            if lost:
                continue
            most = max(largest for _, largest in trials)
            findings = [finding for seen, _ in trials for finding in seen]
            for finding in self._together(findings, defense.rounds, most):
                yield _measured(*where, finding)

    def _together(self, findings: Sequence[Finding], last: int, most: float) -> Iterator[Finding]:
        """Yield each number over all trainings: jointly if a gate judges it, else its mean."""
        family = self.context.family
        errors = [finding for finding in findings if finding.metric == _ERROR]
        numbers = [finding for finding in findings if finding.metric != _ERROR]
        if self.gated["attack.auc"]:
            judged = {attack.label for attack in self.context.config.judged_tests}
            areas = [number for number in numbers if number.attack in judged]
            yield from transcripts.gated_areas(areas, last, family.alpha, family.confidence)
        if self.gated["transcript.kl"]:
            yield from gated_divergence(numbers, last, most, family.alpha, family.confidence)
            numbers = [finding for finding in numbers if not transcripts.is_whole(finding, last)]
        yield from transcripts.averaged(numbers)
        for step, group in transcripts.grouped(errors, lambda error: error.step).items():
            values = [error.estimate.value for error in group]
            yield Finding(_ERROR, step, student_mean(values, 1 - family.confidence, "trainings"))


@dataclass(frozen=True)
class _Training:
    """One training whose submissions are attacked.

    Attributes:
        defense: the recommender.
        fold: the fold to train and test on.
        attacks: the attacks, by label.
        wanted: what to run.
        seed: seed of the choice of users and pairs.
    """

    defense: Any
    fold: Fold
    attacks: Mapping[str, SubmissionTest]
    wanted: Transcript
    seed: int

    def __call__(self, trial: Streams) -> str:
        """Run one training, and return the findings at its checkpoints, and more, as JSON."""
        return _FINDINGS.dump_json(attempted(partial(self._seen, trial), _NONE)).decode()

    def _seen(self, trial: Streams) -> tuple[list[Finding], float]:
        defense, wanted = self.defense, self.wanted
        prepared = self._prepared
        transcript = defense.transcript(
            prepared, trial, self._users(wanted.users, prepared.n_users)
        )
        # Without privacy users submit no fakes.
        attacks = self.attacks if defense.variant != "nonprivate" else {}
        if attacks:
            _check_pairs(transcript)
        last = defense.rounds
        asked, every = wanted.steps(last), max(1, last // _CURVE)
        steps = sorted({*asked, *range(every, last + 1, every)})
        truth = Truth(transcript.pairs, transcript.real, _ALONE, self.seed)
        floor = Estimate.exact(float(transcript.floored), "counted")
        findings = [Finding("assumption.floor", 0, floor)] if defense.public_share is None else []
        for checkpoint in transcripts.run_transcript(transcript, attacks, steps, asked, self.seed):
            step = checkpoint.step
            findings.append(Finding(_ERROR, step, Estimate.exact(self._error(transcript), "rmse")))
            if checkpoint.seen:
                findings += truth.findings(checkpoint, last=step == last)
        return findings, transcript.most

    @cached_property
    def _prepared(self) -> Any:
        return self.defense.prepare(self.fold.train)

    def _users(self, most: int, count: int) -> NDArray[np.bool_] | None:
        if most >= count:
            return None
        rng = generator(self.seed, "watched users")
        observed = np.zeros(count, np.bool_)
        observed[rng.choice(count, most, replace=False)] = True
        return observed

    def _error(self, transcript: Any) -> float:
        fold = self.fold
        predictions = transcript.models().predict(fold.users, fold.items)[0].astype(np.float64)
        return float(np.sqrt(np.mean((predictions - fold.values) ** 2)))


def _measured(label: str, epsilon: float, finding: Finding) -> records.Measurement:
    """Record a finding with only the fields that its metric has."""
    given = {"attack": finding.attack, "step": finding.step, "at": finding.at}
    known = {field.name for field in entry(finding.metric).known}
    fields = {name: value for name, value in given.items() if name in known}
    key = MetricKey(finding.metric, label, epsilon)
    return key.measured(finding.estimate, detail=finding.detail, **fields)


def _check_pairs(transcript: Any) -> None:
    """Refuse pairs from which no interval can be computed, before anything is run.

    Raises:
        ConfigError: fewer than two users submit real pairs, or fakes.
    """
    real, users = transcript.real, transcript.pairs.users
    for what, chosen in (("real pairs", real), ("fakes", ~real)):
        if len(np.unique(users[chosen])) < 2:
            raise ConfigError(
                f"fewer than two of the observed users submit {what}, so nothing can be said of "
                "users like them: raise transcript.users or params.density, or use more data"
            )
