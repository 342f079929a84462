"""The attacks on what one observer sees of a model's trainings, and what they show.

Each attack has its numbers, and so has jointly the strongest; each judged training has a census of
them, and the coins of all are the game that certifies ε.

**Census.** Targets are drawn at random, then their coins. So given a training's data and its model,
the present targets are a uniform subset of all that could have been targets and are in the data,
whatever the dependence between them. The absent targets are draws of what is not in the data. An
attack that does not depend on which ones are targets has a ROC curve between the two, whose limits
are those of `bounds.frequentist.roc`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import MembershipInference
from dpaudit.auditor.games import LADDER, Bar, Certificate, certify
from dpaudit.auditor.gate import bars
from dpaudit.auditor.measure import Context, MetricKey, of_trainings, picked
from dpaudit.auditor.trainings import joint_mean
from dpaudit.audits.membership import calibration
from dpaudit.audits.membership.calibration import Calibration, Curve, Judged, Trials, noise_laws
from dpaudit.audits.membership.config import MembershipConfig
from dpaudit.audits.membership.decisions import TrainingsLook
from dpaudit.audits.membership.design import Design, groups_of
from dpaudit.audits.models.subject import MemberPoint
from dpaudit.bounds.frequentist import roc
from dpaudit.core.estimate import Estimate
from dpaudit.core.membership import Observer, Unit, covers
from dpaudit.core.streams import generator
from dpaudit.record.result import STRONGEST, Family, Measurement
from dpaudit.record.values import TRACE, Census, Control, Noise


class Number(NamedTuple):
    """A number that every attack has in every judged training.

    Attributes:
        metric: the metric.
        at: the false-positive rate, if it has one.
    """

    metric: str
    at: float | None = None

    def key(self, at: Callable[..., MetricKey], attack: str) -> MetricKey:
        """Return its key for one attack, where `at` makes the keys of a unit and an observer."""
        return at(self.metric, attack=attack, at=self.at)

    @property
    def promise(self) -> str:
        """Its name in `Judged.promise`."""
        name = self.metric.removeprefix("attack.")
        return name if self.at is None else f"{name} {self.at:g}"

    @property
    def least(self) -> float:
        """Its least value; the largest is 1."""
        return -1.0 if self.metric == "attack.advantage" else 0.0

    def values(self, one: Judged, curve: Curve) -> NDArray[np.float64]:
        """Return it in each judged training, on a curve of the attack's scores `(C,)`."""
        if self.at is not None:
            return curve.rates(self.at)
        return curve.areas() if self.metric == "attack.auc" else curve.advantages(one.best_rate)

    def most(self, one: Judged) -> NDArray[np.float64]:
        """Return it in each judged training if all missing answers told their coins `(C,)`.

        Whoever is told coins knows how many to call present.
        """
        if one.worst is None or self.metric != "attack.advantage":
            return self.values(one, one.worst or one.curve)
        return one.worst.best_advantages()


def numbers(rates: Sequence[float]) -> list[Number]:
    """Return the numbers of an attack with these false-positive rates."""
    rated = [Number("attack.tpr", rate) for rate in rates]
    return [Number("attack.auc"), Number("attack.advantage"), *rated]


def range_of(values: NDArray[np.float64]) -> Estimate:
    """Return the mean of a number over the judged trainings, with its range."""
    return Census.known(values.tolist()).estimate


def average(attacks: Sequence[Judged], number: Number, family: Family) -> Estimate:
    """Estimate the mean over all trainings of the largest number of some attacks, jointly.

    What the model did not answer may be a leak, so the upper end is that of scores in which each
    target without an answer is told by its coin. The lower end is that of what is seen.
    """
    shared = Family.of(family.confidence, family.size * len(attacks))
    means = [joint_mean(number.values(one, one.curve), shared, number.least) for one in attacks]
    estimate = max(means, key=lambda mean: mean.lower)
    estimate = estimate.changed(
        value=max(mean.value for mean in means),
        upper=max(mean.upper for mean in means),
        alpha=family.alpha,
    )
    if all(judged.worst is None for judged in attacks):
        return estimate
    worst = np.max([number.most(judged) for judged in attacks], 0)
    most = joint_mean(worst, family, number.least)
    return estimate.changed(
        upper=max(estimate.upper, most.upper), method=f"{estimate.method}, missing answers as leaks"
    )


