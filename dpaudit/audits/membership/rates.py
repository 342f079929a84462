"""Error rates of membership inference and the guesses behind a bound on ε, from judged trainings.

Trainings are independent given the attacker's own, whatever the dependence of targets within one.
So every interval takes the training as its sample, never the pair of training and target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.games.certify import Level, bound
from dpaudit.auditor.games.outcomes import CoinScores
from dpaudit.bounds.frequentist.one_run import one_run_epsilon
from dpaudit.bounds.frequentist.roc import above_each, calls
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Family

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
# Shares of the coins that are guessed "present" and "absent".
Guesses = tuple[float, float]

# The fewest guesses that are tried.
_LEAST = 16


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
    scores: Numbers,
    present: Mask,
    guesses: Guesses,
    *,
    delta: float,
    family: Family,
    seed: int,
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
        shares: Numbers = (above * group).sum(1) / np.maximum(group.sum(1), 1)
        return shares

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
        gains: Numbers = within - without
        return gains


def ranks(scores: Numbers) -> Numbers:
    """Return the rank of each score within its training, equal ones at their mean `(…, m)`.

    Above 0 and at most 1; NaN for all of a training that has a NaN.
    """
    from scipy.stats import rankdata

    within: Numbers = rankdata(scores, axis=-1) / scores.shape[-1]
    return within


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
