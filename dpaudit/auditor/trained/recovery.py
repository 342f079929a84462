"""What is recovered of sensitive ratings from models that are trained, and what of it is a leak."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.trained.errors import Numbers, Probe, Training
from dpaudit.auditor.trained.scores import Scores
from dpaudit.core.errors import DataError
from dpaudit.core.streams import Streams
from dpaudit.data.folds import Fold
from dpaudit.record import result as records


@dataclass(frozen=True)
class Recovered:
    """How well one attacker does.

    Attributes:
        attack: who.
        kind: what is measured.
        basis: from what, or how much better than from what else.
        by_fold: in each fold `(F,)`.
    """

    attack: str
    kind: str
    basis: str
    by_fold: Numbers


@dataclass(frozen=True)
class Recovery:
    """Attackers of one model, who recover sensitive ratings from its release and what is shared.

    A model tells much about ratings that it never saw. Beside the released model stand two kinds of
    others, trained in the same way. One learned from **none** of the sensitive ratings: how much
    better the attack on the released model is holds all that these do for it, one rating for
    another's too. The others learned from one **half** of the sensitive ratings each, drawn at
    random. They have as many ratings and as much noise; by how much the attack does worse on the
    half that a model did not see is what a rating gives away of itself by being learned from, the
    leak. (What a user's ratings give away of one another is no part of it.) Its mean is 0 where a
    model tells no more of what it learned from than of the rest, both halves being of one law, and
    the noise is no larger for a rating that is there; below 0 where it is.

    Attributes:
        scores: what is read off models.
        folds: the divisions of the data.
        attackers: by label.
        seed: decides the halves.
    """

    scores: Scores
    folds: Sequence[Fold]
    attackers: Mapping[str, Any]
    seed: int

    def of_released(self, fold: Fold) -> list[Probe]:
        """What is read off the released model: two numbers for each attacker."""
        return self._probes(fold, [fold.train.kept_private])

    def trainings(self, defense: Any, streams: Callable[[int], Streams]) -> Iterator[Training]:
        """The other models, three for each fold; none without attackers.

        Args:
            defense: what is trained.
            streams: the worlds of a fold, which are those of the released model.
        """
        for number, fold in enumerate(self.folds if self.attackers else ()):
            train, kept = fold.train, fold.train.kept_private
            halves = self._halves(kept, number)
            yield Training(defense, train.shared, self.of_released(fold), streams(number))
            for half in halves:
                probes = self._probes(fold, halves)
                yield Training(defense, train.only(~kept | half), probes, streams(number))

    def found(self, released: Numbers, others: Iterator[Numbers]) -> Iterator[Recovered]:
        """What was found, of each attacker, kind and state.

        Args:
            released: what `of_released` read off the released models `(F, 2 A)`.
            others: what was read off those of `trainings`, in their order.
        """
        if not self.attackers:
            return
        count, kinds = len(self.attackers), len(self.scores.kinds)
        each = [[next(others) for _ in range(3)] for _ in self.folds]
        without = np.stack([one[0] for one in each]).reshape(-1, count, kinds)
        # Fold, half that was learned from, attacker, half that is recovered, kind.
        halves = np.stack([one[1:] for one in each]).reshape(-1, 2, count, 2, kinds)
        unseen, seen = (
            (halves[:, first, :, 0] + halves[:, 1 - first, :, 1]) / 2 for first in (1, 0)
        )
        mine = released.reshape(-1, count, kinds)
        means = np.stack([self.scores.guessed(fold.train) for fold in self.folds])[:, None]
        sign = self.scores.sign
        bases = {
            records.RELEASED: mine,
            records.WITHOUT: without,
            records.BEYOND_WITHOUT: sign * (without - mine),
            records.LEAK: sign * (unseen - seen),
            records.MEANS: np.broadcast_to(means, mine.shape),
            records.BEYOND_MEANS: sign * (means - mine),
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
        """The sensitive ratings of a fold in two random halves, each `(R,)`."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, number, *b"halves"]))
        rows = rng.permutation(np.flatnonzero(kept))
        first = np.zeros(len(kept), np.bool_)
        first[rows[: len(rows) // 2]] = True
        return first, kept & ~first


def check_kept(folds: Sequence[Fold], attacks: Iterable[str]) -> None:
    """Refuse to recover what nobody keeps.

    Args:
        folds: the divisions of the data.
        attacks: the labels of the attacks that recover it.

    Raises:
        DataError: a fold's training has fewer than two sensitive ratings, or no other.
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
