"""Reconstruction of sensitive ratings from trained models, and the part of it that is a leak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.trained.errors import Numbers, Probe, Training
from dpaudit.auditor.trained.scores import Scores
from dpaudit.core.errors import DataError
from dpaudit.core.streams import Streams, generator
from dpaudit.data.folds import Fold
from dpaudit.record import result as records


@dataclass(frozen=True)
class Recovered:
    """One score of one attack.

    Attributes:
        attack: the attack's label.
        kind: the kind of score, such as "rmse".
        basis: what the attack reads, or the comparison that the score is a difference of.
        by_fold: the score in each fold `(F,)`.
    """

    attack: str
    kind: str
    basis: str
    by_fold: Numbers


@dataclass(frozen=True)
class Recovery:
    """Attacks that reconstruct sensitive ratings from one model's release and the shared ratings.

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
        seed: seed of the halves.
    """

    scores: Scores
    folds: Sequence[Fold]
    attackers: Mapping[str, Any]
    seed: int

    def of_released(self, fold: Fold) -> list[Probe]:
        """Return the probes of the released model: two numbers per attack."""
        return self._probes(fold, [fold.train.kept_private])

    def trainings(self, defense: Any, streams: Callable[[int], Streams]) -> Iterator[Training]:
        """Yield the trainings of the other models, three per fold; none if there are no attacks.

        Args:
            defense: the defense to train.
            streams: returns the trials of a fold, which are those of the released model.
        """
        for number, fold in enumerate(self.folds if self.attackers else ()):
            train, kept = fold.train, fold.train.kept_private
            halves = self._halves(kept, number)
            own = streams(number)
            words = f"fold {number}, without"
            yield Training(words, defense, train.shared, self.of_released(fold), own)
            for place, half in enumerate(halves):
                words, probes = f"fold {number}, half {place}", self._probes(fold, halves)
                yield Training(words, defense, train.only(~kept | half), probes, own)

    def found(self, released: Numbers, others: Iterator[Numbers]) -> Iterator[Recovered]:
        """Yield the scores of each attack, kind and basis.

        Args:
            released: the numbers from the probes of `of_released` `(F, 2 A)`.
            others: the numbers from the models of `trainings`, in their order.
        """
        if not self.attackers:
            return
        count, kinds = len(self.attackers), len(self.scores.kinds)
        each = [[next(others) for _ in range(3)] for _ in self.folds]
        without = np.stack([one[0] for one in each]).reshape(-1, count, kinds)
        # Axes: fold, half trained on, attack, half reconstructed, kind.
        halves = np.stack([one[1:] for one in each]).reshape(-1, 2, count, 2, kinds)
        unseen, seen = (
            (halves[:, first, :, 0] + halves[:, 1 - first, :, 1]) / 2 for first in (1, 0)
        )
        own = released.reshape(-1, count, kinds)
        means = np.stack([self.scores.guessed(fold.train) for fold in self.folds])[:, None]
        sign = self.scores.sign
        bases = {
            records.RELEASED: own,
            records.WITHOUT: without,
            records.BEYOND_WITHOUT: sign * (without - own),
            records.LEAK: sign * (unseen - seen),
            records.MEANS: np.broadcast_to(means, own.shape),
            records.BEYOND_MEANS: sign * (means - own),
        }
        for place, attack in enumerate(self.attackers):
            for number, kind in enumerate(self.scores.kinds):
                for name, values in bases.items():
                    yield Recovered(attack, kind, name, values[:, place, number])

    def _probes(self, fold: Fold, parts: Sequence[NDArray[np.bool_]]) -> list[Probe]:
        return [
            self.scores.recovered(attack, fold.train, parts) for attack in self.attackers.values()
        ]

    def _halves(self, kept: NDArray[np.bool_], number: int) -> tuple[NDArray[np.bool_], ...]:
        """Split the sensitive ratings of a fold into two random halves, as masks `(R,)`."""
        rng = generator((self.seed, number), "halves")
        rows = rng.permutation(np.flatnonzero(kept))
        first = np.zeros(len(kept), np.bool_)
        first[rows[: len(rows) // 2]] = True
        return first, kept & ~first


def check_kept(folds: Sequence[Fold], attacks: Iterable[str]) -> None:
    """Refuse reconstruction attacks if the data have too few sensitive or shared ratings.

    Args:
        folds: the folds.
        attacks: the labels of the reconstruction attacks.

    Raises:
        DataError: a fold's training set has fewer than two sensitive ratings, or no others.
    """
    for label in attacks:
        for fold in folds:
            kept = fold.train.kept_private
            if 2 <= kept.sum() < len(kept):
                continue
            if fold.train.sensitive is None:
                remedy = "set data.sensitive"
            elif kept.sum() < 2:
                remedy = (
                    "raise data.sensitive.share, name more data.sensitive.categories, or mark more "
                    "in data.columns.sensitive"
                )
            else:
                remedy = (
                    "lower data.sensitive.share, name fewer data.sensitive.categories, or mark "
                    "fewer in data.columns.sensitive"
                )
            raise DataError(
                f"[[attack]] {label!r} recovers sensitive ratings from the others, and "
                f"{int(kept.sum())} of {len(kept)} are sensitive: {remedy}"
            )
