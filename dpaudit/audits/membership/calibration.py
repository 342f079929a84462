"""From signals to scores and rates: some trainings calibrate attacks, and the others are judged.

Scores count by their ranks within a training, so what a model may add to all scores of a training,
or multiply them with, decides nothing.

With two calibrating trainings or more, nothing of the judged ones chooses anything. With fewer, a
quarter of the targets chooses the direction, the attack, its threshold and its guesses, and the
others are judged: their coins are independent of those of the quarter.

**Rates.** Trainings are independent given the attacker's own, whatever the dependence of targets
within one. So every interval takes the training as its sample, never the pair of training and
target.

**Planted leaks** of a known size are scores that show coins through noise. Every (ε, δ)-DP output
is a post-processing of (ε, δ)-randomised response (Kairouz, Oh & Viswanath 2015, arXiv:1311.0776,
Theorem 2.5), so randomised response is the easiest leak of its size to find, and says nothing of
the power on others. What is planted are the laws of the noise that mechanisms have, each with
exactly this ε at δ and no less:

- **Gaussian**, for δ > 0: μ·coin + N(0, 1), for the μ with

      Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ) = δ    (Balle & Wang 2018, arXiv:1805.06530, Theorem 8);

- **Laplace**: s·coin + Lap(1), for s = ε − 2 ln(1 − δ). Its log-likelihood ratio is ε at the middle
  of the two means moved by ε/2, where P(L ≥ ε) − e^ε Q(L ≥ ε) = 1 − e^{(ε − s)/2} is largest;

- **randomised response**, the trace of what was deleted: of all leaks that make as many guesses
  right it certifies least.

A planted leak stands in place of a model's answers: beside them it would be that of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.base import Covariates, MembershipInference, Numbers, Signals
from dpaudit.attacks.membership.features import direction
from dpaudit.auditor.games import CoinScores, Level, bound
from dpaudit.audits.membership.config import chooses_by_targets, choosing_targets
from dpaudit.bounds.frequentist.one_run import one_run_epsilon
from dpaudit.bounds.frequentist.roc import above_each, calls
from dpaudit.bounds.gdp import gaussian_mu
from dpaudit.bounds.planning import Game, trials_needed
from dpaudit.core.errors import InputError, RunError
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator
from dpaudit.record.result import Family
from dpaudit.record.values import MISSED, SEEDS, TRACE, Control, Noise

Mask = NDArray[np.bool_]
Rows = NDArray[np.int64]
# Shares of the coins that are guessed "present" and "absent".
Guesses = tuple[float, float]

# The most parts of the calibrating trainings of which each is attacked with the help of the others.
_FOLDS = 4
# The number of attacks that the strongest one may be, where a rehearsal ranks them poorly.
_RIVALS = 3
# The fewest guesses that are tried.
_LEAST = 16


class Division(NamedTuple):
    """Which trainings calibrate, and which are judged, each in a random order."""

    calibrating: Rows
    judged: Rows


def division(trainings: int, calibrating: int, seed: int, seen: int = 0) -> Division:
    """Return which trainings calibrate, and which are judged, at random.

    Neither the place of a training nor its neighbours decide in which part it is, so a model that
    leaks in every second training leaks in both. The order within a part is random too, as
    intervals over trainings need it of a model that drifts.

    Args:
        trainings: their number.
        calibrating: the number of trainings that calibrate.
        seed: the run's seed.
        seen: how many of them, the first ones, calibrate in any case.
    """
    order = generator(seed, "membership judged half").permutation(trainings)
    order = np.concatenate((order[order < seen], order[order >= seen]))
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
        covariates: what is known of targets and population beforehand; None if nothing is.
        summaries: how many of the features, the first, sum up the others.
    """

    features: Numbers
    population: Numbers
    present: Mask
    unanswered: Numbers | None = None
    covariates: Covariates | None = None
    summaries: int = 0

    def __len__(self) -> int:
        return len(self.present)

    def of(self, which: Rows) -> Self:
        """Return some of the trainings, in this order (indices `(n,)`)."""
        lacking = None if self.unanswered is None else self.unanswered[which]
        return replace(
            self,
            features=self.features[which],
            population=self.population[which],
            present=self.present[which],
            unanswered=lacking,
        )

    @property
    def ended(self) -> Rows:
        """The trainings that end with a model `(n,)`."""
        return np.flatnonzero(~np.isnan(self.features).any((1, 2)))

    def among(self, which: Rows) -> Self:
        """Return the same trainings with some of the targets, in this order (indices `(n,)`)."""
        lacking = None if self.unanswered is None else self.unanswered[:, which]
        features, present, known = self.features[:, which], self.present[:, which], self.covariates
        if known is not None:
            known = known._replace(targets=known.targets[which])
        return replace(
            self, features=features, present=present, unanswered=lacking, covariates=known
        )

    @property
    def comparable(self) -> Self:
        """The trials with each feature twice: on the scale of its training, and by rank there.

        Of scores only the order within a training counts, so a model may shift, stretch or bend
        them from one training to the next, which hides each target's own level. The scale is the
        distance from the median over all that is asked, less the median, in means of that distance;
        the rank is that of a normal law. The scale tells more of models that do none of this.
        """
        from scipy.special import ndtri

        scaled, cut, first = self.scaled, self.features.shape[1], self.summaries
        places = np.moveaxis(ranks(np.moveaxis(scaled, 2, 1)), 1, 2)
        normal = ndtri(places - 0.5 / scaled.shape[1])
        parts = scaled[..., :first], normal[..., :first], scaled[..., first:], normal[..., first:]
        both = np.concatenate(parts, axis=2)
        features, population = both[:, :cut], both[:, cut:]
        return replace(self, features=features, population=population, summaries=2 * first)

    @property
    def scaled(self) -> Numbers:
        """The features of targets and population on the scale of their training `(T, m + p, F)`."""
        shown = np.concatenate((self.features, self.population), axis=1)
        away = shown - np.median(shown, axis=1, keepdims=True)
        spread = np.abs(away).mean(1, keepdims=True)
        scaled: Numbers = away / np.where(spread > 0, spread, 1)
        return scaled

    def mutant(self, noise: Noise, epsilon: float, delta: float, seed: int, run: int) -> Self:
        """Return the trials with a planted leak in place of the features.

        The first feature shows every coin through noise (`planted`); the others are noise of
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
            return planted(noise, epsilon, delta, np.zeros(shape, np.bool_), rng)

        features, population = hidden(self.features.shape), hidden(self.population.shape)
        features[:, :, 0] = planted(noise, epsilon, delta, self.present, rng)
        ended = np.isin(np.arange(len(self)), self.ended)
        features[~ended] = population[~ended] = np.nan
        return replace(self, features=features, population=population, unanswered=None)

    def scores(self, attack: MembershipInference, reference: Trials) -> Numbers:
        """Return an attack's score of each target in each training `(T, m)`; see `Exam.scores`.

        Args:
            attack: the attack.
            reference: the attacker's own trainings, none of which is among these.
        """
        return Exam(self, reference).scores(attack)

    def rehearsals(self) -> list[tuple[Rows, Exam]]:
        """Return parts of the trainings, each attacked with the help of the others.

        There are at least two trainings, and four parts at most.
        """
        every = np.arange(len(self))
        parts = np.array_split(every, min(_FOLDS, len(self)))
        return [(part, Exam(self.of(part), self.of(np.setdiff1d(every, part)))) for part in parts]

    def signals(self, toward: Numbers) -> Signals:
        """Return what attacks read, with the fit along a direction of the features `(F,)`."""
        blocks = self.features, self.population
        fit, population = (np.einsum("tmf,f->tm", block, toward) for block in blocks)
        known = self.population, self.covariates, self.summaries
        return Signals(self.features, fit, population, *known)


@dataclass(frozen=True, eq=False)
class Exam:
    """Trainings that attacks score, with the attacker's own; what all attacks read is made once.

    Attributes:
        trials: the scored trainings.
        reference: the attacker's own trainings.
    """

    trials: Trials
    reference: Trials

    def scores(self, attack: MembershipInference) -> Numbers:
        """Return an attack's score of each target in each training `(T, m)`.

        Without a model all targets score alike, in the middle of the others. The attacker has no
        use for such trainings of their own; without any other, all scores are 0.

        Raises:
            RunError: a score is missing, or no finite number.
        """
        ended, shape = self.trials.ended, self.trials.present.shape
        if self._signals is None:
            return np.zeros(shape)
        values = attack.score(*self._signals)
        if values.shape != (len(ended), shape[1]) or not np.isfinite(values).all():
            raise RunError(
                f"attack {attack.name!r} does not score every target in every training by a finite "
                "number: correct its method score"
            )
        scores = np.full(shape, np.median(values))
        scores[ended] = values
        return scores

    @cached_property
    def _signals(self) -> tuple[Signals, Signals, Mask] | None:
        """The signals of both, and the attacker's coins; None if either has no model."""
        seen, known = (one.of(one.ended) for one in (self.trials, self.reference))
        if not len(seen) or not len(known):
            return None
        toward = direction(known.features, known.present)
        return seen.signals(toward), known.signals(toward), known.present


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
        choosing = np.empty(self.choosing.present.shape)
        for part, exam in self._rehearsals:
            choosing[part] = exam.scores(attack)
        return choosing, self.examined.scores(attack)

    @cached_property
    def examined(self) -> Exam:
        """What is judged, with the trainings that calibrate it."""
        if not len(self.others):
            return Exam(self.judged, self.reference)
        mine = self.reference.among(self.targets) if len(self.reference) else self.choosing
        return Exam(self.judged, mine)

    @cached_property
    def _rehearsals(self) -> list[tuple[Rows, Exam]]:
        """What chooses, in parts of its trainings."""
        if not len(self.others):
            return self.reference.rehearsals()
        mine = self.reference.among(self.others) if len(self.reference) else self.choosing
        return [(np.arange(len(self.choosing)), Exam(self.choosing, mine))]


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


