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
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import MembershipInference
from dpaudit.auditor.games import LADDER, Bar, Certificate, certify
from dpaudit.auditor.gate import bars
from dpaudit.auditor.measure import Context, MetricKey, of_trainings, picking
from dpaudit.auditor.trainings import joint_mean
from dpaudit.audits.membership import calibration
from dpaudit.audits.membership.calibration import (
    Calibration,
    Curve,
    Division,
    Judged,
    Trials,
    noise_laws,
)
from dpaudit.audits.membership.config import MembershipConfig, chooses_by_targets
from dpaudit.audits.membership.decisions import TrainingsLook
from dpaudit.audits.membership.design import Design, groups_of
from dpaudit.audits.membership.planting import Background, PassControl, Reading
from dpaudit.audits.models.subject import MemberPoint
from dpaudit.bounds.frequentist import roc
from dpaudit.core.estimate import Estimate
from dpaudit.core.membership import ROWS, Observer, Unit, covers
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

    def tells(self, one: Judged) -> NDArray[np.float64]:
        """Return what each present target adds to it, NaN for absent ones `(C, m)`.

        It is whether the target is called present, or the share of the absent ones that it beats.
        """
        curve = one.curve
        if self.metric == "attack.auc":
            from scipy.stats import rankdata

            absent = (~curve.present).sum(1, keepdims=True)
            apart = np.where(curve.present, curve.scores, np.nan)
            below = rankdata(curve.scores, axis=1) - rankdata(apart, axis=1, nan_policy="omit")
            tells = below / np.maximum(absent, 1)
        else:
            tells = curve.above(one.best_rate if self.at is None else self.at)
            tells = tells - (one.best_rate if self.at is None else 0.0)
        return np.where(curve.present, tells, np.nan)

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


