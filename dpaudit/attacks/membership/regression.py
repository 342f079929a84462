"""Regression LiRA: the law of a target's features by what is known of it beforehand.

With few trainings a target's own level and spread are hardly known, and those of targets alike in
popularity and activity tell them. A feature of target i in training t is taken as

    f_it = a(x_i) + coin_it g(x_i) + σ(x_i, coin_it) z_it,    z_it = u_i + coin_it d_i + e_it

for covariates x_i that are the same in every training. a, g and ln σ² are polynomials of degree
two, fitted by ridge regression. u is what two trainings have in common of a target, d its own
gap, and e differs from training to training; all three have variances that are the same for all
targets, but for a factor of each target's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass as parameters

from dpaudit.attacks import base as roles
from dpaudit.attacks.base import Form, Numbers, Signals
from dpaudit.core.plugin import STRICT

Mask = NDArray[np.bool_]

# A feature with a smaller spread, relative to its size, differs by rounding alone.
_ROUNDING = 1e-12
# The weight of the prior of each coefficient, in observations; 10 to 30 do alike, and 0 as well
# with 2500 targets.
_RIDGE = 30.0
# A share of all observations, by which a coefficient of no column at all is 0.
_DIAGONAL = 1e-9
# Added to squared residuals relative to their mean, so that a residual of 0 has a logarithm.
_LEAST_SQUARE = 1e-6
# −E[ln χ²] with one degree of freedom: ln 2 plus Euler's constant.
_BIAS = 1.2703628454614782
# Steps from the regression of logarithms to the most likely variances, and the largest square that
# counts in these, relative to its variance.
_STEPS, _OUTLIER = 3, 20.0
# The largest logarithm of a variance relative to the mean square, and of its inverse.
_EXTREME = 8.0
# The share of the covariance of different features that counts: what nearly equal features differ
# by is mostly not normal.
_SHARED = 0.8
# The largest part of the variance that trainings have in common.
_MOST_COMMON = 0.95
# The fewest interactions of the population that tell this part from one training; with fewer, and
# for users, the targets tell it too.
_ENOUGH = 100
# Trainings from which on targets have variances of their own, and gaps of their own.
_OWN_VARIANCE, _OWN_GAP = 2, 4
# The largest variance of a target, relative to the mean, that counts for the spread of these.
_LARGEST = 30.0
# The degrees of freedom of the densities; 5 to 20 do alike.
_FREEDOM = 8.0


@parameters(frozen=True, config=STRICT)
class RegressionLira(roles.MembershipInference):
    """Compare each target's features with laws that regressions predict from its covariates.

    The score is the log-ratio of Student densities with 8 degrees of freedom, present against
    absent, of the features given those in the attacker's trainings (`dpaudit.attacks.membership.
    regression` has the law). From two trainings on each target has a variance of its own, shrunk to
    that of all, and from four on a gap of its own; how far both are shrunk is estimated from all
    targets. With one training, interactions that neither training has tell how much of z two
    trainings have in common; no coin of the attacked training is used.

    Attributes:
        joint: whether features are taken together, with their covariance and without those that
            sum up others; else they count as independent given presence.
        surrogates: whether the scores of surrogate models are covariates, too
            (`membership.surrogates`).
    """

    joint: bool = False
    surrogates: bool = False

    name: ClassVar[str] = "regression-lira"
    title: ClassVar[str] = "Likelihood-ratio attack with laws by popularity and activity"
    source: ClassVar[str] = (
        "Carlini, Chien, Nasr, Song, Terzis, Tramèr, Membership Inference Attacks From First "
        "Principles, 2022, arXiv:2112.03570, algorithm 1; laws by regression on what the attacker "
        "knows of a target, as quantile regression in arXiv:2307.03694"
    )
    usual: ClassVar[tuple[Form, ...]] = (Form(), Form({"joint": True}, "joint"))
    rank: ClassVar[int] = 0

    def score(self, seen: Signals, reference: Signals, present: NDArray[np.bool_]) -> Numbers:
        """Score each target; arguments as in `MembershipInference.score`."""
        ratios: Numbers = np.zeros(seen.fit.shape)
        if present.all() or not present.any():
            return ratios
        center = reference.features[0, 0]
        shown, known = (_all_features(signals) - center for signals in (seen, reference))
        own = known[:, : present.shape[1]]
        spread = own.std((0, 1))
        able = np.flatnonzero(spread > _ROUNDING * (np.abs(own).max((0, 1)) + np.abs(center)))
        # What sums up the others adds to each of them alone, and does harm beside all.
        others = able[able >= reference.summaries]
        able = others if self.joint and len(others) else able
        basis = _basis(reference, known.shape[1], surrogates=self.surrogates)
        for block in [able] if self.joint and len(able) else able[:, None]:
            mine, theirs = (each[:, :, block] / spread[block] for each in (shown, known))
            ratios += _log_ratios(mine, theirs, present, basis)
        return ratios


def _all_features(signals: Signals) -> Numbers:
    """Return the features of the targets, then those of the population `(T, n, F)`."""
    if signals.strangers is None:
        return signals.features
    return np.concatenate((signals.features, signals.strangers), axis=1)


def _basis(signals: Signals, count: int, *, surrogates: bool) -> Numbers:
    """Return 1, standardised covariates, and products of two, of so many rows `(n, K)`."""
    if signals.covariates is None:
        return np.ones((count, 1))
    targets, population, last = signals.covariates
    x = np.concatenate((targets, population))[:count]
    x = x if surrogates else x[:, : x.shape[1] - last]
    away, spread = x - x.mean(0), x.std(0)
    columns = (away / np.where(spread > _ROUNDING * np.abs(x).max(0), spread, np.inf)).T
    products = [one * other for one, other in combinations_with_replacement(columns, 2)]
    return np.stack([np.ones(count), *columns, *products], axis=1)


def _log_ratios(shown: Numbers, known: Numbers, present: Mask, basis: Numbers) -> Numbers:
    """Return log-ratios of the densities of some features taken together `(T, m)`.

    Args:
        shown: features of targets and population in the attacked trainings `(T, n, F)`.
        known: those in the attacker's trainings `(R, n, F)`.
        present: the coins of the targets in these `(R, m)`.
        basis: the functions of the covariates `(n, K)`.
    """
    laws = _Laws.of(known, present, basis)
    effects = _Effects.of(laws, known, present)
    if len(known) > 1:
        return effects.ratios(shown, laws, effects.common())
    ratios = [
        effects.ratios(one[None], laws, effects.common_of(laws.mixed(one, present.shape[1])))
        for one in shown
    ]
    return np.concatenate(ratios)


class _Laws(NamedTuple):
    """What regressions say of features of targets and population, absent and present.

    Attributes:
        means: a(x) and a(x) + g(x) `(2, n, F)`.
        deviations: σ(x, 0) and σ(x, 1) `(2, n, F)`.
    """

    means: Numbers
    deviations: Numbers

    @classmethod
    def of(cls, known: Numbers, present: Mask, basis: Numbers) -> Self:
        """Fit the regressions; arguments as in `_log_ratios`."""
        count, size, features = known.shape
        coins = np.zeros((count, size, 1))
        coins[:, : present.shape[1], 0] = present
        rows = np.concatenate(
            (np.broadcast_to(basis, (count, *basis.shape)), coins * basis), axis=2
        ).reshape(count * size, -1)
        values = known.reshape(-1, features)
        # b = (AᵀA + λ)⁻¹ Aᵀ y, where the constants of a and of g are free.
        weights = np.full((2, basis.shape[1]), _RIDGE)
        weights[:, 0] = 0
        prior = np.diag(weights.reshape(-1) + _DIAGONAL * len(rows))
        solver = np.linalg.inv(_products(rows, rows) + prior)
        levels = solver @ _products(rows, values)
        squares = (values - _predictions(rows, levels)) ** 2
        size_of = squares.mean(0) + _ROUNDING
        squares = squares / size_of
        logs = solver @ _products(rows, np.log(squares + _LEAST_SQUARE))
        logs[0] += _BIAS
        # Fisher's scoring of normal residuals: the information of ln σ² is half of AᵀA.
        for _ in range(_STEPS):
            expected = np.exp(np.clip(_predictions(rows, logs), -_EXTREME, _EXTREME))
            slopes = _products(rows, np.minimum(squares / expected, _OUTLIER) - 1)
            logs += solver @ (slopes - prior @ logs)

        def of_coins(coefficients: Numbers) -> Numbers:
            absent, change = np.split(coefficients, 2)
            return np.stack([_predictions(basis, each) for each in (absent, absent + change)])

        variances = size_of * np.exp(np.clip(of_coins(logs), -_EXTREME, _EXTREME))
        return cls(of_coins(levels), np.sqrt(variances))

    def residuals(self, features: Numbers, present: Mask) -> Numbers:
        """Return z of features `(R, n, F)`, by the coins of the targets `(R, m)`."""
        absent, within = (
            (features - mean) / deviation
            for mean, deviation in zip(self.means, self.deviations, strict=True)
        )
        cut = present.shape[1]
        absent[:, :cut] = np.where(present[:, :, None], within[:, :cut], absent[:, :cut])
        return absent

    def mixed(self, features: Numbers, targets: int) -> Numbers:
        """Return z of one training `(n, F)` whose coins are fair and unknown.

        The mixture of both laws has the mean of their means, and a variance that is that of the
        laws and that between them.
        """
        (without, within), (narrow, wide) = self.means, self.deviations
        variance = (narrow**2 + wide**2) / 2 + (within - without) ** 2 / 4
        z = (features - (without + within) / 2) / np.sqrt(variance)
        z[targets:] = ((features - without) / narrow)[targets:]
        return z


@dataclass(frozen=True, eq=False)
class _Effects:
    """What targets have of their own, by their residuals in the attacker's trainings.

    Attributes:
        z: the residuals of targets and population `(R, n, F)`.
        present: the coins of the targets `(R, m)`.
        covariance: the covariance of residuals, of which features share a part only `(F, F)`.
    """

    z: Numbers
    present: Mask
    covariance: Numbers

    @classmethod
    def of(cls, laws: _Laws, known: Numbers, present: Mask) -> Self:
        """Return the effects of the targets of the attacker's trainings."""
        z = laws.residuals(known, present)
        return cls(z, present, _moments(z.reshape(-1, z.shape[2])))

    def common(self) -> Numbers:
        """Return what different trainings have in common, from two on: B of `ratios`."""
        count, size, _ = self.z.shape
        total = self.z.sum(0)
        # Σ_{s≠t} z_s z_tᵀ = (Σ z)(Σ z)ᵀ − Σ z zᵀ
        same = self.z.reshape(count * size, -1)
        products = _damped(_products(total, total) - _products(same, same))
        return _within(products / (count * (count - 1) * size), self.covariance)

    def common_of(self, other: Numbers) -> Numbers:
        """Return what one training has in common with another one, by residuals there `(n, F)`.

        They are those of the population, in units of its own covariance in both trainings.
        """
        targets = self.present.shape[1]
        start = targets if len(other) - targets >= _ENOUGH else 0
        mine, theirs = self.z[0, start:], other[start:]
        products = _damped(_products(mine, theirs) / len(mine))
        pairs = _moments(np.concatenate((mine, theirs)))
        roots = np.linalg.cholesky(np.stack((self.covariance, pairs)))
        unit = roots[0] @ np.linalg.inv(roots[1])
        return _within(unit @ products @ unit.T, self.covariance)

    def ratios(self, shown: Numbers, laws: _Laws, common: Numbers) -> Numbers:
        """Return the log-ratios of features `(T, n, F)`, if B of u is what is common `(T, m)`.

        For a target with n_0 and n_1 trainings without and with it, (u, d) is normal given the
        means of z there, and so are z of another training with either coin. Without own gaps
        their mean is B (B + W/R)⁻¹ z̄, for W = C − B: ρ Σz/(1 + (R − 1) ρ) of one feature.
        """
        within = self.covariance - common
        gaps, variances = self._gaps(within), self._variances(within)
        count, times = len(self.present), self.present.sum(0)
        targets, features = len(times), self.z.shape[2]
        sums = self._sums()
        away = (shown[:, None] - laws.means)[:, :, :targets] / laws.deviations[:, :targets]
        logs = np.log(laws.deviations[:, :targets]).sum(2)
        ratios = np.broadcast_to(logs[0] - logs[1], away[:, 0, :, 0].shape).copy()
        for present in np.unique(times):
            among = times == present
            seen = np.array((count - present, present))
            averages = (sums[:, among] / np.maximum(seen, 1)[:, None, None]).transpose(1, 0, 2)
            gain, left = _predicted(seen, common, gaps, within)
            mean = _predictions(averages.reshape(-1, 2 * features), gain.T)
            inverse = np.linalg.inv(left)
            z = away[:, :, among] - mean.reshape(-1, 2, features).transpose(1, 0, 2)
            squares = np.einsum("tcif,cfg,tcig->tci", z, inverse, z) / variances[among]
            # ln t_ν(z; C) = −ln |C|/2 − (ν + F)/2 ln(1 + zᵀC⁻¹z/ν) + constant
            densities = -(_FREEDOM + features) / 2 * np.log1p(squares / _FREEDOM)
            densities -= np.linalg.slogdet(left)[1][:, None] / 2
            ratios[:, among] += densities[:, 1] - densities[:, 0]
        return ratios

    @property
    def _coins(self) -> Mask:
        """Whether each training is without each target, and whether it is with it `(2, R, m)`."""
        return np.stack((~self.present, self.present))

    def _gaps(self, within: Numbers) -> Numbers:
        """Return the covariance of the targets' own gaps d `(F, F)`."""
        if len(self.present) < _OWN_GAP:
            return np.zeros_like(within)
        times = self._coins.sum(1)
        both = (times > 0).all(0)
        without, present = self._sums()[:, both] / times[:, both, None]
        apart = present - without
        noise = (1 / times[:, both]).sum()
        gaps = _damped(_products(apart, apart) - noise * within) / max(1, both.sum())
        values, vectors = np.linalg.eigh(gaps)
        return (vectors * np.maximum(values, 0)) @ vectors.T

    def _sums(self) -> Numbers:
        """Return the sums of z over the trainings without each target, and with it `(2, m, F)`."""
        sums: Numbers = np.einsum("crm,rmf->cmf", self._coins, self.z[:, : self.present.shape[1]])
        return sums

    def _variances(self, within: Numbers) -> Numbers:
        """Return each target's variance relative to that of all, shrunk to 1 `(m,)`."""
        count, targets = self.present.shape
        if count < _OWN_VARIANCE:
            return np.ones(targets)
        parts = self._coins if count >= _OWN_GAP else np.ones((1, count, targets))
        squares, freedom = np.zeros(targets), np.zeros(targets)
        for which in parts:
            times = which.sum(0)
            z = self.z[:, :targets] * which[:, :, None]
            means = z.sum(0) / np.maximum(times, 1)[:, None]
            squares += ((z - means) ** 2 * which[:, :, None]).sum((0, 2))
            freedom += np.maximum(times - 1, 0)
        # So many independent features vary as much: (tr W)²/tr W².
        freedom *= np.trace(within) ** 2 / (within**2).sum()
        own = squares / freedom
        own /= max(own.mean(), _ROUNDING)
        # Var s² = 2/ν + v (1 + 2/ν) for variances of mean 1 and variance v, of which an inverse χ²
        # with 4 + 2/v degrees of freedom is the conjugate law.
        noise = (2 / freedom).mean()
        spread = (np.minimum(own, _LARGEST).var() - noise) / (1 + noise)
        prior = 4 + 2 / max(spread, 1e-3)
        return (prior + freedom * own) / (prior + freedom)


def _predicted(
    seen: NDArray[np.int64], common: Numbers, gaps: Numbers, within: Numbers
) -> tuple[Numbers, Numbers]:
    """Return what predicts z of a training, without the target and with it.

    Args:
        seen: the number of trainings without it and with it `(2,)`.
        common: the covariance of u `(F, F)`.
        gaps: the covariance of d `(F, F)`.
        within: the covariance of e `(F, F)`.

    Returns:
        The weights `(2 F, 2 F)` of the mean z of both kinds of trainings, and the covariance of
        the prediction `(2, F, F)`; a kind without any training has no weight.
    """
    features = len(common)
    # The covariance of (u, u + d) is that of the means of many trainings of each kind.
    laws = np.block([[common, common], [common, common + gaps]])
    noise = np.kron(np.diag(1 / np.maximum(seen, 1)), within)
    kept = np.repeat(seen > 0, features)
    weights = np.zeros_like(laws)
    among = np.ix_(kept, kept)
    weights[:, kept] = laws[:, kept] @ np.linalg.inv(laws[among] + noise[among])
    left = laws - weights @ laws
    parts = np.stack((left[:features, :features], left[features:, features:]))
    return weights, parts + within


# Neither depends on the number of threads of a library for matrices.
def _products(rows: Numbers, others: Numbers) -> Numbers:
    """Return Σ x yᵀ over the rows of two arrays `(n, J)` and `(n, K)`."""
    products: Numbers = np.einsum("nj,nk->jk", rows, others)
    return products


def _predictions(rows: Numbers, coefficients: Numbers) -> Numbers:
    """Return the products of rows `(n, J)` with coefficients `(J, K)`."""
    products: Numbers = np.einsum("nj,jk->nk", rows, coefficients)
    return products


def _moments(z: Numbers) -> Numbers:
    """Return the damped second moments of residuals `(n, F)`, never singular `(F, F)`."""
    moments = _damped(_products(z, z) / len(z))
    return moments + _LEAST_SQUARE * (np.trace(moments) + _LEAST_SQUARE) * np.eye(len(moments))


def _damped(moments: Numbers) -> Numbers:
    """Return the symmetric part of moments `(F, F)`, those of different features in part."""
    return (moments + moments.T) / 2 * np.where(np.eye(len(moments)), 1, _SHARED)


def _within(common: Numbers, covariance: Numbers) -> Numbers:
    """Return what is common as a covariance that leaves some of the whole one to each training."""
    root = np.linalg.cholesky(covariance)
    inverse = np.linalg.inv(root)
    values, vectors = np.linalg.eigh(inverse @ common @ inverse.T)
    unit = root @ vectors
    return (unit * np.clip(values, 0, _MOST_COMMON)) @ unit.T
