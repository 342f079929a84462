"""Kullback-Leibler divergence KL(P‖Q) in nats, from samples: estimates, and a lower bound.

P is the law of a real submission or sequence, Q that of a fake one. Samples come from independent
trials with a fixed user and item. Pooling rounds or users estimates the divergence of a mixture;
the caller must state this assumption. `threshold_kl` alone assumes no law.

A divergence is never negative, but an unbiased estimate can be. A negative estimate is moved to 0
together with its interval, which does not lower the coverage.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.intervals import clopper_pearson_each
from dpaudit.bounds.outcomes import check_alpha, interval, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.kernels.normal_equations import inverses

Values = NDArray[np.float64]
# The bias of a nearest-neighbour estimate grows about as this power of the number of neighbours.
_BIAS_POWER = 1 / 3
# The most thresholds that are compared on the half that chooses one.
_THRESHOLDS = 256


def plugin_kl(x: ArrayLike, y: ArrayLike, *, alpha: float = 0.05) -> Estimate:
    """Estimate the KL of two normal laws by their sample moments, without the plug-in bias.

    The plug-in value is KL of two normal laws (Kullback 1959, Information Theory and Statistics,
    chapter 9, section 1) at the sample moments:

        ½[tr(Σ_q⁻¹Σ_p) + (μ_p − μ_q)ᵀΣ_q⁻¹(μ_p − μ_q) − d + ln(det Σ_q/det Σ_p)].

    With n − 1 = ν_p and m − 1 = ν_q degrees of freedom the sample covariances of normal rows are
    Wishart matrices over ν, independent of the means, so that (Muirhead 1982, section 3.2,
    doi:10.1002/9780470316559)

        E S_q⁻¹ = c Σ_q⁻¹,  c = ν_q/(ν_q − d − 1),
        E ln det S = ln det Σ + b(ν),  b(ν) = Σ_{i<d} ψ((ν − i)/2) + d ln(2/ν),
        E (x̄ − ȳ)ᵀS_q⁻¹(x̄ − ȳ) = c[(μ_p − μ_q)ᵀΣ_q⁻¹(μ_p − μ_q) + tr(Σ_q⁻¹Σ_p)/n + d/m],

    Hence the following is exactly unbiased for normal samples of any size:

        ½[(1 − 1/n) tr(S_q⁻¹S_p)/c + (x̄ − ȳ)ᵀS_q⁻¹(x̄ − ȳ)/c − d/m − d
          + ln(det S_q/det S_p) − b(ν_q) + b(ν_p)].

    The interval is that of the delta method with empirical influence functions. Their variance
    counts the quadratic part of the error twice, so the interval is too wide if d²/n is not small
    against the divergence. docs/results/divergence-tables.md holds its measured coverage.

    Args:
        x: rows of P, independent; shape (n, d), or (n,) for d = 1; n > d.
        y: rows of Q, independent; shape (m, d), or (m,); m > d + 2.
        alpha: the level of the interval.

    Raises:
        InputError: the shapes do not fit, a number is not finite, there are too few rows, or the
            columns are linearly dependent.
    """
    check_alpha(alpha)
    p, q = _rows(x, y)
    (n, d), m = p.shape, len(q)
    _check_enough(n, d + 1, "x")
    _check_enough(m, d + 3, "y")
    first, second = _moments(p, "x"), _moments(q, "y")
    shift = first.mean - second.mean
    c = (m - 1) / (m - d - 2)
    value = 0.5 * (
        (1 - 1 / n) * np.sum(second.inverse * first.cov) / c
        + float(_squares(shift, second.inverse)) / c
        - d / m
        - d
        + (second.log_det - _log_det_bias(m - 1, d))
        - (first.log_det - _log_det_bias(n - 1, d))
    )
    slope = _product(second.inverse, shift)
    # Influence of a row on the plug-in value: its derivatives in the four moments.
    # Of x, ½(x − x̄)ᵀ(S_q⁻¹ − S_p⁻¹)(x − x̄) + (x − x̄)·slope.
    of_x = 0.5 * _squares(first.centred, second.inverse - first.inverse) + _product(
        first.centred, slope
    )
    # Of y, ½(y − ȳ)ᵀ(S_q⁻¹ − S_q⁻¹S_pS_q⁻¹ − slope slopeᵀ)(y − ȳ) − (y − ȳ)·slope.
    turned = _product(_product(second.inverse, first.cov), second.inverse)
    bend = second.inverse - turned - np.outer(slope, slope)
    of_y = 0.5 * _squares(second.centred, bend) - _product(second.centred, slope)
    variance = of_x.var(ddof=1) / n + of_y.var(ddof=1) / m
    return _estimate(float(value), float(variance), min(n, m), alpha, n + m, "plug-in normal")


def neighbour_kl(
    x: ArrayLike, y: ArrayLike, *, neighbours: int = 10, alpha: float = 0.05
) -> Estimate:
    """Estimate the KL of two laws with densities from distances to nearest neighbours.

    With ρ_k(i) the distance from x_i to its k-th nearest other row of x, and ν_k(i) the distance to
    its k-th nearest row of y,

        D_k = (d/n) Σ_i ln(ν_k(i)/ρ_k(i)) + ln(m/(n − 1))

    (Wang, Kulkarni, Verdú 2009, equation (5), doi:10.1109/TIT.2009.2016060). Measured for normal
    laws in up to three dimensions, the bias of D_k grows about as k^{1/3}. The value is the
    combination `Σ w_k D_k`, k = 1 … `neighbours`, in which this term cancels: w is the shortest
    vector with Σ w_k = 1 and Σ w_k k^{1/3} = 0 (an ensemble of estimators, Moon, Sricharan,
    Greenewald, Hero 2018, doi:10.3390/e20080560). With one neighbour the value is D_1.

    The interval is that of the jackknife, which leaves out each row of either sample in turn; one
    more neighbour makes this exact without a new search. The jackknife's variance is too large on
    average (Efron & Stein 1981, doi:10.1214/aos/1176345462). The interval covers in up to three
    dimensions. In more dimensions it ignores a remaining bias: downwards for laws that differ in
    location, upwards for a P narrower than Q. A function of the rows, such as the log-ratio, has at
    most the divergence of the rows. An estimate from one such number per row is therefore a lower
    bound, up to its error.

    Args:
        x: rows of P, independent; shape (n, d), or (n,) for d = 1.
        y: rows of Q, independent; shape (m, d), or (m,).
        neighbours: the number of neighbours to combine; 1, or at least 3.
        alpha: the level of the interval.

    Raises:
        InputError: the shapes do not fit, a number is not finite, x has fewer than `neighbours` + 2
            rows or y fewer than `neighbours` + 1, or a row of x occurs again in x or y: a law with
            a density has no equal rows.
    """
    check_alpha(alpha)
    if neighbours < 1 or neighbours == 2:
        raise InputError(f"neighbours = {neighbours} cannot be combined: use 1, or at least 3")
    p, q = _rows(x, y)
    (n, d), m = p.shape, len(q)
    _check_enough(n, neighbours + 2, "x")
    _check_enough(m, neighbours + 1, "y")
    near, near_at = _distances(p, p, neighbours + 2)
    far, far_at = _distances(q, p, neighbours + 1)
    near, near_at = near[:, 1:], near_at[:, 1:]  # a row of x is its own nearest
    for name, distances in (("x", near), ("y", far)):
        if not (distances[:, 0] > 0).all():
            raise InputError(f"a row of x occurs again in {name}: rows of a density are distinct")
    weights = d * _weights(neighbours)
    log_near, log_far = np.log(near), np.log(far)
    terms = ((log_far - log_near)[:, :neighbours] * weights).sum(axis=1)
    total = terms.sum()
    # Without a row, the rows that have it as a neighbour use their next neighbour.
    from_near = _moved(log_near, near_at, weights, n)
    from_far = _moved(log_far, far_at, weights, m)
    # (n − 1)/n Σ (T_{−i} − T̄)² = (n − 1) Var. Leaving out a row of x also drops its own term.
    variance = (n - 1) * np.var((total - terms - from_near) / (n - 1))
    variance += (m - 1) * np.var((total + from_far) / n)
    return _estimate(
        float(total / n + math.log(m / (n - 1))),
        float(variance),
        min(n, m),
        alpha,
        n + m,
        f"{neighbours} nearest neighbours, biased in many dimensions",
    )


def log_ratio_kl(ratios: ArrayLike, *, alpha: float = 0.05) -> Estimate:
    """Estimate KL by the mean of true log-ratios `ln p(x)/q(x)` under P, with Student's interval.

    The interval (Student 1908, doi:10.1093/biomet/6.1.1) is exact for Gaussian noise, whose
    log-ratio is normal.

    Args:
        ratios: the log-likelihood ratio of each trial of P; shape (n,).
        alpha: the level of the interval.

    Raises:
        InputError: a ratio is not finite, or there are fewer than two.
    """
    check_alpha(alpha)
    values = scores(ratios, "ratios")
    n = len(values)
    if n < 2:
        raise InputError("ratios hold 1 number: give at least 2 for an interval")
    variance = float(values.var(ddof=1)) / n
    return _estimate(float(values.mean()), variance, n, alpha, n, "mean log-ratio")


@dataclass(frozen=True)
class _Moments:
    """Moments of rows: mean, centred rows, covariance over n − 1, its inverse and its ln det."""

    mean: Values
    centred: Values
    cov: Values
    inverse: Values
    log_det: float


def _moments(rows: Values, name: str) -> _Moments:
    """Return the moments of rows; refuse linearly dependent columns."""
    mean = rows.mean(axis=0)
    centred = rows - mean
    scale = centred.std(axis=0)
    # Squaring doubles the lost digits: at 1e-6 the covariance is still invertible to four digits.
    if not (scale > 0).all() or np.linalg.matrix_rank(centred / scale, rtol=1e-6) < rows.shape[1]:
        raise InputError(f"columns of {name} are constant or linearly dependent: drop some")
    cov = _product(centred.T, centred) / (len(rows) - 1)
    inverse, log_det = inverses(cov[None])
    return _Moments(mean, centred, cov, inverse[0], float(log_det[0]))


def _log_det_bias(degrees: int, d: int) -> float:
    """Return E ln det S − ln det Σ for S a Wishart matrix over its degrees of freedom."""
    from scipy.special import psi

    # b(ν) = Σ_{i<d} ψ((ν − i)/2) + d ln(2/ν)
    return float(np.sum(psi((degrees - np.arange(d)) / 2)) + d * math.log(2 / degrees))


def _squares(rows: Values, form: Values) -> Values:
    """Return `rowᵀ form row` for each row."""
    return np.sum(_product(rows, form) * rows, axis=-1)


def _product(left: Values, right: Values) -> Values:
    """Return `left @ right`, summed in the same order on every machine, unlike BLAS."""
    product: Values = np.einsum(
        "...i,i...->..." if right.ndim == 1 else "...i,ij->...j", left, right
    )
    return product


def _weights(neighbours: int) -> Values:
    """Return the shortest weights of D_1 … D_K that keep a constant and cancel k^{1/3}."""
    if neighbours == 1:
        return np.ones(1)
    bias = np.arange(1, neighbours + 1) ** _BIAS_POWER
    total, squares = bias.sum(), (bias**2).sum()
    # A combination of 1 and k^{1/3}, with coefficients that satisfy both constraints.
    return np.asarray((squares - total * bias) / (neighbours * squares - total**2), np.float64)


def _distances(points: Values, rows: Values, count: int) -> tuple[Values, NDArray[np.intp]]:
    """Return each row's ascending distances to its `count` nearest points, and their indices."""
    from scipy.spatial import cKDTree

    distances, at = cKDTree(points).query(rows, count)
    if not np.isfinite(distances).all():
        raise InputError("distances between rows overflow: scale the rows")
    return distances, at


