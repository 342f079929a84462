"""One training of a membership game: train, ask, and keep the features that attacks read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.attacks.membership import interactions, users
from dpaudit.attacks.membership.known import Numbers, Shown, gain
from dpaudit.auditor.membership.design import Design
from dpaudit.core.membership import Observer, Unit
from dpaudit.recommenders.base import Answer, Query, Trainable
from dpaudit.recommenders.checks import checked

Packed = NDArray[np.float64]


class Utility(NamedTuple):
    """How good one trained model is on the held-out interactions.

    Attributes:
        ndcg: normalised discounted cumulative gain of the lists, mean over users; NaN without
            lists.
        recall: share of a user's held-out items that the list shows, mean over users; likewise.
        rmse: root mean squared error of predicted ratings; NaN if scores are no ratings.
    """

    ndcg: float
    recall: float
    rmse: float


@dataclass(frozen=True, eq=False)
class Training:
    """The work of one training; a pure function of its index.

    Attributes:
        trainable: what is trained.
        design: targets, coins and questions.
        blocks: the features to keep: unit and observer.
    """

    trainable: Trainable
    design: Design
    blocks: Sequence[tuple[Unit, Observer]]

    def __call__(self, index: int) -> Packed:
        """Train with the coins of this index; return the packed features and the utility."""
        found: Packed = self.together((index,))[0]
        return found

    def together(self, part: tuple[int, ...]) -> Packed:
        """Return what a call with each index returns `(n, L)`."""
        design, query = self.design, self._query
        kept = np.stack([design.kept(index) for index in part])
        seeds = [design.training_seed(index) for index in part]
        shape = design.ratings.n_users, design.ratings.n_items
        answers = self.trainable.answers(design.ratings, kept, seeds, query)
        return np.stack([self._packed(checked(answer, query, shape)) for answer in answers])

    def parts(self, trainings: int) -> list[tuple[int, ...]]:
        """Return the indices of trainings in the blocks that are trained together.

        With more trainings there are more blocks, and only the last one may grow.
        """
        size = self.trainable.together
        return [
            tuple(range(start, min(start + size, trainings))) for start in range(0, trainings, size)
        ]

    def _packed(self, answer: Answer) -> Packed:
        shown = Shown(
            answer.scores,
            answer.lists,
            answer.factors.items if answer.factors else np.empty((0, 0), np.float32),
        )
        made = [self._features(shown, unit, observer) for unit, observer in self.blocks]
        return packed([*made, np.array([self._utility(answer)])])

    def answer(self, data: csr_array, seed: int) -> Answer:
        """Train on data, and return what the model shows, checked.

        Raises:
            RunError: the training fails, or what it shows cannot be used.
        """
        query = self._query
        return checked(self.trainable.answer(data, seed, query), query, data.shape)

    @property
    def _query(self) -> Query:
        """Ask for what observers see, and for what measures utility if it is shown."""
        asked, none = self.design.query, np.empty(0, np.int32)
        seen = {observer for _, observer in self.blocks}
        omitted = self.trainable.leaves_out
        pairs = "scores" in seen or "scores" not in omitted
        listed = bool(seen & {"own-list", "others-lists"}) or "lists" not in omitted
        return Query(
            asked.users if pairs else none,
            asked.items if pairs else none,
            asked.listed if listed else none,
            asked.k,
            "factors" in seen,
        )

    def _features(self, shown: Shown, unit: Unit, observer: Observer) -> Numbers:
        design = self.design
        if unit == "user":
            return users.FEATURES[observer](shown, design.knowledge, design.tested_users)
        rated = self.trainable.predicts_ratings
        return interactions.FEATURES[observer](shown, design.knowledge, design.tested, rated)

    def _utility(self, answer: Answer) -> Utility:
        design = self.design
        held = slice(len(design.rows), len(design.tested.users))
        owners, items = design.tested.users[held], design.tested.items[held]
        rmse = float("nan")
        if self.trainable.predicts_ratings and len(answer.scores):
            error = answer.scores[held].astype(np.float64) - design.tested.values[held]
            known = error[~np.isnan(error)]
            rmse = float(np.sqrt(np.mean(known**2))) if len(known) else rmse
        if not len(answer.lists):
            return Utility(float("nan"), float("nan"), rmse)
        lists = answer.lists[np.searchsorted(design.listed, owners)]
        hit = lists == items[:, None]
        gains = (hit * gain(design.k)).sum(1)
        user = np.unique(owners, return_inverse=True)[1]
        size = np.bincount(user)
        best = np.cumsum(gain(design.k))[np.minimum(size, design.k) - 1]
        ndcg = np.bincount(user, gains) / best
        recall = np.bincount(user, hit.any(1)) / size
        return Utility(float(ndcg.mean()), float(recall.mean()), rmse)


def packed(blocks: Sequence[Numbers]) -> Packed:
    """Return matrices as one vector that `unpacked` reads: their shapes, then their numbers."""
    shapes = np.array([block.shape for block in blocks], np.float64).reshape(-1)
    return np.concatenate((shapes, *(block.reshape(-1) for block in blocks)))


def unpacked(found: Packed, count: int) -> list[Numbers]:
    """Return the `count` matrices of a packed vector."""
    shapes = found[: 2 * count].reshape(count, 2).astype(int)
    ends = np.cumsum(shapes.prod(1))
    parts = np.split(found[2 * count :], ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
