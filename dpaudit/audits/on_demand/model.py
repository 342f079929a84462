"""One model of a config at all its values of ε, with the data that these share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dpaudit.auditor.records import model_record, point_record
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.draws import eligible
from dpaudit.config.model import Model
from dpaudit.core.errors import DataError
from dpaudit.core.user_profile import Profile
from dpaudit.data.folds import split_users
from dpaudit.data.ratings import Ratings
from dpaudit.defenses.base import ListDefense, OnDemandDefense, PredictionDefense
from dpaudit.defenses.item_model import ItemModel
from dpaudit.record.result import ModelRecord, PointRecord


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
        users = eligible(self.attacked, least, most)
        if not users:
            raise DataError(
                f"none of the {len(self.attacked)} attacked users has {least} to {most} ratings "
                f"(min_ratings, and top_k unrated items): lower params.min_ratings or "
                f"params.top_k of model {self.model.label!r}, or use more data"
            )
        return users