def judged_by(
    calibration: Calibration, attack: MembershipInference, metric: str, rate: float | None
) -> Judged:
    """Score the judged targets as `judged` does, for one number alone.

    Args:
        calibration: what calibrates, chooses and is judged.
        attack: the attack.
        metric: the number, by its name in `Judged.promise`.
        rate: its false-positive rate, if it has one.
    """
    rehearsed, scores = map(ranks, calibration.scores(attack))
    curve, best = Curve(rehearsed, calibration.choosing.present), 0.5
    if rate is not None:
        promised = curve.rates(rate)
    elif metric == "auc":
        promised = curve.areas()
    else:
        best = curve.best_rate()
        promised = curve.advantages(best)
    promise = {metric: float(promised.mean())}
    present = calibration.judged.present
    return Judged(scores, present, calibration.targets, best, (0.5, 0.5), promise)


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


def quantile(values: Numbers, share: float, family: Family) -> Estimate:
    """Estimate a quantile over targets of a number from -1 to 1, as if they were independent.

    Its limits are order statistics: the number of values below it is binomial (David & Nagaraja
    2003, Order Statistics, section 7.1).
    """
    from scipy.stats import binom

    ordered, n = np.sort(values), len(values)
    tail = (1 - family.confidence) / 2
    low = int(binom.ppf(tail, n, share))
    high = int(binom.ppf(1 - tail, n, share))
    value = float(np.quantile(ordered, share, method="inverted_cdf"))
    return Estimate(
        value=value,
        lower=min(value, float(ordered[low - 1])) if low > 0 else -1.0,
        upper=max(value, float(ordered[high])) if high < n else 1.0,
        confidence=family.confidence,
        alpha=1 - family.confidence,
        n=n,
        method="order statistics over targets, by itself",
        kind="assumes-law",
    )


