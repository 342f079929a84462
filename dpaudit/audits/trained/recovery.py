"""Reconstruction of sensitive ratings, from trained models and from what users submit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import SubmissionReconstruction
from dpaudit.auditor import measure
from dpaudit.auditor.measure import Measure, MetricKey, RecordPart
from dpaudit.auditor.trainings import attempted, diverged
from dpaudit.audits.trained import subject as trained
from dpaudit.audits.trained.config import TrainedConfig
from dpaudit.audits.trained.subject import Numbers, Probe, ProbedTraining, Scores, TrainedModel
from dpaudit.core.streams import Streams, generator
from dpaudit.data.folds import Fold
from dpaudit.data.ratings import Ratings
from dpaudit.execution.tasks import Task
from dpaudit.record import bases
from dpaudit.record.result import Measurement

_METRICS: tuple[str, ...] = ("submissions.rmse", "submissions.mae")


@dataclass(frozen=True)
class Recovery:
    """Attacks that reconstruct sensitive ratings from one model's release and the shared ratings.

    **Intervals.** The sample are trials: each has one training on every fold, and the trainings of
    another trial are independent of it given the data, since each has noise of its own. Ratings of
    one user, and folds that share training data, are not independent, so no interval samples these.
    In each training a score is bounded: guesses are on the rating scale, so each errs by at most
    its distance from the farther end; shares are in [0, 1]; a difference of two such scores is in
    [−m, m]. That is all that `joint_mean` needs. Its interval is about the expected
    score of a training on these data, folds and halves, not about other users.

    A model reveals much about ratings that it was not trained on. The released model is therefore
    compared with two kinds of others, trained in the same way. One is trained on **none** of the
    sensitive ratings. The advantage of the attack on the released model over this one includes
    every effect of the sensitive ratings, also that of one rating on the reconstruction of another.
    The others are trained on one random **half** of the sensitive ratings each, so they have the
    same number of ratings and the same noise. How much worse the attack does on the half that a
    model was not trained on is what a rating reveals about itself by being trained on: the
    **leak**. (What a user's ratings reveal about each other is not included.) As both halves have
    the same distribution, the leak has mean 0 if a model reveals no more about its training ratings
    than about the others. It is negative if a rating that is trained on receives more noise.

    Attributes:
        scores: the scores of models and attacks.
        folds: the folds.
        attackers: the attacks by label.
        config: says which scores gates judge, and has the seed of the halves.
    """

    scores: Scores
    folds: Sequence[Fold]
    attackers: Mapping[str, Any]
    config: TrainedConfig

    @property
    def count(self) -> int:
        """The number of `trainings` of a defense."""
        return 3 * len(self.folds) if self.attackers else 0

    def of_released(self, fold: Fold) -> list[Probe]:
        """Return the probes of the released model: numbers per attack."""
        return self._probes(fold, [fold.train.kept_private])

    def trainings(
        self, defense: Any, streams: Callable[[int], Streams]
    ) -> Iterator[ProbedTraining]:
        """Yield the trainings of the other models, three per fold; none if there are no attacks.

        Args:
            defense: the defense to train.
            streams: returns the trials of a fold, which are those of the released model.
        """
        for number, fold in enumerate(self.folds if self.attackers else ()):
            train, kept = fold.train, fold.train.kept_private
            halves = self._halves(kept, number)
            trials = streams(number)
            words = f"fold {number}, without"
            yield ProbedTraining(words, defense, train.shared, self.of_released(fold), trials)
            for index, half in enumerate(halves):
                words, probes = f"fold {number}, half {index}", self._probes(fold, halves)
                yield ProbedTraining(words, defense, train.only(~kept | half), probes, trials)

    def recoveries(
        self, point: tuple[str, float], released: Numbers, compared: Iterator[Numbers]
    ) -> Iterator[tuple[MetricKey, Numbers, float, float]]:
        """Yield the scores of each attack, kind and basis, with their least and largest values.

        Each has its key, and is in each trial on each fold `(W, F)`.

        Args:
            point: the model's label, and the ε.
            released: the numbers from the probes of `of_released`, k of each attack `(W, F, k A)`.
            compared: the numbers from the models of `trainings`, in their order, `(W, …)` each.
        """
        if not self.attackers:
            return
        count, kinds = len(self.attackers), (*self.scores.kinds, *self.scores.recovery_kinds)
        shape = (*released.shape[:2], count, len(kinds))
        by_fold = [[next(compared) for _ in range(3)] for _ in self.folds]
        without, *of_halves = (np.stack(models, axis=1) for models in zip(*by_fold, strict=True))
        without = without.reshape(shape)
        # Axes: half trained on, trial, fold, attack, half reconstructed, kind.
        halves = np.stack(of_halves).reshape(2, *shape[:3], 2, len(kinds))
        unseen, seen = (
            (halves[first, ..., 0, :] + halves[1 - first, ..., 1, :]) / 2 for first in (1, 0)
        )
        scores = released.reshape(shape)
        means = np.stack([self.scores.guessed(fold.train) for fold in self.folds])[:, None]
        most = self._most()
        sign = self.scores.sign
        numbers = {
            bases.RELEASED: scores,
            bases.WITHOUT: without,
            bases.BEYOND_WITHOUT: sign * (without - scores),
            bases.LEAK: sign * (unseen - seen),
            bases.MEANS: np.broadcast_to(means, scores.shape),
            bases.BEYOND_MEANS: sign * (means - scores),
        }
        for index, attack in enumerate(self.attackers):
            for number, kind in enumerate(kinds):
                for basis, values in numbers.items():
                    if kind != "accuracy":
                        metric = measure.metric_of("reconstruction", kind)
                        key = recovery_key(self.config, metric, *point, attack, basis)
                    elif basis == bases.RELEASED and measure.gated(self.config, "attack.accuracy"):
                        key = MetricKey("attack.accuracy", *point, attack=attack)
                    else:
                        continue
                    largest = float(most[number])
                    least = -largest if basis in bases.GAINS else 0.0
                    yield key, values[:, :, index, number], least, largest

    def _most(self) -> Numbers:
        """Return the largest possible value of each score on any part of any fold `(k,)`."""
        largest = [
            self.scores.recoverable(fold.train, part)
            for number, fold in enumerate(self.folds)
            for kept in [fold.train.kept_private]
            for part in (kept, *self._halves(kept, number))
        ]
        return np.max(largest, axis=0)

    def _probes(self, fold: Fold, parts: Sequence[NDArray[np.bool_]]) -> list[Probe]:
        return [
            self.scores.recovered(attack, fold.train, parts) for attack in self.attackers.values()
        ]

    def _halves(self, kept: NDArray[np.bool_], number: int) -> tuple[NDArray[np.bool_], ...]:
        """Split the sensitive ratings of a fold into two random halves, as masks `(R,)`."""
        rng = generator((self.config.seed, number), "halves")
        rows = rng.permutation(np.flatnonzero(kept))
        first = np.zeros(len(kept), np.bool_)
        first[rows[: len(rows) // 2]] = True
        return first, kept & ~first


def recovery_key(
    config: TrainedConfig,
    metric: str,
    model: str,
    epsilon: float,
    attack: str,
    basis: str | None = None,
) -> MetricKey:
    """Return the key of an attack's score on one basis, which is joint if a gate judges it.

    Args:
        config: the config.
        metric: the metric.
        model: the model's label.
        epsilon: the ε.
        attack: the attack's label.
        basis: the basis; None for all that no gate judges.
    """
    joint = basis in measure.judged_bases(config, metric)
    return MetricKey(metric, model, epsilon, attack=attack, basis=basis, joint=joint)


def recovery_keys(
    config: TrainedConfig, metric: str, model: str, epsilon: float, attack: str
) -> Iterator[MetricKey]:
    """Yield the key of each basis that a gate judges, and one for all others."""
    for basis in (*sorted(measure.judged_bases(config, metric)), None):
        yield recovery_key(config, metric, model, epsilon, attack, basis)


class SubmissionRecovery(Measure[TrainedConfig, TrainedModel]):
    """`submissions.rmse` and `….mae`: errors of ratings reconstructed from users' submissions."""

    def __init__(self, subject: trained.TrainedModels[Any]) -> None:
        """Create the attacks."""
        self.context, self.folds = subject.context, subject.folds
        self.trials = subject.context.config.training.trials
        self.attacks: dict[str, SubmissionReconstruction] = {
            attack.label: attack.create("attack") for attack in subject.context.config.reading
        }

    @classmethod
    def plan(cls, config: TrainedConfig) -> Iterator[MetricKey]:
        """Yield both errors per attack and point."""
        for model, epsilon in measure.points(config):
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
            for work in [partial(_submission_errors, defense, fold.train, self.attacks, seed)]
            for trial in Streams.first(seed, f"submissions/{number}", self.trials).blocks(1)
        )
        finished = executor.run(tasks)
        # Axes: ε, fold, trial, attack, its input (submissions, released model, means), error kind.
        errors = np.stack(finished).reshape(
            len(model.defenses), len(self.folds), self.trials, len(self.attacks), 3, len(_METRICS)
        )
        for defense, here in zip(model.defenses, errors, strict=True):
            where = model.label, defense.epsilon
            lost = int((~np.isfinite(here)).any((2, 3, 4)).sum())
            yield from diverged(lost, here[..., 0, 0, 0].size, "submissions", *where, _METRICS)
            for number, attack in enumerate(() if lost else self.attacks):
                yield from self._measured(*where, attack, here[:, :, number])

    def _measured(
        self, label: str, epsilon: float, attack: str, errors: Numbers
    ) -> Iterator[Measurement]:
        """Measure one attack at one ε, from its errors `(folds, trials, 3, kinds)`.

        Errors that a gate judges have the interval of `Recovery`: the sample are
        the trials, and no guess on the rating scale errs by more than its width.
        """
        family, most = self.context.family, self.folds[0].train.scale.width
        config = self.context.config
        for column, metric in enumerate(_METRICS):
            submitted, released, means = np.moveaxis(errors[..., column], 2, 0)
            by_basis = {
                bases.SUBMITTED: submitted,
                bases.RELEASED: released,
                bases.MEANS: means,
                bases.BEYOND_MEANS: means - submitted,
                bases.BEYOND_RELEASED: released - submitted,
            }
            for basis, values in by_basis.items():
                key = recovery_key(config, metric, label, epsilon, attack, basis)
                least = -most if basis in bases.GAINS else 0.0
                yield trained.mean_measured(key, values.T, least, most, family)