@dataclass(frozen=True)
class TargetSampling:
    """What the intervals of a census are about.

    Attributes:
        others: how many could have been targets and are none; all of them are in every training.
        alpha: the error probability of each interval.
        seed: the run's seed.
        given: whether true-positive rates are those at the threshold that a training's absent
            targets set, and not at the true one of their false-positive rate.
    """

    others: int
    alpha: float
    seed: int
    given: bool = False

    def census(self, judged: Judged, number: Number) -> Census:
        """Return a number of an attack in each judged training, with bounds for all its data."""
        values = number.values(judged, judged.curve).tolist()
        worst = judged.worst
        curves = [judged.curve, worst] if worst else [judged.curve]
        lower, upper = [], []
        for training, value in enumerate(values):
            limits = [self._limits(curve, judged, number, training) for curve in curves]
            lower.append(min(limits[0][0], value))
            upper.append(max(value, *(high for _, high in limits)))
        return Census(
            values=tuple(values),
            lower=tuple(lower),
            upper=tuple(upper),
            alpha=self.alpha,
            most=tuple(number.most(judged).tolist()) if worst else (),
        )

    def _limits(
        self, curve: Curve, judged: Judged, number: Number, training: int
    ) -> tuple[float, float]:
        scores, isin = curve.scores[training], curve.present[training]
        present, absent = scores[isin], scores[~isin]
        if not len(present) or not len(absent):
            return number.least, 1.0
        population = self.others + len(present)
        rng = generator(self.seed, "membership subset", child=training)
        if number.metric == "attack.auc":
            apart = roc.independent(present, population, rng)
            return roc.area_limits(apart, absent, rng, alpha=self.alpha)
        if number.at is None:
            best = judged.best_rate
            return roc.advantage_limits(present, absent, best, rng, alpha=self.alpha)
        if self.given:
            called = roc.calls(present, absent, number.at)
            least, most = int((called == 1).sum()), int((called > 0).sum())
            return roc.subset_share(least, most, len(present), population, alpha=self.alpha)
        half = self.alpha / 2
        least, most = roc.present_above(present, absent, number.at, rng, alpha=half)
        return roc.subset_share(least, most, len(present), population, alpha=half)


# Makes a key from a metric and its other fields.
Keys = Callable[..., MetricKey]

# Quantiles of the exposure of targets.
_QUANTILES = (0.5, 0.9, 0.99)
# Points of the ROC curve.
_CURVE = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
# The false-positive rate of exposures, or the next larger one that is measured.
_EXPOSED = 0.01
# The largest ε of a planted leak; a larger one is right as often.
_MOST_PLANTED = 50.0
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
        point: the model at one ε.
        unit: what a target is.
        observer: the observer.
    """

    context: Context[MembershipConfig]
    design: Design
    attacks: Mapping[str, MembershipInference]
    look: TrainingsLook
    level: float
    trials: Trials
    model: str
    point: MemberPoint
    unit: Unit
    observer: Observer

    @property
    def few(self) -> int:
        """How many attacks a number is the largest of."""
        return calibration.few(len(self.look.parts.calibrating))

    @property
    def key(self) -> Keys:
        """What makes the keys of its numbers."""
        return keys(self.model, self.point.epsilon, self.unit, self.observer, self.point.traits)

    def strongest(self) -> Iterator[Measurement]:
        """Yield the numbers of the strongest attacks, as gates on trainings judge them."""
        rates = self.context.config.membership.rates_of(self.unit)
        yield from self._strongest(self.judged(self.trials, rates, 0.0))

    def measurements(
        self, view: str | None, batches: Mapping[str, NDArray[np.bool_]]
    ) -> Iterator[Measurement]:
        """Judge every attack by itself, and the strongest jointly.

        Args:
            view: what is seen besides, if a claim says more than the observer.
            batches: groups of targets in the judged trainings `(J, m)` by name, see `batches`.
        """
        table, key = self.context.config.membership, self.key
        rates, claim = table.rates_of(self.unit), self.point.claim
        delta = claim.delta if claim else table.delta
        curve = [at for at in _CURVE if at not in rates and at * table.judged(self.unit) >= 2]
        scored = self.judged(self.trials, [*rates, *curve], delta)
        for label, one in scored.items():
            for number in numbers(rates):
                yield number.key(key, label).measured(range_of(number.values(one, one.curve)))
        yield from self._strongest(scored)
        for at in curve:
            labels = calibration.rivals(scored, f"tpr {at:g}", self.few)
            rows = np.array([scored[label].curve.rates(at) for label in labels])
            best = labels[int(rows.mean(1).argmax())]
            yield key("membership.roc", attack=best, at=at).measured(range_of(rows.max(0)))
        exposing = min((r for r in rates if r >= _EXPOSED), default=max(rates))
        best = calibration.rivals(scored, f"tpr {exposing:g}", 1)[0]
        yield from self._exposed(scored[best], exposing, partial(key, attack=best), batches)
        applies = claim is not None and covers(claim, self.unit, view or self.observer)
        claimed = claim.epsilon if claim and applies else None
        bound = bound_key(key, self.unit, self.observer)
        limits = bars(self.context.config.gate, bound, claimed)
        if claimed:
            limits = (*limits, Bar(claimed))
        yield bound.measured(**self._certified(scored, claimed, delta, limits), view=view)

    def judged(self, trials: Trials, rates: Sequence[float], delta: float) -> dict[str, Judged]:
        """Return each attack's scores of the judged trainings among some, by its label."""
        fitted = Calibration.of(trials, self.look.parts, self.context.seed)
        return {
            label: calibration.judged(fitted, attack, rates, self.context.family, delta)
            for label, attack in self.attacks.items()
            if attack.observer in (None, self.observer)
        }

    def _strongest(self, scored: Mapping[str, Judged]) -> Iterator[Measurement]:
        """Yield the largest of each number, of the attacks that promise most by it."""
        for number in numbers(self.context.config.membership.rates_of(self.unit)):
            labels = calibration.rivals(scored, number.promise, self.few)
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

    def _subsets(self, key: MetricKey, attacks: int) -> TargetSampling:
        """Return what the census of a number is about, and the level of its intervals.

        Those of numbers that gates judge on trainings at hand share the level of a joint interval.
        Several attacks share it. About the next training, whose number has a threshold of its own
        too, several trainings say what they show at theirs.
        """
        at_hand = picked(self.context.config, key, "this-model")
        level = self.context.family.alpha if at_hand else self.level
        others, seed = self.design.others(self.unit), self.context.seed
        given = not at_hand and len(self.look.parts.judged) > 1
        return TargetSampling(others, level / self.look.intervals / attacks, seed, given)

    def _exposed(
        self, one: Judged, rate: float, key: Keys, batches: Mapping[str, NDArray[np.bool_]]
    ) -> Iterator[Measurement]:
        """Yield quantiles of exposure, and the exposure of groups."""
        curve, family = one.curve, self.context.family
        exposed = curve.exposed(rate)
        for level in _QUANTILES if len(exposed) else ():
            estimate = calibration.quantile(exposed, level, family)
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
        certificate = certify(CoinGame(self, scored, claimed, delta, noise_laws(delta)), limits)
        if "forget" in self.point.traits:
            traced = certify(CoinGame(self, scored, None, delta, (TRACE,)), [Bar(_LEAST_TRACE)])
            certificate = replace(certificate, controls=(*certificate.controls, *traced.controls))
        return certificate.fields


