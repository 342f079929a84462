"""Privacy accounting: the ε that a noise law implies, computed without trials.

Reports show it beside a certified lower bound. A bound above it contradicts, at its
confidence, that the code draws this noise. A bound below it does not prove that the code draws it.

**Rényi divergences** bound ε from above for a δ that no sum of probabilities resolves. A privacy
loss distribution is composed in double precision, which leaves an error of about 1e-12 in δ. Rényi
divergences add up in logarithms, so a δ of 1e-60 is as good as any. Every order α > 1 gives a bound
(Canonne, Kamath, Steinke 2020, Proposition 12, arXiv:2004.00010):

    ε = D_α + ln((α − 1)/α) − (ln δ + ln α)/(α − 1).

With D_α = ln M_α/(α − 1), this is a convex function of α over α − 1, which falls to its minimum and
rises behind it. The orders are a fixed grid, so the bound falls with δ and with the noise.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from functools import cache, reduce
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.gdp import gaussian_epsilon
from dpaudit.bounds.outcomes import check_delta, interval
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Neighbors = Literal["add-remove", "replace"]
# Grid steps from 0 to the largest privacy loss of one round; all rounds get ten times as many.
_STEPS = 5e4
# The search for a noise multiplier divides the steps by this; the full grid confirms its result.
_COARSER = 20.0
# Bisection steps: they leave 1e-12 of the interval.
_HALVINGS = 40
# Beyond this mean shift the noise hides nothing and the closed form overflows.
_MAX_MU = 1e6
# Range of the search for a noise multiplier.
_MIN_SIGMA, _MAX_SIGMA = 1e-2, 1e6
# α − 1 of every order. The grid is fine because D_α of a sampled mechanism rises steeply from the
# order on at which a round that includes the record dominates.
_EXCESSES = 2.0 ** (np.arange(-10 * 128, 17 * 128 + 1) / 128)
# The relative errors of an integral: e^−40 by its steps, and e^−50 by its ends.
_DIGITS, _DEVIATIONS = 40.0, 10.0
# The most steps of an integral; orders that need more are left out.
_MOST_STEPS = 2**14
# The relative error of a sum of logarithms in double precision.
_ROUNDING = 1e-15


def laplace_epsilon(shift: float, scale: float, *, delta: float = 0.0) -> Estimate:
    """Return the exact ε of one coordinate with Laplace noise.

    The privacy loss of `x` is `(|x| − |x − shift|)/scale`, so with `d = |shift|/scale`

        δ(ε) = 1 − e^{(ε − d)/2},  0 ≤ ε ≤ d;   ε(δ) = max(0, d + 2 ln(1 − δ)).

    Balle, Barthe, Gaboardi 2018, Theorem 3, arXiv:1807.01647.

    Args:
        shift: the change of the coordinate between the two data sets.
        scale: the Laplace scale b; 0 for no noise.
        delta: the δ.

    Raises:
        InputError: a number is not finite, the scale is negative, or δ is not in [0, 1).
    """
    return laplace_vector_epsilon([shift], scale, delta=delta)


def laplace_vector_epsilon(shifts: ArrayLike, scale: float, *, delta: float = 0.0) -> Estimate:
    """Return the ε of several coordinates with independent Laplace noise.

    At δ = 0 it is exactly `Σ |shift| / scale` (Dwork, McSherry, Nissim, Smith 2006, Proposition 1,
    doi:10.1007/11681878_14). If only one coordinate changes, it is exact at every δ
    (`laplace_epsilon`). Otherwise dp-accounting composes the law of the privacy loss on a grid:
    `value` and `upper` round it up (Doroshenko et al. 2022, arXiv:2207.04380), `lower` rounds it
    down (Meiser & Mohammadi 2018, doi:10.1145/3243734.3243765). Below a δ of about 1e-12 the
    composition resolves nothing, and `upper` is that of Rényi divergences, or the sum.

    Args:
        shifts: the change of each coordinate between the two data sets `(k,)`.
        scale: the Laplace scale b of every coordinate; 0 for no noise.
        delta: the δ.

    Returns:
        Kind `exact`, or `assumes-law` with the true ε of this law between `lower` and `upper`.

    Raises:
        InputError: as `laplace_epsilon`, or `shifts` is not a vector.
    """
    moves = _moves(shifts)
    if not 0 <= scale < math.inf:
        raise InputError(f"scale = {scale} is not a finite number of at least 0")
    check_delta(delta)
    moving = np.sort(moves[moves > 0])
    if not len(moving):
        return Estimate.exact(0.0, "laplace, no coordinate changes")
    with np.errstate(divide="ignore", over="ignore"):
        losses = moving / np.float64(scale)
    total, largest = float(losses.sum()), float(losses[-1])
    at_least = max(0.0, largest + 2 * math.log1p(-delta))
    if len(losses) == 1 or delta == 0 or math.isinf(total):
        return Estimate.exact(at_least if len(losses) == 1 else total, "laplace, closed form")
    step = total / _STEPS
    sizes, counts = np.unique(losses, return_counts=True)

    def loss_law(pessimistic: bool) -> PrivacyLossDistribution:
        from dp_accounting.pld.privacy_loss_distribution import from_laplace_mechanism

        parts = (
            from_laplace_mechanism(1.0, size, pessimistic, step, use_connect_dots=pessimistic)
            for size in sizes
        )
        many = (part.self_compose(int(count)) for part, count in zip(parts, counts, strict=True))
        return reduce(lambda a, b: a.compose(b, 0.0), many)

    most = min(total, renyi_laplace_epsilon(losses, delta=delta))
    # The release of one coordinate is post-processing of the whole.
    return _enclose("laplace", loss_law, step, delta, len(losses), at_least, most)


def gaussian_mechanism_epsilon(
    noise_multiplier: float,
    *,
    delta: float,
    compositions: int = 1,
    sampling: float = 1.0,
    neighbors: Neighbors = "add-remove",
) -> Estimate:
    """Return the ε of Gaussian noise on sums over Poisson samples of records, composed.

    Without sampling, T rounds are one Gaussian mechanism with the mean shift `μ = √T/σ` (Dong,
    Roth, Su 2019, Corollary 3.3, arXiv:1905.02383). Its curve is exactly

        δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)     (Balle & Wang 2018, Theorem 8, arXiv:1805.06530)

    With sampling, each round includes a record with probability q, independently. dp-accounting
    composes the privacy loss of N(0, σ²) against (1 − q) N(0, σ²) + q N(1, σ²), in either order, on
    a grid: `value` and `upper` are rounded up, `lower` is rounded down, as in
    `laplace_vector_epsilon`. Pairs that dominate one round compose (Zhu, Dong, Wang 2022,
    arXiv:2106.08567); their Poisson sampling is for records that are added or removed. `upper` is
    never above the ε of Rényi divergences, which is the only one of use at a δ below
    about 1e-12, nor above that without sampling. `lower` is never below the ε of one round.

    For a replaced record the pair is (1 − q) N(0, σ²) + q N(1, σ²) against
    (1 − q) N(0, σ²) + q N(−1, σ²), and it dominates too. Proof: let x and x' be the record's two
    contributions, ‖x‖, ‖x'‖ ≤ 1, N_x = N(x, σ² I), γ ≥ 1, a = (1 − q)(γ − 1), and

        H(x, x') = sup_S q N_x(S) − γ q N_x'(S) − a N_0(S),

    the hockey-stick divergence at γ of the round's two laws, given the other records' draws, which
    are the same in both. The best S is where a sum of two exponentials of linear functions, with
    slopes along x' − x and −x, is at most q. It is a convex set whose outward normals lie in the
    cone of x' − x and −x. By Gauss' theorem, ∂H/∂x' lies in the cone of x' − x and −x, and ∂H/∂x in
    the cone of x − x' and x. Turning x' away from x at fixed length moves it along the part of −x
    orthogonal to x', whose product with either vector is not negative, so H does not fall until x'
    is opposite to x. From there H does not fall if x or x' grows longer. At γ < 1, H is 1 − γ plus
    γ times the H of 1/γ in the other order, and the pair is its own mirror image.

    Args:
        noise_multiplier: σ over the largest L2 norm of one record's contribution to the sum.
        delta: the δ; at 0 the ε is infinite.
        compositions: T, the number of rounds; all of them are observed.
        sampling: q in (0, 1].
        neighbors: `add-remove` one record, or `replace` its contribution by another of at most the
            same norm: the sum then changes by up to twice that norm.

    Returns:
        Kind `exact` without sampling, else `assumes-law` with the ε between `lower` and `upper`.

    Raises:
        InputError: an argument is outside its range, or √T/σ is above 1e6.
    """
    if not 0 < noise_multiplier < math.inf:
        raise InputError(f"noise_multiplier = {noise_multiplier} is not a finite number above 0")
    check_delta(delta)
    _check_rounds(compositions, sampling, neighbors)
    most, step, loss_law = _rounds(noise_multiplier, delta, compositions, sampling, neighbors)
    if sampling == 1 or delta == 0:
        return Estimate.exact(most, "gaussian, closed form")
    least = _one_round(noise_multiplier, delta, sampling)
    return _enclose("subsampled gaussian", loss_law, step, delta, compositions, least, most)


@cache
def noise_multiplier(
    epsilon: float,
    *,
    delta: float,
    compositions: int = 1,
    sampling: float = 1.0,
    neighbors: Neighbors = "add-remove",
) -> float:
    """Return the smallest σ with `gaussian_mechanism_epsilon` at most `epsilon`, from above.

    The relative error is at most 1e-4 without sampling and 1 % with sampling. The result is at
    least 5e-3.

    Args:
        epsilon: the ε, above 0.
        delta: the δ, above 0.
        compositions: as for `gaussian_mechanism_epsilon`.
        sampling: as for `gaussian_mechanism_epsilon`.
        neighbors: as for `gaussian_mechanism_epsilon`.

    Raises:
        InputError: an argument is outside its range, or no σ up to 1e6 suffices.
    """
    if not 0 < epsilon < math.inf:
        raise InputError(f"epsilon = {epsilon} is not a finite number above 0")
    check_delta(delta)
    if delta == 0:
        raise InputError("delta = 0 cannot be reached by Gaussian noise: give delta above 0")
    _check_rounds(compositions, sampling, neighbors)

    def keeps(sigma: float, coarser: float = 1.0) -> bool:
        most, _, loss_law = _rounds(sigma, delta, compositions, sampling, neighbors, coarser)
        left = delta - _slack(compositions)
        if sampling == 1 or most <= epsilon or left <= 0:
            return most <= epsilon
        # Subtract the largest error of the ε that `_crossing` finds.
        at = max(0.0, epsilon - most / 2**_HALVINGS)
        return loss_law(True).get_delta_for_epsilon(at) <= left

    if sampling == 1:
        high = 1.0
        while not keeps(high):
            high *= 2
            if high > _MAX_SIGMA:
                raise InputError(
                    f"epsilon = {epsilon:g} with delta = {delta:g} over {compositions} "
                    f"compositions needs noise_multiplier above {_MAX_SIGMA:g}: allow a "
                    "larger epsilon or fewer compositions"
                )
        return _least(keeps, high, 1e-4)[1]
    # Sampling never needs more noise.
    most = noise_multiplier(epsilon, delta=delta, compositions=compositions, neighbors=neighbors)
    # Search on a coarse grid and confirm on the fine one: since ε falls with σ, both ends decide.
    low, high = _least(lambda sigma: keeps(sigma, _COARSER), most, 1e-2)
    if keeps(high) and (low <= _MIN_SIGMA or not keeps(low)):
        return high
    return _least(keeps, most, 1e-2)[1]


def _check_rounds(compositions: int, sampling: float, neighbors: Neighbors) -> None:
    if isinstance(compositions, bool) or not isinstance(compositions, int) or compositions < 1:
        raise InputError(f"compositions = {compositions!r} is not a whole number of at least 1")
    if not 0 < sampling <= 1:
        raise InputError(f"sampling = {sampling} is not in (0, 1]: use 1 for no sampling")
    if neighbors not in ("add-remove", "replace"):
        raise InputError(f"neighbors = {neighbors!r} is not 'add-remove' or 'replace'")


def _moves(shifts: ArrayLike) -> NDArray[np.float64]:
    """Return the checked absolute changes `(k,)`."""
    try:
        moves = np.abs(np.asarray(shifts, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"shifts are not numbers: {error}") from error
    if moves.ndim != 1 or not len(moves):
        raise InputError(f"shifts have shape {moves.shape}: give one number per coordinate")
    bad = np.flatnonzero(~np.isfinite(moves))
    if len(bad):
        raise InputError(f"shifts[{bad[0]}] = {moves[bad[0]]} is not a finite number: clip it")
    return moves


def _rounds(
    sigma: float,
    delta: float,
    compositions: int,
    sampling: float,
    neighbors: Neighbors,
    coarser: float = 1.0,
) -> tuple[float, float, Callable[[bool], PrivacyLossDistribution]]:
    """Return the ε by formulas, the grid step, and the law of the sampled loss on this grid.

    The formulas are that without sampling, which never increases ε, since the hockey-stick
    divergence is jointly convex, and with sampling Rényi divergences.

    Raises:
        InputError: the mean shift of all rounds is above 1e6.
    """
    replaced = neighbors == "replace"
    single = (2 if replaced else 1) / sigma
    mu = single * math.sqrt(compositions)
    if mu > _MAX_MU:
        raise InputError(
            f"noise_multiplier = {sigma:g} over {compositions} compositions hides "
            f"nothing: use at least {sigma * mu / _MAX_MU:g}"
        )
    # Standard deviation of the loss: μ without sampling, at most q √(T (e^{μ₁²} − 1)) with it.
    spread = min(mu, sampling * math.sqrt(compositions * math.expm1(min(single**2, 50.0))))
    one = _sampled(_width(single), sampling)
    step = coarser * max(one, _width(spread) / 10) / _STEPS

    def loss_law(pessimistic: bool) -> PrivacyLossDistribution:
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

        relation = "REPLACE_ONE" if replaced else "ADD_OR_REMOVE_ONE"
        law = from_gaussian_mechanism(
            sigma,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=step,
            sampling_prob=sampling,
            use_connect_dots=pessimistic,
            neighboring_relation=NeighboringRelation[relation],
        )
        return law.self_compose(compositions)

    most = gaussian_epsilon(mu, delta)
    if sampling < 1 and delta > 0:
        renyi = renyi_gaussian_epsilon(
            sigma, delta=delta, compositions=compositions, sampling=sampling, replaced=replaced
        )
        most = min(most, renyi)
    return most, step, loss_law


def _sampled(loss: float, sampling: float) -> float:
    """Return `ln(1 + q (e^loss − 1))`, the loss of a mixture where one part has the loss `loss`."""
    if sampling == 1:
        return loss
    return float(np.logaddexp(math.log1p(-sampling), math.log(sampling) + loss))


def _one_round(sigma: float, delta: float, sampling: float) -> float:
    """Return the ε of one round for a record that is added, or replaced by a contribution of 0.

    (1 − q) N_0 + q N_1 exceeds e^ε N_0 by q (N_1 − e^{ε'} N_0), with e^ε = 1 + q (e^{ε'} − 1).
    """
    if delta >= sampling:
        return 0.0
    return max(0.0, _sampled(gaussian_epsilon(1 / sigma, delta / sampling), sampling))


def _least(keeps: Callable[[float], bool], high: float, within: float) -> tuple[float, float]:
    """Bracket the smallest σ that keeps ε within a ratio of 1 + `within`.

    Args:
        keeps: whether a σ keeps ε; true for all larger σ.
        high: a σ that keeps ε.
        within: the relative width of the bracket.

    Returns:
        The lower end, which does not keep ε unless it is at most `_MIN_SIGMA`, and the upper end,
        which does.
    """
    low = high / 2
    while low > _MIN_SIGMA and keeps(low):
        low, high = low / 2, low
    while high / low > 1 + within:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return low, high


def _enclose(
    mechanism: str,
    loss_law: Callable[[bool], PrivacyLossDistribution],
    step: float,
    delta: float,
    compositions: int,
    least: float,
    most: float,
) -> Estimate:
    """Return the ε(δ) of the discretised losses, rounded down and up, within [least, most].

    Both sides move δ by `_slack` to cover numerical errors.
    """
    slack = _slack(compositions)
    lower = _crossing(loss_law(False).get_delta_for_epsilon, delta + slack, most)[0]
    upper = most
    if delta > slack:
        upper = _crossing(loss_law(True).get_delta_for_epsilon, delta - slack, most)[1]
    law = f"privacy loss distribution in steps of {step:.1g}, rounded"
    by = f"{law} up and down" if upper < most else f"formulas; lower end by {law} down"
    limits = min(max(lower, least), upper), upper
    return interval(upper, limits, alpha=0.0, n=0, method=f"{mechanism}, {by}")


def _slack(compositions: int) -> float:
    """Return an upper bound on the error of the convolutions.

    They run in double precision and cut 1e-15 of the tails per composition, also when rounding
    down.
    """
    return 1e-15 * (1000 + compositions)


def _crossing(profile: Callable[[float], float], delta: float, most: float) -> tuple[float, float]:
    """Return an ε below and one above the point where a decreasing δ(ε) falls to `delta`.

    Both are `most` if δ(`most`) is still larger. Bisection replaces dp-accounting's own inverse,
    which returns a grid point once e^−loss underflows.
    """
    if profile(0.0) <= delta:
        return 0.0, 0.0
    if profile(most) > delta:
        return most, most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if profile(middle) > delta else (low, middle)
    return low, high


def _width(mu: float) -> float:
    """Return the largest privacy loss of a Gaussian mean shift μ within 10 standard deviations."""
    return mu**2 / 2 + 10 * mu


def renyi_gaussian_epsilon(
    sigma: float, *, delta: float, compositions: int, sampling: float, replaced: bool
) -> float:
    """Return an upper bound on the ε of Gaussian noise on Poisson samples, composed.

    The dominating pair of a round is `gaussian_mechanism_epsilon`'s. For a record that is added or
    removed, the divergence of the mixture from N(0, σ²) is the larger of the two directions
    (Mironov, Talwar, Zhang 2019, Theorem 5, arXiv:1908.10530); for a replaced one both are equal.

    Args:
        sigma: the noise multiplier, above 0.
        delta: the δ, above 0.
        compositions: the number of rounds.
        sampling: q in (0, 1).
        replaced: whether the record is replaced, not added or removed.
    """

    def moment(excess: float) -> float:
        return compositions * _gaussian_moment(sigma, sampling, excess, replaced)

    return _least_of_orders(moment, delta)


def renyi_laplace_epsilon(losses: NDArray[np.float64], *, delta: float) -> float:
    """Return an upper bound on the ε of independent Laplace noise on several coordinates.

        M_α = Π_j (α e^{(α − 1) λ_j} + (α − 1) e^{−α λ_j})/(2α − 1)

    Mironov 2017, Proposition 6, arXiv:1702.07476.

    Args:
        losses: λ, each coordinate's change over its scale `(k,)`, finite.
        delta: the δ, above 0.
    """

    def moment(excess: float) -> float:
        alpha = 1 + excess
        with np.errstate(over="ignore"):  # an order whose moment is infinite
            ends = math.log(alpha) + excess * losses, math.log(excess) - alpha * losses
            parts = np.logaddexp(*ends) - math.log(alpha + excess)
            return float(np.sum(parts + _ROUNDING * (16 + alpha + alpha * losses)))

    return _least_of_orders(moment, delta)


def _least_of_orders(moment: Callable[[float], float], delta: float) -> float:
    """Return the least ε of all orders, from `moment(α − 1) = ln M_α`."""

    def bound(order: int) -> float:
        excess = float(_EXCESSES[order])
        ends = excess * math.log(excess) - (1 + excess) * math.log1p(excess)
        return (moment(excess) + ends - math.log(delta)) / excess

    last = len(_EXCESSES) - 1
    best = bisect_left(range(last), True, key=lambda order: bound(order + 1) >= bound(order))
    return max(0.0, bound(best))


def _gaussian_moment(sigma: float, q: float, excess: float, replaced: bool) -> float:
    """Return `ln M_α` of one round, rounded up; infinite if that takes too many steps.

        M_α = ∫ N(x; 0, σ²) a(x)^α b(x)^{1−α} dx,    a(x) = 1 − q + q e^{(2x − 1)/2σ²}

    with b(x) = a(−x) for a replaced record, else 1. The trapezoidal rule of step h is used. The
    integrand f is analytic for |Im x| < πσ². At Im x = θσ², |a| is at most its value at the real
    part and at least cos(θ/2) of it, so |f| grows by at most e^{σ²θ²/2} cos(θ/2)^{1−α}, and the
    relative error is at most 2 e^{σ²θ²/2} cos(θ/2)^{1−α}/(e^{2πσ²θ/h} − 1) (Trefethen & Weideman
    2014, Theorem 5.1, doi:10.1137/130932132). Above m = α, or 2α − 1 if replaced, f falls like
    e^{−(x − m)²/2σ²} or faster, and so below 0.
    """
    alpha, peak = 1 + excess, 1 + (2 if replaced else 1) * excess
    curve = excess / 8 if replaced else 0.0
    angle = min(math.pi / 2, math.sqrt(_DIGITS / (curve + sigma**2 / 2)))
    growth = (sigma * angle) ** 2 / 2
    if replaced:
        growth -= excess * math.log(math.cos(angle / 2))
    step = 2 * math.pi * sigma**2 * angle / (_DIGITS + growth)
    count = (peak + 2 * _DEVIATIONS * sigma) / step + 2
    if count > _MOST_STEPS:
        return math.inf
    x = step * np.arange(int(count), dtype=np.float64) - _DEVIATIONS * sigma
    parts = alpha * _log_ratio(x, sigma, q) - x**2 / (2 * sigma**2)
    if replaced:
        parts -= excess * _log_ratio(-x, sigma, q)
    whole = float(np.logaddexp.reduce(parts)) + math.log(step / sigma / math.sqrt(2 * math.pi))
    return whole + _ROUNDING * (64 + alpha + count + float(np.abs(parts).max()))


def _log_ratio(x: NDArray[np.float64], sigma: float, q: float) -> NDArray[np.float64]:
    """Return `ln a(x)`."""
    return np.logaddexp(math.log1p(-q), math.log(q) + (2 * x - 1) / (2 * sigma**2))
