"""Membership inference: attacks on models whose data are decided by coins, and the certified ε."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import MembershipInference
from dpaudit.auditor.context import Context
from dpaudit.auditor.games.certify import Certificate, certify
from dpaudit.auditor.games.controls import LADDER, Bar
from dpaudit.auditor.gate import bars, picked_by
from dpaudit.auditor.leak import leaks
from dpaudit.auditor.means import joint_mean
from dpaudit.auditor.measure import (
    Measure,
    MetricKey,
    RecordPart,
    metric_of,
    of_trainings,
    picked,
    points,
)
from dpaudit.auditor.no_model import diverged
from dpaudit.auditor.trainings import NEXT
from dpaudit.auditor.trainings import certified as surely_fails
from dpaudit.audits.membership.answers import BESIDE
from dpaudit.audits.membership.blind import Baseline, level_of, of_data, of_other_trainings
from dpaudit.audits.membership.calibration import (
    Calibration,
    Division,
    Judged,
    Trials,
    division,
    judged,
    strongest,
)
from dpaudit.audits.membership.census import Subsets
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.decisions import left_for_next, next_keys, own_intervals
from dpaudit.audits.membership.estimates import certified, quantile
from dpaudit.audits.membership.groups import groups_of
from dpaudit.audits.membership.looks import Look, planned, stopped, train
from dpaudit.audits.membership.numbers import average, numbers, range_of
from dpaudit.audits.membership.probes import (
    ALONE,
    HIDES_SEEN,
    SAVED,
    hides_seen,
    keeps_seen,
    left_open,
    noticed,
    probes,
    rates_left_out,
    unmoved_by_data,
)
from dpaudit.audits.membership.subject import MemberModel, MemberModels, MemberPoint
from dpaudit.audits.membership.training import Packed, Training, Utility, all_unpacked, measures
from dpaudit.config.compatibility.gates import rated
from dpaudit.config.model import Model
from dpaudit.core.claim import Claim
from dpaudit.core.membership import UNFILTERED, Observer, Unit, covers
from dpaudit.recommenders.saving import digest_of_folder
from dpaudit.record import result as records
from dpaudit.record.result import STRONGEST

Numbers = NDArray[np.float64]
# Makes a key from a metric and its other fields.
Keys = Callable[..., MetricKey]

# Quantiles of the exposure of targets.
_QUANTILES = (0.5, 0.9, 0.99)
# Points of the ROC curve.
_CURVE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# The false-positive rate of exposures, or the next larger one that is measured.
_EXPOSED = 0.01
# The level of own intervals where nothing is left to gates about the next training.
_NONE = 1e-12
# The largest ε of a planted leak; a larger one is right as often.
_MOST_PLANTED = 50.0


class _Shown(NamedTuple):
    """What an observer sees in all trainings; NaN in those without a model.

    Attributes:
        trials: the features and coins.
        unanswered: the share of what is asked of each target that has no answer `(T, m)`.
        marks: as in `answers.beside` `(T, n)`.
    """

    trials: Trials
    unanswered: Numbers
    marks: Numbers


class MembershipInferences(Measure[MembershipConfig, MemberModel]):
    """`attack.…`, `leak`, `epsilon`, `membership.…`, `utility.…` of models trained by coins."""

    def __init__(self, subject: MemberModels) -> None:
        """Create the attacks."""
        self.subject, self.context = subject, subject.context
        self.design, self.table = subject.design, subject.table
        self.attacks: dict[str, MembershipInference] = {
            attack.label: created
            for attack in self.context.config.inferring
            if not (created := attack.create("attack")).compares_targets
            or self.table.calibrating_trainings
        }
        config, family = self.context.config, self.context.family
        # Half of what is left to gates about the next training, shared by the numbers they judge.
        self.left, self.most_left = max(left_for_next(config, family), _NONE), 1 - family.confidence
        self.next_keys, self.own_intervals = next_keys(config), max(1, own_intervals(config))
        self.blind_level = level_of(len(list(points(config))), len(self.table.units))

    @classmethod
    def plan(cls, config: MembershipConfig) -> Iterator[MetricKey]:
        """Yield the joint numbers of the strongest attack, and those that hold by themselves."""
        table = config.membership
        observers = {model.label: table.observers_of(model) for model in config.audited}
        for model, epsilon in points(config):
            for unit in table.units:
                for observer in observers[model]:
                    key = _keys(model, epsilon, unit, observer)
                    for number in numbers(table.rates_of(unit)):
                        yield of_trainings(config, number.key(key, STRONGEST))
                    yield _bound(key, unit, observer)
                    for metric in ("membership.roc", "membership.exposed", "membership.group"):
                        yield key(metric)
            yield MetricKey("membership.blind", model, epsilon)
            yield of_trainings(config, MetricKey("leak", model, epsilon))
            for name in Utility._fields:
                yield _useful_key(config, name, model, epsilon)

    def run(self, model: MemberModel) -> Iterator[RecordPart]:
        """Train the model with coins, probe it, and judge the attacks, at every ε."""
        for point in model.defenses:
            # A stated ε trains nothing.
            swept = f" at ε = {point.epsilon:g}" if isinstance(model.table, Model) else ""
            at = f"{model.label}: trainings{swept}"
            numbers = list(self.context.unit(at, partial(self._measured, at, model, point)))
            # Attacks by themselves have no joint interval, or the strongest one's again.
            yield from (*numbers, *leaks(filter(_of_strongest, numbers)))

    def _measured(self, stage: str, model: MemberModel, point: MemberPoint) -> Iterator[RecordPart]:
        training = Training.of(
            point.trainable, self.design, self.table.units, model.observers, model.saves
        )
        blocks = training.blocks
        executor = self.context.tasks(stage, *point.tables, of=[point.words, blocks])
        probing = tuple(probes(training)) if point.probed(self.table.trainings) else ()
        decides = partial(self._decides, model, point, blocks)
        trained = train(training, executor, self._looks(point, training), probing, decides)
        rows, look, answered = trained.rows, trained.look, trained.probed
        if model.saves is not None:
            folders = map(training.saved, look.parts.judged.tolist())
            model.saved.update({folder.name: digest_of_folder(folder) for folder in folders})
            yield records.FindingRecord(model=model.label, **SAVED._asdict())
        if not len(look.parts.calibrating):
            yield records.FindingRecord(model=model.label, **ALONE._asdict())
        if not look.last:
            yield stopped(look, self.table.trainings, model.label, point.epsilon)
        noted = noticed(answered) if look.last else ()
        for finding in (*noted, *rates_left_out(self.table)):
            yield records.FindingRecord(model=model.label, **finding._asdict())
        lost = sum(bool(np.isnan(rows[index][0])) for index in look.trainings)
        yield from diverged(lost, len(look.trainings), "membership", model.label, point.epsilon)
        parts = all_unpacked(rows, len(blocks) + 1)
        if not parts:
            return
        unmoved = unmoved_by_data(answered[0]) if answered else []
        blind = MetricKey("membership.blind", model.label, point.epsilon)
        for unit in self.table.units:
            present = self.design.present(self.table.trainings, unit)[look.trainings]
            for baseline in of_data(self.design, unit, present, self.blind_level):
                yield from _blind(baseline, replace(blind, unit=unit))
        for place, (unit, observer) in enumerate(blocks):
            trials, unanswered, marks = self._shown(parts, place, unit, observer)
            scored = "scores" in {seen for _, seen in blocks}
            for finding in left_open(unanswered, marks, trials.present, observer, scored, unmoved):
                yield records.FindingRecord(model=model.label, **finding._asdict())
            if observer not in model.observers:
                continue
            ended = trials.of(trials.ended)
            view = UNFILTERED if observer == "own-list" and keeps_seen(ended) else None
            key = _keys(model.label, point.epsilon, unit, observer)
            yield from self._inferred(trials, look, unit, observer, view, point.claim, key)
            done = trials.of(look.trainings)
            if other := of_other_trainings(done, unit, observer, self.blind_level):
                yield from _blind(other, replace(blind, unit=unit, observer=observer))
            if (unit, observer) == ("interaction", "own-list") and hides_seen(ended):
                yield records.FindingRecord(model=model.label, **HIDES_SEEN._asdict())
        useful = np.array([part[-1][0] for part in parts])
        asked = frozenset[str]() if lost else measures(point.trainable, model.observers)
        yield from self._useful(useful, look, model.label, point.epsilon, asked)

    def _looks(self, point: MemberPoint, training: Training) -> list[Look]:
        """Return when the trainings of a model are judged."""
        table = self.table
        parts = division(table.trainings, table.calibrating_trainings, self.context.seed)
        stops = table.stop == "when-decided" and point.trainable.trains and self.left > _NONE
        numbers = len(self.next_keys) if stops else 0
        blocks = training.parts(table.trainings)
        return planned(parts, blocks, self.left, self.most_left, numbers)

    def _decides(
        self,
        model: MemberModel,
        point: MemberPoint,
        blocks: Sequence[tuple[Unit, Observer]],
        rows: Sequence[Packed],
        look: Look,
    ) -> bool:
        """Whether a gate about the next training surely fails by what trainings show at a look."""
        parts = all_unpacked(rows, len(blocks) + 1)
        if not parts:
            return False
        point_keys = [
            key
            for key in self.next_keys
            if (key.model, key.epsilon) == (model.label, point.epsilon)
        ]
        games = {(key.unit, key.observer) for key in point_keys}
        whole = any(key.metric == "leak" for key in point_keys)
        shown: list[records.Measurement] = []
        for place, (unit, observer) in enumerate(blocks):
            if observer in model.observers and (whole or (unit, observer) in games):
                trials = self._shown(parts, place, unit, observer).trials
                scored = self._judged(trials, look.parts, self.table.rates_of(unit), 0.0)
                key = _keys(model.label, point.epsilon, unit, observer)
                shown += filter(_of_strongest, self._numbers(scored, look, unit, key))
        shown += leaks(shown)
        useful = np.array([part[-1][0] for part in parts])
        utilities = self._useful(useful, look, model.label, point.epsilon, asked=())
        shown += (part for part in utilities if isinstance(part, records.Measurement))
        return any(
            surely_fails(gate, number.census, self.most_left, len(self.next_keys))
            for gate in self.context.config.gate
            if gate.of in NEXT
            for number in picked_by(gate, shown)
            if number.census
        )

    def _shown(
        self, parts: Sequence[list[Numbers]], place: int, unit: Unit, observer: Observer
    ) -> _Shown:
        """Return what an observer sees in all trainings."""
        block = np.stack([part[place] for part in parts])
        cut = self.design.count(unit)
        present = self.design.present(self.table.trainings, unit)
        unanswered, marks = block[:, :cut, -2], block[:, :, -1]
        # What has no answer is an output too; scores of interactions already show it.
        known = (unit, observer) == ("interaction", "scores")
        shown = not known and np.nan_to_num(unanswered).any()
        features = block[:, :, : -BESIDE + bool(shown)]
        # Whether there is a model may tell every coin.
        untold = np.nan_to_num(unanswered, nan=1.0)
        trials = Trials(features[:, :cut], features[:, cut:], present, untold)
        return _Shown(trials, unanswered, marks)

    def _inferred(
        self,
        trials: Trials,
        look: Look,
        unit: Unit,
        observer: Observer,
        view: str | None,
        claim: Claim | None,
        key: Keys,
    ) -> Iterator[records.Measurement]:
        """Judge every attack by itself, and the strongest jointly."""
        rates = self.table.rates_of(unit)
        delta = claim.delta if claim else self.table.delta
        curve = [at for at in _CURVE if at not in rates and at * self.table.judged(unit) >= 2]
        scored = self._judged(trials, look.parts, [*rates, *curve], delta)
        yield from self._numbers(scored, look, unit, key)
        for at in curve:
            best = strongest(scored, f"tpr {at:g}")
            share = range_of(scored[best].curve.rates(at))
            yield key("membership.roc", attack=best, at=at).measured(share)
        exposing = min((r for r in rates if r >= _EXPOSED), default=max(rates))
        best = strongest(scored, f"tpr {exposing:g}")
        yield from self._exposed(scored[best], exposing, unit, partial(key, attack=best))
        applies = claim and covers(claim, unit, view or observer)
        claimed = claim.epsilon if claim and applies else None
        bound = _bound(key, unit, observer)
        fields = self._certified(trials, look, scored, claimed, delta, bound)
        yield bound.measured(**fields, view=view)

    def _judged(
        self, trials: Trials, parts: Division, rates: list[float], delta: float
    ) -> dict[str, Judged]:
        calibration = Calibration.of(trials, parts, self.context.seed)
        return {
            label: judged(calibration, attack, rates, self.context.family, delta)
            for label, attack in self.attacks.items()
        }

    def _numbers(
        self, scored: Mapping[str, Judged], look: Look, unit: Unit, key: Keys
    ) -> Iterator[records.Measurement]:
        """Yield the numbers of each attack, then of the one that promises most by each number."""
        rates = self.table.rates_of(unit)
        for label, one in scored.items():
            for number in numbers(rates):
                yield number.key(key, label).measured(range_of(number.values(one, one.curve)))
        for number in numbers(rates):
            best = strongest(scored, number.promise)
            metric_key = of_trainings(self.context.config, number.key(key, STRONGEST))
            census = self._subsets(metric_key, look, unit).census(scored[best], number)
            estimate = census.estimate
            if metric_key.joint and look.last:
                estimate = average(scored[best], number, self.context.family)
            yield metric_key.measured(estimate, event=best, census=census)

    def _subsets(self, key: MetricKey, look: Look, unit: Unit) -> Subsets:
        """Return what the census of a number is about, and the level of its intervals.

        Those of numbers that gates judge on trainings at hand share the level of a joint interval;
        those of others share half of what is left to gates about the next training.
        """
        at_hand = picked(self.context.config, key, "this-model")
        own = (self.left / 2 - len(self.next_keys) * look.spent) / self.own_intervals
        level = self.context.family.alpha if at_hand else own
        return Subsets(self.design.others(unit), level / look.intervals, self.context.seed)

    def _exposed(
        self, one: Judged, rate: float, unit: Unit, key: Keys
    ) -> Iterator[records.Measurement]:
        """Yield quantiles of exposure, and the exposure of groups."""
        curve, family = one.curve, self.context.family
        exposed = curve.exposed(rate)
        for level in _QUANTILES if len(exposed) else ():
            estimate = quantile(exposed, level, family)
            yield key("membership.exposed", at=level).measured(estimate)
        above = curve.above(rate)
        for name, among in groups_of(self.design, unit).items():
            gain = curve.gain(above, among[None, one.targets])
            yield key("membership.group").measured(range_of(gain), group=name)

    def _certified(
        self,
        trials: Trials,
        look: Look,
        scored: Mapping[str, Judged],
        claimed: float | None,
        delta: float,
        bound: MetricKey,
    ) -> dict[str, Any]:
        """Certify ε, and what the same attacks and bound certify of planted violations."""
        limits = bars(self.context.config.gate, bound, claimed)
        if claimed:
            limits = (*limits, Bar(claimed))
        judging = partial(self._judged, parts=look.parts, rates=[], delta=delta)
        shared = self.context.family
        family = records.Family.of(shared.confidence, shared.size * look.looks)
        game = _CoinGame(self.context, family, trials, scored, judging, claimed, delta)
        return certify(game, limits).fields

    def _useful(
        self,
        rows: NDArray[np.float64],
        look: Look,
        model: str,
        epsilon: float,
        asked: Collection[str],
    ) -> Iterator[RecordPart]:
        """Yield the means over trainings of the utility on held-out interactions.

        One that is asked of the model and undefined in some training is a finding instead.
        """
        family = self.context.family
        for name, every in zip(Utility._fields, rows.T, strict=True):
            values = every[look.trainings]
            key = _useful_key(self.context.config, name, model, epsilon)
            if not np.isfinite(values).all():
                if name in asked:
                    yield _undefined(key)
                continue
            most = self.subject.ratings.scale.width if rated(key.metric) else 1.0
            # Of these trainings and these held-out interactions it is known.
            census = records.Census.known(every[look.parts.judged].tolist())
            estimate = census.estimate
            if key.joint and look.last:
                estimate = joint_mean(values, family, most=most)
            yield key.measured(estimate, census=census)


@dataclass(frozen=True, eq=False)
class _CoinGame:
    """The game of the attack that promises the largest ε, and of trainings with a planted leak.

    Attributes:
        context: the context of the run.
        family: the bounds at all looks, which hold jointly with all others.
        trials: the trainings.
        scored: each attack's scores in the judged ones.
        judging: judges each attack on other trials.
        claimed: the claimed ε, if the claim is about the game.
        delta: the δ of the bound.
    """

    context: Context[MembershipConfig]
    family: records.Family
    trials: Trials
    scored: Mapping[str, Judged]
    judging: Callable[[Trials], Mapping[str, Judged]]
    claimed: float | None
    delta: float

    def run(self) -> Certificate[Judged]:
        return self._certificate(self.scored)

    def rungs(self, bar: Bar, certificate: Certificate[Judged]) -> Iterator[float]:
        """Yield the ε of the leaks to plant."""
        planted = [times * bar.limit for times in ((bar.factor,) if bar.factor else LADDER)]
        yield from (epsilon for epsilon in planted if 0 < epsilon <= _MOST_PLANTED)

    def control(self, rung: float, bar: Bar) -> records.Control:
        mutant = self.trials.mutant(rung, self.context.seed)
        lower = self._certificate(self.judging(mutant)).estimate.lower
        base = self.claimed or bar.limit
        return records.Control(
            mutant=f"a planted leak of ε = {rung:.4g}",
            factor=rung / base,
            epsilon=rung,
            certified=lower,
            found=lower > base,
        )

    def _certificate(self, scored: Mapping[str, Judged]) -> Certificate[Judged]:
        best = strongest(scored, "epsilon")
        one = scored[best]
        estimate = certified(
            one.scores,
            one.present,
            one.guesses,
            delta=self.delta,
            family=self.family,
            seed=self.context.seed,
        )
        return Certificate(one, estimate, best)


def _blind(baseline: Baseline, key: MetricKey) -> Iterator[RecordPart]:
    """Yield a blind baseline, and the finding if it is not at chance."""
    yield key.measured(baseline.area, attack=baseline.name)
    if baseline.finding:
        yield records.FindingRecord(
            model=key.model, epsilon=key.epsilon, **baseline.finding._asdict()
        )


def _of_strongest(number: RecordPart) -> bool:
    return isinstance(number, records.Measurement) and number.attack == STRONGEST


def _undefined(key: MetricKey) -> records.FindingRecord:
    return records.FindingRecord(
        model=key.model,
        about="undefined",
        text=f"{key.metric} is undefined in some training.",
        remedy="Correct what the model predicts, or gate other models.",
        undecided=True,
        epsilon=key.epsilon,
        metrics=(key.metric,),
    )


def _keys(model: str, epsilon: float, unit: Unit, observer: Observer) -> Keys:
    """Return what makes the keys of a unit and an observer from the metric and its other fields."""
    return partial(MetricKey, model=model, epsilon=epsilon, observer=observer, unit=unit)


def _bound(key: Keys, unit: Unit, observer: Observer) -> MetricKey:
    return key("epsilon", attack=STRONGEST, pair=f"{unit} ({observer})")


def _useful_key(config: MembershipConfig, name: str, model: str, epsilon: float) -> MetricKey:
    return of_trainings(config, MetricKey(metric_of("utility", name), model, epsilon))
