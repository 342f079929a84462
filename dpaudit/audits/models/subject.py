"""The models that people bring, and trained defenses of dpaudit, as audits train them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dpaudit.auditor.measure import model_record, point_record
from dpaudit.audits.deletion.config import forgetting, recorded, traits_of
from dpaudit.audits.models.config import OwnRecommender
from dpaudit.config.model import Model
from dpaudit.core.claim import Claim
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import Observer
from dpaudit.core.streams import Streams, stream_key
from dpaudit.data.interactions import Interactions
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import Trained, TrainedDefense
from dpaudit.kernels.lanes import LANES
from dpaudit.recommenders.base import Answer, Query, Recommender, RowModel, Scores, Trainable
from dpaudit.record.result import ClaimRecord, ModelRecord, PointRecord


@dataclass(frozen=True, eq=False)
class _Model(RowModel):
    trained: Trained

    def rows(self, users: NDArray[np.int32]) -> Scores:
        items = self.seen.shape[1]
        pairs = np.repeat(users, items), np.tile(np.arange(items, dtype=np.int32), len(users))
        return self.trained.predict(*pairs)[0].reshape(len(users), items)

    def scores(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> Scores:
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
        scores = model.scores(query.users, query.items)
        return Answer(scores, model.recommend(query.listed, query.k), None)

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


@dataclass(frozen=True)
class MemberPoint:
    """A model at one ε.

    Attributes:
        epsilon: the ε of the sweep, or the stated one; infinite without a claim.
        trainable: what is trained.
        claim: the guarantee, if any.
        words: what identifies its trainings besides tables of the config.
        tables: the tables of the config that its trainings read, of those that it may repeat.
    """

    epsilon: float
    trainable: Trainable
    claim: Claim | None
    words: str = ""
    tables: tuple[OwnRecommender, ...] = ()

    @property
    def traits(self) -> dict[str, str]:
        """The traits of the model that decide which gates judge it, by name."""
        return traits_of(self.trainable)


@dataclass(frozen=True)
class MemberModel:
    """One model of a membership audit.

    Attributes:
        table: its table of the config.
        defenses: the model at each ε.
        observers: who observes it.
        scale: the rating scale.
        k: the length of lists.
        saved: digests of the judged models that are kept, by the names of their folders; filled
            when they are measured.
    """

    table: OwnRecommender | Model
    defenses: Sequence[MemberPoint]
    observers: Sequence[Observer]
    scale: Scale
    k: int
    saved: dict[str, str] = field(default_factory=dict)

    @property
    def saves(self) -> Path | None:
        """The folder in which trained models are kept, if any."""
        return self.table.saves if isinstance(self.table, OwnRecommender) else None

    @property
    def label(self) -> str:
        """The model's label."""
        return self.table.label

    def stage(self, point: MemberPoint) -> str:
        """Name the trainings at one ε; a stated ε trains nothing."""
        swept = f" at ε = {point.epsilon:g}" if isinstance(self.table, Model) else ""
        return f"{self.label}: trainings{swept}"

    def record(self) -> ModelRecord:
        """Record the recommender with its parameters."""
        further, trainable = recorded(self.defenses[0].trainable)
        if isinstance(trainable, DefenseRecommender):
            return model_record(self.label, trainable.defense).model_copy(update={"top_k": self.k})
        if isinstance(trainable, Recommender):
            words = (trainable.name, trainable.title, trainable.source)
            params = asdict(trainable)  # type: ignore[call-overload]
        else:
            named = isinstance(self.table, OwnRecommender) and self.table.runs_code
            words = ("own code", str(named or type(trainable).__name__), "the user's own")
            params = {} if isinstance(self.table, Model) else self.table.params
        return ModelRecord(
            **dict(zip(("defense", "title", "source"), words, strict=True)),
            label=self.label,
            variant="own",
            params={**params, **further},
            top_k=self.k,
            saved=self.saved,
        )

    def points(self) -> list[PointRecord]:
        """Record the model at each ε."""
        return [
            point_record(self.label, point.trainable.defense, self.scale)
            if isinstance(point.trainable, DefenseRecommender)
            else PointRecord(
                model=self.label,
                epsilon=point.epsilon,
                sensitivity=None,
                noise_scale=None,
                claim=point.claim and ClaimRecord(**asdict(point.claim)),
                **point.traits,
            )
            for point in self.defenses
        ]


def points_of(
    model: OwnRecommender | Model, ratings: Ratings, targets: csr_array | None = None
) -> list[MemberPoint]:
    """Return a model at each ε.

    Args:
        model: its table of the config.
        ratings: all data.
        targets: users × items, nonzero for what models are told to forget; None for nothing.
    """
    if isinstance(model, OwnRecommender):
        claim = model.claim.claim() if model.claim else None
        recommender = forgetting(model.create("recommender"), model, targets)
        return [MemberPoint(model.epsilon[0], recommender, claim, model.state, (model,))]
    defenses: list[TrainedDefense[Any]] = model.defenses("model")
    return [
        MemberPoint(d.epsilon, DefenseRecommender(d, ratings), d.claim(), f"{model.defense}: {d!r}")
        for d in defenses
    ]