def best_guesses(
    scores: Numbers, present: Mask, *, delta: float, family: Family
) -> tuple[float, Guesses]:
    """Return the largest bound on ε over numbers of guesses, and the shares of the coins guessed.

    The bound is optimistic, as the same coins choose the numbers; it only chooses.

    Args:
        scores: scores of the targets `(T, m)`.
        present: the coins `(T, m)`.
        delta: δ.
        family: the family of the run's intervals.
    """
    order = np.argsort(-scores, axis=None, kind="stable")
    isin = present.reshape(-1)[order]
    size = len(isin)
    right_in = np.concatenate(([0], np.cumsum(isin)))
    right_out = np.concatenate(([0], np.cumsum(~isin[::-1])))
    sizes = [size >> j for j in range(1, size.bit_length()) if size >> j >= _LEAST]
    pairs = [(k, k) for k in sizes if 2 * k <= size]
    pairs += [pair for k in sizes for pair in ((k, 0), (0, k))]
    bounds = []
    for high, low in pairs:
        right = int(right_in[high] + right_out[low])
        estimate = one_run_epsilon(size, high + low, right, delta=delta, alpha=family.alpha)
        bounds.append((estimate.lower, (high / size, low / size)))
    return max(bounds, default=(0.0, (0.5, 0.5)))


