"""Infer from models who is in the training data: from signals, or from the fit of a user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass as parameters
from scipy.special import gammaln, log_expit, log_ndtr, logsumexp

from dpaudit.attacks import base as roles
from dpaudit.attacks.base import Form, Numbers, Signals
from dpaudit.core.errors import InputError
from dpaudit.core.membership import ROWS, Observer
from dpaudit.core.plugin import STRICT
from dpaudit.core.releases import (
    ItemFactors,
    ItemList,
    Predictions,
    Profile,
    SimilarityRows,
    TargetUser,
)
from dpaudit.kernels.normal_equations import inverses, ridged, solved

# A standard deviation is at least this share of the feature's standard deviation over all targets
# and trainings, so that a feature which never changes does not decide alone.
_LEAST = 1e-3
# It is at least this number too, so that a feature which was always the same gives finite scores.
_SMALLEST = 1e-30


@parameters(frozen=True, config=STRICT)
class Lira(roles.MembershipInference):
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
class ConjugateLira(roles.MembershipInference):
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
class Rmia(roles.MembershipInference):
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
    return np.log(((1 + a) * outside + (1 - a)) / 2)


def _best_weight(logs: Numbers, present: NDArray[np.bool_]) -> float:
    """Return the weight whose ratios order the targets of the attacker's trainings best."""
    from scipy.stats import rankdata  # takes half a second to import

    p, absent = np.exp(logs), ~present
    # Of the models without x, but for the training itself.
    # Where that one outweighs all others, rounding leaves nothing, or less.
    others = np.maximum((p * absent).sum(0) - p * absent, np.finfo(np.float64).tiny)
    outside = others / np.maximum(absent.sum(0) - absent, 1)
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
class GlobalThreshold(roles.MembershipInference):
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


