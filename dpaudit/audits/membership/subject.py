"""The subject of membership audits: the user's own recommenders, and trained defenses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from scipy.sparse import csr_array

from dpaudit.auditor.context import Context, Subject
from dpaudit.auditor.records import attack_record, data_record, model_record, point_record
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.membership.defense import DefenseRecommender
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.probes import PROBED
from dpaudit.audits.membership.recommender import OwnRecommender
from dpaudit.audits.membership.training import Utility, measures
from dpaudit.config.compatibility.gates import check_rated, rated
from dpaudit.config.model import Model
from dpaudit.config.schema import Gate
from dpaudit.core.claim import Claim
from dpaudit.core.errors import ConfigError
from dpaudit.core.membership import Observer
from dpaudit.data.ratings import Ratings, Scale
from dpaudit.defenses.base import TrainedDefense
from dpaudit.recommenders.base import Recommender, Trainable
from dpaudit.recommenders.forgetting import Forgetting, Sharded
from dpaudit.record.result import ClaimRecord, DataRecord, ModelRecord, PointRecord


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
    def forgets(self) -> bool:
        """Whether the model forgets all targets before it is asked."""
        return isinstance(self.trainable, Forgetting)

    def probed(self, trainings: int) -> bool:
        """Whether further trainings test the model: not if each is dear, or none can be made."""
        return self.trainable.trains and trainings >= PROBED


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
        trainable = self.defenses[0].trainable
        forgets: dict[str, str | int] = {}
        if isinstance(trainable, Forgetting):
            forgets, trainable = {"forget": trainable.method}, trainable.trainable
        if isinstance(trainable, Sharded):
            forgets, trainable = {**forgets, "shards": trainable.shards}, trainable.trainable
        if isinstance(trainable, DefenseRecommender):
            return model_record(self.label, trainable.defense).model_copy(update={"top_k": self.k})
        if isinstance(trainable, Recommender):
            words = (trainable.name, trainable.title, trainable.source)
            params = asdict(trainable)  # type: ignore[call-overload]
        else:
            named = isinstance(self.table, OwnRecommender) and self.table.runs_code
            words = ("own code", str(named or type(trainable).__name__), "the user's own")
            params = {} if isinstance(self.table, Model) else self.table.params
        name, title, source = words
        return ModelRecord(
            label=self.label,
            defense=name,
            title=title,
            variant="own",
            source=source,
            params={**params, **forgets},
            top_k=self.k,
            saved=self.saved,
        )

    def points(self) -> list[PointRecord]:
        """Record the model at each ε."""
        return [self._point(point) for point in self.defenses]

    def _point(self, point: MemberPoint) -> PointRecord:
        if isinstance(point.trainable, DefenseRecommender):
            return point_record(self.label, point.trainable.defense, self.scale)
        return PointRecord(
            model=self.label,
            epsilon=point.epsilon,
            sensitivity=None,
            noise_scale=None,
            claim=point.claim and ClaimRecord(**asdict(point.claim)),
            forget=point.trainable.method if isinstance(point.trainable, Forgetting) else None,
        )


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
        return sum(trainings + 2 * point.probed(trainings) for point in points)

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


def points_of(
    model: OwnRecommender | Model, ratings: Ratings, targets: csr_array | None = None
) -> list[MemberPoint]:
    """Return a model at each ε.

    Args:
        model: its table of the config.
        ratings: all data.
        targets: users × items, nonzero for what a model with `forget` forgets; None if none does.
    """
    if isinstance(model, OwnRecommender):
        claim = model.claim.claim() if model.claim else None
        recommender = model.create("recommender")
        if model.forget and targets is not None:
            recommender = Forgetting(recommender, model.forget, targets, model.requests)
        return [MemberPoint(model.epsilon[0], recommender, claim, model.state, (model,))]
    defenses: list[TrainedDefense[Any]] = model.defenses("model")
    return [
        MemberPoint(
            defense.epsilon,
            DefenseRecommender(defense, ratings),
            defense.claim(),
            f"{model.defense}: {defense!r}",
        )
        for defense in defenses
    ]
