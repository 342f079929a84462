"""Sensitive ratings that recommenders recover from submissions, as a config asks for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionReconstruction
from dpaudit.auditor.measures.base import Measure, MetricKey, points
from dpaudit.auditor.subjects.trained import TrainedModel, TrainedModels
from dpaudit.auditor.trained.errors import (
    KINDS,
    guessed,
    in_threads,
    mean_errors,
    over_folds,
)
from dpaudit.config import schema as configs
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Ratings
from dpaudit.record import result as records
from dpaudit.record.metrics import MetricName

Numbers = NDArray[np.float64]

_METRICS: tuple[MetricName, ...] = ("submissions.rmse", "submissions.mae")


class Reading(Measure[TrainedModel]):
    """`submissions.rmse` and `….mae`: what recommenders read off what some users submit."""

    def __init__(self, subject: TrainedModels) -> None:
        """Make the attacks."""
        self.context, self.folds = subject.context, subject.folds
        self.worlds = subject.context.config.training.worlds
        self.attacks: dict[str, SubmissionReconstruction] = {
            attack.label: attack.create("attack") for attack in subject.context.config.reading
        }

    @classmethod
    def plan(cls, config: configs.Config) -> Iterator[MetricKey]:
        """Both errors for each attack."""
        for model, epsilon in points(config):
            for attack in config.reading:
                for metric in _METRICS:
                    yield MetricKey(metric, model, epsilon, attack=attack.label, joint=False)

    def run(self, model: TrainedModel) -> Iterator[records.Measurement]:
        """All attacks on the model at every ε.

        Raises:
            RunError: a training diverged.
        """
        if not self.attacks:
            return
        seed, progress = self.context.seed, self.context.progress
        pieces = (
            partial(self._training, defense, fold.train, world)
            for defense in model.defenses
            for number, fold in enumerate(self.folds)
            for world in Streams.first(seed, f"submissions/{number}", self.worlds).blocks(1)
        )
        played = in_threads(pieces, self.context.threads, lambda _: progress.advance(1))
        # By ε, fold, trial, attacker, what it reads, and kind of error.
        found = np.stack(played).reshape(
            len(model.defenses), len(self.folds), self.worlds, len(self.attacks), 3, len(KINDS)
        )
        for defense, mine in zip(model.defenses, found, strict=True):
            for number, attack in enumerate(self.attacks):
                yield from self._measured(model.label, defense.epsilon, attack, mine[:, :, number])

    def _measured(
        self, label: str, epsilon: float, attack: str, errors: Numbers
    ) -> list[records.Measurement]:
        """Of one attacker at one ε, from errors `(folds, worlds, 3, kinds)`."""
        by_fold = np.array([[[math.fsum(e) for e in k] for k in f.T] for f in errors]) / self.worlds
        found = []
        for place, metric in enumerate(_METRICS):
            submitted, released, means = by_fold[:, place].T
            for basis, values in (
                (records.SUBMITTED, submitted),
                (records.RELEASED, released),
                (records.MEANS, means),
                (records.BEYOND_MEANS, means - submitted),
                (records.BEYOND_RELEASED, released - submitted),
            ):
                found.append(
                    records.Measurement(
                        metric=metric,
                        model=label,
                        epsilon=epsilon,
                        attack=attack,
                        basis=basis,
                        estimate=over_folds(values.tolist(), self.context.family.confidence),
                    )
                )
        return found

    def _training(self, defense: Any, train: Ratings, world: Streams) -> Numbers:
        """The errors of every attacker on one training `(attacks, 3, kinds)`."""
        order = self._order(train)
        most = max(attack.users for attack in self.attacks.values())
        watched = np.zeros(train.n_users, np.bool_)
        watched[order[:most]] = True
        seen, models = defense.submissions(defense.prepare(train), world, watched)
        release = models.public(np.arange(train.n_items, dtype=np.int32))
        shared = train.shared
        found = []
        for attack in self.attacks.values():
            followed = order[: attack.users]
            mine = np.isin(train.user, followed) & train.kept_private
            released, submitted = attack.read(seen.of_users(followed), release, shared)
            truth = train.value[mine]
            errors = mean_errors(np.stack([submitted, released]), truth)
            found.append(np.concatenate([errors, guessed(train, mine)[None]]))
        return np.stack(found)

    def _order(self, train: Ratings) -> NDArray[np.int32]:
        """The users who keep something, in a random order."""
        rng = np.random.default_rng(np.random.SeedSequence([self.context.seed, *b"followed users"]))
        return rng.permutation(np.unique(train.user[train.kept_private])).astype(np.int32)
