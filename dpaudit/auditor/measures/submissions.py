"""Sensitive ratings that recommenders recover from submissions, as a config asks for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionReconstruction
from dpaudit.auditor.measures.trained_utility import over_folds
from dpaudit.auditor.measures.training_errors import KINDS, guessed, in_threads, mean_errors
from dpaudit.config import schema as configs
from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import SubmittingDefense
from dpaudit.record import result as records

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Reading:
    """Trains models on folds and lets recommenders read what some users submit.

    Attributes:
        folds: the divisions of the data; their training ratings are what is learned from.
        attacks: the attackers, by label.
        worlds: trainings of each model on each fold.
        seed: decides every stream, and who is followed.
        confidence: of each interval.
        threads: number of threads; the numbers do not depend on it.
        advance: told the number of trainings done.
    """

    folds: Sequence[Fold]
    attacks: dict[str, SubmissionReconstruction]
    worlds: int
    seed: int
    confidence: float
    threads: int
    advance: Callable[[int], None]

    def play(self, label: str, defenses: Sequence[Any]) -> list[records.Measurement]:
        """All of one model at every ε.

        Raises:
            RunError: a training diverged.
        """
        if not self.attacks:
            return []
        pieces = (
            partial(self._training, defense, fold.train, world)
            for defense in defenses
            for number, fold in enumerate(self.folds)
            for world in Streams.first(self.seed, f"submissions/{number}", self.worlds).blocks(1)
        )
        played = in_threads(pieces, self.threads, lambda _: self.advance(1))
        # By ε, fold, world, attacker, what it reads, and kind of error.
        found = np.stack(played).reshape(
            len(defenses), len(self.folds), self.worlds, len(self.attacks), 3, len(KINDS)
        )
        return [
            measurement
            for defense, mine in zip(defenses, found, strict=True)
            for number, attack in enumerate(self.attacks)
            for measurement in self._measured(label, defense.epsilon, attack, mine[:, :, number])
        ]

    def _measured(
        self, label: str, epsilon: float, attack: str, errors: Numbers
    ) -> list[records.Measurement]:
        """Of one attacker at one ε, from errors `(folds, worlds, 3, kinds)`."""
        by_fold = np.array([[[math.fsum(e) for e in k] for k in f.T] for f in errors]) / self.worlds
        found = []
        for place, kind in enumerate(KINDS):
            submitted, released, means = by_fold[:, place].T
            for states, values in (
                (records.SUBMITTED, submitted),
                (records.RELEASED, released),
                (records.MEANS, means),
                (records.BEYOND_MEANS, means - submitted),
                (records.BEYOND_RELEASED, released - submitted),
            ):
                found.append(
                    records.Measurement(
                        metric=f"submissions.{kind}",
                        model=label,
                        epsilon=epsilon,
                        attack=attack,
                        states=states,
                        estimate=over_folds(values.tolist(), self.confidence),
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
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, *b"followed users"]))
        return rng.permutation(np.unique(train.user[train.kept_private])).astype(np.int32)


def check_reading(config: configs.Config) -> None:
    """Refuse to read submissions where there are none to see, or too few rounds of them.

    Raises:
        ConfigError: with the model and the remedy.
    """
    for attack in config.reading:
        made = attack.create("attack")
        for model in config.model:
            for defense in model.defenses("model"):
                if not isinstance(defense, SubmittingDefense):
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} reads what users submit to a recommender, "
                        f"and those of model {model.label!r} ({defense.name}) submit nothing that "
                        "it reads: remove it, or audit 'privsr'"
                    )
                try:
                    defense.check_submissions()
                    made.check_rounds(defense.rounds)
                except ConfigError as error:
                    raise ConfigError(
                        f"[[attack]] {attack.label!r} on model {model.label!r}: {error}"
                    ) from error