def _moved(logs: Values, at: NDArray[np.intp], weights: Values, count: int) -> Values:
    """Return the growth of the sum of weighted log-distances when each point is left out.

    Args:
        logs: log-distances to the K + 1 nearest points; shape (n, K + 1).
        at: indices of these points; shape as `logs`.
        weights: weights of the K nearest points; shape (K,).
        count: the number of points.

    Returns:
        One number for each point; shape (count,).
    """
    # Without the j-th nearest point, each k ≥ j uses the point after the k-th.
    steps = np.diff(logs, axis=1) * weights
    growth = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
    return np.bincount(at[:, :-1].ravel(), growth.ravel(), minlength=count).astype(np.float64)


def _rows(x: ArrayLike, y: ArrayLike) -> tuple[Values, Values]:
    """Return both samples as finite rows of equal width."""
    samples = []
    for name, values in (("x", x), ("y", y)):
        rows = np.asarray(values, np.float64)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or not rows.shape[1]:
            raise InputError(f"{name} has shape {rows.shape}: give rows of numbers, (n, d)")
        if not np.isfinite(rows).all():
            raise InputError(f"{name} holds NaN or infinity: give finite numbers")
        samples.append(rows)
    if samples[0].shape[1] != samples[1].shape[1]:
        raise InputError(
            f"x has {samples[0].shape[1]} columns and y {samples[1].shape[1]}: give the same number"
        )
    return samples[0], samples[1]


