"""A trained defense of dpaudit as a recommender that a membership game trains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.streams import Streams, stream_key
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import Trained, TrainedDefense
from dpaudit.kernels.lanes import LANES
from dpaudit.recommenders.base import Answer, Indices, Query, RowModel, Scores, Trainable


@dataclass(frozen=True, eq=False)
class _Model(RowModel):
    trained: Trained

    def rows(self, users: Indices) -> Scores:
        items = self.seen.shape[1]
        pairs = np.repeat(users, items), np.tile(np.arange(items, dtype=np.int32), len(users))
        return self.trained.predict(*pairs)[0].reshape(len(users), items)

    def scores(self, users: Indices, items: Indices) -> Scores:
        return self.trained.predict(users, items)[0]


@dataclass(frozen=True)
class DefenseRecommender(Trainable):
    """A trained defense: one trial of its training, with the noise of the training's seed.

    A claim holds between data sets with the same public statistics, such as the means of items. So
    where something is claimed, they are those of all data in every training.

    Attributes:
        defense: the defense.
        ratings: all data, with the rating scale, the friends and the budgets.
    """

    defense: TrainedDefense[Any]
    ratings: Ratings

    @property
    def predicts_ratings(self) -> bool:
        """Whether scores are predicted ratings."""
        return not self.defense.ranks

    def answer(self, interactions: Interactions, seed: int, query: Query) -> Answer:
        """Train on interactions, and show what is asked; see `Trainable.answer`.

        Raises:
            ConfigError: factors are asked.
            RunError: the training diverges.
        """
        self._check(query)
        ratings = interactions.ratings
        if self.defense.trains_subsets():
            whole = np.ones((1, len(ratings)), np.bool_)
            return next(self.answers(ratings, whole, [seed], query))
        prepared = self.defense.prepare(ratings, self._public)
        trained = self.defense.train(prepared, _streams([seed]))
        model = _Model(interactions.matrix, trained)
        return Answer(
            model.scores(query.users, query.items), model.recommend(query.listed, query.k), None
        )

    @property
    def together(self) -> int:
        """The number of models that are trained together."""
        return LANES if self.defense.trains_subsets() else 1

    def answers(
        self, ratings: Ratings, kept: NDArray[np.bool_], seeds: Sequence[int], query: Query
    ) -> Iterator[Answer]:
        """Train on up to `together` subsets; see `Trainable.answers`.

        Raises:
            ConfigError: factors are asked.
            RunError: a training diverges.
        """
        self._check(query)
        if not self.defense.trains_subsets():
            yield from super().answers(ratings, kept, seeds, query)
            return
        models = self.defense.train_subsets(ratings, kept, _streams(seeds), self._public)
        scores = models.predict(query.users, query.items)
        lists = models.recommend(query.listed, query.k)
        for predictions, items in zip(scores, lists, strict=True):
            yield Answer(predictions, items, None)

    def _check(self, query: Query) -> None:
        if query.factors:
            raise ConfigError(f"{self.defense.name} publishes no factors: remove 'factors'")

    @property
    def _public(self) -> Ratings | None:
        return self.ratings if self.defense.claim() else None


def _streams(seeds: Sequence[int]) -> Streams:
    """Return the streams of trainings: one key, and the seed as the trial."""
    return Streams(stream_key(0, "membership"), np.asarray(seeds, np.int64))