def certified(
    scores: Numbers, present: Mask, guesses: Guesses, *, delta: float, family: Family, seed: int
) -> Estimate:
    """Return a certified lower bound on ε for the presence of one target.

    Coins of the judged trainings are guessed from scores that depend on these trainings and on the
    calibrating ones alone. The judged trainings are one mechanism, with as many coins as there are
    pairs of training and target. Another value of one coin changes the data of one training by one
    target, and no other training. So if the recommender is (ε, δ)-DP for the presence of one
    target, this mechanism is (ε, δ)-DP for each coin, and `bounds.frequentist.one_run` bounds the
    number of right guesses, whatever the dependence between targets and however the models of one
    training depend on all its data. The number of guesses is set beforehand, so one bound is used.

    Args:
        scores: scores of the targets `(C, m)`, larger for likelier presence.
        present: the coins `(C, m)`.
        guesses: the shares of the coins to guess "present" and "absent".
        delta: δ.
        family: the family of the run's intervals.
        seed: orders equal scores.
    """
    high, low = (int(share * present.size) for share in guesses)
    coins = CoinScores(scores.reshape(-1), present.reshape(-1), len(present), (high, low))
    return bound(coins, Level.of(family, delta), seed)[0]


@dataclass(frozen=True, eq=False)
class Curve:
    """Scores of targets in some trainings; a training whose targets are all alike counts as chance.

    Attributes:
        scores: the scores, larger for likelier presence `(T, m)`.
        present: whether the target is in the data `(T, m)`.
    """

    scores: Numbers
    present: Mask

    def areas(self) -> Numbers:
        """Return each training's area under the ROC curve, ties counted half `(T,)`.

        (Σ ranks of the present − M(M + 1)/2)/(M N), for M present and N absent targets (Hanley &
        McNeil 1982, doi:10.1148/radiology.143.1.7063747).
        """
        from scipy.stats import rankdata  # takes half a second to import

        present = self.present.sum(1)
        absent = self.present.shape[1] - present
        ranks = (rankdata(self.scores, axis=1) * self.present).sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            area = (ranks - present * (present + 1) / 2) / (present * absent)
        return np.where(present * absent > 0, area, 0.5)

    def above(self, rate: float) -> Numbers:
        """Return how likely the attacker at a false-positive rate calls a target present `(T, m)`.

        By the absent targets of its training (`roc.calls`): another absent target is called
        present with this probability, and no attack hides its finds in a tie.
        """
        rows = [
            calls(row, row[~coins], rate)
            for row, coins in zip(self.scores, self.present, strict=True)
        ]
        return np.reshape(rows, self.scores.shape)

    def rates(self, rate: float) -> Numbers:
        """Return each training's true-positive rate at a false-positive rate `(T,)`."""
        return self.share(self.above(rate), np.ones_like(self.present))

    def advantages(self, rate: float) -> Numbers:
        """Return each training's true- minus false-positive rate at such a rate, −1 to 1 `(T,)`."""
        return self.rates(rate) - rate

    def best_rate(self) -> float:
        """Return the false-positive rate with the largest mean advantage; 1/2 if none has any.

        With N absent targets, M_k present ones above the k-th of these, and M present ones, the
        true-positive rate at k/(N + 1) is M_k/M, and linear in between.
        """
        curves = self._curves()
        least = min(map(len, curves)) - 2
        wanted = np.arange(1, least + 1) / (least + 1)
        gains = -wanted
        for curve in curves:
            places = np.arange(len(curve)) / (len(curve) - 1)
            gains = gains + np.interp(wanted, places, curve) / len(curves)
        return float(wanted[gains.argmax()]) if gains.max(initial=0) > 0 else 0.5

    def best_advantages(self) -> Numbers:
        """Return each training's largest advantage that one of its thresholds shows `(T,)`."""
        # Above the k-th largest of N absent scores are k − 1 of them.
        curves = ((curve[1:-1], len(curve) - 2) for curve in self._curves())
        return np.array(
            [(curve - np.arange(n) / max(1, n)).max(initial=0) for curve, n in curves], np.float64
        )

    def _curves(self) -> list[Numbers]:
        """Return M_k/M of each training for k from 0 to N + 1."""
        curves = []
        for row, coins in zip(self.scores, self.present, strict=True):
            isin = coins[np.argsort(-row, kind="stable")]
            curves.append(above_each(isin) / max(1, isin.sum()))
        return curves

    def share(self, above: Numbers, among: Mask) -> Numbers:
        """Return the share of present targets of a group that are found; 0 without any `(T,)`."""
        group = self.present & among
        return (above * group).sum(1) / np.maximum(group.sum(1), 1)

    def gain(self, above: Numbers, among: Mask) -> Numbers:
        """Return how much more a group's present targets are found than its absent ones `(T,)`.

        A group whose scores are large anyway, such as rare items, gains nothing by that.
        """
        group = ~self.present & among
        return self.share(above, among) - (above * group).sum(1) / np.maximum(group.sum(1), 1)

    def exposed(self, rate: float) -> Numbers:
        """Return how much more often a target is found when it is present than when absent `(m,)`.

        Targets that no training, or every training has are left out.
        """
        above, times = self.above(rate), self.present.sum(0)
        both = (times > 0) & (times < len(self.present))
        within = (above * self.present).sum(0)[both] / times[both]
        without = (above * ~self.present).sum(0)[both] / (~self.present).sum(0)[both]
        return within - without


