"""Of models that are trained: their errors on test ratings, and what is recovered from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor import result as records
from dpaudit.bounds.clusters import student_mean
from dpaudit.bounds.estimate import Estimate
from dpaudit.data.folds import Fold
from dpaudit.errors import DataError
from dpaudit.releases import Streams
from dpaudit.run_trained_errors import Probe, Training, played
from dpaudit.run_trained_scores import Scores, scores_of

Numbers = NDArray[np.float64]

# A model's label and its ε.
Point = tuple[str, float]


@dataclass(frozen=True)
class Utility:
    """Trains models on folds, and reads their errors.

    Attributes:
        folds: the divisions of the data.
        recovering: the attackers who recover sensitive ratings, by label.
        worlds: trainings of each model on each fold.
        seed: decides every stream.
        confidence: of each interval.
        threads: number of threads; the numbers do not depend on it.
        top_k: the length of the lists of models that rank.
        advance: told the number of trainings done.
    """

    folds: Sequence[Fold]
    recovering: dict[str, Any]
    worlds: int
    seed: int
    confidence: float
    threads: int
    top_k: int
    advance: Callable[[int], None]

    def play(
        self, label: str, defenses: Sequence[Any], stage: Callable[[str], None]
    ) -> tuple[list[records.Measurement], dict[Point, Numbers]]:
        """All of one model at every ε.

        Returns:
            What was measured, and at each ε the errors on test ratings by fold `(F, 2)`.
        """
        scores = scores_of(defenses[0], self.top_k)
        kinds = scores.kinds

        def tested() -> Iterator[Training]:
            for defense in defenses:
                stage(f"{label}: ε = {defense.epsilon:g}")
                for number, fold in enumerate(self.folds):
                    yield self._training(scores, defense, fold, number)
                for number, fold in enumerate(self.folds if self.recovering else ()):
                    yield self._without(scores, defense, fold, number)

        found = iter(played(tested(), self.worlds, self.threads, self.advance))
        measurements: list[records.Measurement] = []
        by_fold: dict[Point, Numbers] = {}
        for defense in defenses:
            seen = np.stack([next(found) for _ in self.folds])
            where = {"model": label, "epsilon": defense.epsilon}
            measurements += [
                records.Measurement(
                    metric=f"utility.{kind}",
                    estimate=self._over_folds(seen[:, place]),
                    **where,
                )
                for place, kind in enumerate(kinds)
            ]
            by_fold[label, defense.epsilon] = seen[:, : len(kinds)]
            if self.recovering:
                without = np.stack([next(found) for _ in self.folds])
                measurements += self._recovered(scores, where, seen[:, len(kinds) :], without)
        return measurements, by_fold

    def compared(
        self, by_fold: Mapping[Point, Numbers], against: str | None, kinds: Sequence[str]
    ) -> list[records.Measurement]:
        """By how much the errors are above those of one model, fold by fold: a paired test.

        Args:
            by_fold: the errors of every model at every ε `(F, 2)`.
            against: the model: at the same ε, or at its only one; none for nothing.
            kinds: what the two errors are.
        """
        own = {epsilon: errors for (label, epsilon), errors in by_fold.items() if label == against}
        if not own:
            return []
        return [
            records.Measurement(
                metric="utility.difference",
                model=label,
                epsilon=epsilon,
                attack=against,
                states=kind,
                estimate=self._over_folds((errors - base)[:, place]),
            )
            for (label, epsilon), errors in by_fold.items()
            if label != against and (epsilon in own or len(own) == 1)
            for base in [own.get(epsilon, next(iter(own.values())))]
            for place, kind in enumerate(kinds)
        ]

    def _recovered(
        self, scores: Scores, where: dict[str, Any], seen: Numbers, without: Numbers
    ) -> list[records.Measurement]:
        """The errors of each attacker: of the model, of one without the ratings, of item means."""
        means = np.stack([scores.guessed(fold.train) for fold in self.folds])
        found = []
        for number, label in enumerate(self.recovering):
            columns = slice(2 * number, 2 * number + 2)
            mine, other = seen[:, columns], without[:, columns]
            for place, kind in enumerate(scores.kinds):
                for states, values in (
                    (records.RELEASED, mine),
                    (records.WITHOUT, other),
                    (records.MEANS, means),
                    (records.LEAK, scores.sign * (other - mine)),
                    (records.BEYOND_MEANS, scores.sign * (means - mine)),
                ):
                    found.append(
                        records.Measurement(
                            metric=f"reconstruction.{kind}",
                            attack=label,
                            states=states,
                            estimate=self._over_folds(values[:, place]),
                            **where,
                        )
                    )
        return found

    def _training(self, scores: Scores, defense: Any, fold: Fold, number: int) -> Training:
        probes = [scores.tested(fold), *self._recovering(scores, fold)]
        return Training(defense, fold.train, probes, self._streams(number))

    def _without(self, scores: Scores, defense: Any, fold: Fold, number: int) -> Training:
        """A training that never saw what is sensitive, with the same noise source."""
        shared = fold.train.only(~fold.train.kept_private)
        probes = self._recovering(scores, fold)
        return Training(defense, shared, probes, self._streams(number))

    def _recovering(self, scores: Scores, fold: Fold) -> list[Probe]:
        return [scores.recovered(attack, fold.train) for attack in self.recovering.values()]

    def _streams(self, number: int) -> Streams:
        return Streams.first(self.seed, f"fold/{number}", self.worlds)

    def _over_folds(self, values: Numbers) -> Estimate:
        return over_folds(values.tolist(), self.confidence)


def check_kept(folds: Sequence[Fold], attacks: Iterable[str]) -> None:
    """Refuse to recover what nobody keeps.

    Args:
        folds: the divisions of the data.
        attacks: the labels of the attacks that recover it.

    Raises:
        DataError: a fold's training has no sensitive rating, or no other.
    """
    for label in attacks:
        for fold in folds:
            kept = fold.train.kept_private
            if kept.all() or not kept.any():
                raise DataError(
                    f"[[attack]] {label!r} recovers sensitive ratings from the others, and "
                    f"{int(kept.sum())} of {len(kept)} are sensitive: set data.sensitive"
                )


def over_folds(errors: Sequence[float], confidence: float) -> Estimate:
    """The mean over folds with Student's interval.

    The folds share training data, so their errors are not quite independent, and few of them are no
    proof of a normal law: the interval shows scatter and gates nothing. It stands for itself, not
    together with others.
    """
    return student_mean(errors, 1 - confidence, "folds")
