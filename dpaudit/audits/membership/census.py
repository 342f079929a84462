"""What each judged training showed: a number of its targets, and limits of the true one.

Targets are drawn at random, then their coins. So given a training's data and its model, the present
targets are a uniform subset of all that could have been targets and are in the data, whatever the
dependence between them. The absent targets are draws of what is not in the data. An attack that
does not depend on which ones are targets has a ROC curve between the two, whose limits are those
of `bounds.frequentist.roc_limits`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpaudit.audits.membership.calibration import Judged
from dpaudit.audits.membership.numbers import Number
from dpaudit.audits.membership.rates import Curve
from dpaudit.bounds.frequentist.roc_limits import (
    advantage_limits,
    area_limits,
    calls,
    independent,
    present_above,
    subset_share,
)
from dpaudit.core.streams import generator
from dpaudit.record.result import Census

Limits = tuple[float, float]


@dataclass(frozen=True)
class Subsets:
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
        values = number.values(judged, judged.curve)
        worst = judged.worst
        limits = [self._limits(judged, number, training, worst) for training in range(len(values))]
        return Census(
            values=tuple(values.tolist()),
            lower=tuple(min(low, value) for (low, _), value in zip(limits, values, strict=True)),
            upper=tuple(max(high, value) for (_, high), value in zip(limits, values, strict=True)),
            alpha=self.alpha,
            most=tuple(number.most(judged).tolist()) if worst else (),
        )

    def _limits(self, judged: Judged, number: Number, training: int, worst: Curve | None) -> Limits:
        low, high = self._of(judged.curve, judged, number, training)
        if worst is None:
            return low, high
        return low, max(high, self._of(worst, judged, number, training)[1])

    def _of(self, curve: Curve, judged: Judged, number: Number, training: int) -> Limits:
        scores, isin = curve.scores[training], curve.present[training]
        present, absent = scores[isin], scores[~isin]
        if not len(present) or not len(absent):
            return number.least, 1.0
        population = self.others + len(present)
        rng = generator(self.seed, "membership subset", child=training)
        if number.metric == "attack.auc":
            return area_limits(independent(present, population, rng), absent, rng, alpha=self.alpha)
        if number.at is None:
            best = judged.best_rate
            return advantage_limits(present, absent, best, rng, alpha=self.alpha)
        if self.given:
            called = calls(present, absent, number.at)
            least, most = int((called == 1).sum()), int((called > 0).sum())
            return subset_share(least, most, len(present), population, alpha=self.alpha)
        half = self.alpha / 2
        least, most = present_above(present, absent, number.at, rng, alpha=half)
        return subset_share(least, most, len(present), population, alpha=half)
