"""The numbers of membership inference: of each attack, and jointly of the strongest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.means import joint_mean
from dpaudit.auditor.measure import MetricKey
from dpaudit.audits.membership.calibration import Judged
from dpaudit.audits.membership.rates import Curve
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Family
from dpaudit.record.values import Census


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
    each = [
        joint_mean(number.values(judged, judged.curve), shared, number.least) for judged in attacks
    ]
    estimate = max(each, key=lambda mean: mean.lower)
    estimate = estimate.changed(
        value=max(mean.value for mean in each),
        upper=max(mean.upper for mean in each),
        alpha=family.alpha,
    )
    if all(judged.worst is None for judged in attacks):
        return estimate
    worst = np.max([number.most(judged) for judged in attacks], 0)
    most = joint_mean(worst, family, number.least)
    return estimate.changed(
        upper=max(estimate.upper, most.upper), method=f"{estimate.method}, missing answers as leaks"
    )
