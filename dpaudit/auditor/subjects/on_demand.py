"""Recommenders that serve on demand, with the data that their measures share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.describe import attack_record, data_record
from dpaudit.auditor.sweep import Sweep
from dpaudit.data.ratings import Ratings
from dpaudit.record.result import DataRecord


@dataclass(frozen=True)
class OnDemandModels(Subject):
    """Recommenders that serve on demand.

    Attributes:
        context: what the measures share.
        ratings: the data.
        sweeps: the models, which share the split of the users.
    """

    context: Context
    ratings: Ratings
    sweeps: list[Sweep]

    @classmethod
    def of(cls, context: Context, ratings: Ratings | None) -> Self:
        """Split the users."""
        if ratings is None:
            raise TypeError("recommenders need ratings")
        return cls(context, ratings, Sweep.of(context.config, ratings))

    def trials(self) -> int:
        """Those of attacks, utility and campaigns."""
        config = self.context.config
        rated = [sweep for sweep in self.sweeps if sweep.has_rmse]
        each = len(self.sweeps) * (len(config.attack) + 1) + len(rated)
        campaigns = sum(campaign.trials for campaign in config.campaign)
        attacked = sum(len(sweep.defenses) for sweep in self.sweeps)
        return each * config.audit.trials + attacked * campaigns

    def models(self) -> Iterator[Sweep]:
        """The sweeps."""
        return iter(self.sweeps)

    @property
    def _first(self) -> Sweep:
        return self.sweeps[0]

    def data(self) -> DataRecord:
        """The ratings, and how many users are attacked."""
        return data_record(self.ratings, self._first.train, attacked=len(self._first.attacked))

    def settings(self) -> dict[str, Any]:
        """All but `[defense]`."""
        return self.context.config.model_dump(mode="json", exclude={"defense"})

    @cached_property
    def inferring(self) -> dict[str, Any]:
        """The attacks on hidden ratings, by label."""
        return {attack.label: attack.create("attack") for attack in self.context.config.attack}

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Those on hidden ratings."""
        return {
            each.label: {**attack_record(self.inferring[each.label]), **each.played}
            for each in self.context.config.attack
        }

    def campaigns(self) -> Mapping[str, dict[str, Any]]:
        """The Sybil attacks and passive ones."""
        return {
            each.label: {**attack_record(each.create("campaign")), **each.played}
            for each in self.context.config.campaign
        }
