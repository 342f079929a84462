"""Infer who is in the training data, from signals of trained models and of the attacker's own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters
from scipy.special import gammaln, log_expit, log_ndtr, logsumexp

from dpaudit.attacks.base import Form, MembershipInference, Numbers, Signals
from dpaudit.core.plugin import STRICT

# A standard deviation is at least this share of the feature's standard deviation over all targets
# and trainings, so that a feature which never changes does not decide alone.
_LEAST = 1e-3
# It is at least this number too, so that a feature which was always the same gives finite scores.
_SMALLEST = 1e-30


@parameters(frozen=True, config=STRICT)
class Lira(MembershipInference):
    """Compare each target's features with those of models trained with it and without it.

    Online, the score is Σ_f ln N(x_f; μ_in, σ_in) − ln N(x_f; μ_out, σ_out), with means of the
    target and standard deviations of the target or of all targets (Carlini et al. 2022, algorithm
    1). Offline, models trained with the target are not used, and the score is ln P[X ≤ fit] under
    N(μ_out, σ_out) (section VI-B). Features count as independent given presence.

    Attributes:
        online: whether models that were trained with the target are used.
        own_variance: whether every target has its own standard deviations, of which that of all
            targets counts as one observation; else all share one.
    """

    online: bool = True
    own_variance: bool = False

    name: ClassVar[str] = "lira"
    title: ClassVar[str] = "Likelihood-ratio attack: normal laws of each target's features"
    source: ClassVar[str] = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramèr, Membership Inference Attacks From First "
        "Principles, 2022, arXiv:2112.03570, algorithm 1 and section VI"
    )
    usual: ClassVar[tuple[Form, ...]] = (
        Form(),
        Form({"own_variance": True}, "own variance"),
        Form({"online": False}, "offline"),
        Form({"online": False, "own_variance": True}, "offline own variance"),
    )
    rank: ClassVar[int] = 1

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target; arguments as in `MembershipInference.score`."""
        if not self.online:
            mean, deviation = self._law(reference.fit[:, :, None], ~present)
            return log_ndtr((seen.fit - mean[:, 0]) / deviation[:, 0])
        logs = []
        for which in (present, ~present):
            mean, deviation = self._law(reference.features, which)
            z = (seen.features - mean) / deviation
            logs.append(-(z**2) / 2 - np.log(deviation))
        return (logs[0] - logs[1]).sum(2)

    def _law(self, features: Numbers, which: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """Return means and standard deviations `(m, F)` over the selected trainings `(R, m)`.

        A target that no selected training has gets the mean over all targets.
        """
        # Around one value, so that the mean of equal values is their value and not rounded.
        center = features[0, 0]
        features = features - center
        weights = which[:, :, None].astype(np.float64)
        count = weights.sum(0)
        everywhere = (weights * features).sum((0, 1)) / max(1.0, float(count.sum()))
        mean = (weights * features).sum(0) / np.maximum(count, 1)
        mean = np.where(count > 0, mean, everywhere)
        squares = (weights * (features - mean) ** 2).sum(0)
        # Each target's mean takes one degree of freedom.
        free = np.maximum(count - 1, 0)
        shared = squares.sum(0) / np.maximum(free.sum(0), 1)
        variance = np.broadcast_to(shared, mean.shape)
        if self.own_variance:
            # A target with few trainings leans on the variance of all.
            variance = (squares + shared) / (free + 1)
        least = _LEAST * features.std((0, 1)) + _SMALLEST
        return mean + center, np.maximum(np.sqrt(variance), least)


# The weight of the prior of a mean and of a variance, in observations; measured on ALS, BPR and
# most-popular models of MovieLens-100K with 1 to 24 trainings, where 1 to 4 and 4 to 16 do alike.
_OF_MEAN, _OF_VARIANCE = 2.0, 4.0
# One training cannot tell the scatter of a target from that between targets: its share of both.
_ALONE = 0.1
# A variance is at least this share of that over all targets; a smaller one is none.
_LEAST_SHARE, _NO_VARIANCE = 1e-6, 1e-60


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


def _log_ratio(seen: Numbers, reference: Numbers, present: NDArray[np.bool_]) -> Any:
    """Return the log-ratio of the densities of one feature `(T, m)`.

    Args:
        seen: the feature in the attacked trainings `(T, m)`.
        reference: the feature in the attacker's trainings `(R, m)`.
        present: the coins of these `(R, m)`.
    """
    center = reference[0, 0]  # so that the mean of equal values is their value and not rounded
    seen, reference = seen - center, reference - center
    count, spread = len(reference), reference.var()
    if spread <= _NO_VARIANCE:
        return np.zeros(seen.shape)  # what never changes tells nothing
    gap = _mean(reference, present) - _mean(reference, ~present)
    levels = reference - gap * (present - 0.5)
    total = levels.var()
    within = _ALONE * total
    if count > 1:
        within = ((levels - levels.mean(0)) ** 2).sum() / ((count - 1) * reference.shape[1])
    between = max(total - within, _NO_VARIANCE)
    # E[level] = (μ v/τ² + Σ level)/(v/τ² + R), for scatter v within and τ² between targets.
    prior = within / between
    level = (prior * levels.mean() + levels.sum(0)) / (prior + count)
    logs = []
    for which, side in ((present, gap / 2), (~present, -gap / 2)):
        n = which.sum(0)
        mean = (_OF_MEAN * (level + side) + (which * reference).sum(0)) / (_OF_MEAN + n)
        squares = (which * (reference - mean) ** 2).sum(0)
        freedom = _OF_VARIANCE + n
        variance = (_OF_VARIANCE * within + squares) / freedom * (1 + 1 / (_OF_MEAN + n))
        variance = np.maximum(variance, _LEAST_SHARE * spread)
        # ln t_ν(x; m, s²) = ln Γ((ν + 1)/2) − ln Γ(ν/2) − ln(ν π s²)/2
        #                    − (ν + 1)/2 ln(1 + (x − m)²/(ν s²)); π cancels.
        width = freedom * variance
        scale = gammaln((freedom + 1) / 2) - gammaln(freedom / 2) - np.log(width) / 2
        logs.append(scale - (freedom + 1) / 2 * np.log1p((seen - mean) ** 2 / width))
    return logs[0] - logs[1]


def _mean(values: Numbers, which: NDArray[np.bool_]) -> float:
    return float(values[which].mean()) if which.any() else float(values.mean())


# The relative difference below which ratios count as equal.
_ROUNDING = 1e-9


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
            return log_expit((fit - center) / spread)

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
        return _offline(np.exp(without), _best_weight(logs, present) if self.a is None else self.a)


def _offline(outside: Numbers, a: float) -> Numbers:
    return np.log(((1 + a) * outside + 1 - a) / 2)


def _best_weight(logs: Numbers, present: NDArray[np.bool_]) -> float:
    """Return the weight whose ratios order the targets of the attacker's trainings best."""
    from scipy.stats import rankdata  # takes half a second to import

    p, absent = np.exp(logs), ~present
    # Of the models without x, but for the training itself.
    outside = ((p * absent).sum(0) - p * absent) / np.maximum(absent.sum(0) - absent, 1)
    outside = np.where(absent.sum(0) - absent > 0, outside, p.mean())

    def area(a: float) -> float:
        """Return the mean of the sums of ranks of present targets, up to constants."""
        return float((rankdata(logs - _offline(outside, a), axis=1) * present).sum())

    return float(max(np.arange(11) / 10, key=area))


def _log_average(logs: Numbers, which: NDArray[np.bool_] | None = None) -> Numbers:
    """Return the logarithm of the mean of exp over the selected trainings `(m,)`.

    A target that no selected training has gets the mean over all trainings.
    """
    weights = np.ones(logs.shape) if which is None else which.astype(np.float64)
    weights = np.where(weights.sum(0) > 0, weights, 1.0)
    return logsumexp(logs, axis=0, b=weights) - np.log(weights.sum(0))


@parameters(frozen=True, config=STRICT)
class GlobalThreshold(MembershipInference):
    """Call a target present where the model fits it well, with one threshold for all targets.

    The attacker's trainings only decide the direction: a list that leaves out what its user has
    seen fits an interaction worse if it is present (Yeom et al. 2018, adversary 2). They also
    standardise the fit, so that a threshold chosen with some trainings holds with others.
    """

    compares_targets: ClassVar[bool] = False
    name: ClassVar[str] = "global-threshold"
    title: ClassVar[str] = "One threshold on how well the model fits, the same for all targets"
    source: ClassVar[str] = (
        "Yeom, Giacomelli, Fredrikson & Jha, Privacy Risk in Machine Learning, 2018, "
        "arXiv:1709.01604, adversary 2"
    )
    rank: ClassVar[int] = 3

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target; arguments as in `MembershipInference.score`."""
        within = reference.fit[present].mean() if present.any() else 0.0
        without = reference.fit[~present].mean() if not present.all() else 0.0
        scale = np.copysign(float(reference.fit.std()) or 1.0, within - without)
        return (seen.fit - (within + without) / 2) / scale
