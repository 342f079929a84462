"""Counting at a threshold on the scores that a held-out half of them chose."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.counting import best_split, clopper_pearson_epsilon
from dpaudit.bounds.outcomes import Counts, Scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

# The choice uses α divided by this. A threshold chosen at the certifying level is often due to
# chance; a stricter level prefers events that do not depend on a few outcomes.
_STRICTER = 10.0
# The number of thresholds tried first, and between two of them if a better one may lie there.
_COARSE, _FINE = 256, 16


@dataclass(frozen=True)
class ThresholdRule:
    """The rule by which an attack answers "present".

    Attributes:
        value: the threshold on the score.
        above: whether "present" means `score >= value`; otherwise it means `score < value`.
    """

    value: float
    above: bool = True

    def counts(self, absent: Scores, present: Scores) -> Counts:
        """Return the counts of this rule on the scores of either class."""
        tp = int(((present >= self.value) == self.above).sum())
        fp = int(((absent >= self.value) == self.above).sum())
        return Counts(tp=tp, fp=fp, fn=len(present) - tp, tn=len(absent) - fp)

    def __str__(self) -> str:
        """Describe the rule."""
        return f"says D' at score {'>=' if self.above else '<'} {self.value:g}"


def held_out_epsilon(
    absent: Scores, present: Scores, *, delta: float = 0.0, alpha: float = 0.05
) -> tuple[Estimate, ThresholdRule]:
    """Return a Clopper-Pearson bound at a held-out choice of threshold, direction and split of α.

    The first half of either class chooses among all thresholds. The second half certifies at level
    `alpha`. `labels.label_epsilon` is tighter.

    Args:
        absent: independent scores of trials on data set D.
        present: independent scores of trials on data set D'.
        delta: the δ of the claim.
        alpha: the level of the bound.

    Raises:
        InputError: a score is not finite, a class has fewer than 2 scores, or δ or α is out of
            range.
    """
    absent, present = _two_classes(absent, present, 2)
    first, second = (scores[: len(scores) // 2] for scores in (absent, present))
    chosen = choose_threshold(first, second, delta=delta, alpha=alpha)
    seen = chosen.counts(first, second)
    absent, present = absent[len(first) :], present[len(second) :]
    split = best_split(
        (seen.tp + 0.5) / (seen.present + 1),
        (seen.fp + 0.5) / (seen.absent + 1),
        len(present),
        len(absent),
        delta=delta,
        alpha=alpha,
    )
    estimate = clopper_pearson_epsilon(
        chosen.counts(absent, present), delta=delta, alpha=alpha, split=split
    )
    return estimate.changed(method="held-out clopper-pearson"), chosen


def choose_threshold(
    absent: Scores, present: Scores, *, delta: float = 0.0, alpha: float = 0.05
) -> ThresholdRule:
    """Return the threshold and direction with the largest bound on these scores.

    This bound is not a certificate, since the same scores chose it. A bound grows with the true
    positives and falls with the false positives. So no threshold between two others exceeds the
    bound at the lower one's true positives and the upper one's false positives. The search skips
    intervals where that bound is too small.

    Raises:
        InputError: a score is not finite, a class is empty, or δ or α is out of range.
    """
    outcomes.check_delta(delta)
    outcomes.check_alpha(alpha)
    absent, present = _two_classes(absent, present, 1)
    pooled = np.concatenate((absent, present))
    order = np.argsort(pooled, kind="stable")
    values = pooled[order]
    starts = np.flatnonzero(np.append(True, values[1:] > values[:-1]))
    below = np.append(0, np.cumsum(order >= len(absent)))[starts]
    # The numbers of either class at or above each distinct score.
    tp, fp = len(present) - below, len(absent) - (starts - below)
    sizes = (len(present), len(absent))
    best, rule = -1.0, ThresholdRule(float(values[starts[0]]))
    for above in (True, False):
        # Below a threshold the counts are the complements of those above.
        hits = (tp, fp) if above else (len(present) - tp[::-1], len(absent) - fp[::-1])
        place, bound = _best_place(*hits, sizes, delta, alpha / _STRICTER)
        if bound > best:
            index = place if above else len(starts) - 1 - place
            best, rule = bound, ThresholdRule(float(values[starts[index]]), above)
    return rule


def _best_place(
    tp: NDArray[np.int64], fp: NDArray[np.int64], sizes: tuple[int, int], delta: float, alpha: float
) -> tuple[int, float]:
    """Return the index of the largest bound among non-increasing counts, and this bound."""
    looked = np.unique(np.linspace(0, len(tp) - 1, _COARSE).astype(int))
    bounds = _bounds(tp[looked], fp[looked], sizes, delta, alpha)
    place, best = int(looked[bounds.argmax()]), float(bounds.max())
    low, high = looked[:-1], looked[1:]
    while len(low):
        hidden = _bounds(tp[low], fp[high], sizes, delta, alpha) > best
        low, high = low[hidden & (high - low > 1)], high[hidden & (high - low > 1)]
        if not len(low):
            break
        steps = np.linspace(low, high, _FINE + 1).astype(int)
        inner = np.unique(steps)
        bounds = _bounds(tp[inner], fp[inner], sizes, delta, alpha)
        if bounds.max() > best:
            place, best = int(inner[bounds.argmax()]), float(bounds.max())
        low, high = steps[:-1].ravel(), steps[1:].ravel()
        low, high = low[high > low], high[high > low]
    return place, best


def _bounds(
    tp: NDArray[np.int64], fp: NDArray[np.int64], sizes: tuple[int, int], delta: float, alpha: float
) -> NDArray[np.float64]:
    """Return `clopper_pearson_epsilon` of each pair of counts, each at level `alpha` by itself."""
    from scipy.special import betainccinv, betaincinv

    present, absent = sizes
    lower = np.where(tp > 0, betaincinv(np.maximum(tp, 1), present - tp + 1, alpha / 2), 0.0)
    misses = np.maximum(absent - fp, 1)
    upper = np.where(fp < absent, betainccinv(fp + 1, misses, alpha / 2), 1.0)
    with np.errstate(divide="ignore"):
        event = np.log(np.maximum(lower - delta, upper) / upper)
        complement = np.log(np.maximum(1 - upper - delta, 1 - lower) / (1 - lower))
    return np.maximum(event, complement)


def _two_classes(absent: Scores, present: Scores, least: int) -> tuple[Scores, Scores]:
    classes = outcomes.scores(absent, "absent"), outcomes.scores(present, "present")
    for name, values in zip(("absent", "present"), classes, strict=True):
        if len(values) < least:
            raise InputError(f"{name} has {len(values)} scores: give at least {least}")
    return classes