def _check_enough(count: int, least: int, name: str) -> None:
    if count < least:
        raise InputError(f"{name} has {count} rows: give at least {least}")


def _estimate(
    value: float, variance: float, degrees: int, alpha: float, n: int, method: str
) -> Estimate:
    """Return `value ± t √variance`, cut at 0; Student's t has `degrees` − 1 degrees of freedom."""
    from scipy.special import stdtrit

    value = max(0.0, value)
    half = float(stdtrit(degrees - 1, 1 - alpha / 2)) * math.sqrt(variance)
    return interval(value, (max(0.0, value - half), value + half), alpha=alpha, n=n, method=method)


def threshold_kl(
    present: ArrayLike, absent: ArrayLike, *, alpha: float, confidence: float
) -> Estimate:
    """Bound KL(P‖Q) from below by the divergence of one test's outcomes, in nats.

    For any event A, with p = P(A) and q = Q(A), the data-processing inequality says (Cover & Thomas
    2006, Theorem 2.8.1 with 2.5.3, doi:10.1002/047174882X)

        KL(P‖Q) ≥ d(p, q) = p ln(p/q) + (1 − p) ln((1 − p)/(1 − q)).

    d grows with p and falls with q while p > q. A is "the score is above t" or "is below t". The
    scores of even place choose it: the one with the largest bound there. Those of odd place are
    counted: `p ≥ p_L` and `q ≤ q_U` hold with probability at least 1 − α/2 each (Clopper & Pearson
    1934). So d(p_L, q_U), or 0 if p_L ≤ q_U, is at most KL(P‖Q) with probability at least 1 − α,
    for every law of the scores and of what they are computed from. It assumes independent trials.

    Nothing bounds a divergence from above without its law: an event of probability 1/n² under P
    that is impossible under Q makes it infinite. So the upper end is infinite.

    The value is d at the shares with half an outcome added to each side, which is finite.

    Args:
        present: scores of independent trials of P; shape (n,), n ≥ 2.
        absent: scores of independent trials of Q; shape (m,), m ≥ 2.
        alpha: the level.
        confidence: the confidence to state.

    Raises:
        InputError: a score is not finite, or a class has fewer than two.
    """
    check_alpha(alpha)
    first, second = scores(present, "present"), scores(absent, "absent")
    if min(len(first), len(second)) < 2:
        raise InputError("a class has 1 score: give at least 2, to choose a threshold and to test")
    best, sign, threshold = -math.inf, 1.0, 0.0
    for side in (1.0, -1.0):
        choosing = side * first[::2], side * second[::2]
        places = np.unique(np.concatenate(choosing))
        places = places[:: max(1, len(places) // _THRESHOLDS)]
        bounds = _bounds(_above(choosing[0], places), _above(choosing[1], places), alpha)
        if bounds.max() > best:
            best, sign, threshold = float(bounds.max()), side, float(places[bounds.argmax()])
    counts = [_above(sign * sample[1::2], np.array([threshold])) for sample in (first, second)]
    lower = max(0.0, float(_bounds(counts[0], counts[1], alpha)[0]))
    p, q = ((count.above + 0.5) / (count.of + 1) for count in counts)
    return Estimate(
        value=max(lower, float(coin_divergence(p, q)[0])),
        lower=lower,
        upper=math.inf,
        confidence=confidence,
        alpha=alpha,
        n=len(first) + len(second),
        method="data processing, one threshold",
    )


class _Exceedances(NamedTuple):
    """How many of some scores lie above each threshold."""

    above: NDArray[np.int64]
    of: int


def _above(values: Values, thresholds: Values) -> _Exceedances:
    below = np.searchsorted(np.sort(values), thresholds, side="right")
    return _Exceedances(len(values) - below.astype(np.int64), len(values))


def _bounds(first: _Exceedances, second: _Exceedances, alpha: float) -> Values:
    """Return d(p_L, q_U) of each threshold; −1 if p_L ≤ q_U."""
    # One-sided at α/2: one end of the two-sided interval at α.
    low, high = clopper_pearson_each(*first, alpha)[0], clopper_pearson_each(*second, alpha)[1]
    return np.where(low > high, coin_divergence(low, np.minimum(low, high)), low - high - 1)


def coin_divergence(p: Values, q: Values) -> Values:
    """Return the divergence of a coin of rate p from one of rate q; 0 < q unless p = 0."""
    from scipy.special import rel_entr

    return np.asarray(rel_entr(p, q) + rel_entr(1 - p, 1 - q), np.float64)
