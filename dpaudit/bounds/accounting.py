"""The ε that a defense's own noise gives: computed from its law, no trial is run.

It stands beside a certified lower bound: a bound above it contradicts the noise that the code is
thought to draw. It does not say that the code draws that noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, reduce
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.model_based.gdp import gaussian_epsilon
from dpaudit.bounds.outcomes import check_delta
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Neighbors = Literal["add-remove", "replace"]

# Steps from 0 to the largest privacy loss of one round; ten times as many for all rounds.
_STEPS = 5e4
# As many fewer when the noise multiplier is looked for, before all of them confirm it.
_COARSER = 20.0
# Leaves 1e-12 of the interval.
_HALVINGS = 40
# Beyond this mean shift the noise hides nothing and the closed form leaves float range.
_MAX_MU = 1e6
# Between these the noise multiplier is looked for.
_MIN_SIGMA, _MAX_SIGMA = 1e-2, 1e6


def laplace_epsilon(shift: float, scale: float, *, delta: float = 0.0) -> Estimate:
    """The exact ε of one coordinate with Laplace noise.

    The privacy loss of `x` is `(|x| − |x − shift|)/scale`, so with `d = |shift|/scale`

        δ(ε) = 1 − e^{(ε − d)/2},  0 ≤ ε ≤ d;   ε(δ) = max(0, d + 2 ln(1 − δ)).

    Balle, Barthe, Gaboardi 2018, Theorem 3, arXiv:1807.01647.

    Args:
        shift: the change of the coordinate between the two data sets.
        scale: the Laplace scale b; 0 for no noise.
        delta: δ.

    Raises:
        InputError: a number is not finite, the scale is negative, or δ is not in [0, 1).
    """
    return laplace_vector_epsilon([shift], scale, delta=delta)


def laplace_vector_epsilon(shifts: ArrayLike, scale: float, *, delta: float = 0.0) -> Estimate:
    """The ε of several coordinates, each with its own independent Laplace noise.

    At δ = 0 it is exactly `Σ |shift| / scale` (Dwork, McSherry, Nissim, Smith 2006, Proposition 1,
    doi:10.1007/11681878_14), and one moving coordinate is exact at every δ (`laplace_epsilon`).
    Else the law of the privacy loss is composed on a grid by dp-accounting: `value` and `upper`
    round it up (Doroshenko et al. 2022, arXiv:2207.04380), `lower` rounds it down (Meiser &
    Mohammadi 2018, doi:10.1145/3243734.3243765).

    Args:
        shifts: the change of each coordinate between the two data sets `(k,)`.
        scale: the Laplace scale b of every coordinate; 0 for no noise.
        delta: δ.

    Returns:
        Kind `exact`, or `assumes-law` with the true ε of this law between `lower` and `upper`.

    Raises:
        InputError: as `laplace_epsilon`, or `shifts` is no vector.
    """
    moves = _moves(shifts)
    if not 0 <= scale < math.inf:
        raise InputError(f"scale = {scale} is not a finite number of at least 0")
    check_delta(delta)
    moving = np.sort(moves[moves > 0])
    if not len(moving):
        return Estimate.exact(0.0, "laplace, nothing moves")
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

    lower, upper = _enclose(loss_law, delta, len(losses), total)
    # One coordinate is post-processing of all.
    return _between(max(lower, at_least), upper, f"laplace, {_pld(step)}")


def gaussian_mechanism_epsilon(
    noise_multiplier: float,
    *,
    delta: float,
    compositions: int = 1,
    sampling: float = 1.0,
    neighbors: Neighbors = "add-remove",
) -> Estimate:
    """The ε of Gaussian noise on a sum of records, composed, on Poisson samples of the records.

    Without sampling T rounds are one Gaussian mechanism with the mean shift `μ = √T/σ` (Dong, Roth,
    Su 2019, Corollary 3.3, arXiv:1905.02383), exact by

        δ(ε) = Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ)     (Balle & Wang 2018, Theorem 8, arXiv:1805.06530)

    With sampling a record is in each round with probability q, independently; the privacy loss of
    N(0, σ²) against (1 − q) N(0, σ²) + q N(1, σ²), in either order, is composed on a grid by
    dp-accounting, `value` and `upper` rounded up, `lower` rounded down, as in
    `laplace_vector_epsilon`. Pairs that dominate one round compose (Zhu, Dong, Wang 2022,
    arXiv:2106.08567), whose Poisson samples are of records that are added or removed.

    For a record that is replaced the pair is (1 − q) N(0, σ²) + q N(1, σ²) against
    (1 − q) N(0, σ²) + q N(−1, σ²), and it dominates too. Let x and x' be the record's two parts,
    ‖x‖, ‖x'‖ ≤ 1, N_x = N(x, σ² I), γ ≥ 1, a = (1 − q)(γ − 1), and

        H(x, x') = sup_S q N_x(S) − γ q N_x'(S) − a N_0(S),

    the divergence at γ of the round's two laws, given the other records' draws, which are the same
    in both. The best S is where a sum of two exponentials of linear functions, with slopes along
    x' − x and −x, is at most q: a convex set whose outward normals lie in the cone of x' − x and
    −x. So by Gauss' theorem ∂H/∂x' lies in the cone of x' − x and −x, and ∂H/∂x in that of x − x'
    and x. Turning x' away from x at fixed length moves it along the part of −x orthogonal to x',
    which has no negative product with either vector: H does not fall until x' is opposite to x.
    From there neither does it when either grows longer. At γ < 1 H is 1 − γ plus γ times that of
    1/γ in the other order, and the pair is its own mirror image.

    Args:
        noise_multiplier: σ over the largest L2 norm of one record's part in the sum.
        delta: δ; at 0 the ε is infinite.
        compositions: T, the number of rounds; every one is seen.
        sampling: q in (0, 1].
        neighbors: `add-remove` one record, or `replace` its part by another of the same norm at
            most: the sum then moves by twice that norm.

    Returns:
        Kind `exact` without sampling, else `assumes-law` with the ε between `lower` and `upper`.

    Raises:
        InputError: an argument is outside its range, or √T/σ is beyond 1e6.
    """
    if not 0 < noise_multiplier < math.inf:
        raise InputError(f"noise_multiplier = {noise_multiplier} is not a finite number above 0")
    check_delta(delta)
    _check_rounds(compositions, sampling, neighbors)
    whole, step, loss_law = _rounds(noise_multiplier, delta, compositions, sampling, neighbors)
    if sampling == 1 or delta == 0:
        return Estimate.exact(whole, "gaussian, closed form")
    # Sampling never adds to ε, since the hockey-stick divergence is jointly convex.
    lower, upper = _enclose(loss_law, delta, compositions, most=whole)
    return _between(lower, upper, f"subsampled gaussian, {_pld(step)}")


@cache
def noise_multiplier(
    epsilon: float,
    *,
    delta: float,
    compositions: int = 1,
    sampling: float = 1.0,
    neighbors: Neighbors = "add-remove",
) -> float:
    """The least σ for which `gaussian_mechanism_epsilon` is `epsilon` at most, from above.

    Within 1e-4 of it without sampling, within 1 % with it; at least 5e-3.

    Args:
        epsilon: ε above 0.
        delta: δ above 0.
        compositions: as there.
        sampling: as there.
        neighbors: as there.

    Raises:
        InputError: an argument is outside its range, or no σ up to 1e6 will do.
    """
    if not 0 < epsilon < math.inf:
        raise InputError(f"epsilon = {epsilon} is not a finite number above 0")
    check_delta(delta)
    if delta == 0:
        raise InputError("delta = 0 cannot be kept by Gaussian noise: give delta above 0")
    _check_rounds(compositions, sampling, neighbors)

    def keeps(sigma: float, coarser: float = 1.0) -> bool:
        whole, _, loss_law = _rounds(sigma, delta, compositions, sampling, neighbors, coarser)
        if sampling == 1 or whole <= epsilon:
            return whole <= epsilon
        # As much less as the ε that `_crossing` finds may be too large by.
        at = max(0.0, epsilon - whole / 2**_HALVINGS)
        return loss_law(True).get_delta_for_epsilon(at) <= delta - _slack(compositions)

    if sampling == 1:
        high = 1.0
        while not keeps(high):
            high *= 2
            if high > _MAX_SIGMA:
                raise InputError(
                    f"epsilon = {epsilon:g} with delta = {delta:g} over {compositions} "
                    f"compositions needs noise_multiplier above {_MAX_SIGMA:g}: allow more, or "
                    "compose less"
                )
        return _least(keeps, high, 1e-4)[1]
    # Sampling never needs more noise.
    most = noise_multiplier(epsilon, delta=delta, compositions=compositions, neighbors=neighbors)
    # What a coarse grid finds, the fine one confirms: as ε falls with σ, it would find the same.
    low, high = _least(lambda sigma: keeps(sigma, _COARSER), most, 1e-2)
    if keeps(high) and (low <= _MIN_SIGMA or not keeps(low)):
        return high
    return _least(keeps, most, 1e-2)[1]


def randomized_response_epsilon(p: float, k: int = 2, *, delta: float = 0.0) -> Estimate:
    """The exact ε of an answer that is true with probability `p`, else one of the k − 1 others.

    With `q = (1 − p)/(k − 1)` two true values differ in two answers alone, so

        δ(ε) = max(0, max(p, q) − e^ε min(p, q));   ε(δ) = max(0, ln((max(p, q) − δ)/min(p, q))).

    Warner 1965, doi:10.1080/01621459.1965.10480775; k > 2: Kairouz, Bonawitz, Ramage 2016,
    arXiv:1602.07387.

    Raises:
        InputError: p is not in [0, 1], k is not a whole number of at least 2, or δ not in [0, 1).
    """
    if not 0 <= p <= 1:
        raise InputError(f"p = {p} is not a probability: give a number in [0, 1]")
    if isinstance(k, bool) or not isinstance(k, int) or k < 2:
        raise InputError(f"k = {k!r} is not a number of answers: give a whole number from 2 on")
    check_delta(delta)
    low, high = sorted((p, (1 - p) / (k - 1)))
    if high - low <= delta:
        epsilon = 0.0
    else:
        epsilon = math.log((high - delta) / low) if low > 0 else math.inf
    return Estimate.exact(epsilon, "randomised response, closed form")


def _check_rounds(compositions: int, sampling: float, neighbors: Neighbors) -> None:
    if isinstance(compositions, bool) or not isinstance(compositions, int) or compositions < 1:
        raise InputError(f"compositions = {compositions!r} is not a whole number of at least 1")
    if not 0 < sampling <= 1:
        raise InputError(f"sampling = {sampling} is not in (0, 1]: use 1 for every record")
    if neighbors not in ("add-remove", "replace"):
        raise InputError(f"neighbors = {neighbors!r} is not 'add-remove' or 'replace'")


def _moves(shifts: ArrayLike) -> NDArray[np.float64]:
    """The absolute changes `(k,)`, checked."""
    try:
        moves = np.abs(np.asarray(shifts, dtype=np.float64))
    except (TypeError, ValueError) as error:
        raise InputError(f"shifts are not numbers: {error}") from error
    if moves.ndim != 1 or not len(moves):
        raise InputError(f"shifts have shape {moves.shape}: give one number a coordinate")
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
    """The ε without sampling, the step of the grid and, on it, the law of the loss with sampling.

    Raises:
        InputError: the noise hides nothing.
    """
    single = (2 if neighbors == "replace" else 1) / sigma
    mu = single * math.sqrt(compositions)
    if mu > _MAX_MU:
        raise InputError(
            f"noise_multiplier = {sigma:g} over {compositions} compositions hides "
            f"nothing: use at least {sigma * mu / _MAX_MU:g}"
        )
    # The loss' standard deviation: without sampling μ, with it at most q √(T (e^{μ₁²} − 1)).
    spread = min(mu, sampling * math.sqrt(compositions * math.expm1(min(single**2, 50.0))))
    step = coarser * max(_width(single), _width(spread) / 10) / _STEPS

    def loss_law(pessimistic: bool) -> PrivacyLossDistribution:
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

        one = from_gaussian_mechanism(
            sigma,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=step,
            sampling_prob=sampling,
            use_connect_dots=pessimistic,
            neighboring_relation=NeighboringRelation.REPLACE_ONE
            if neighbors == "replace"
            else NeighboringRelation.ADD_OR_REMOVE_ONE,
        )
        return one.self_compose(compositions)

    return gaussian_epsilon(mu, delta), step, loss_law


def _least(keeps: Callable[[float], bool], high: float, within: float) -> tuple[float, float]:
    """Two σ of at most this ratio around the least that keeps ε; the second, as `high`, keeps it.

    The first does not, unless it is `_MIN_SIGMA` at most.
    """
    low = high / 2
    while low > _MIN_SIGMA and keeps(low):
        low, high = low / 2, low
    while high / low > 1 + within:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return low, high


def _enclose(
    loss_law: Callable[[bool], PrivacyLossDistribution],
    delta: float,
    compositions: int,
    most: float,
) -> tuple[float, float]:
    """ε(δ) of the discretised losses, rounded down and up; it is `most` at most.

    `_slack` is charged to δ on either side.
    """
    slack = _slack(compositions)
    lower = _crossing(loss_law(False).get_delta_for_epsilon, delta + slack, most)[0]
    return lower, _crossing(loss_law(True).get_delta_for_epsilon, delta - slack, most)[1]


def _slack(compositions: int) -> float:
    """More than the convolutions err by.

    They are made in double precision and cut 1e-15 of the tails a composition, also where they
    round down.
    """
    return 1e-15 * (1000 + compositions)


def _crossing(profile: Callable[[float], float], delta: float, most: float) -> tuple[float, float]:
    """Where a decreasing δ(ε) falls to `delta`, from below and above; `most` where it does not.

    dp-accounting's own inverse returns a grid point once e^−loss underflows.
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
    """The largest privacy loss to 10 standard deviations, of a Gaussian mean shift μ."""
    return mu**2 / 2 + 10 * mu


def _pld(step: float) -> str:
    return f"privacy loss distribution rounded up to steps of {step:.1g}; lower end rounded down"


def _between(lower: float, upper: float, method: str) -> Estimate:
    return Estimate(
        value=upper,
        lower=min(lower, upper),
        upper=upper,
        confidence=1.0,
        alpha=0.0,
        n=0,
        method=method,
        kind="assumes-law",
    )
