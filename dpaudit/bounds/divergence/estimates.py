"""Kullback-Leibler divergence KL(P‖Q) in nats: closed forms, and estimates from samples.

P is the law of a real submission or sequence, Q that of a fake one. Samples come from independent
worlds in which user and item are fixed: pooling rounds or users estimates the divergence of a
mixture, which is an assumption the caller has to name.

A divergence is never negative. Estimates are unbiased or nearly so, hence may come out below 0;
they are then moved to 0 together with their interval, which cannot lose the truth by that.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.divergence.detection import sequence_mu
from dpaudit.bounds.outcomes import check_alpha, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate
from dpaudit.kernels.normal_equations import inverses

Values = NDArray[np.float64]

# The bias of a nearest-neighbour estimate grows about like this power of the number of neighbours.
_BIAS_POWER = 1 / 3


def gaussian_kl(mean_p: ArrayLike, cov_p: ArrayLike, mean_q: ArrayLike, cov_q: ArrayLike) -> float:
    """KL(P‖Q) of two normal laws.

        ½[tr(Σ_q⁻¹Σ_p) + (μ_p − μ_q)ᵀΣ_q⁻¹(μ_p − μ_q) − d + ln(det Σ_q/det Σ_p)]

    Kullback 1959, Information Theory and Statistics, chapter 9, section 1.

    Args:
        mean_p: shape (d,), or a number.
        cov_p: covariance; shape (d, d), or a number.
        mean_q: as `mean_p`.
        cov_q: as `cov_p`.

    Raises:
        InputError: shapes that do not fit, numbers that are not finite, or a covariance that is not
            symmetric and positive definite.
    """
    means = [np.atleast_1d(np.asarray(mean, np.float64)) for mean in (mean_p, mean_q)]
    if means[0].ndim != 1 or means[0].shape != means[1].shape:
        raise InputError(f"means have shapes {means[0].shape} and {means[1].shape}: give two (d,)")
    if not np.isfinite(means).all():
        raise InputError("a mean holds NaN or infinity: give finite numbers")
    d = len(means[0])
    root_p, root_q = _root(cov_p, d, "cov_p"), _root(cov_q, d, "cov_q")
    # With Σ = RRᵀ: tr(Σ_q⁻¹Σ_p) = ‖R_q⁻¹R_p‖² and ln det Σ = 2 Σ ln diag R.
    spread = np.linalg.solve(root_q, root_p)
    shift = np.linalg.solve(root_q, means[0] - means[1])
    logs = np.log(np.diag(root_q)) - np.log(np.diag(root_p))
    # Never negative: what remains below 0 is rounding.
    return max(0.0, float(0.5 * (np.sum(spread**2) + shift @ shift - d) + logs.sum()))


def sequence_kl(gradients: ArrayLike, fakes: ArrayLike, sigma: float) -> Values:
    """KL of each real sequence of noised vectors from its fake one: `Σ‖g − F‖²/(2σ²)`.

    Exact for fixed sequences. Where g_t and F_t depend on the past, its mean over runs with the
    real user is KL of the whole run by the chain rule, and at least KL of what is seen of it
    (Cover & Thomas 2006, Theorem 2.5.3, doi:10.1002/047174882X).

    Args:
        gradients: real vectors without noise; shape (…, k, d).
        fakes: fake vectors without noise; a shape that broadcasts with it.
        sigma: standard deviation of the noise of each coordinate.

    Returns:
        Shape (…).

    Raises:
        InputError: as for `detection.sequence_mu`.
    """
    return sequence_mu(gradients, fakes, sigma) ** 2 / 2


def plugin_kl(
    x: ArrayLike, y: ArrayLike, *, alpha: float = 0.05, confidence: float | None = None
) -> Estimate:
    """KL of two normal laws from samples: `gaussian_kl` of their moments without its bias.

    With n − 1 = ν_p and m − 1 = ν_q degrees of freedom the sample covariances of normal rows are
    Wishart matrices over ν, independent of the means, so that (Muirhead 1982, section 3.2,
    doi:10.1002/9780470316559)

        E S_q⁻¹ = c Σ_q⁻¹,  c = ν_q/(ν_q − d − 1),
        E ln det S = ln det Σ + b(ν),  b(ν) = Σ_{i<d} ψ((ν − i)/2) + d ln(2/ν),
        E (x̄ − ȳ)ᵀS_q⁻¹(x̄ − ȳ) = c[(μ_p − μ_q)ᵀΣ_q⁻¹(μ_p − μ_q) + tr(Σ_q⁻¹Σ_p)/n + d/m],

    which makes the following exactly unbiased for normal samples of any size:

        ½[(1 − 1/n) tr(S_q⁻¹S_p)/c + (x̄ − ȳ)ᵀS_q⁻¹(x̄ − ȳ)/c − d/m − d
          + ln(det S_q/det S_p) − b(ν_q) + b(ν_p)].

    The interval is the delta method's with empirical influence functions. Their variance counts the
    error's quadratic part twice, so the interval is too wide, not too narrow, where d²/n is not
    small beside the divergence. Its coverage is measured in docs/divergence-tables.md.

    Args:
        x: rows of P, independent; shape (n, d), or (n,) for d = 1; n > d.
        y: rows of Q, independent; shape (m, d), or (m,); m > d + 2.
        alpha: the level of the interval.
        confidence: the confidence to state; 1 − α where none is given.

    Raises:
        InputError: shapes that do not fit, numbers that are not finite, too few rows, or columns
            that depend on each other.
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
    # Influence of a row on the plug-in value, derivatives of `gaussian_kl` in its four arguments:
    # of x, ½(x − x̄)ᵀ(S_q⁻¹ − S_p⁻¹)(x − x̄) + (x − x̄)·slope;
    of_x = 0.5 * _squares(first.centred, second.inverse - first.inverse) + _product(
        first.centred, slope
    )
    # of y, ½(y − ȳ)ᵀ(S_q⁻¹ − S_q⁻¹S_pS_q⁻¹ − slope slopeᵀ)(y − ȳ) − (y − ȳ)·slope.
    turned = _product(_product(second.inverse, first.cov), second.inverse)
    bend = second.inverse - turned - np.outer(slope, slope)
    of_y = 0.5 * _squares(second.centred, bend) - _product(second.centred, slope)
    variance = of_x.var(ddof=1) / n + of_y.var(ddof=1) / m
    return _estimate(
        float(value), float(variance), min(n, m), alpha, confidence, n + m, "plug-in normal"
    )