@parameters(frozen=True, config=STRICT)
class LowRank(roles.MembershipInference):
    """Call a target present where its score sticks out of the low-rank part of the model's scores.

    The score is the log-odds that `attacks.membership.low_rank` fits to known members and held-out
    interactions of the attacked training. So it needs no training of the attacker, and no coin.
    """

    compares_targets: ClassVar[bool] = False
    observer: ClassVar[Observer | None] = ROWS
    name: ClassVar[str] = "low-rank"
    title: ClassVar[str] = "Residual of the low-rank part of the model's own scores, no training"
    source: ClassVar[str] = (
        "Goreinov, Tyrtyshnikov & Zamarashkin, A Theory of Pseudoskeleton Approximations, 1997, "
        "doi:10.1016/S0024-3795(96)00301-1, of the low-rank part; the log-odds are dpaudit's own"
    )
    rank: ClassVar[int] = 4

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target; arguments as in `MembershipInference.score`."""
        return seen.features[:, :, 0]


Lists = NDArray[np.int32]
# Pseudo-count of lists with an item and of lists without it, so that no frequency is 0 or 1.
_SMOOTH = 0.5
# Pseudo-count of each place of an item, since there are many places and few lists.
_PLACES = 8.0
# Added to each feature's variance, so that a constant feature has a density too; about the rounding
# error of a prediction in single precision.
_FLOOR = 1e-12


@parameters(frozen=True, config=STRICT)
class Canary(roles.LearnedDistinguisher):
    """Infer which version of one user's ratings a model was trained on from the losses of both.

    For a released factorisation, the user's own factors are fitted to each version of their
    ratings, and the features are the mean squared errors of the two fits. With a neighbourhood
    model, each rating of a version is predicted from its others. Predictions are used as features
    directly. One normal distribution per data set is fitted to the features of shadow models, and
    the score is the log-likelihood ratio (Carlini et al. 2022, section V, with shadow models for
    both data sets). For lists, it is the log-ratio of item frequencies in each place.

    The distributions are fitted to other trials than those that certify, so the score is valid even
    if they fit badly.

    Attributes:
        calibration: number of trials per data set that the distributions are fitted to.
        ridge: λ of the fit of the user's own factors.
        top_k: the length of a shown list.
    """

    calibration: Annotated[int, Field(ge=16, le=1_000_000)] = 256
    ridge: Annotated[float, Field(ge=1e-6, le=1e6)] = 0.1
    top_k: Annotated[int, Field(ge=1, le=10_000)] = 10

    name: ClassVar[str] = "canary"
    title: ClassVar[str] = "Fit of a released model to one user, compared with shadow models"
    source: ClassVar[str] = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramèr, Membership Inference Attacks From First "
        "Principles, 2022, doi:10.1109/SP46214.2022.9833649, section V"
    )
    rank: ClassVar[int] = 3

    reads: ClassVar[tuple[roles.Readable, ...]] = (
        (ItemFactors, TargetUser),
        (SimilarityRows, TargetUser),
        (Predictions, TargetUser),
        (ItemList, TargetUser),
    )

    @property
    def fitted_on(self) -> int:
        """`calibration`."""
        return self.calibration

    @property
    def list_length(self) -> int:
        """`top_k`."""
        return self.top_k

    def features(
        self, release: ItemFactors | SimilarityRows | Predictions | ItemList, knowledge: TargetUser
    ) -> NDArray[Any]:
        """Return the features of each trial `(W, F)`.

        They are the losses of both versions, the predictions, or the items of a list, best first.
        """
        if isinstance(release, ItemList):
            return release.items
        if isinstance(release, Predictions):
            return release.values.astype(np.float64)
        loss = self._factor_loss if isinstance(release, ItemFactors) else _row_loss
        return np.stack(
            [
                loss(release, version)  # type: ignore[arg-type]
                for version in (knowledge.before, knowledge.after)
                if len(version)
            ],
            axis=1,
        )

    def fit(self, absent: NDArray[Any], present: NDArray[Any]) -> roles.Ratio:
        """Fit distributions of features in data sets D and D': normal, or item frequencies.

        Raises:
            InputError: too few trials of a data set, or a feature that is not finite.
        """
        if absent.dtype.kind == "i":
            return PlaceRatio.fit(absent, present)
        return NormalRatio.fit(absent, present)

    def _factor_loss(self, release: ItemFactors, version: Profile) -> Numbers:
        """Return the mean squared error of the user's ridge fit `(W,)`."""
        # A fixed memory order, whatever W is, because it decides how sums are rounded.
        x = release.factors[:, version.items].astype(np.float64, order="C")
        y = version.values - release.mean - x[:, :, -1]
        x[:, :, -1] = 1.0
        fitted = solved(ridged(x, self.ridge), np.einsum("wif,wi->wf", x, y)[:, :, None])[:, :, 0]
        return np.mean((y - np.einsum("wif,wf->wi", x, fitted)) ** 2, axis=1)


def _row_loss(release: SimilarityRows, version: Profile) -> Numbers:
    """Mean squared error of the ratings of items with released rows, from the others `(W,)`."""
    centred = version.values - release.means[version.items]
    total, count = np.zeros(len(release.rows)), 0
    for place, item in enumerate(release.items):
        at = np.flatnonzero(version.items == item)
        if len(at):
            weights = release.rows[:, place, version.items].astype(np.float64, order="C")
            weights[:, at[0]] = 0
            size = np.maximum(np.abs(weights).sum(1), 1e-30)
            total += (np.einsum("wi,i->w", weights, centred) / size - centred[at[0]]) ** 2
            count += 1
    return total / max(count, 1)


@dataclass(frozen=True, eq=False)
class NormalRatio:
    """The log-likelihood ratio of two normal distributions.

    Attributes:
        means: means of the features in data sets D and D' `(2, F)`.
        precisions: the inverses of their covariances `(2, F, F)`.
        log_determinants: log-determinants of the covariances `(2,)`.
    """

    means: Numbers
    precisions: Numbers
    log_determinants: Numbers

    @classmethod
    def fit(cls, absent: Numbers, present: Numbers) -> NormalRatio:
        """Fit the means and the shrunk covariances (Ledoit & Wolf 2004) of the features.

        Raises:
            InputError: fewer than two trials of a data set, or a feature that is not finite.
        """
        laws = []
        for features, trial in ((absent, "absent"), (present, "present")):
            if len(features) < 2:
                raise InputError(f"{trial} has {len(features)} trials: give at least 2 to fit")
            if not np.isfinite(features).all():
                raise InputError(f"{trial} holds a feature that is not finite: leave it out")
            laws.append((features.mean(0), _shrunk(features)))
        means, covariances = (np.stack(moments) for moments in zip(*laws, strict=True))
        return cls(means, *inverses(covariances + _FLOOR * np.eye(means.shape[1])))

    def score(self, features: Numbers) -> Numbers:
        """Return the log-likelihood ratio, larger where data set D' is more likely `(W,)`."""
        logs = []
        for mean, precision, log in zip(
            self.means, self.precisions, self.log_determinants, strict=True
        ):
            away = np.subtract(features, mean, order="C")
            logs.append(-0.5 * (np.einsum("wi,ij,wj->w", away, precision, away) + log))
        return logs[1] - logs[0]