def ranks(scores: Numbers) -> Numbers:
    """Return the rank of each score within its training, equal ones at their mean `(…, m)`.

    Above 0 and at most 1; NaN for all of a training that has a NaN.
    """
    from scipy.stats import rankdata

    return rankdata(scores, axis=-1) / scores.shape[-1]


def best_threshold(scores: Numbers, present: Mask) -> float:
    """Return the threshold with the largest difference of true- and false-positive rate.

    It is halfway between two scores, and infinite if no threshold is better than none.
    """
    order = np.argsort(-scores, axis=None, kind="stable")
    values, isin = scores.reshape(-1)[order], present.reshape(-1)[order]
    gain = np.cumsum(isin / max(1, isin.sum()) - ~isin / max(1, (~isin).sum()))
    last = np.append(values[1:] != values[:-1], True)
    gain = np.where(last, gain, -np.inf)
    best = int(np.argmax(gain))
    if gain[best] <= 0:
        return math.inf
    if best + 1 == len(values):
        return -math.inf
    above, below = float(values[best]), float(values[best + 1])
    half = above / 2 + below / 2
    # Of neighbouring numbers the half may be the larger one, which has to stay above.
    return half if half < above else below


def noise_laws(delta: float) -> tuple[Noise, ...]:
    """Return the laws of noise of mechanisms with this δ."""
    return ("Gaussian", "Laplace") if delta > 0 else ("Laplace",)


def planted(
    noise: Noise, epsilon: float, delta: float, coins: NDArray[np.bool_], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Return coins as seen through noise, in their shape.

    Args:
        noise: the law.
        epsilon: the ε of each coin.
        delta: the δ of each coin; that of randomised response is 0.
        coins: the coins.
        rng: draws the noise.
    """
    if noise == "Gaussian":
        return gaussian_mu(epsilon, delta) * coins + rng.standard_normal(coins.shape)
    if noise == "Laplace":
        return (epsilon - 2 * math.log1p(-delta)) * coins + rng.laplace(size=coins.shape)
    return (coins ^ (rng.random(coins.shape) < 1 / (1 + math.exp(epsilon)))).astype(np.float64)


def planted_control(
    certified: Callable[[Noise, int], float],
    noises: Sequence[Noise],
    epsilon: float,
    delta: float,
    limit: float,
    least: float,
) -> Control:
    """Return what a game finds of a planted leak, by the law of which it finds least.

    Args:
        certified: the lower bound on ε that the game certifies of a law, by the number of the run.
        noises: the laws; a later one is not tried where an earlier one is missed.
        epsilon: the ε of the leak.
        delta: its δ.
        limit: the ε that counts as found if more is certified.
        least: the least ε that anything is compared with, at most `limit`; runs end once more than
            one certifies no more.
    """
    controls: list[Control] = []
    for noise in noises:
        bounds: list[float] = []
        while len(bounds) < SEEDS and sum(bound <= least for bound in bounds) <= MISSED:
            bounds.append(certified(noise, len(bounds)))
        dependable = sorted(bounds)[MISSED]
        by = "randomised response" if noise == TRACE else f"{noise} noise"
        controls.append(
            Control(
                mutant=f"a leak of ε = {epsilon:.4g} planted by {by}",
                factor=epsilon / limit,
                epsilon=epsilon,
                certified=dependable,
                found=dependable > limit,
                noise=noise,
                delta=0.0 if noise == TRACE else delta,
                hits=sum(bound > limit for bound in bounds),
                runs=len(bounds),
            )
        )
        if dependable <= least:
            break
    return min(controls, key=lambda one: one.certified)


def coins_needed(
    limit: float, factor: float, noise: Noise, delta: float, alpha: float
) -> int | None:
    """Forecast how many coins find a leak of so many times a limit in 95 of 100 runs.

    Args:
        limit: the ε to exceed.
        factor: the leak's ε as a multiple of it.
        noise: the law of the leak's noise.
        delta: the δ of the bound and of the leak.
        alpha: the level of the bound.

    Returns:
        The number of coins; None if no number below 10⁹ suffices.
    """
    game: Game = "gaussian" if noise == "Gaussian" else "laplace"
    how = {"delta": delta, "confidence": 1 - alpha}
    try:
        return trials_needed(limit, factor, **how, game=game, method="one-run")
    except InputError:
        return None
