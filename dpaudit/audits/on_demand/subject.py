"""The subject of recommenders that serve on demand, with the data that their measures share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, TypeVar

from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.records import attack_record, data_record
from dpaudit.audits.on_demand.config import OnDemandConfig
from dpaudit.audits.on_demand.model import OnDemandModel
from dpaudit.config.compatibility.gates import check_rated
from dpaudit.data.ratings import Ratings
from dpaudit.record.result import DataRecord

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

    @property
    def _first(self) -> OnDemandModel:
        return self.served[0]

    def data(self) -> DataRecord:
        """Record the sizes of the data and the number of attacked users."""
        return data_record(self.ratings, self._first.train, attacked=len(self._first.attacked))

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
