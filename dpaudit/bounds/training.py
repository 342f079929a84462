"""What a training by DP-SGD tells by what it adds to sums: by its scale, and of users with rows.

**Scale.** An observer of k coordinates that are noise alone sees N(0, s² I_k). If a neighbouring
data set changes the scale to r s, as a divisor does that depends on the number of rows, X = Σ x²/s²
is sufficient, X ~ χ²_k or X/r² ~ χ²_k, and the log-likelihood ratio is

    L(X) = −k ln r + X (1 − r⁻²)/2.

The law's ε does not depend on s, so no noise hides it: more noise is scaled as well.

**Users.** If batches take each row with probability q, and every row's gradient has norm C or less,
the sum of a user's k rows has norm j C or less with j ~ Binomial(k, q). The worst case is that all
point one way: a mixture of Gaussians N(j, σ²) against N(0, σ²) in each step (Choquette-Choo et al.
2023, Privacy amplification for matrix mechanisms, arXiv:2310.15526, section 3). Group privacy of k
rows (Dwork & Roth 2014, Theorem 2.2) is larger, and finite for few rows alone.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import check_delta
from dpaudit.core.errors import InputError

# Beyond it e^−ε is no number in double precision.
_LARGEST = 650.0
# Points of the grid between 0 and the largest loss of all steps that is likely: rounding each step
# leaves about 1 % of ε.
_POINTS = 400
# The mass that the sums of a user's rows in a batch may lose, and the standard deviations of a
# step's loss that are integrated.
_LOST, _DEVIATIONS = 1e-15, 12.0


def scale_epsilon(coordinates: int, ratio: float, *, delta: float) -> float:
    """Return the ε of N(0, I_k) against N(0, r² I_k), in both orders, at most 650.

    δ(ε) = P(X > x) − e^ε Q(X > x) with x at L(x) = ε, by the tails of χ²_k.

    Args:
        coordinates: k.
        ratio: r, above 0.
        delta: the δ, above 0.

    Raises:
        InputError: the ratio is not above 0 or not finite, or δ is out of range or 0.
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2

    if not 0 < ratio < math.inf:
        raise InputError(f"ratio = {ratio} is no finite number above 0")
    _check_positive(delta)
    larger = max(ratio, 1 / ratio)
    if larger == 1 or not coordinates:
        return 0.0
    slope, shift = (1 - larger**-2) / 2, coordinates * math.log(larger)

    def excess(epsilon: float) -> float:
        wide, narrow = (shift + epsilon) / slope, max(0.0, (shift - epsilon) / slope)
        factor = math.exp(epsilon)
        above = chi2.sf(wide / larger**2, coordinates) - factor * chi2.sf(wide, coordinates)
        below = chi2.cdf(narrow, coordinates) - factor * chi2.cdf(narrow / larger**2, coordinates)
        return float(max(above, below)) - delta

    if excess(0.0) <= 0:
        return 0.0
    return _LARGEST if excess(_LARGEST) > 0 else float(brentq(excess, 0.0, _LARGEST))


def sampled_epsilon(epsilon: float, rate: float) -> float:
    """Return the ε at q δ of a mechanism that is (ε, δ)-DP, and runs with probability q alone.

    ε_q = ln(1 + q (e^ε − 1)), with equality if its law without it is one of the two (Balle, Barthe
    & Gaboardi 2018, Theorem 8, arXiv:1807.01647).
    """
    if epsilon > _LARGEST:
        return epsilon + math.log(rate)
    return math.log1p(rate * math.expm1(epsilon))


def user_epsilon(
    rows: int, noise_multiplier: float, *, delta: float, compositions: int, sampling: float
) -> float:
    """Return the ε of all rows of a user, where single rows are clipped; from above.

    In each of T steps the loss is that of Σ_j P(j) N(j, σ²) against N(0, σ²) or in the other order,
    j ~ Binomial(rows, q), rounded up to a grid and composed with dp-accounting (Doroshenko et al.
    2022, arXiv:2207.04380).

    Args:
        rows: the number of rows of the user.
        noise_multiplier: σ over the norm to which a row's gradient is clipped.
        delta: the δ, above 0.
        compositions: T, the number of steps.
        sampling: q, the probability with which a batch takes a row.

    Raises:
        InputError: δ is out of range or 0, σ is not above 0, or a count is below 1.
    """
    from dp_accounting.pld.privacy_loss_distribution import from_mixture_gaussian_mechanism

    _check_positive(delta)
    if not noise_multiplier > 0 or rows < 1 or compositions < 1:
        raise InputError(
            f"rows = {rows}, noise_multiplier = {noise_multiplier} and compositions = "
            f"{compositions} have to be above 0"
        )
    taken, chances = _taken(rows, sampling)
    mean, spread = _loss(taken, chances, noise_multiplier)
    step = (mean * compositions + 3 * spread * math.sqrt(compositions)) / _POINTS
    law = from_mixture_gaussian_mechanism(
        noise_multiplier,
        taken,
        chances,
        value_discretization_interval=max(step, 1e-6),
        use_connect_dots=True,
    )
    return float(law.self_compose(compositions).get_epsilon_for_delta(delta))


def _taken(rows: int, sampling: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the numbers of a user's rows that a batch may take, and their chances."""
    from scipy.stats import binom

    # What is left out at either end is as likely as a rounding error.
    most = int(binom.isf(_LOST, rows, sampling)) + 1
    least = max(0, int(binom.ppf(_LOST, rows, sampling)))
    taken = np.arange(least, min(rows, most) + 1)
    chances = binom.pmf(taken, rows, sampling)
    return taken.astype(np.float64), chances / chances.sum()


def _loss(
    taken: NDArray[np.float64], chances: NDArray[np.float64], noise_multiplier: float
) -> tuple[float, float]:
    """Return the mean and the standard deviation of the loss of one step."""
    from scipy.special import logsumexp

    points = np.linspace(
        taken[0] - _DEVIATIONS * noise_multiplier, taken[-1] + _DEVIATIONS * noise_multiplier, 4001
    )
    exponents = (points[:, None] * taken - taken**2 / 2) / noise_multiplier**2
    losses = logsumexp(exponents, b=chances, axis=1)
    weights = np.exp(losses - points**2 / (2 * noise_multiplier**2))
    weights /= weights.sum()
    mean = float(weights @ losses)
    return mean, math.sqrt(float(weights @ (losses - mean) ** 2))


def _check_positive(delta: float) -> None:
    check_delta(delta)
    if delta == 0:
        raise InputError("delta = 0 leaves every ε infinite here: use e.g. 1e-5")
