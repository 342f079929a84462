"""The error with which a recommender reconstructs sensitive ratings from users' submissions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionReconstruction
from dpaudit.auditor.means import joint_mean
from dpaudit.auditor.measure import Measure, MetricKey, RecordPart, points
from dpaudit.auditor.no_model import attempted, diverged
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.errors import (
    KINDS,
    guessed,
    mean_errors,
    over_folds,
    over_trials,
)
from dpaudit.audits.trained.recovery import recovery_key, recovery_keys
from dpaudit.audits.trained.subject import TrainedModel, TrainedModels
from dpaudit.core.streams import Streams, generator
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Task
from dpaudit.record import bases
from dpaudit.record import result as records

Numbers = NDArray[np.float64]

_METRICS: tuple[str, ...] = ("submissions.rmse", "submissions.mae")


class SubmissionRecovery(Measure[TrainedConfig, TrainedModel]):
    """`submissions.rmse` and `….mae`: errors of ratings reconstructed from users' submissions."""

    def __init__(self, subject: TrainedModels[Any]) -> None:
        """Create the attacks."""
        self.context, self.folds = subject.context, subject.folds
        self.trials = subject.context.config.training.trials
        self.attacks: dict[str, SubmissionReconstruction] = {
            attack.label: attack.create("attack") for attack in subject.context.config.reading
        }

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield both errors per attack and point."""
        for model, epsilon in points(config):
            for attack in config.reading:
                for metric in _METRICS:
                    yield from recovery_keys(config, metric, model, epsilon, attack.label)

    def run(self, model: TrainedModel) -> Iterator[RecordPart]:
        """Run all attacks on the model at every ε."""
        if self.attacks:
            stage = f"{model.label}: submissions"
            yield from self.context.unit(stage, partial(self._errors, stage, model))

    def _errors(self, stage: str, model: TrainedModel) -> Iterator[RecordPart]:
        config, seed = self.context.config, self.context.seed
        executor = self.context.tasks(stage, model.model, *config.attack)
        tasks = (
            Task(work, trial, 1, f"fold {number}, {defense!r}")
            for defense in model.defenses
            for number, fold in enumerate(self.folds)
            for work in [_Read(defense, fold.train, self.attacks, seed)]
            for trial in Streams.first(seed, f"submissions/{number}", self.trials).blocks(1)
        )
        finished = executor.run(tasks)
        # Axes: ε, fold, trial, attack, its input (submissions, released model, means), error kind.
        errors = np.stack(finished).reshape(
            len(model.defenses), len(self.folds), self.trials, len(self.attacks), 3, len(KINDS)
        )
        for defense, here in zip(model.defenses, errors, strict=True):
            where = model.label, defense.epsilon
            lost = int((~np.isfinite(here)).any((2, 3, 4)).sum())
            yield from diverged(lost, here[..., 0, 0, 0].size, "submissions", *where, _METRICS)
            for number, attack in enumerate(() if lost else self.attacks):
                yield from self._measured(*where, attack, here[:, :, number])

    def _measured(
        self, label: str, epsilon: float, attack: str, errors: Numbers
    ) -> list[records.Measurement]:
        """Measure one attack at one ε, from its errors `(folds, trials, 3, kinds)`.

        Errors that a gate judges have the interval of `trained.recovery.Recovery`: the sample are
        the trials, and no guess on the rating scale errs by more than its width.
        """
        family, most = self.context.family, self.folds[0].train.scale.width
        config, numbers = self.context.config, []
        for place, metric in enumerate(_METRICS):
            submitted, released, means = np.moveaxis(errors[..., place], 2, 0)
            for basis, values in (
                (bases.SUBMITTED, submitted),
                (bases.RELEASED, released),
                (bases.MEANS, means),
                (bases.BEYOND_MEANS, means - submitted),
                (bases.BEYOND_RELEASED, released - submitted),
            ):
                key = recovery_key(config, metric, label, epsilon, attack, basis)
                if key.joint:
                    least = -most if basis in bases.GAINS else 0.0
                    estimate = joint_mean(values.T, family, least=least, most=most)
                else:
                    estimate = over_folds(over_trials(values.T).tolist(), family.confidence)
                numbers.append(key.measured(estimate))
        return numbers


@dataclass(frozen=True)
class _Read:
    """Reads the submissions of one training with every attack.

    Attributes:
        defense: the recommender.
        train: the training ratings.
        attacks: the attacks, by label.
        seed: seed of the choice of users.
    """

    defense: Any
    train: Ratings
    attacks: Mapping[str, SubmissionReconstruction]
    seed: int

    def __call__(self, trial: Streams) -> Numbers:
        """Run every attack on one training and return the errors `(attacks, 3, kinds)`.

        They are NaN if the training ends without a model.
        """
        nothing = np.full((len(self.attacks), 3, len(KINDS)), np.nan)
        return attempted(partial(self._read, trial), nothing)

    def _read(self, trial: Streams) -> Numbers:
        train = self.train
        order = self._order()
        most = max(attack.users for attack in self.attacks.values())
        observed = np.zeros(train.n_users, np.bool_)
        observed[order[:most]] = True
        seen, models = self.defense.submissions(self.defense.prepare(train), trial, observed)
        release = models.public(np.arange(train.n_items, dtype=np.int32))
        shared = train.shared
        by_attack = []
        for attack in self.attacks.values():
            followed = order[: attack.users]
            hidden = np.isin(train.user, followed) & train.kept_private
            released, submitted = attack.read(seen.of_users(followed), release, shared)
            truth = train.value[hidden]
            shown = np.clip([submitted, released], train.scale.minimum, train.scale.maximum)
            errors = mean_errors(shown, truth)
            by_attack.append(np.concatenate([errors, guessed(train, hidden)[None, : len(KINDS)]]))
        return np.stack(by_attack)

    def _order(self) -> NDArray[np.int32]:
        """Return the users with sensitive ratings, in a random order."""
        rng = generator(self.seed, "followed users")
        private = self.train.user[self.train.kept_private]
        return rng.permutation(np.unique(private)).astype(np.int32)
