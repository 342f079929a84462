"""Lower bounds on ε from one trained model whose members were chosen by nobody's coin.

Row i has features x_i that the model never saw, and is a member with the propensity e(x_i). The
auditor sees the output, and guesses "member" or "non-member" for some rows.

**Tail.** Assume that memberships are independent given the features and all else of a row that its
score reads, with P(member) = e(x_i) strictly between 0 and 1, and that the output is (ε, 0)-DP for
the membership of one row. Then, given the output and the other memberships, the odds of a
membership are at most e^ε e/(1 − e) and at least e^{−ε} e/(1 − e). So a guess is right with a
probability of at most

    "member":      e^ε e / (1 − e + e^ε e)       = expit(logit e + ε)
    "non-member":  e^ε (1 − e) / (e + e^ε (1 − e)) = expit(−logit e + ε)

whatever the guesses before it came to, and the number V of right guesses among r is stochastically
at most a sum of independent coins with these probabilities. Which rows are guessed, how and how
many may depend on the output, as the bound holds given the output (a pointwise form of Steinke,
Nasr & Jagielski 2023, arXiv:2305.08846, whose propensities are 1/2). Of all such sums with the mean
r q the binomial has the heaviest tail from r q + 1 on (Hoeffding 1956, Theorem 5), so

    P(V ≥ v) ≤ P(Binomial(r, q) ≥ v)   for v ≥ r q + 1.

**Propensities.** They are estimated: logit e(x) = b(x)·β for a basis b, and β lies in the ellipsoid
(β − β̂)ᵀ S⁻¹ (β − β̂) ≤ χ²_{p, 1 − α/5} with probability 1 − α/5 (Wald), fitted on other rows. The
output may depend on these rows too, so the guesses may favour any β of the ellipsoid: q is the
largest mean there. Guesses whose features are alike on both sides lose little by it.

**What remains assumed**: that the features hold all by which membership and score depend on each
other, and that the true odds lie within a factor Γ = `WITHIN` of those of b(x)·β for some β of the
ellipsoid. Every guess is granted ln Γ for that. A larger factor takes its logarithm off the bound,
and no more. So a bound of ε also says by what factor e^ε a hidden difference would have to change
the odds of every guess to explain it without any leak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.frequentist.one_run import last_rejected
from dpaudit.bounds.outcomes import check_alpha, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]

# The share of the level that the ellipsoid of the coefficients takes.
_OF_THE_ELLIPSOID = 0.2
# The factor Γ within which the odds are right, whatever the form of the propensity.
WITHIN = 1.1
# Half of the largest second derivative of expit.
_BENT = 1 / (12 * math.sqrt(3))


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Estimated coefficients β of the logit of the propensity.

    Attributes:
        value: β̂ `(p,)`.
        covariance: S `(p, p)`.
    """

    value: Numbers
    covariance: Numbers


def observational_epsilon(
    basis: Numbers, guessed: Mask, member: Mask, odds: Coefficients, *, alpha: float = 0.05
) -> Estimate:
    """Return a lower bound on ε from guesses about members that were chosen by nobody's coin.

    Args:
        basis: the basis functions at the features of the guessed rows `(r, p)`.
        guessed: whether each is guessed to be a member `(r,)`.
        member: whether it is one `(r,)`.
        odds: the coefficients, fitted on other rows.
        alpha: the level of the bound, of which the ellipsoid of the coefficients takes a fifth.

    Raises:
        InputError: the shapes differ, there is no guess, or alpha is not in (0, 1).
    """
    check_alpha(alpha)
    count, right = len(guessed), int((guessed == member).sum())
    if not count or basis.shape != (count, len(odds.value)) or member.shape != guessed.shape:
        raise InputError(
            f"basis has shape {basis.shape} for {count} guesses about {len(member)} rows and "
            f"{len(odds.value)} coefficients: give a row of the basis for each guess"
        )
    signed = np.where(guessed[:, None], basis, -basis)
    tail = (1 - _OF_THE_ELLIPSOID) * alpha
    radius, granted = _radius(len(odds.value), _OF_THE_ELLIPSOID * alpha), math.log(WITHIN)

    def margin(epsilon: float) -> float:
        return tail - _tail(count, right, most_right(signed, epsilon + granted, odds, radius))

    return lower_bound(
        last_rejected(margin),
        value=_point(signed, right, odds),
        alpha=alpha,
        n=count,
        method="right guesses at estimated propensities, worst of their ellipsoid",
        kind="assumes-law",
    )


def most_right(signed: Numbers, epsilon: float, odds: Coefficients, radius: float) -> float:
    """Return an upper limit of the mean of expit(ε + b·β) over an ellipsoid of β.

    The second derivative of expit is at most 1/(6√3), so with the gradient g of the mean at β̂ and
    a step d of the ellipsoid the mean is at most expit(ε + b·β̂) + g·d + mean (b·d)²/(12√3). There
    g·d is at most the radius times √(gᵀ S g), and mean (b·d)² the squared radius times the largest
    eigenvalue of Lᵀ M L, for S = L Lᵀ and the matrix M of the second moments of b.

    Args:
        signed: the basis at each guess, negative for a guess "non-member" `(r, p)`.
        epsilon: ε.
        odds: the centre β̂ and the covariance S.
        radius: the square root of the largest (β − β̂)ᵀ S⁻¹ (β − β̂).
    """
    from scipy.special import expit

    chances = expit(epsilon + signed @ odds.value)
    if radius == 0:
        return float(chances.mean())
    gradient = (chances * (1 - chances)) @ signed / len(signed)
    slope = math.sqrt(max(float(gradient @ odds.covariance @ gradient), 0.0))
    moments = signed.T @ signed / len(signed)
    largest = float(np.linalg.eigvals(moments @ odds.covariance).real.max())
    most = float(chances.mean()) + radius * slope + radius**2 * max(largest, 0.0) * _BENT
    return min(1.0, most)


def _radius(size: int, alpha: float) -> float:
    from scipy.stats import chi2

    return math.sqrt(float(chi2.isf(alpha, size)))


def _tail(count: int, right: int, mean: float) -> float:
    """Return the bound on P(V ≥ right); 1 where Hoeffding's theorem does not hold."""
    from scipy.stats import binom

    return float(binom.sf(right - 1, count, mean)) if right >= count * mean + 1 else 1.0


def _point(signed: Numbers, right: int, odds: Coefficients) -> float:
    """Return the ε at which the mean of V may be as large as it is, at β̂."""
    if right == len(signed):
        return math.inf
    return last_rejected(
        lambda epsilon: right / len(signed) - most_right(signed, epsilon, odds, 0.0)
    )