def _shrunk(features: Numbers) -> Numbers:
    """The covariance `(F, F)`, shrunk towards a multiple of the identity.

    Equations (14) to (17) of Ledoit & Wolf 2004, doi:10.1016/S0047-259X(03)00096-4.
    """
    away = features - features.mean(0)
    count, size = away.shape
    covariance: Numbers = np.einsum("wi,wj->ij", away, away) / count
    target = np.trace(covariance) / size * np.eye(size)
    error = ((away**2).sum(1) ** 2).sum() / count**2 - (covariance**2).sum() / count
    distance = ((covariance - target) ** 2).sum()
    return (
        covariance
        if error <= 0 or distance <= 0
        else covariance + min(error / distance, 1.0) * (target - covariance)
    )


@dataclass(frozen=True, eq=False)
class PlaceRatio:
    """The log-likelihood ratio of two distributions of a list, with items taken as independent.

    Let c_ip of n lists of length k have item i in place p, and c_i = Σ_p c_ip. Then

        P(i in no place) = (n − c_i + ½) / (n + 1),
        P(i in place p) = (c_i + ½) / (n + 1) · (c_ip + 8) / (c_i + 8 k),

    and the score is the sum over all items that occurred in the fitted lists.

    Attributes:
        items: the items that occurred, increasing `(S,)`.
        base: the log-ratio of a list with none of them.
        gains: the change of the log-ratio by each item in each place `(k, S)`.
    """

    items: Lists
    base: float
    gains: Numbers

    @classmethod
    def fit(cls, absent: Lists, present: Lists) -> PlaceRatio:
        """Fit smoothed frequencies to lists `(n, k)` of data sets D and D'.

        Raises:
            InputError: a data set has no list, or the lengths of lists differ.
        """
        for lists, trial in ((absent, "absent"), (present, "present")):
            if not len(lists):
                raise InputError(f"{trial} has no list: give at least 1 to fit")
        if absent.shape[1] != present.shape[1]:
            raise InputError(
                f"absent has lists of {absent.shape[1]} items and present of {present.shape[1]}: "
                "show as many in both"
            )
        items = np.unique(np.concatenate([absent, present]))
        (out, placed), (out_after, placed_after) = (
            _logs(lists, items) for lists in (absent, present)
        )
        out = out_after - out
        return cls(items, float(out.sum()), placed_after - placed - out)

    def score(self, features: Lists) -> Numbers:
        """Return scores, larger where D' is more likely `(W,)`; unknown items are ignored."""
        total = np.full(len(features), self.base)
        for gains, shown in zip(self.gains, features.T, strict=True):
            place = np.minimum(np.searchsorted(self.items, shown), len(self.items) - 1)
            total += np.where(self.items[place] == shown, gains[place], 0.0)
        return total


def _logs(lists: Lists, items: Lists) -> tuple[Numbers, Numbers]:
    """Log-probabilities that each item is in no place `(S,)`, and in each place `(k, S)`."""
    n, k = lists.shape
    counts = np.zeros((k, len(items)))
    for place, shown in enumerate(lists.T):
        counts[place] = np.bincount(np.searchsorted(items, shown), minlength=len(items))
    inside = counts.sum(0)
    out = np.log((n - inside + _SMOOTH) / (n + 2 * _SMOOTH))
    listed = np.log((inside + _SMOOTH) / (n + 2 * _SMOOTH))
    return out, listed + np.log((counts + _PLACES) / (inside + k * _PLACES))