def neighbour_kl(
    x: ArrayLike,
    y: ArrayLike,
    *,
    neighbours: int = 10,
    alpha: float = 0.05,
    confidence: float | None = None,
) -> Estimate:
    """KL of two laws with densities, from distances to nearest neighbours.

    With ρ_k(i) the distance from x_i to its k-th nearest other row of x and ν_k(i) to that of y

        D_k = (d/n) Σ_i ln(ν_k(i)/ρ_k(i)) + ln(m/(n − 1))

    (Wang, Kulkarni, Verdú 2009, equation (5), doi:10.1109/TIT.2009.2016060). The bias of D_k
    grows with k about like k^{1/3} for normal laws in up to three dimensions, as measured. The
    value is the combination `Σ w_k D_k`, k = 1 … `neighbours`, without that term: w is the shortest
    vector with Σ w_k = 1 and Σ w_k k^{1/3} = 0 (an ensemble of estimators, Moon, Sricharan,
    Greenewald, Hero 2018, doi:10.3390/e20080560). One neighbour is D_1 itself.

    The interval is the jackknife's: each row in turn is left out of either sample, which is exact
    from one more neighbour. Its variance is too large on average (Efron & Stein 1981,
    doi:10.1214/aos/1176345462). It covers in up to three dimensions; beyond, a bias remains that it
    does not see, downwards for laws that differ in their place, upwards for a P narrower than Q. A
    function of the rows, such as the log-ratio, has at most the rows' divergence; estimated on one
    number a row, this is a lower bound up to its error.

    Args:
        x: rows of P, independent; shape (n, d), or (n,) for d = 1.
        y: rows of Q, independent; shape (m, d), or (m,).
        neighbours: how many neighbours to combine over; 1, or from 3.
        alpha: the level of the interval.
        confidence: the confidence to state; 1 − α where none is given.

    Raises:
        InputError: shapes that do not fit, numbers that are not finite, fewer than `neighbours` + 2
            rows of x or + 1 of y, or a row of x that occurs again in x or y: a law with a density
            has no equal rows.
    """
    check_alpha(alpha)
    if neighbours < 1 or neighbours == 2:
        raise InputError(f"neighbours = {neighbours} cannot be combined over: use 1, or from 3")
    p, q = _rows(x, y)
    (n, d), m = p.shape, len(q)
    _check_enough(n, neighbours + 2, "x")
    _check_enough(m, neighbours + 1, "y")
    near, near_at = _distances(p, p, neighbours + 2)
    far, far_at = _distances(q, p, neighbours + 1)
    near, near_at = near[:, 1:], near_at[:, 1:]  # the nearest row of x is the row itself
    for name, distances in (("x", near), ("y", far)):
        if not (distances[:, 0] > 0).all():
            raise InputError(f"a row of x occurs again in {name}: rows of a density are distinct")
    weights = d * _weights(neighbours)
    log_near, log_far = np.log(near), np.log(far)
    terms = ((log_far - log_near)[:, :neighbours] * weights).sum(axis=1)
    total = terms.sum()
    # A row left out moves the distances of those that have it for a neighbour to the next one.
    from_near = _moved(log_near, near_at, weights, n)
    from_far = _moved(log_far, far_at, weights, m)
    # (n − 1)/n Σ (T_{−i} − T̄)² = (n − 1) Var; the sum's terms go with their row.
    variance = (n - 1) * np.var((total - terms - from_near) / (n - 1))
    variance += (m - 1) * np.var((total + from_far) / n)
    return _estimate(
        float(total / n + math.log(m / (n - 1))),
        float(variance),
        min(n, m),
        alpha,
        confidence,
        n + m,
        f"{neighbours} nearest neighbours, biased in many dimensions",
    )


