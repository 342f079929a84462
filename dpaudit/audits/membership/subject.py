"""The subject of membership audits: recommenders, whose trainings may be done elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dpaudit.auditor.measure import Context, Subject, attack_record, data_record
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.probes import is_probed
from dpaudit.audits.membership.training import Training, Utility, measures
from dpaudit.audits.models.subject import MemberModel, points_of
from dpaudit.config.gate import Gate, check_rated, rated
from dpaudit.core.errors import ConfigError
from dpaudit.core.messages import place
from dpaudit.data.ratings import Ratings
from dpaudit.data.readers.load import load
from dpaudit.recommenders.returned import Returned
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
            subject._check_useful(index, gate)
        return subject

    def _check_useful(self, index: int, gate: Gate) -> None:
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
            many = "do" if len(lacking) > 1 else "does"
            raise ConfigError(
                f"gate.{index}.metric = {gate.metric!r} needs {what}, which "
                f"{' and '.join(lacking)} {many} not show: correct its where, or gate another "
                "metric"
            )

    def trials(self) -> int:
        """Return the number of trainings, with the probes of each model."""
        points = [point for model in self.models() for point in model.defenses]
        trainings = self.table.trainings
        return sum(trainings + 2 * is_probed(point, trainings) for point in points)

    def models(self) -> Iterator[MemberModel]:
        """Yield the user's own models, then the defenses."""
        design, scale = self.design, self.ratings.scale
        for model in self.context.config.audited:
            points = points_of(model, design.ratings, design.targets)
            yield MemberModel(model, points, self.table.observers_of(model), scale, design.k)

    def data(self) -> DataRecord:
        """Record the sizes of the data; the targets are attacked."""
        attacked = sum(self.design.count(unit) for unit in self.table.units)
        return data_record(self.ratings, self.ratings, attacked=attacked)

    def attacks(self) -> Mapping[str, dict[str, Any]]:
        """Return the attacks by label, with their parameters."""
        inferring = self.context.config.inferring
        return {attack.label: attack_record(attack.create("attack")) for attack in inferring}


def hand_out(config: MembershipConfig) -> Iterator[Path]:
    """Write the folder of each training of each recommender that is `returned`; yield it.

    Raises:
        ConfigError: no recommender is returned, the config has no seed of its own, or a folder
            exists or cannot be written.
        DataError: the data cannot be read, or there are too few.
    """
    returned = [table for table in config.recommender if table.returned is not None]
    if not returned:
        raise ConfigError(
            "no [[recommender]] has returned, the folder of trainings that are done elsewhere: "
            "give it, such as returned = 'trainings'"
        )
    if "seed" not in config.model_fields_set:
        raise ConfigError(
            "the config has no seed, which decides who is in which training, and the audit has to "
            "use the same: write seed = 1 or another number"
        )
    ratings = load(config.source)
    table = config.fitted(ratings).membership
    design = Design.of(ratings, table, config.seed)
    for recommender in returned:
        trainable = recommender.create("recommender")
        if not isinstance(trainable, Returned):
            raise TypeError("a returned recommender has trainings elsewhere")
        observers = table.observers_of(recommender)
        training = Training.of(trainable, design, table.units, observers)
        for index in range(table.trainings):
            seed = design.training_seed(index)
            try:
                yield trainable.hand_out(design.data(index), seed, training.query)
            except FileExistsError as error:
                raise ConfigError(
                    f"{place(Path(error.filename))} exists: remove the trainings of an earlier "
                    "split, or name another folder in returned"
                ) from error
            except OSError as error:
                raise ConfigError(
                    f"{place(trainable.cwd / trainable.returned)} cannot be written "
                    f"({error.strerror}): name another folder in returned"
                ) from error
