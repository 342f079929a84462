"""Membership inference: attacks on models whose data are decided by coins, and the certified ε."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from dpaudit.attacks.base import MembershipInference
from dpaudit.auditor.context import Context
from dpaudit.auditor.games.certify import Certificate, certify
from dpaudit.auditor.games.controls import LADDER, Bar
from dpaudit.auditor.gate import bars
from dpaudit.auditor.leak import leaks
from dpaudit.auditor.means import joint_mean, own_mean
from dpaudit.auditor.measure import Found, Measure, MetricKey, gated, metric_of, points
from dpaudit.auditor.no_model import diverged
from dpaudit.audits.membership.answers import BESIDE
from dpaudit.audits.membership.calibration import Judged, Trials, judged, strongest
from dpaudit.audits.membership.config import Membership, MembershipConfig
from dpaudit.audits.membership.estimates import certified, quantile
from dpaudit.audits.membership.groups import groups_of
from dpaudit.audits.membership.numbers import alone, joint, numbers
from dpaudit.audits.membership.probes import (
    HIDES_SEEN,
    hides_seen,
    keeps_seen,
    left_open,
    noticed,
    probes,
    rates_left_out,
    unmoved_by_data,
)
from dpaudit.audits.membership.subject import MemberModel, MemberModels, MemberPoint
from dpaudit.audits.membership.training import Training, Utility, all_unpacked, kept
from dpaudit.config.compatibility.gates import rated
from dpaudit.config.model import Model
from dpaudit.core.claim import Claim
from dpaudit.core.membership import UNFILTERED, Observer, Unit, covers
from dpaudit.execution.tasks import Task
from dpaudit.record import result as records
from dpaudit.record.result import STRONGEST

# Quantiles of the exposure of targets.
_QUANTILES = (0.5, 0.9, 0.99)
# Points of the ROC curve.
_CURVE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# The false-positive rate of exposures, or the next larger one that is measured.
_EXPOSED = 0.01
# The largest ε of a planted leak; a larger one is right as often.
_MOST_TOLD = 50.0


class MembershipInferences(Measure[MembershipConfig, MemberModel]):
    """`attack.…`, `leak`, `epsilon`, `membership.…`, `utility.…` of models trained by coins."""

    def __init__(self, subject: MemberModels) -> None:
        """Create the attacks."""
        self.subject, self.context = subject, subject.context
        self.design, self.table = subject.design, subject.table
        self.attacks: dict[str, MembershipInference] = {
            each.label: each.create("attack") for each in self.context.config.inferring
        }

    @classmethod
    def plan(cls, config: MembershipConfig) -> Iterator[MetricKey]:
        """Yield the joint numbers of the strongest attack, and those that hold by themselves."""
        table = _table(config)
        observers = {model.label: table.observers_of(model) for model in config.audited}
        for model, epsilon in points(config):
            for unit in table.units:
                for observer in observers[model]:
                    key = partial(
                        MetricKey, model=model, epsilon=epsilon, observer=observer, unit=unit
                    )
                    yield key("attack.auc", attack=STRONGEST)
                    yield key("attack.advantage", attack=STRONGEST)
                    for rate in table.rates_of(unit):
                        yield key("attack.tpr", attack=STRONGEST, at=rate)
                    yield key("epsilon", attack=STRONGEST, pair=_pair(unit, observer))
                    for metric in ("membership.roc", "membership.exposed", "membership.group"):
                        yield key(metric)
            yield MetricKey("leak", model, epsilon)
            for name in Utility._fields:
                metric = metric_of("utility", name)
                yield MetricKey(metric, model, epsilon, joint=gated(config, metric))

    def run(self, model: MemberModel) -> Iterator[Found]:
        """Train the model with coins, probe it, and judge the attacks, at every ε."""
        for point in model.defenses:
            # A stated ε trains nothing.
            swept = f" at ε = {point.epsilon:g}" if isinstance(model.table, Model) else ""
            at = f"{model.label}: trainings{swept}"
            found = list(self.context.unit(at, partial(self._measured, at, model, point)))
            # Attacks by themselves have no joint interval, or the strongest one's again.
            yield from (*found, *leaks(filter(_of_strongest, found)))

    def _measured(self, stage: str, model: MemberModel, point: MemberPoint) -> Iterator[Found]:
        seen = kept(point.trainable, model.observers)
        blocks = [(unit, observer) for unit in self.table.units for observer in seen]
        training = Training(point.trainable, self.design, blocks)
        executor = self.context.tasks(stage, *point.tables, of=[point.words, blocks])
        together = training.together
        trainings = (
            Task(together, part, len(part), "training", dear=True)
            for part in training.parts(self.table.trainings)
        )
        *found, again, vanished = executor.run(chain(trainings, probes(training)))
        for each in (*noticed(again, vanished), *rates_left_out(self.table)):
            yield records.FindingRecord(model=model.label, **each._asdict())
        rows = [row for block in found for row in block]
        lost = sum(bool(np.isnan(row[0])) for row in rows)
        where: dict[str, Any] = {"model": model.label, "epsilon": point.epsilon}
        yield from diverged(lost, len(rows), "membership", **where)
        parts = all_unpacked(rows, len(blocks) + 1)
        if not parts:
            return
        unmoved = unmoved_by_data(again)
        for place, (unit, observer) in enumerate(blocks):
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
            for each in left_open(unanswered, marks, present, observer, "scores" in seen, unmoved):
                yield records.FindingRecord(model=model.label, **each._asdict())
            if observer not in model.observers:
                continue
            ended = trials.of(trials.ended)
            view = UNFILTERED if observer == "own-list" and keeps_seen(ended) else None
            yield from self._inferred(trials, unit, observer, view, point.claim, where)
            if (unit, observer) == ("interaction", "own-list") and hides_seen(ended):
                yield records.FindingRecord(model=model.label, **HIDES_SEEN._asdict())
        yield from self._useful(np.array([part[-1][0] for part in parts]), where)

    def _inferred(
        self,
        trials: Trials,
        unit: Unit,
        observer: Observer,
        view: str | None,
        claim: Claim | None,
        where: dict[str, Any],
    ) -> Iterator[records.Measurement]:
        """Judge every attack by itself, and the strongest jointly."""
        rates = self.table.rates_of(unit)
        delta = claim.delta if claim else self.table.delta
        where = {**where, "observer": observer, "unit": unit}
        curve = [at for at in _CURVE if at not in rates and at * self.design.count(unit) >= 2]
        found = self._judged(trials, [*rates, *curve], delta)
        yield from self._numbers(found, rates, where)
        for at in curve:
            best = strongest(found, f"tpr {at:g}")
            share = own_mean(found[best].curve.found(at), self.context.family)
            yield _measured("membership.roc", share, {**where, "attack": best, "at": at})
        exposing = min((r for r in rates if r >= _EXPOSED), default=max(rates))
        best = strongest(found, f"tpr {exposing:g}")
        yield from self._exposed(found[best], exposing, unit, {**where, "attack": best})
        yield self._certified(trials, found, claim, {**where, "view": view})

    def _judged(self, trials: Trials, rates: list[float], delta: float) -> dict[str, Judged]:
        family, seed = self.context.family, self.context.seed
        return {
            label: judged(trials, attack, rates, family, delta, seed)
            for label, attack in self.attacks.items()
        }

    def _numbers(
        self, found: Mapping[str, Judged], rates: list[float], where: dict[str, Any]
    ) -> Iterator[records.Measurement]:
        """Yield the numbers of each attack, then of the strongest; a number has one interval."""
        family = self.context.family
        chosen = {number: joint(found, number, family) for number in numbers(rates)}
        for label, one in found.items():
            for number, (best, estimate) in chosen.items():
                own = estimate if label == best else alone(one, number, family)
                yield _measured(number.metric, own, {**where, **number.place, "attack": label})
        for number, (best, estimate) in chosen.items():
            place = {**where, **number.place, "attack": STRONGEST, "event": best}
            yield _measured(number.metric, estimate, place)

    def _exposed(
        self, one: Judged, rate: float, unit: Unit, where: dict[str, Any]
    ) -> Iterator[records.Measurement]:
        """Yield quantiles of exposure, and the exposure of groups."""
        curve, family = one.curve, self.context.family
        exposed = curve.exposed(rate)
        for place in _QUANTILES:
            estimate = quantile(exposed, place, family)
            yield _measured("membership.exposed", estimate, {**where, "at": place})
        above = curve.above(rate)
        for name, among in groups_of(self.design, unit).items():
            estimate = own_mean(curve.gain(above, among[None]), family, -1.0)
            yield _measured("membership.group", estimate, {**where, "group": name})

    def _certified(
        self,
        trials: Trials,
        found: Mapping[str, Judged],
        claim: Claim | None,
        where: dict[str, Any],
    ) -> records.Measurement:
        """Certify ε, and what the same attacks and bound certify of planted violations."""
        delta = claim.delta if claim else self.table.delta
        own = {**where, "attack": STRONGEST, "pair": _pair(where["unit"], where["observer"])}
        applies = claim and covers(claim, where["unit"], where["view"] or where["observer"])
        claimed = claim.epsilon if claim and applies else None
        limits = bars(self.context.config.gate, own, claimed)
        if claimed:
            limits = (*limits, Bar(claimed))
        judging = partial(self._judged, rates=[], delta=delta)
        game = _CoinGame(self.context, trials, found, judging, claimed, delta)
        return records.Measurement(metric="epsilon", **certify(game, limits).fields, **own)

    def _useful(self, found: Any, where: dict[str, Any]) -> Iterator[records.Measurement]:
        """Yield the means over trainings of the utility on held-out interactions.

        One that is undefined in some training is left out; a gate on it is then inconclusive.
        """
        family = self.context.family
        for name, values in zip(Utility._fields, found.T, strict=True):
            if not np.isfinite(values).all():
                continue
            metric = metric_of("utility", name)
            most = self.subject.ratings.scale.width if rated(metric) else 1.0
            joint = gated(self.context.config, metric)
            estimate = (joint_mean if joint else own_mean)(values, family, most=most)
            yield _measured(metric, estimate, where)


@dataclass(frozen=True, eq=False)
class _CoinGame:
    """The game of the attack that promises the largest ε, and of trainings with a planted leak.

    Attributes:
        context: the context of the run.
        trials: the trainings.
        found: each attack's scores in the judged ones.
        judging: judges each attack on other trials.
        claimed: the claimed ε, if the claim is about the game.
        delta: the δ of the bound.
    """

    context: Context[MembershipConfig]
    trials: Trials
    found: Mapping[str, Judged]
    judging: Callable[[Trials], Mapping[str, Judged]]
    claimed: float | None
    delta: float

    def run(self) -> Certificate[Judged]:
        return self._certificate(self.found)

    def rungs(self, bar: Bar, certificate: Certificate[Judged]) -> Iterator[float]:
        """Yield the ε of the leaks to plant."""
        told = [times * bar.limit for times in ((bar.factor,) if bar.factor else LADDER)]
        yield from (epsilon for epsilon in told if 0 < epsilon <= _MOST_TOLD)

    def control(self, rung: float, bar: Bar) -> records.Control:
        mutant = self.trials.told(rung, self.context.seed)
        lower = self._certificate(self.judging(mutant)).estimate.lower
        base = self.claimed or bar.limit
        return records.Control(
            mutant=f"a planted leak of ε = {rung:.4g}",
            factor=rung / base,
            epsilon=rung,
            certified=lower,
            found=lower > base,
        )

    def _certificate(self, found: Mapping[str, Judged]) -> Certificate[Judged]:
        best = strongest(found, "epsilon")
        one = found[best]
        estimate = certified(
            one.scores,
            one.present,
            one.guesses,
            delta=self.delta,
            family=self.context.family,
            seed=self.context.seed,
        )
        return Certificate(one, estimate, best)


def _of_strongest(found: Found) -> bool:
    return isinstance(found, records.Measurement) and found.attack == STRONGEST


def _measured(metric: Any, estimate: Any, where: dict[str, Any]) -> records.Measurement:
    return records.Measurement(metric=metric, estimate=estimate, **where)


def _pair(unit: str, observer: str) -> str:
    return f"{unit} ({observer})"


def _table(config: MembershipConfig) -> Membership:
    if config.membership is None:
        raise TypeError("the config has no [membership]")
    return config.membership