@dataclass(frozen=True, eq=False)
class CoinGame:
    """The game of the attacks that promise the largest ε, and of trainings with a planted leak.

    Attributes:
        inference: the attacks, and the trainings that they see.
        scored: each attack's scores in the judged ones.
        claimed: the claimed ε, if the claim is about the game.
        delta: the δ of the bound.
        noises: the laws of planted leaks, see `calibration`.
    """

    inference: Inference
    scored: Mapping[str, Judged]
    claimed: float | None
    delta: float
    noises: tuple[Noise, ...]

    def run(self) -> Certificate[Judged]:
        """Certify ε by the attacks' scores."""
        return self._certificate(self.scored)

    def rungs(self, bar: Bar, certificate: Certificate[Judged]) -> Iterator[float]:
        """Yield the ε of the leaks to plant."""
        leaks = [times * bar.limit for times in ((bar.factor,) if bar.factor else LADDER)]
        yield from (epsilon for epsilon in leaks if 0 < epsilon <= _MOST_PLANTED)

    def control(self, rung: float, bar: Bar) -> Control:
        """Certify ε of trainings with a planted leak."""
        trials, seed = self.inference.trials, self.inference.context.seed

        def of_mutant(noise: Noise, run: int) -> float:
            mutant = trials.mutant(noise, rung, self.delta, seed, run)
            return self._certificate(self.inference.judged(mutant, [], self.delta)).estimate.lower

        base = self.claimed or bar.limit
        least = min(base, bar.limit)
        return calibration.planted_control(of_mutant, self.noises, rung, self.delta, base, least)

    def _certificate(self, scored: Mapping[str, Judged]) -> Certificate[Judged]:
        """Return the largest bound of the attacks that promise most, which share the level.

        The bounds at all looks hold jointly with all others.
        """
        context = self.inference.context
        labels = calibration.rivals(scored, "epsilon", self.inference.few)
        size = context.family.size * self.inference.look.looks
        family = Family.of(context.family.confidence, size * len(labels))
        bound = partial(calibration.certified, delta=self.delta, family=family, seed=context.seed)
        certificates = []
        for label in labels:
            one = scored[label]
            estimate = bound(one.scores, one.present, one.guesses)
            certificates.append(Certificate(one, estimate, label))
        best = max(certificates, key=lambda certificate: certificate.estimate.lower)
        alpha = Family.of(context.family.confidence, size).alpha
        return replace(best, estimate=best.estimate.changed(alpha=alpha))


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
