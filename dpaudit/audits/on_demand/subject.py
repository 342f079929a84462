"""The subject of recommenders that serve on demand: models, with the data that these share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

from dpaudit.auditor.measure import (
    Context,
    Subject,
    attack_record,
    data_record,
    model_record,
    point_record,
)
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.config.gate import check_rated
from dpaudit.config.model import Model
from dpaudit.core.errors import DataError
from dpaudit.core.releases import Profile
from dpaudit.data.folds import split_users
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import ItemModel, ListDefense, OnDemandDefense, PredictionDefense
from dpaudit.record.result import DataRecord, ModelRecord, PointRecord

T = TypeVar("T", bound=OnDemandConfig)


@dataclass(frozen=True)
class OnDemandModels(Subject[T]):
    """Recommenders that serve on demand.

    Attributes:
        context: inputs that the measures share.
        ratings: the data.
        served: the models, which share the split of the users.
    """

    context: Context[T]
    ratings: Ratings
    served: list[OnDemandModel]

    @classmethod
    def of(cls, context: Context[T], ratings: Ratings | None) -> Self:
        """Split the users into those trained on and those attacked.

        Raises:
            ConfigError: a gate judges errors of ratings, and the data are purchases.
        """
        if ratings is None:
            raise TypeError("recommenders need ratings")
        check_rated(context.config.gate, ratings.scale)
        return cls(context, ratings, OnDemandModel.of(context.config, ratings))

    def trials(self) -> int:
        """Return the number of trials, but for those of controls."""
        config = self.context.config
        rated = [model for model in self.served if model.has_rmse]
        blocks = len(self.served) * (len(config.attack) + 1) + len(rated)
        at_each_point = sum(2 * game.trials for game in config.game)
        points = sum(len(model.defenses) for model in self.served)
        return blocks * config.audit.trials + points * at_each_point

    def models(self) -> Iterator[OnDemandModel]:
        """Iterate over the models."""
        return iter(self.served)

    def data(self) -> DataRecord:
        """Record the sizes of the data and the number of attacked users."""
        first = self.served[0]
        return data_record(self.ratings, first.train, attacked=len(first.attacked))

    @cached_property
    def inferring(self) -> dict[str, Any]:
        """The attacks on hidden ratings, by label."""
        return {attack.label: attack.create("attack") for attack in self.context.config.attack}

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the records of the attacks on hidden ratings, by label."""
        return {
            attack.label: {**attack_record(self.inferring[attack.label]), **attack.settings}
            for attack in self.context.config.attack
        }


@dataclass(frozen=True)
class OnDemandModel:
    """One model of a config at all its values of ε, with the data that these share.

    Attributes:
        model: the model of the config.
        train: the ratings from which the similarity is built.
        attacked: the profiles of the attacked users.
    """

    model: Model
    train: Ratings
    attacked: Sequence[Profile]

    @classmethod
    def of(cls, config: OnDemandConfig, ratings: Ratings) -> list[OnDemandModel]:
        """Make all models, which share one split of the users."""
        train, attacked = split_users(ratings, config.split.test_share, config.seed)
        return [cls(model, train, attacked) for model in config.model]

    @property
    def label(self) -> str:
        """The model's label."""
        return self.model.label

    def record(self) -> ModelRecord:
        """Return the part of the model's record that is the same at every ε."""
        return model_record(self.label, self.defenses[0])

    def points(self) -> list[PointRecord]:
        """Return the model's record at each ε."""
        return [point_record(self.label, defense, self.train.scale) for defense in self.defenses]

    @cached_property
    def defenses(self) -> list[OnDemandDefense]:
        """The recommender at each ε."""
        return self.model.defenses("model")

    @cached_property
    def predicting(self) -> list[PredictionDefense]:
        """The recommender at each ε if it shows predictions, else an empty list."""
        return [defense for defense in self.defenses if isinstance(defense, PredictionDefense)]

    @property
    def attackable(self) -> list[PredictionDefense | ListDefense]:
        """The recommender at each ε, whose predictions or lists an attack reads."""
        return [
            defense
            for defense in self.defenses
            if isinstance(defense, PredictionDefense | ListDefense)
        ]

    @cached_property
    def chains(self) -> list[ListDefense]:
        """The recommender at each ε if it walks a published Markov chain, else an empty list."""
        lists = [defense for defense in self.defenses if isinstance(defense, ListDefense)]
        return [defense for defense in lists if defense.walks_chain()]

    @property
    def has_rmse(self) -> bool:
        """Whether ratings are predicted, rather than lists or purchases."""
        return bool(self.predicting) and self.train.scale.width > 0

    @cached_property
    def prepared(self) -> ItemModel:
        """The statistics of the data, which are the same at every ε."""
        return self.defenses[0].prepare(self.train)

    def users(self, extra: int = 0) -> list[Profile]:
        """Select the attacked users with enough ratings and enough unrated items.

        Args:
            extra: ratings needed beyond `min_ratings`.

        Raises:
            DataError: no attacked user qualifies, or there are too few items.
        """
        defense = self.defenses[0]
        least, most = defense.min_ratings + extra, self.train.n_items - defense.top_k - 1
        if most < least:
            raise DataError(
                f"the data have {self.train.n_items} items, too few for params.min_ratings = "
                f"{defense.min_ratings} and params.top_k = {defense.top_k} of model "
                f"{self.model.label!r}: lower one of them"
            )
        users = [profile for profile in self.attacked if least <= len(profile) <= most]
        if not users:
            raise DataError(
                f"none of the {len(self.attacked)} attacked users has {least} to {most} ratings "
                f"(min_ratings, and top_k unrated items): lower params.min_ratings or "
                f"params.top_k of model {self.model.label!r}, or use more data"
            )
        return users
