"""The likelihood-ratio attack with priors, for an attacker with few trainings of their own."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters
from scipy.special import gammaln

from dpaudit.attacks.base import MembershipInference, Numbers, Signals
from dpaudit.core.plugin import STRICT

# The weight of the prior of a mean and of a variance, in observations; measured on ALS, BPR and
# most-popular models of MovieLens-100K with 1 to 24 trainings, where 1 to 4 and 4 to 16 do alike.
_OF_MEAN, _OF_VARIANCE = 2.0, 4.0
# One training cannot tell the scatter of a target from that between targets: its share of both.
_ALONE = 0.1
# A variance is at least this share of that over all targets; a smaller one is none.
_LEAST, _SMALLEST = 1e-6, 1e-60


@parameters(frozen=True, config=STRICT)
class ConjugateLira(MembershipInference):
    """Compare each target's features with normal laws whose moments have conjugate priors.

    Every target has a level, and its presence shifts a feature by the same gap g for all targets.
    The level is estimated from all trainings of the attacker, those with the target and those
    without it. It is the prior mean, less or more g/2, of the feature without and with the target.
    Means and variances have normal-inverse-χ² priors, so the score is the log-ratio of two Student
    densities (Gelman et al. 2013, Bayesian Data Analysis, section 3.3). With many trainings this is
    the attack of Carlini et al. 2022 with variances of each target; with one it still compares
    each target with itself. Features count as independent given presence.
    """

    rank: ClassVar[int] = 0
    name: ClassVar[str] = "conjugate-lira"
    title: ClassVar[str] = "Likelihood-ratio attack with conjugate priors, for few trainings"
    source: ClassVar[str] = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramèr, Membership Inference Attacks From First "
        "Principles, 2022, arXiv:2112.03570, algorithm 1; conjugate priors for its moments as in "
        "arXiv:2603.11799"
    )

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target; arguments as in `MembershipInference.score`."""
        ratio: Numbers = np.zeros(seen.fit.shape)
        for feature in range(reference.features.shape[2]):
            ratio += _log_ratio(
                seen.features[:, :, feature], reference.features[:, :, feature], present
            )
        return ratio


def _log_ratio(seen: Numbers, own: Numbers, present: NDArray[np.bool_]) -> Any:
    """Return the log-ratio of the densities of one feature `(T, m)`.

    Args:
        seen: the feature in the attacked trainings `(T, m)`.
        own: the feature in the attacker's trainings `(R, m)`.
        present: the coins of these `(R, m)`.
    """
    center = own[0, 0]  # so that the mean of equal values is their value and not rounded
    seen, own = seen - center, own - center
    count, spread = len(own), own.var()
    if spread <= _SMALLEST:
        return np.zeros(seen.shape)  # what never changes tells nothing
    gap = _mean(own, present) - _mean(own, ~present)
    levels = own - gap * (present - 0.5)
    total = levels.var()
    within = _ALONE * total
    if count > 1:
        within = ((levels - levels.mean(0)) ** 2).sum() / ((count - 1) * own.shape[1])
    between = max(total - within, _SMALLEST)
    # E[level] = (μ v/τ² + Σ level)/(v/τ² + R), for scatter v within and τ² between targets.
    prior = within / between
    level = (prior * levels.mean() + levels.sum(0)) / (prior + count)
    logs = []
    for which, side in ((present, gap / 2), (~present, -gap / 2)):
        n = which.sum(0)
        mean = (_OF_MEAN * (level + side) + (which * own).sum(0)) / (_OF_MEAN + n)
        squares = (which * (own - mean) ** 2).sum(0)
        freedom = _OF_VARIANCE + n
        variance = (_OF_VARIANCE * within + squares) / freedom * (1 + 1 / (_OF_MEAN + n))
        variance = np.maximum(variance, _LEAST * spread)
        # ln t_ν(x; m, s²) = ln Γ((ν + 1)/2) − ln Γ(ν/2) − ln(ν π s²)/2
        #                    − (ν + 1)/2 ln(1 + (x − m)²/(ν s²)); π cancels.
        width = freedom * variance
        scale = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - np.log(width) / 2
        logs.append(scale - (freedom + 1) / 2 * np.log1p((seen - mean) ** 2 / width))
    return logs[0] - logs[1]


def _mean(values: Numbers, which: NDArray[np.bool_]) -> float:
    return float(values[which].mean()) if which.any() else float(values.mean())
