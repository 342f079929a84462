"""The subject of membership audits: the user's own recommenders, and trained defenses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.records import attack_record, data_record
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.probes import is_probed
from dpaudit.audits.membership.training import Utility, measures
from dpaudit.audits.models.subject import MemberModel, points_of
from dpaudit.config.gate import Gate, check_rated, rated
from dpaudit.core.errors import ConfigError
from dpaudit.data.ratings import Ratings
from dpaudit.record.result import DataRecord


@dataclass(frozen=True)
class MemberModels(Subject[MembershipConfig]):
    """The models of a membership audit.

    Attributes:
        context: inputs that the measures share.
        ratings: the data.
        table: `[membership]`.
        design: targets, coins and questions, the same for every model.
    """

    context: Context[MembershipConfig]
    ratings: Ratings
    table: Membership
    design: Design

    @classmethod
    def of(cls, context: Context[MembershipConfig], ratings: Ratings | None) -> Self:
        """Draw the targets.

        Raises:
            DataError: there are too few data.
            ConfigError: a gate judges a utility that a model does not have.
        """
        table = context.config.membership
        if ratings is None or table is None:
            raise TypeError("a membership audit needs ratings and [membership]")
        gates = context.config.gate
        check_rated(gates, ratings.scale)
        subject = cls(context, ratings, table, Design.of(ratings, table, context.seed))
        for index, gate in enumerate(gates):
            subject._check_useful(f"gate.{index}", gate)
        return subject

    def _check_useful(self, place: str, gate: Gate) -> None:
        """Refuse a gate on a utility that one of the picked models does not have."""
        group, _, name = gate.metric.partition(".")
        if group != "utility" or name not in Utility._fields:
            return
        lacking = [
            model.label
            for model in self.models()
            if gate.where.get("model", model.label) == model.label
            and any(
                name not in measures(point.trainable, model.observers) for point in model.defenses
            )
        ]
        if lacking:
            what = "predicted ratings" if rated(gate.metric) else "lists"
            raise ConfigError(
                f"{place}.metric = {gate.metric!r} needs {what}, which {' and '.join(lacking)} "
                f"{'do' if len(lacking) > 1 else 'does'} not show: correct its where, or gate "
                "another metric"
            )

    def trials(self) -> int:
        """Return the number of trainings, with the probes of each model."""
        points = [point for model in self.models() for point in model.defenses]
        trainings = self.table.trainings
        return sum(trainings + 2 * is_probed(point, trainings) for point in points)

    def models(self) -> Iterator[MemberModel]:
        """Yield the user's own models, then the defenses."""
        for model in self.context.config.audited:
            yield MemberModel(
                model,
                points_of(model, self.design.ratings, self.design.targets),
                self.table.observers_of(model),
                self.ratings.scale,
                self.design.k,
            )

    def data(self) -> DataRecord:
        """Record the sizes of the data; the targets are attacked."""
        attacked = sum(self.design.count(unit) for unit in self.table.units)
        return data_record(self.ratings, self.ratings, attacked=attacked)

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attacks by label, with their parameters."""
        inferring = self.context.config.inferring
        return {attack.label: attack_record(attack.create("attack")) for attack in inferring}
