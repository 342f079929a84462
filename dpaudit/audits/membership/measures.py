"""Membership inference: attacks on models whose data are decided by coins, and the certified ε."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import MembershipInference
from dpaudit.attacks.membership.reconstruction import WAYS
from dpaudit.auditor import measure
from dpaudit.auditor.distinguishing import contradictions, leaks
from dpaudit.auditor.measure import (
    Context,
    Measure,
    MetricKey,
    RecordPart,
    Subject,
    attack_record,
    data_record,
)
from dpaudit.auditor.trainings import diverged, joint_mean, most_popular, ndcg
from dpaudit.audits.membership import decisions, probes, training
from dpaudit.audits.membership.calibration import Trials, division
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.membership.decisions import TrainingsLook
from dpaudit.audits.membership.design import Design, batches
from dpaudit.audits.membership.inference import Inference, bound_key, keys, numbers, range_of
from dpaudit.audits.membership.training import Packed, Training, Utility, measures
from dpaudit.audits.membership.trainings import certified as surely_fails
from dpaudit.audits.models.subject import MemberModel, MemberPoint, points_of
from dpaudit.config.gate import NEXT, Gate, check_rated, picked_by, rated
from dpaudit.core.errors import ConfigError
from dpaudit.core.estimate import Estimate
from dpaudit.core.membership import ROWS, UNFILTERED, WITNESS, Observer, Unit
from dpaudit.data.ratings import Ratings
from dpaudit.record import result as records
from dpaudit.record.result import STRONGEST, DataRecord
from dpaudit.record.values import Census

Numbers = NDArray[np.float64]

# The observers of numbers whose order alone counts; lists are nothing but an order.
_FREE = ("scores", "asked-rows", "factors", "asked-histories", "before-and-after")
# The level of own intervals where nothing is left to gates about the next training.
_NONE = 1e-12


class MembershipInferences(Measure[MembershipConfig, MemberModel]):
    """`attack.…`, `leak`, `epsilon`, `membership.…`, `utility.…` of models trained by coins."""

    def __init__(self, subject: MemberModels) -> None:
        """Create the attacks."""
        self.subject, self.context = subject, subject.context
        self.design, self.table = subject.design, subject.table
        self.attacks: dict[str, MembershipInference] = {
            attack.label: attack.create("attack") for attack in self.context.config.inferring
        }
        config, family = self.context.config, self.context.family
        self.inference = partial(Inference, self.context, self.design, self.attacks)
        self.left = max(decisions.left_for_next(config, family), _NONE)
        self.most_left = 1 - family.confidence
        self.next_keys = decisions.next_keys(config)
        self.own_intervals = max(1, decisions.own_intervals(config))
        self.blind_level = probes.level_of(len(list(measure.points(config))), len(self.table.units))

    @classmethod
    def plan(cls, config: MembershipConfig) -> Iterator[MetricKey]:
        """Yield the joint numbers of the strongest attack, and those that hold by themselves."""
        table = config.membership
        observers = {model.label: table.observers_of(model) for model in config.audited}
        traits = {table.label: table.traits for table in config.recommender}
        for model, epsilon in measure.points(config):
            for unit in table.units:
                for observer in observers[model]:
                    key = keys(model, epsilon, unit, observer, traits.get(model, ()))
                    for number in numbers(table.rates_of(unit)):
                        yield from measure.of_trainings(config, number.key(key, STRONGEST))
                    yield bound_key(key, unit, observer)
                    for metric in ("membership.roc", "membership.exposed", "membership.group"):
                        yield key(metric)
            for metric in ("membership.blind", "membership.reconstructed"):
                yield MetricKey(metric, model, epsilon)
            yield from measure.of_trainings(config, MetricKey("leak", model, epsilon))
            for name in Utility._fields:
                yield from _useful_keys(config, name, model, epsilon)
            yield MetricKey("utility.popular", model, epsilon)
            if config.membership.groups:
                yield MetricKey("utility.group", model, epsilon)

    @cached_property
    def popular(self) -> Estimate:
        """The nDCG that lists of the most popular items have, by the data of one training."""
        design, held = self.design, self.design.held
        owners, items = design.ratings.user[held], design.ratings.item[held]
        users = np.unique(owners)
        lists = most_popular(design.ratings.only(design.kept(0)), users, design.k)
        gain = float(ndcg(lists[None], users, owners, items)[0])
        return Estimate.exact(gain, "the most popular items of one training's data")

    def run(self, model: MemberModel) -> Iterator[RecordPart]:
        """Train the model with coins, probe it, and judge the attacks, at every ε."""
        for point in model.defenses:
            at = model.stage(point)
            numbers = list(self.context.unit(at, partial(self._measured, at, model, point)))
            # Attacks by themselves have no joint interval, or the strongest one's again.
            strongest = list(filter(_of_strongest, numbers))
            leak = list(leaks(strongest))
            yield from (*numbers, *leak, *contradictions(leak, strongest))

    def _measured(self, stage: str, model: MemberModel, point: MemberPoint) -> Iterator[RecordPart]:
        design, table = self.design, self.table
        work = Training.of(point.trainable, design, table.units, model.observers, model.saves)
        blocks = work.blocks
        executor = self.context.tasks(stage, *point.tables, of=[point.words, blocks])
        stops = table.stop == "when-decided" and point.trainable.trains and self.left > _NONE
        calibrating, seed = table.calibrating_trainings, self.context.seed
        parts = division(table.trainings, calibrating, seed, table.seen)
        together = work.parts(table.trainings)
        further = probes.tasks_of(work) if probes.is_probed(point, table.trainings) else ()
        deciding = len(self.next_keys) if stops else 0
        looks = decisions.planned(parts, together, self.left, self.most_left, deciding)
        decides = partial(self._decides, model, point, blocks)
        rows, look, answered = decisions.train(work, executor, looks, tuple(further), decides)
        if model.saves is not None:
            ships = table.shipped(look.trainings)
            kept = sorted({*look.parts.judged.tolist(), *ships})
            ended = [index for index in kept if not np.isnan(rows[index][0])]
            model.saved.update({work.saved(i).name: work.digest(i, rows[i]) for i in ended})
            yield probes.saved([work.saved(i).name for i in ships]).of(model.label)
        lost = sum(bool(np.isnan(rows[index][0])) for index in look.trainings)
        yield from self._noticed(look, answered, lost, model.label, point.epsilon)
        shown = training.all_unpacked(rows, len(blocks) + training.BESIDES)
        if not shown:
            return
        took = np.array([part[training.TOOK][0] for part in shown])
        executor.clock.forgot(model.label, took[np.isfinite(took).all(1)])
        unmoved = probes.unmoved_by_data(answered[0]) if answered else []
        # What trainings show decides the look.
        alpha = self.blind_level / look.looks
        blind = MetricKey("membership.blind", model.label, point.epsilon)
        for unit in table.units:
            present = design.present(table.trainings, unit)[look.trainings]
            for baseline in probes.of_data(design, unit, present, alpha):
                yield from _blind(baseline, blind.changed(unit=unit))
        level, scored = self._level(look), "scores" in {seen for _, seen in blocks}
        indices = look.parts.judged.tolist()
        late = {unit: batches(design, point.trainable, unit, indices) for unit in table.units}
        for number, (unit, observer) in enumerate(blocks):
            trials, unanswered, marks = self._shown(shown, number, unit, observer)
            # A model that has forgotten shows the same whatever the coins were.
            coins = trials.present & (not point.traits)
            for finding in probes.left_open(unanswered, marks, coins, observer, scored, unmoved):
                yield finding.of(model.label)
            if observer not in model.observers:
                continue
            finished = trials.of(trials.ended)
            view = UNFILTERED if observer == "own-list" and probes.keeps_seen(finished) else None
            self.context.progress.stage(f"{stage}: attacks by {observer} ({unit})")
            seen = trials, observer in _FREE
            inference = self.inference(look, level, *seen, model.label, point, unit, observer)
            measured = list(inference.measurements(view, late[unit]))
            yield from (*measured, *_beside(inference, measured, shown, alpha))
            if (unit, observer) == ("interaction", "own-list") and probes.hides_seen(finished):
                yield probes.HIDES_SEEN.of(model.label)
        asked = frozenset[str]() if lost else measures(point.trainable, model.observers)
        yield from self._useful(shown, look, model.label, point.epsilon, asked)

    def _noticed(
        self,
        look: TrainingsLook,
        answered: Sequence[Packed] | None,
        lost: int,
        label: str,
        epsilon: float,
    ) -> Iterator[records.FindingRecord]:
        """Yield what is to be known of the trainings of a look, of which some were lost."""
        if not len(look.parts.calibrating):
            yield probes.ALONE.of(label)
        if not look.last:
            yield decisions.stopped(look, self.table.trainings, label, epsilon)
        noticed = probes.noticed(answered) if look.last else ()
        for finding in (*noticed, *probes.rates_left_out(self.table)):
            yield finding.of(label)
        yield from diverged(lost, len(look.trainings), "membership", label, epsilon)

    def _decides(
        self,
        model: MemberModel,
        point: MemberPoint,
        blocks: Sequence[tuple[Unit, Observer]],
        rows: Sequence[Packed],
        look: TrainingsLook,
    ) -> bool:
        """Whether a gate about the next training surely fails by what trainings show at a look."""
        parts = training.all_unpacked(rows, len(blocks) + training.BESIDES)
        if not parts:
            return False
        shown = self.numbers(model, point, blocks, parts, look)
        return any(
            surely_fails(gate, number.census, self.most_left, len(self.next_keys))
            for gate in self.context.config.gate
            if gate.of in NEXT
            for number in picked_by(gate, shown, model.points())
            if number.census
        )

    def numbers(
        self,
        model: MemberModel,
        point: MemberPoint,
        blocks: Sequence[tuple[Unit, Observer]],
        parts: Sequence[list[Numbers]],
        look: TrainingsLook,
    ) -> list[records.Measurement]:
        """Return the numbers that gates about the next training judge, and the utilities.

        Args:
            model: the model.
            point: the model at one ε.
            blocks: what each training shows: unit and observer.
            parts: what each training shows, as `training.all_unpacked`.
            look: which trainings calibrate, and which show the numbers.
        """
        shown: list[records.Measurement] = []
        for inference in self.inferences(model, point, blocks, parts, look):
            shown += inference.strongest()
        shown += leaks(filter(_of_strongest, shown))
        utilities = self._useful(parts, look, model.label, point.epsilon, asked=())
        return shown + [part for part in utilities if isinstance(part, records.Measurement)]

    def inferences(
        self,
        model: MemberModel,
        point: MemberPoint,
        blocks: Sequence[tuple[Unit, Observer]],
        parts: Sequence[list[Numbers]],
        look: TrainingsLook,
    ) -> Iterator[Inference]:
        """Yield the attacks of each observer whose numbers gates about the next training judge."""
        at, level = (model.label, point.epsilon), self._level(look)
        point_keys = [key for key in self.next_keys if (key.model, key.epsilon) == at]
        games = {(key.unit, key.observer) for key in point_keys}
        whole = any(key.metric == "leak" for key in point_keys)
        for number, (unit, observer) in enumerate(blocks):
            if observer in model.observers and (whole or (unit, observer) in games):
                trials, _, _ = self._shown(parts, number, unit, observer)
                seen = trials, observer in _FREE
                yield self.inference(look, level, *seen, model.label, point, unit, observer)

    def _shown(
        self, parts: Sequence[list[Numbers]], place: int, unit: Unit, observer: Observer
    ) -> tuple[Trials, Numbers, Numbers]:
        """Return what an observer sees in all trainings; NaN in those without a model.

        Returns:
            The features and coins; the share of what is asked of each target that has no answer
            `(T, m)`; and marks as in `training.beside` `(T, n)`.
        """
        block = np.stack([part[place] for part in parts])
        cut = self.design.count(unit)
        present = self.design.present(self.table.trainings, unit)
        unanswered, marks = block[:, :cut, -2], block[:, :, -1]
        # What has no answer is an output too; scores of interactions already show it.
        known = unit == "interaction" and observer in ("scores", "asked-rows")
        is_output = not known and np.nan_to_num(unanswered).any()
        features = block[:, :, : -training.BESIDE + bool(is_output)]
        # Whether there is a model may tell every coin.
        untold = np.nan_to_num(unanswered, nan=1.0)
        covariates = self.design.covariates(unit, surrogates=self.table.surrogates)
        targets, others = features[:, :cut], features[:, cut:]
        first = int(observer == ROWS)
        trials = Trials(targets, others, present, untold, covariates, first)
        return trials, unanswered, marks

    def _level(self, look: TrainingsLook) -> float:
        """Return half of what is left to gates about the next training, shared by its numbers."""
        return (self.left / 2 - len(self.next_keys) * look.spent) / self.own_intervals

    def _useful(
        self,
        parts: Sequence[list[Numbers]],
        look: TrainingsLook,
        model: str,
        epsilon: float,
        asked: Collection[str],
    ) -> Iterator[RecordPart]:
        """Yield the means over trainings of the utility on held-out interactions.

        One that is asked of the model and undefined in some training is a finding instead. Groups
        have the nDCG if they have one in every judged training.
        """
        family = self.context.family
        rows = np.array([part[training.USEFUL][0] for part in parts])
        for name, every in zip(Utility._fields, rows.T, strict=True):
            values = every[look.trainings]
            metric = measure.metric_of("utility", name)
            if not np.isfinite(values).all():
                if name in asked:
                    yield records.FindingRecord(
                        model=model,
                        about="undefined",
                        text=f"{metric} is undefined in some training.",
                        remedy="Correct what the model predicts, or gate other models.",
                        undecided=True,
                        epsilon=epsilon,
                        metrics=(metric,),
                    )
                continue
            most = self.subject.ratings.scale.width if rated(metric) else 1.0
            for key in _useful_keys(self.context.config, name, model, epsilon):
                # Of these trainings and these held-out interactions it is known.
                at_hand = key.statement == "this-model"
                shipped = self.table.shipped(look.trainings) if at_hand else look.parts.judged
                census = Census.known(every[shipped].tolist())
                estimate = census.estimate
                if key.joint and look.last:
                    estimate = joint_mean(values, family, most=most)
                yield key.measured(estimate, census=census)
            if name == "ndcg":
                yield MetricKey("utility.popular", model, epsilon).measured(self.popular)
        by_group = np.stack([part[training.BY_GROUP][0] for part in parts])[look.parts.judged]
        for name, gains in zip(self.design.groups, by_group.T, strict=True):
            if np.isfinite(gains).all():
                key = MetricKey("utility.group", model, epsilon)
                yield key.measured(range_of(gains), group=name)


def _blind(baseline: probes.Baseline, key: MetricKey) -> Iterator[RecordPart]:
    """Yield a blind baseline, and the finding if it is not at chance."""
    yield key.measured(baseline.area, attack=baseline.name)
    if baseline.finding:
        yield baseline.finding.of(key.model, key.epsilon)


def _beside(
    inference: Inference,
    measured: Sequence[records.Measurement],
    parts: Sequence[list[Numbers]],
    alpha: float,
) -> Iterator[RecordPart]:
    """Yield blind baselines of what an observer sees, and what factors reconstruct.

    Args:
        inference: the attacks.
        measured: what they find.
        parts: what each training shows.
        alpha: the level of each baseline.
    """
    unit, observer, look = inference.unit, inference.observer, inference.look
    if (unit, observer) == ("interaction", "factors"):
        yield from _reconstructed(parts, look, inference.key("membership.reconstructed"))
    # The level is shared by those who see a model, and a witness sees what they see.
    if observer != WITNESS:
        for baseline in filter(None, _baselines(inference, measured, alpha)):
            yield from _blind(baseline, inference.key("membership.blind"))


def _baselines(
    inference: Inference, measured: Sequence[records.Measurement], alpha: float
) -> Iterator[probes.Baseline | None]:
    unit, observer, look = inference.unit, inference.observer, inference.look
    shown = inference.trials.of(look.trainings)
    yield probes.of_other_trainings(shown, unit, observer, alpha)
    if foreign := inference.foreign():
        yield probes.of_foreign_coins(*foreign, unit, observer, alpha)
    if (unit, observer) == ("user", "own-list"):
        areas = (m for m in measured if (m.metric, m.attack) == ("attack.auc", STRONGEST))
        # The first is about the next training.
        yield probes.of_lists(inference.raw.of(look.parts.judged), next(areas).estimate, alpha)


def _reconstructed(
    parts: Sequence[list[Numbers]], look: TrainingsLook, key: MetricKey
) -> Iterator[records.Measurement]:
    """Yield the shares of hidden interactions that factors tell, and how much they differ."""
    shares = np.stack([part[training.RECONSTRUCTED] for part in parts])[look.parts.judged]
    for (way, groups), both in zip(WAYS.items(), np.moveaxis(shares, 1, 0), strict=True):
        if np.isfinite(both).all():
            yield key.measured(range_of(both[:, 0] - both[:, 1]), attack=way)
            for group, share in zip(groups, both.T, strict=True):
                yield key.measured(range_of(share), attack=way, group=group)


def _of_strongest(number: RecordPart) -> bool:
    """Whether it is a number of the strongest attack; a witness of a deletion finds no leak."""
    if not isinstance(number, records.Measurement):
        return False
    return number.attack == STRONGEST and number.observer != WITNESS


def _useful_keys(
    config: MembershipConfig, name: str, model: str, epsilon: float
) -> list[MetricKey]:
    metric = measure.metric_of("utility", name)
    return measure.of_trainings(config, MetricKey(metric, model, epsilon))


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
        return sum(trainings + 2 * probes.is_probed(point, trainings) for point in points)

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
