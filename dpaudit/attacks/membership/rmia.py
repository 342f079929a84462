"""The robust membership inference attack: likelihood ratios against members of a population."""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters
from scipy.special import log_expit, logsumexp

from dpaudit.attacks.base import Form, MembershipInference, Numbers, Signals
from dpaudit.core.plugin import STRICT

# The relative difference below which ratios count as equal; the least spread of the fit.
_ROUNDING, _SMALLEST = 1e-9, 1e-30


@parameters(frozen=True, config=STRICT)
class Rmia(MembershipInference):
    """Count the population that a target beats by the factor γ, relative to the attacker's models.

    The score is the share of z with (p(x|θ)/p(x)) / (p(z|θ)/p(z)) ≥ γ, where p(x) is the mean of
    p(x|θ') over the attacker's models (Zarifzadeh et al. 2024, equations 2 to 4). A recommender
    gives no probability, so p is expit of the fit, standardised over targets and the attacker's
    trainings. Offline, p(x) is estimated from the mean over models without x, p_out, as
    ((1 + a) p_out + 1 − a)/2 (appendix B.2.2). The population are interactions that no model was
    trained on; without any, the score is ln p(x|θ)/p(x).

    Attributes:
        gamma: the factor γ.
        online: whether models that were trained with the target are used.
        a: the weight of the offline estimate, 0 to 1; online it is not used. None chooses the
            multiple of 0.1 that ranks present targets best in the attacker's own trainings, each
            of which is attacked with the others.
    """

    gamma: Annotated[float, Field(ge=1, le=1000)] = 1.0
    online: bool = True
    a: Annotated[float, Field(ge=0, le=1)] | None = None

    name: ClassVar[str] = "rmia"
    title: ClassVar[str] = "Robust attack: likelihood ratios against a population"
    source: ClassVar[str] = (
        "Zarifzadeh, Liu & Shokri, Low-Cost High-Power Membership Inference Attacks, 2024, "
        "arXiv:2312.03262, equations 2 to 4"
    )
    usual: ClassVar[tuple[Form, ...]] = (Form(), Form({"online": False}, "offline"))
    rank: ClassVar[int] = 2

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target; arguments as in `MembershipInference.score`."""
        center, spread = reference.fit.mean(), max(float(reference.fit.std()), _SMALLEST)

        def log_p(fit: Numbers) -> Numbers:
            logs: Numbers = log_expit((fit - center) / spread)
            return logs

        ratios = log_p(seen.fit) - self._log_mean(log_p(reference.fit), present)
        if not seen.population.shape[1]:
            return ratios
        others = log_p(seen.population) - _log_average(log_p(reference.population))
        beaten = ratios - np.log(self.gamma) + _ROUNDING
        return np.stack(
            [
                np.searchsorted(np.sort(row), mine, "right") / len(row)
                for row, mine in zip(others, beaten, strict=True)
            ]
        )

    def _log_mean(self, logs: Numbers, present: NDArray[np.bool_]) -> Numbers:
        """Return ln p(x) of each target `(m,)`."""
        within, without = _log_average(logs, present), _log_average(logs, ~present)
        if self.online:
            # Both kinds of models count half, however many there are.
            return np.logaddexp(within, without) - np.log(2)
        a = _best_weight(logs, present) if self.a is None else self.a
        return _offline(np.exp(without), a)


def _offline(outside: Numbers, a: float) -> Numbers:
    logs: Numbers = np.log(((1 + a) * outside + 1 - a) / 2)
    return logs


def _best_weight(logs: Numbers, present: NDArray[np.bool_]) -> float:
    """Return the weight whose ratios order the targets of the attacker's trainings best."""
    p, absent = np.exp(logs), ~present
    # Of the models without x, but for the training itself.
    count = np.maximum(absent.sum(0) - absent, 1)
    outside = ((p * absent).sum(0) - p * absent) / count
    outside = np.where(absent.sum(0) - absent > 0, outside, p.mean())
    areas = {a: _area(logs - _offline(outside, a), present) for a in np.arange(11) / 10}
    return float(max(areas, key=lambda a: areas[a]))


def _area(ratios: Numbers, present: NDArray[np.bool_]) -> float:
    """Return the mean over trainings of the sum of the present targets' ranks, up to constants."""
    from scipy.stats import rankdata  # takes half a second to import

    return float((rankdata(ratios, axis=1) * present).sum())


def _log_average(logs: Numbers, which: NDArray[np.bool_] | None = None) -> Numbers:
    """Return the logarithm of the mean of exp over the selected trainings `(m,)`.

    A target that no selected training has gets the mean over all trainings.
    """
    weights = np.ones(logs.shape) if which is None else which.astype(np.float64)
    weights = np.where(weights.sum(0) > 0, weights, 1.0)
    averages: Numbers = logsumexp(logs, axis=0, b=weights) - np.log(weights.sum(0))
    return averages