def _submission_errors(
    defense: Any,
    train: Ratings,
    attacks: Mapping[str, SubmissionReconstruction],
    seed: int,
    trial: Streams,
) -> Numbers:
    """Read the submissions of one training with every attack; return `(attacks, 3, kinds)`.

    The errors are NaN if the training ends without a model.

    Args:
        defense: the recommender.
        train: the training ratings.
        attacks: the attacks, by label.
        seed: seed of the choice of users.
        trial: the training.
    """
    # The users with sensitive ratings, in a random order.
    private = np.unique(train.user[train.kept_private])
    order = generator(seed, "followed users").permutation(private).astype(np.int32)
    observed = np.zeros(train.n_users, np.bool_)
    observed[order[: max(attack.users for attack in attacks.values())]] = True

    def errors() -> Numbers:
        submissions, models = defense.submissions(defense.prepare(train), trial, observed)
        release = models.public(np.arange(train.n_items, dtype=np.int32))
        shared, by_attack = train.shared, []
        for attack in attacks.values():
            followed = order[: attack.users]
            hidden = np.isin(train.user, followed) & train.kept_private
            released, submitted = attack.read(submissions.of_users(followed), release, shared)
            guesses = np.clip([submitted, released], train.scale.minimum, train.scale.maximum)
            means = trained.guessed(train, hidden)[None, : len(trained.KINDS)]
            mistaken = trained.mean_errors(guesses, train.value[hidden])
            by_attack.append(np.concatenate([mistaken, means]))
        return np.stack(by_attack)

    return attempted(errors, np.full((len(attacks), 3, len(trained.KINDS)), np.nan))