def _able(
    attacks: Mapping[str, MembershipInference], parts: Division
) -> dict[str, MembershipInference]:
    """Return the attacks that need no calibrating training, or all if there are some."""
    some = len(parts.calibrating)
    return {label: one for label, one in attacks.items() if some or not one.compares_targets}


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
        raw: what the observer sees, and the coins.
        ordered: whether of what is seen the order within a training counts.
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
    raw: Trials
    ordered: bool
    model: str
    point: MemberPoint
    unit: Unit
    observer: Observer

    @cached_property
    def trials(self) -> Trials:
        """What the attacks read, and the coins."""
        return self.raw.comparable if self.ordered else self.raw

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
        yield from self._strongest(self.judged(self.trials, self._rates, 0.0))

    def measurements(
        self, view: str | None, batches: Mapping[str, NDArray[np.bool_]]
    ) -> Iterator[Measurement]:
        """Judge every attack by itself, and the strongest jointly.

        Args:
            view: what is seen besides, if a claim says more than the observer.
            batches: groups of targets in the judged trainings `(J, m)` by name, see `batches`.
        """
        key, rates, curve, scored = self.key, self._rates, self._curve, self._scored
        claim = self.point.claim
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
        yield bound.measured(**self._certified(scored, claimed, self._delta, limits), view=view)

    def foreign(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
        """Return the strongest attack's scores of half of the judged trainings, and others' coins.

        Returns:
            The scores, and the coins of the other half `(h, m)`; None with fewer than two
            trainings of either kind.
        """
        calibrating, judged = self.look.parts
        half = len(judged) // 2
        if chooses_by_targets(len(calibrating)) or not half:
            return None
        attack = self.attacks[calibration.rivals(self._scored, "auc", 1)[0]]
        scores = self.trials.of(judged[:half]).scores(attack, self.trials.of(calibrating))
        return scores, self.trials.present[judged[half : 2 * half]]

    @cached_property
    def _scored(self) -> Mapping[str, Judged]:
        """Each attack's scores of the judged trainings, by its label."""
        return self.judged(self.trials, [*self._rates, *self._curve], self._delta)

    @property
    def _curve(self) -> list[float]:
        """The further false-positive rates of the curve."""
        rates, judged = self._rates, self.context.config.membership.judged(self.unit)
        return [at for at in _CURVE if at not in rates and at * judged >= 2]

    @property
    def _delta(self) -> float:
        claim = self.point.claim
        return claim.delta if claim else self.context.config.membership.delta

    @property
    def _rates(self) -> list[float]:
        return self.context.config.membership.rates_of(self.unit)

    def judged(self, trials: Trials, rates: Sequence[float], delta: float) -> dict[str, Judged]:
        """Return each attack's scores of the judged trainings among some, by its label."""
        return self._judged(trials, self.look.parts, self._reading_attacks, rates, delta)

    def _judged(
        self,
        trials: Trials,
        parts: Division,
        attacks: Mapping[str, MembershipInference],
        rates: Sequence[float],
        delta: float = 0.0,
    ) -> dict[str, Judged]:
        fitted = Calibration.of(trials, parts, self.context.seed)
        return {
            label: calibration.judged(fitted, attack, rates, self.context.family, delta)
            for label, attack in _able(attacks, parts).items()
        }

    @cached_property
    def _reading_attacks(self) -> Mapping[str, MembershipInference]:
        """The attacks that read what this observer sees, by label."""
        every = self.attacks.items()
        return {label: one for label, one in every if one.observer in (None, self.observer)}

    def _strongest(self, scored: Mapping[str, Judged]) -> Iterator[Measurement]:
        """Yield the largest of each number, of the attacks that promise most by it.

        Each statement that gates make has a number of its own.
        """
        games = {(None, None): [scored]}
        for number in numbers(self._rates):
            for key in of_trainings(self.context.config, number.key(self.key, STRONGEST)):
                about = key.statement, key.attacker
                divisions, attacks = self._divisions(key), self._attacks(key)
                if not attacks:
                    continue
                if about not in games:
                    games[about] = [
                        self._judged(self.trials, parts, attacks, self._rates)
                        for parts in divisions
                    ]
                reading = self._reading(number, key, games[about], divisions)
                yield self._controlled(number, key, reading, divisions)

    def _divisions(self, key: MetricKey) -> list[Division]:
        """Return which trainings calibrate and which are judged, for what a number is about.

        A training that ships is judged, and all others calibrate.
        """
        if key.statement != "this-model":
            return [self.look.parts]
        shipped = self.context.config.membership.shipped(self.look.trainings)
        order = np.concatenate(self.look.parts)
        return [Division(order[order != one], np.array([one])) for one in shipped]

    def _attacks(self, key: MetricKey) -> Mapping[str, MembershipInference]:
        """Return the attacks that a number is the largest of, by label."""
        every = self._reading_attacks
        if key.attacker is None:
            return every
        return {label: one for label, one in every.items() if not one.compares_targets}

    def _controlled(
        self, number: Number, key: MetricKey, reading: Reading, divisions: Sequence[Division]
    ) -> Measurement:
        """Return a number with what the rules of gates say of planted leaks, if they pass it."""
        gates = [gate for gate in picking(self.context.config, key) if gate.bounds_leak]
        if not gates or not self.look.last or len(self.raw.ended) < len(self.raw):
            return reading.measurement
        control = self._control(number, key, divisions)
        # Who trains no model learns nothing from trainings.
        steps = () if key.attacker else control.learning(self.trials, reading)
        planted = tuple(control.planted(reading.measurement, gates))
        return reading.measurement.model_copy(update={"planted": planted, "learning": steps})

    def calibrating_needed(self, judged: int) -> int | None:
        """Forecast with how many calibrating trainings gates catch planted leaks in each number.

        Args:
            judged: how many further trainings are judged; these at hand calibrate.

        Returns:
            The number, at least that of the trainings at hand; None if no number that is tried
            is enough.
        """
        own = np.arange(len(self.raw))
        needed = len(own)
        for number in numbers(self._rates):
            key = number.key(self.key, STRONGEST).changed(joint=False, census=True)
            gates = [gate for gate in picking(self.context.config, key) if gate.bounds_leak]
            if gates:
                parts = Division(own, np.arange(len(own), len(own) + judged))
                most = self._control(number, key, [parts]).needed(number, gates)
                if most is None:
                    return None
                needed = max(needed, most)
        return needed

    def _control(
        self, number: Number, key: MetricKey, divisions: Sequence[Division]
    ) -> PassControl:
        """Return what is planted in trainings like these, divided into calibrating and judged."""
        attacks = self._attacks(key)

        def measured(
            trials: Trials, divisions: Sequence[Division], labels: Collection[str]
        ) -> Reading:
            some = {label: one for label, one in attacks.items() if label in labels}
            games = []
            for parts in divisions:
                fitted = Calibration.of(trials, parts, self.context.seed)
                able = _able(some, parts).items()
                judged = {
                    label: calibration.judged_by(fitted, one, number.promise, number.at)
                    for label, one in able
                }
                games.append(judged)
            return self._reading(number, key, games, divisions, bare=True)

        return PassControl(
            measured,
            Background.of(self.raw, ordered=self.ordered, own=key.attacker is None),
            divisions,
            tuple(attacks),
            len(_able(attacks, divisions[0])),
            self.moves,
            self.context.seed,
            1 - self.context.family.confidence,
        )

    @property
    def moves(self) -> list[float]:
        """By how much a planted leak moves each feature, in units of its spread `(F,)`.

        What sticks out of rows is the score again.
        """
        count = self.raw.features.shape[2]
        return [float(not place or self.observer == ROWS) for place in range(count)]

    def _reading(
        self,
        number: Number,
        key: MetricKey,
        games: Sequence[Mapping[str, Judged]],
        divisions: Sequence[Division],
        *,
        bare: bool = False,
    ) -> Reading:
        """Return the largest of a number, of the attacks that promise most by it.

        Args:
            number: the number.
            key: its key.
            games: each attack's scores by label, for each division of the trainings.
            divisions: which trainings calibrate and which are judged.
            bare: whether own intervals are left out where no pass depends on them.
        """
        censuses, events, tells = [], [], []
        for scored, parts in zip(games, divisions, strict=True):
            labels = calibration.rivals(
                scored, number.promise, calibration.few(len(parts.calibrating))
            )
            subsets = self._subsets(key, len(labels) * len(games), parts)
            some = [
                Census.known(number.values(one, one.curve).tolist())
                if bare and key.statement != "this-model"
                else subsets.census(one, number)
                for one in map(scored.__getitem__, labels)
            ]
            events.append(labels[int(np.argmax([sum(census.values) for census in some]))])
            tells.append(number.tells(scored[events[-1]]))
            censuses.append(Census.largest(some))
        census = Census.joined(censuses)
        estimate = census.estimate
        if key.joint and self.look.last:
            attacks = [games[0][label] for label in labels]
            estimate = average(attacks, number, self.context.family)
        measurement = key.measured(estimate, event=events[0], census=census)
        first = calibration.rivals(games[0], number.promise, len(games[0]))
        return Reading(measurement, first, np.concatenate(tells))

    def _subsets(self, key: MetricKey, shares: int, parts: Division) -> TargetSampling:
        """Return what the census of a number is about, and the level of its intervals.

        That of a number that gates judge on the training at hand is the level of a joint interval,
        which several attacks or trainings share. About the next training, whose number has a
        threshold of its own too, several trainings say what they show at theirs.
        """
        others, seed = self.design.others(self.unit), self.context.seed
        if key.statement == "this-model":
            return TargetSampling(others, self.context.family.alpha / shares, seed)
        given = len(parts.judged) > 1
        return TargetSampling(others, self.level / self.look.intervals / shares, seed, given)

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
