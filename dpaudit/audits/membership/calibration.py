"""From signals to scores: some trainings calibrate the attacks, and the others are judged.

Scores count by their ranks within a training, so what a model may add to all scores of a training,
or multiply them with, decides nothing.

With two calibrating trainings or more, nothing of the judged ones chooses anything. With fewer, a
quarter of the targets chooses the direction, the attack, its threshold and its guesses, and the
others are judged: their coins are independent of those of the quarter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import MembershipInference, Numbers, Signals
from dpaudit.attacks.membership.features import direction
from dpaudit.audits.membership.config import chooses_by_targets, choosing_targets
from dpaudit.audits.membership.planted import shown
from dpaudit.audits.membership.rates import Curve, Guesses, best_guesses, ranks
from dpaudit.core.errors import RunError
from dpaudit.core.streams import generator
from dpaudit.record.result import Family
from dpaudit.record.values import Noise

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]

# The most parts of the calibrating trainings of which each is attacked with the help of the others.
_FOLDS = 4
# The number of attacks that the strongest one may be, where a rehearsal ranks them poorly.
_RIVALS = 3


class Division(NamedTuple):
    """Which trainings calibrate, and which are judged, each in a random order."""

    calibrating: Rows
    judged: Rows


def division(trainings: int, calibrating: int, seed: int) -> Division:
    """Return which trainings calibrate, and which are judged, at random.

    Neither the place of a training nor its neighbours decide in which part it is, so a model that
    leaks in every second training leaks in both. The order within a part is random too, as
    intervals over trainings need it of a model that drifts.

    Args:
        trainings: their number.
        calibrating: the number of trainings that calibrate.
        seed: the run's seed.
    """
    order = generator(seed, "membership judged half").permutation(trainings)
    return Division(order[:calibrating], order[calibrating:])


@dataclass(frozen=True, eq=False)
class Trials:
    """The features and coins of some trainings.

    Attributes:
        features: features of the targets `(T, m, F)`; NaN in trainings that end without a model.
        population: features of the population `(T, p, F)`; p may be 0.
        present: whether each target is in the data of each training `(T, m)`.
        unanswered: the share of what was asked of each target that has no answer `(T, m)`; None
            if everything is answered.
    """

    features: Numbers
    population: Numbers
    present: Mask
    unanswered: Numbers | None = None

    def __len__(self) -> int:
        return len(self.present)

    def of(self, which: Rows) -> Self:
        """Return some of the trainings, in this order (indices `(n,)`)."""
        lacking = None if self.unanswered is None else self.unanswered[which]
        return type(self)(
            self.features[which], self.population[which], self.present[which], lacking
        )

    @property
    def ended(self) -> Rows:
        """The trainings that end with a model `(n,)`."""
        return np.flatnonzero(~np.isnan(self.features).any((1, 2)))

    def among(self, which: Rows) -> Self:
        """Return the same trainings with some of the targets, in this order (indices `(n,)`)."""
        lacking = None if self.unanswered is None else self.unanswered[:, which]
        return type(self)(self.features[:, which], self.population, self.present[:, which], lacking)

    @property
    def comparable(self) -> Self:
        """The trials with each feature twice: on the scale of its training, and by rank there.

        Of scores only the order within a training counts, so a model may shift, stretch or bend
        them from one training to the next, which hides each target's own level. The scale is the
        distance from the median over all that is asked, less the median, in means of that distance;
        the rank is that of a normal law. The scale tells more of models that do none of this.
        """
        from scipy.special import ndtri

        shown = np.concatenate((self.features, self.population), axis=1)
        away = shown - np.median(shown, axis=1, keepdims=True)
        spread = np.abs(away).mean(1, keepdims=True)
        scaled = away / np.where(spread > 0, spread, 1)
        places = np.moveaxis(ranks(np.moveaxis(shown, 2, 1)), 1, 2)
        normal = ndtri(places - 0.5 / shown.shape[1])
        both, cut = np.concatenate((scaled, normal), axis=2), self.features.shape[1]
        return replace(self, features=both[:, :cut], population=both[:, cut:])

    def mutant(self, noise: Noise, epsilon: float, delta: float, seed: int, run: int) -> Self:
        """Return the trials with a planted leak in place of the features.

        The first feature shows every coin through noise (`planted.shown`); the others are noise of
        the same law, like the population's. So the mutant is (ε, δ)-DP for each coin, and no less.
        Where a training ends without a model, the mutant has none.

        Args:
            noise: the law of the noise.
            epsilon: the ε of each coin.
            delta: the δ of each coin.
            seed: the seed of the noise.
            run: the number of the run; each has a stream of its own.
        """
        rng = generator((seed, run), f"membership planted {noise}")

        def hidden(shape: tuple[int, ...]) -> Numbers:
            return shown(noise, epsilon, delta, np.zeros(shape, np.bool_), rng)

        features, population = hidden(self.features.shape), hidden(self.population.shape)
        features[:, :, 0] = shown(noise, epsilon, delta, self.present, rng)
        ended = np.isin(np.arange(len(self)), self.ended)
        features[~ended] = population[~ended] = np.nan
        return type(self)(features, population, self.present)

    def scores(self, attack: MembershipInference, reference: Trials) -> Numbers:
        """Return an attack's score of each target in each training `(T, m)`.

        Without a model all targets score alike, in the middle of the others. The attacker has no
        use for such trainings of their own; without any other, all scores are 0.

        Args:
            attack: the attack.
            reference: the attacker's own trainings, none of which is among these.

        Raises:
            RunError: a score is missing, or no finite number.
        """
        seen, known = self.of(self.ended), reference.of(reference.ended)
        if not len(seen) or not len(known):
            return np.zeros(self.present.shape)
        toward = direction(known.features, known.present)
        values = attack.score(seen._signals(toward), known._signals(toward), known.present)
        if values.shape != seen.present.shape or not np.isfinite(values).all():
            raise RunError(
                f"attack {attack.name!r} does not score every target in every training by a finite "
                "number: correct its method score"
            )
        scores = np.full(self.present.shape, np.median(values))
        scores[self.ended] = values
        return scores

    def rehearsed(self, attack: MembershipInference) -> Numbers:
        """Return an attack's scores of the targets, each part of the trainings from the others.

        There are at least two trainings, and four parts at most.
        """
        scores = np.empty(self.present.shape)
        for part in np.array_split(np.arange(len(self)), min(_FOLDS, len(self))):
            others = np.setdiff1d(np.arange(len(self)), part)
            scores[part] = self.of(part).scores(attack, self.of(others))
        return scores

    def _signals(self, toward: Numbers) -> Signals:
        fit, population = (
            np.einsum("tmf,f->tm", block, toward) for block in (self.features, self.population)
        )
        return Signals(self.features, fit, population)


@dataclass(frozen=True, eq=False)
class Judged:
    """An attack's scores of the judged targets in the judged trainings, and what others chose.

    Attributes:
        scores: scores of the targets `(J, n)`.
        present: whether each target is in the data `(J, n)`.
        targets: which of the targets these are, increasing `(n,)`.
        best_rate: the false-positive rate with the largest advantage in what chooses.
        guesses: the shares of the coins to guess, "present" and "absent", that certified most
            there.
        promise: what the attack reached there, by metric: the mean over trainings, and for
            `epsilon` the bound.
        unanswered: as in `Trials`, of the judged trainings `(J, n)`.
    """

    scores: Numbers
    present: Mask
    targets: Rows
    best_rate: float
    guesses: Guesses
    promise: Mapping[str, float]
    unanswered: Numbers | None = None

    @property
    def curve(self) -> Curve:
        """The scores as they are."""
        return Curve(self.scores, self.present)

    @property
    def worst(self) -> Curve | None:
        """The scores if the answers that are missing told every coin; None if none is missing."""
        if self.unanswered is None or not self.unanswered.any():
            return None
        lacking = self.unanswered > 0
        ends = np.where(self.present, self.scores.max() + 1, self.scores.min() - 1)
        return Curve(np.where(lacking, ends, self.scores), self.present)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Which trainings calibrate, and which trainings and targets are judged.

    Attributes:
        reference: the calibrating trainings; there may be none.
        judged: the judged trainings, with the judged targets.
        choosing: the trainings and targets that choose; the calibrating ones if there are two.
        targets: the judged targets, increasing `(n,)`.
        others: the targets that choose, increasing; empty if trainings choose.
    """

    reference: Trials
    judged: Trials
    choosing: Trials
    targets: Rows
    others: Rows

    @classmethod
    def of(cls, trials: Trials, parts: Division, seed: int) -> Self:
        """Divide the trainings, and with fewer than two calibrating ones the targets.

        Args:
            trials: the trainings.
            parts: which of them calibrate, and which are judged; others are left out.
            seed: the run's seed.
        """
        reference, judging = trials.of(parts.calibrating), trials.of(parts.judged)
        count = trials.present.shape[1]
        if not chooses_by_targets(len(reference)):
            return cls(reference, judging, reference, np.arange(count), np.arange(0))
        order = generator(seed, "membership choosing targets").permutation(count)
        cut = choosing_targets(count)
        others, targets = np.sort(order[:cut]), np.sort(order[cut:])
        return cls(reference, judging.among(targets), judging.among(others), targets, others)

    def scores(self, attack: MembershipInference) -> tuple[Numbers, Numbers]:
        """Return an attack's scores of what chooses, and of what is judged `(J, n)`."""
        if not len(self.others):
            return self.reference.rehearsed(attack), self.judged.scores(attack, self.reference)
        if not len(self.reference):
            trials = self.choosing
            return trials.scores(attack, trials), self.judged.scores(attack, trials)
        choosing, judged = (
            part.scores(attack, self.reference.among(which))
            for part, which in ((self.choosing, self.others), (self.judged, self.targets))
        )
        return choosing, judged


