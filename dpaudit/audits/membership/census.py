"""What each judged training showed: a number of its targets, and bounds for all its data.

Targets are drawn at random, then their coins. So given a training's data and its model, the present
targets are a uniform subset of all that could have been targets and are in the data. Whatever the
dependence between them, an attack that does not depend on which ones are targets reaches there the
mean over a finite population, of which a uniform subset is seen (`bounds.frequentist.subset`). The
absent targets, and the threshold that they decide, are as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.audits.membership.calibration import Judged
from dpaudit.audits.membership.numbers import Number
from dpaudit.audits.membership.rates import Curve
from dpaudit.bounds.frequentist.subset import subset_mean, subset_share
from dpaudit.core.streams import generator
from dpaudit.record.result import Census

Numbers = NDArray[np.float64]
Limits = tuple[float, float]


@dataclass(frozen=True)
class Subsets:
    """What the intervals of a census are about.

    Attributes:
        others: how many could have been targets and are none; all of them are in every training.
        alpha: the error probability of each interval.
        seed: the run's seed.
    """

    others: int
    alpha: float
    seed: int

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
            most=tuple(number.values(judged, worst).tolist()) if worst else (),
        )

    def _limits(self, judged: Judged, number: Number, training: int, worst: Curve | None) -> Limits:
        low, high = self._of(judged.curve, judged, number, training)
        if worst is None:
            return low, high
        return low, max(high, self._of(worst, judged, number, training)[1])

    def _of(self, curve: Curve, judged: Judged, number: Number, training: int) -> Limits:
        one = Curve(curve.scores[[training]], curve.present[[training]])
        present = one.present[0]
        count = int(present.sum())
        if not 0 < count < len(present):
            return number.least, 1.0
        population = self.others + count
        if number.metric == "attack.auc":
            return self._area(one, population, training)
        above = (
            one.above(number.at)[0]
            if number.at is not None
            else (one.scores[0] > judged.threshold).astype(np.float64)
        )
        least, most = int((above[present] == 1).sum()), int((above[present] > 0).sum())
        low, high = subset_share(least, most, count, population, alpha=self.alpha)
        false = float(above[~present].mean()) if number.at is None else 0.0
        return low - false, high - false

    def _area(self, one: Curve, population: int, training: int) -> Limits:
        """Return limits of the mean of F(s) over the training's data, for the law F of the absent.

        The area under the ROC curve of the absent targets against all of these data.
        """
        present = one.present[0]
        absent = np.sort(one.scores[0][~present])
        scores = one.scores[0][present]
        ends = (np.searchsorted(absent, scores, side) for side in ("left", "right"))
        below = sum(ends) / (2 * len(absent))
        rng = generator(self.seed, "membership subset", child=training)
        estimate = subset_mean(
            below, population, alpha=self.alpha, confidence=1 - self.alpha, rng=rng
        )
        return estimate.lower, estimate.upper