def log_ratio_kl(
    ratios: ArrayLike, *, alpha: float = 0.05, confidence: float | None = None
) -> Estimate:
    """KL as the mean of true log-ratios `ln p(x)/q(x)` under P, with Student's interval.

    Student 1908, doi:10.1093/biomet/6.1.1; exact for Gaussian noise, whose log-ratio is normal.

    Args:
        ratios: the log-likelihood ratio of each world of P; shape (n,).
        alpha: the level of the interval.
        confidence: the confidence to state; 1 − α where none is given.

    Raises:
        InputError: ratios that are not finite, or fewer than two.
    """
    check_alpha(alpha)
    found = scores(ratios, "ratios")
    n = len(found)
    if n < 2:
        raise InputError("ratios hold 1 number: give at least 2 for an interval")
    variance = float(found.var(ddof=1)) / n
    return _estimate(float(found.mean()), variance, n, alpha, confidence, n, "mean log-ratio")


@dataclass(frozen=True)
class _Moments:
    """Moments of rows: mean, rows around it, covariance over n − 1, its inverse and ln det."""

    mean: Values
    centred: Values
    cov: Values
    inverse: Values
    log_det: float


def _moments(rows: Values, name: str) -> _Moments:
    """The moments of rows whose columns do not depend on each other."""
    mean = rows.mean(axis=0)
    centred = rows - mean
    scale = centred.std(axis=0)
    # Their covariance, which squares what is lost, can then be inverted to four digits.
    if not (scale > 0).all() or np.linalg.matrix_rank(centred / scale, rtol=1e-6) < rows.shape[1]:
        raise InputError(f"columns of {name} are constant or depend on each other: drop some")
    cov = _product(centred.T, centred) / (len(rows) - 1)
    inverse, log_det = inverses(cov[None])
    return _Moments(mean, centred, cov, inverse[0], float(log_det[0]))


def _log_det_bias(degrees: int, d: int) -> float:
    """E ln det S − ln det Σ for S a Wishart matrix over its degrees of freedom."""
    from scipy.special import psi

    # b(ν) = Σ_{i<d} ψ((ν − i)/2) + d ln(2/ν)
    return float(np.sum(psi((degrees - np.arange(d)) / 2)) + d * math.log(2 / degrees))


def _squares(rows: Values, form: Values) -> Values:
    """`rowᵀ form row` of each row."""
    return np.sum(_product(rows, form) * rows, axis=-1)


