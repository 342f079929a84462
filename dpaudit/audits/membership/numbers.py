"""The numbers of membership inference: of each attack, and jointly of the strongest."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.auditor.means import joint_mean, own_mean
from dpaudit.auditor.measure import MetricKey
from dpaudit.audits.membership.halves import Judged, strongest
from dpaudit.audits.membership.rates import Curve
from dpaudit.core.estimate import Estimate
from dpaudit.record.result import Family


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

    def each(self, one: Judged, curve: Curve) -> NDArray[np.float64]:
        """Return it in each judged training, on a curve of the attack's scores `(C,)`."""
        if self.at is not None:
            return curve.found(self.at)
        return curve.areas() if self.metric == "attack.auc" else curve.advantages(one.threshold)


def numbers(rates: Sequence[float]) -> list[Number]:
    """Return the numbers of an attack with these false-positive rates."""
    rated = [Number("attack.tpr", rate) for rate in rates]
    return [Number("attack.auc"), Number("attack.advantage"), *rated]


def alone(one: Judged, number: Number, family: Family) -> Estimate:
    """Estimate a number of one attack by itself."""
    return own_mean(number.each(one, one.curve), family, number.least)


def joint(scored: Mapping[str, Judged], number: Number, family: Family) -> tuple[str, Estimate]:
    """Estimate a number of the attack that promises most, jointly; return its label too.

    What the model did not answer may be a leak, so the upper end is that of scores in which each
    target without an answer is told by its coin. The lower end is that of what is seen.
    """
    label = strongest(scored, number.promise)
    one = scored[label]
    estimate = joint_mean(number.each(one, one.curve), family, number.least)
    if one.worst is None:
        return label, estimate
    most = joint_mean(number.each(one, one.worst), family, number.least)
    upper = max(estimate.upper, most.upper)
    return label, estimate.changed(
        upper=upper, method=f"{estimate.method}, missing answers as leaks"
    )