def judged(
    calibration: Calibration,
    attack: MembershipInference,
    rates: Sequence[float],
    family: Family,
    delta: float,
) -> Judged:
    """Score the judged targets with an attack that others calibrate.

    Args:
        calibration: what calibrates, chooses and is judged.
        attack: the attack; one that compares each target with itself needs calibrating trainings.
        rates: the false-positive rates of interest.
        family: the family of the run's intervals.
        delta: δ of the certified ε.
    """
    rehearsed, scores = map(ranks, calibration.scores(attack))
    choosing, judging = calibration.choosing, calibration.judged
    curve = Curve(rehearsed, choosing.present)
    best = curve.best_rate()
    epsilon, guesses = best_guesses(rehearsed, choosing.present, delta=delta, family=family)
    return Judged(
        scores,
        judging.present,
        calibration.targets,
        best,
        guesses,
        {
            "epsilon": epsilon,
            "auc": float(curve.areas().mean()),
            "advantage": float(curve.advantages(best).mean()),
            **{f"tpr {rate:g}": float(curve.rates(rate).mean()) for rate in rates},
        },
        judging.unanswered,
    )


def few(calibrating: int) -> int:
    """Return how many of the attacks that promise most are judged.

    With two calibrating trainings each is attacked with the help of one, and an attack that two
    help far more promises too little there. The largest number of three then finds what the best
    one does. Otherwise it is one, as without a leak the largest of several lies above each.
    """
    return _RIVALS if calibrating == 2 else 1


def rivals(scored: Mapping[str, Judged], metric: str, count: int) -> list[str]:
    """Return the labels of the attacks that promise most by a metric, best first; first of equals.

    Args:
        scored: the attacks by label.
        metric: the metric.
        count: the number of labels at most.
    """
    return sorted(scored, key=lambda label: -scored[label].promise[metric])[:count]