def _product(left: Values, right: Values) -> Values:
    """`left @ right`, summed in one order on any machine, as BLAS does not."""
    found: Values = np.einsum("...i,i...->..." if right.ndim == 1 else "...i,ij->...j", left, right)
    return found


def _weights(neighbours: int) -> Values:
    """Weights of D_1 … D_K that keep a constant and cancel k^{1/3}; the shortest such vector."""
    if neighbours == 1:
        return np.ones(1)
    bias = np.arange(1, neighbours + 1) ** _BIAS_POWER
    total, squares = bias.sum(), (bias**2).sum()
    # A constant and a multiple of k^{1/3}, so that both sums are right.
    return np.asarray((squares - total * bias) / (neighbours * squares - total**2), np.float64)


def _distances(points: Values, rows: Values, count: int) -> tuple[Values, NDArray[np.intp]]:
    """Distances of each row to its `count` nearest points, ascending, and which they are."""
    from scipy.spatial import cKDTree

    distances, at = cKDTree(points).query(rows, count)
    if not np.isfinite(distances).all():
        raise InputError("distances between rows overflow: scale the rows")
    return distances, at


def _moved(logs: Values, at: NDArray[np.intp], weights: Values, count: int) -> Values:
    """By how much the weighted log-distances of all rows grow where a point is left out.

    Args:
        logs: log-distances to the K + 1 nearest points; shape (n, K + 1).
        at: which points they are; as `logs`.
        weights: of the first K; shape (K,).
        count: number of points.

    Returns:
        One number a point; shape (count,).
    """
    # Without the j-th nearest point the k-th is the next one for each k ≥ j.
    steps = np.diff(logs, axis=1) * weights
    growth = np.cumsum(steps[:, ::-1], axis=1)[:, ::-1]
    return np.bincount(at[:, :-1].ravel(), growth.ravel(), minlength=count).astype(np.float64)


def _rows(x: ArrayLike, y: ArrayLike) -> tuple[Values, Values]:
    """Both samples as finite rows of one width."""
    found = []
    for name, values in (("x", x), ("y", y)):
        rows = np.asarray(values, np.float64)
        rows = rows[:, None] if rows.ndim == 1 else rows
        if rows.ndim != 2 or not rows.shape[1]:
            raise InputError(f"{name} has shape {rows.shape}: give rows of numbers, (n, d)")
        if not np.isfinite(rows).all():
            raise InputError(f"{name} holds NaN or infinity: give finite numbers")
        found.append(rows)
    if found[0].shape[1] != found[1].shape[1]:
        raise InputError(
            f"x has {found[0].shape[1]} columns and y {found[1].shape[1]}: give as many of both"
        )
    return found[0], found[1]


def _check_enough(count: int, least: int, name: str) -> None:
    if count < least:
        raise InputError(f"{name} has {count} rows: give at least {least}")


def _root(cov: ArrayLike, d: int, name: str) -> Values:
    """The lower Cholesky factor of a covariance."""
    found = np.atleast_2d(np.asarray(cov, np.float64))
    if found.shape != (d, d):
        raise InputError(f"{name} has shape {found.shape}: give ({d}, {d}), as its mean has {d}")
    if not np.allclose(found, found.T, rtol=1e-9, atol=0):  # false where it holds NaN
        raise InputError(f"{name} is not symmetric: give a covariance")
    try:
        return np.asarray(np.linalg.cholesky(found), np.float64)
    except np.linalg.LinAlgError as error:
        raise InputError(f"{name} is not positive definite: give a covariance of rank d") from error


def _estimate(
    value: float,
    variance: float,
    degrees: int,
    alpha: float,
    confidence: float | None,
    n: int,
    method: str,
) -> Estimate:
    """`value ± t √variance`, moved to 0 or above; Student's t with `degrees` − 1 degrees."""
    from scipy.special import stdtrit

    value = max(0.0, value)
    half = float(stdtrit(degrees - 1, 1 - alpha / 2)) * math.sqrt(variance)
    return Estimate(
        value=value,
        lower=max(0.0, value - half),
        upper=value + half,
        confidence=1 - alpha if confidence is None else confidence,
        alpha=alpha,
        n=n,
        method=method,
        kind="assumes-law",
    )
