"""Of models that are trained: their errors on test ratings, and what is recovered from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.measures.recovery import Recovery
from dpaudit.auditor.measures.scores import scores_of
from dpaudit.auditor.measures.training_errors import Training, played
from dpaudit.bounds.frequentist.clusters import student_mean
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold
from dpaudit.record import result as records

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
        recovery = Recovery(scores, self.folds, self.recovering, self.seed)
        kinds = scores.kinds

        def tested() -> Iterator[Training]:
            for defense in defenses:
                stage(f"{label}: ε = {defense.epsilon:g}")
                for number, fold in enumerate(self.folds):
                    probes = [scores.tested(fold), *recovery.of_released(fold)]
                    yield Training(defense, fold.train, probes, self._streams(number))
                yield from recovery.trainings(defense, self._streams)

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
            measurements += [
                records.Measurement(
                    metric=f"reconstruction.{each.kind}",
                    attack=each.attack,
                    states=each.states,
                    estimate=self._over_folds(each.by_fold),
                    **where,
                )
                for each in recovery.found(seen[:, len(kinds) :], found)
            ]
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

    def _streams(self, number: int) -> Streams:
        return Streams.first(self.seed, f"fold/{number}", self.worlds)

    def _over_folds(self, values: Numbers) -> Estimate:
        return over_folds(values.tolist(), self.confidence)


def over_folds(errors: Sequence[float], confidence: float) -> Estimate:
    """The mean over folds with Student's interval.

    The folds share training data, so their errors are not quite independent, and few of them are no
    proof of a normal law: the interval shows scatter and gates nothing. It stands for itself, not
    together with others.
    """
    return student_mean(errors, 1 - confidence, "folds")
