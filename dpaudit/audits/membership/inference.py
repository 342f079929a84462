"""The attacks on what one observer sees of a model's trainings, and what they show."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import MembershipInference
from dpaudit.auditor.context import Context
from dpaudit.auditor.games.certify import certify
from dpaudit.auditor.games.controls import Bar
from dpaudit.auditor.gate import bars
from dpaudit.auditor.measure import MetricKey, of_trainings, picked
from dpaudit.audits.membership.calibration import Calibration, Judged, Trials, few, judged, rivals
from dpaudit.audits.membership.census import Subsets
from dpaudit.audits.membership.coin_game import CoinGame
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.design import Design
from dpaudit.audits.membership.estimates import quantile
from dpaudit.audits.membership.groups import groups_of
from dpaudit.audits.membership.looks import Look
from dpaudit.audits.membership.numbers import average, numbers, range_of
from dpaudit.audits.membership.planted import laws
from dpaudit.core.claim import Claim
from dpaudit.core.membership import Observer, Unit, covers
from dpaudit.record import result as records
from dpaudit.record.result import STRONGEST
from dpaudit.record.values import TRACE, Census

# Makes a key from a metric and its other fields.
Keys = Callable[..., MetricKey]

# Quantiles of the exposure of targets.
_QUANTILES = (0.5, 0.9, 0.99)
# Points of the ROC curve.
_CURVE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# The false-positive rate of exposures, or the next larger one that is measured.
_EXPOSED = 0.01
# The ε that planted traces of what was deleted exceed, to measure which would be found.
_LEAST_TRACE = 0.25


@dataclass(frozen=True, eq=False)
class Inference:
    """Attacks on what an observer sees of a model at a look.

    Attributes:
        context: the context of the run.
        design: the targets.
        attacks: the attacks by label.
        look: the trainings that are judged.
        level: the level of all intervals of a number in single trainings that no gate judges on
            trainings at hand.
        trials: what the observer sees, and the coins.
        model: the model's label.
        epsilon: the ε of the sweep.
        unit: what a target is.
        observer: the observer.
        forgets: whether the model forgets all targets before it is asked.
    """

    context: Context[MembershipConfig]
    design: Design
    attacks: Mapping[str, MembershipInference]
    look: Look
    level: float
    trials: Trials
    model: str
    epsilon: float
    unit: Unit
    observer: Observer
    forgets: bool

    @property
    def few(self) -> int:
        """How many attacks a number is the largest of."""
        return few(len(self.look.parts.calibrating))

    @property
    def key(self) -> Keys:
        """What makes the keys of its numbers."""
        return keys(self.model, self.epsilon, self.unit, self.observer, ("forget",) * self.forgets)

    def strongest(self) -> Iterator[records.Measurement]:
        """Yield the numbers of the strongest attacks, as gates on trainings judge them."""
        rates = self.context.config.membership.rates_of(self.unit)
        yield from self._strongest(self._judged(self.trials, rates, 0.0))

    def measurements(
        self, view: str | None, claim: Claim | None, batches: Mapping[str, NDArray[np.bool_]]
    ) -> Iterator[records.Measurement]:
        """Judge every attack by itself, and the strongest jointly.

        Args:
            view: what is seen besides, if a claim says more than the observer.
            claim: the model's claim.
            batches: groups of targets in the judged trainings `(J, m)` by name, see `batches`.
        """
        table, key = self.context.config.membership, self.key
        rates = table.rates_of(self.unit)
        delta = claim.delta if claim else table.delta
        curve = [at for at in _CURVE if at not in rates and at * table.judged(self.unit) >= 2]
        scored = self._judged(self.trials, [*rates, *curve], delta)
        for label, one in scored.items():
            for number in numbers(rates):
                yield number.key(key, label).measured(range_of(number.values(one, one.curve)))
        yield from self._strongest(scored)
        for at in curve:
            labels = rivals(scored, f"tpr {at:g}", self.few)
            rows = np.array([scored[label].curve.rates(at) for label in labels])
            best = labels[int(rows.mean(1).argmax())]
            yield key("membership.roc", attack=best, at=at).measured(range_of(rows.max(0)))
        exposing = min((r for r in rates if r >= _EXPOSED), default=max(rates))
        best = rivals(scored, f"tpr {exposing:g}", 1)[0]
        yield from self._exposed(scored[best], exposing, partial(key, attack=best), batches)
        applies = claim and covers(claim, self.unit, view or self.observer)
        claimed = claim.epsilon if claim and applies else None
        bound = bound_key(key, self.unit, self.observer)
        limits = bars(self.context.config.gate, bound, claimed)
        if claimed:
            limits = (*limits, Bar(claimed))
        yield bound.measured(**self._certified(scored, claimed, delta, limits), view=view)

    def _judged(self, trials: Trials, rates: list[float], delta: float) -> dict[str, Judged]:
        calibration = Calibration.of(trials, self.look.parts, self.context.seed)
        return {
            label: judged(calibration, attack, rates, self.context.family, delta)
            for label, attack in self.attacks.items()
        }

    def _strongest(self, scored: Mapping[str, Judged]) -> Iterator[records.Measurement]:
        """Yield the largest of each number, of the attacks that promise most by it."""
        for number in numbers(self.context.config.membership.rates_of(self.unit)):
            labels = rivals(scored, number.promise, self.few)
            key = of_trainings(self.context.config, number.key(self.key, STRONGEST))
            subsets = self._subsets(key, len(labels))
            censuses = [subsets.census(scored[label], number) for label in labels]
            best = int(np.argmax([sum(census.values) for census in censuses]))
            census = Census.largest(censuses)
            estimate = census.estimate
            if key.joint and self.look.last:
                attacks = [scored[label] for label in labels]
                estimate = average(attacks, number, self.context.family)
            yield key.measured(estimate, event=labels[best], census=census)

    def _subsets(self, key: MetricKey, attacks: int) -> Subsets:
        """Return what the census of a number is about, and the level of its intervals.

        Those of numbers that gates judge on trainings at hand share the level of a joint interval.
        Several attacks share it. About the next training, whose number has a threshold of its own
        too, several trainings say what they show at theirs.
        """
        at_hand = picked(self.context.config, key, "this-model")
        level = self.context.family.alpha if at_hand else self.level
        others = self.design.others(self.unit)
        given = not at_hand and len(self.look.parts.judged) > 1
        return Subsets(others, level / self.look.intervals / attacks, self.context.seed, given)

    def _exposed(
        self, one: Judged, rate: float, key: Keys, batches: Mapping[str, NDArray[np.bool_]]
    ) -> Iterator[records.Measurement]:
        """Yield quantiles of exposure, and the exposure of groups."""
        curve, family = one.curve, self.context.family
        exposed = curve.exposed(rate)
        for level in _QUANTILES if len(exposed) else ():
            estimate = quantile(exposed, level, family)
            yield key("membership.exposed", at=level).measured(estimate)
        above = curve.above(rate)
        groups = {name: among[None] for name, among in groups_of(self.design, self.unit).items()}
        for name, among in (groups | dict(batches)).items():
            gain = curve.gain(above, among[:, one.targets])
            yield key("membership.group").measured(range_of(gain), group=name)

    def _certified(
        self,
        scored: Mapping[str, Judged],
        claimed: float | None,
        delta: float,
        limits: Sequence[Bar],
    ) -> dict[str, Any]:
        """Certify ε, and what the same attacks and bound certify of planted violations."""
        judging = partial(self._judged, rates=[], delta=delta)
        shared = self.context.family
        family = records.Family.of(shared.confidence, shared.size * self.look.looks)
        game = CoinGame(
            self.context,
            family,
            self.trials,
            scored,
            self.few,
            judging,
            claimed,
            delta,
            laws(delta),
        )
        certificate = certify(game, limits)
        if self.forgets:
            traces = certify(
                replace(game, claimed=None, noises=(TRACE,)), [Bar(_LEAST_TRACE)]
            ).controls
            certificate = replace(certificate, controls=(*certificate.controls, *traces))
        return certificate.fields


def keys(
    model: str, epsilon: float, unit: Unit, observer: Observer, traits: Collection[str]
) -> Keys:
    """Return what makes the keys of a unit and an observer from the metric and its other fields."""
    return partial(
        MetricKey, model=model, epsilon=epsilon, observer=observer, unit=unit, traits=traits
    )


def bound_key(key: Keys, unit: Unit, observer: Observer) -> MetricKey:
    """Return the key of the bound on ε."""
    return key("epsilon", attack=STRONGEST, pair=f"{unit} ({observer})")
