"""A credible lower bound on ε from the joint posterior of an attack's two error rates.

Zanella-Béguelin et al. 2023, arXiv:2206.05199. With Jeffreys priors the error rates are independent
given the counts, FPR ~ Beta(½ + fp, ½ + tn) and FNR ~ Beta(½ + fn, ½ + tp). (ε, δ)-DP confines them
to the privacy region

    R(ε, δ) = {(x, y): x + e^ε y ≥ 1 − δ, y + e^ε x ≥ 1 − δ, and both again for (1 − x, 1 − y)},

where the second pair of inequalities is the first with D and D' swapped. The posterior mass of
R(ε, δ) grows with ε and δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import Counts, check_alpha, check_delta, lower_bound
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

# Far above the numerical error of the posterior mass.
_LEAST_ALPHA = 1e-6
# Edges of the quadrature's panels, in the `unit` of `_Posterior`.
_EDGES = np.linspace(-8.0, 8.0, 9)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def joint_beta_epsilon(counts: Counts, *, delta: float = 0.0, alpha: float = 0.05) -> Estimate:
    """Return a credible lower bound on ε: the ε at which R(ε, δ) has posterior mass α.

    The value is the posterior median, where the mass is ½. At δ = 0 the region has no mass at
    ε = 0, so **every audit of a mechanism without any leak claims ε > 0**: this is a posterior
    statement, not a confidence bound.

    Args:
        counts: the attack's outcomes, its event chosen beforehand.
        delta: the δ of the claim.
        alpha: the posterior mass below the bound, at least 1e-6.

    Raises:
        InputError: δ or α is out of range.
    """
    check_delta(delta)
    _check_mass(alpha)

    posterior = _Joint.of(counts)

    def quantile(level: float) -> float:
        def excess(epsilon: float) -> float:
            return posterior.mass(epsilon, delta) - level

        high = 1.0
        while excess(high) < 0:
            high *= 2
        return _root(excess, high)

    return lower_bound(
        quantile(alpha),
        value=quantile(0.5),
        alpha=alpha,
        n=counts.present + counts.absent,
        method="joint beta",
        kind="credible",
    )


@dataclass(frozen=True)
class _Posterior:
    """A rate x ~ Beta(½ + hits, ½ + misses), as an angle θ with x = sin²θ.

    The angle has the density 2 sin^{2 hits}θ cos^{2 misses}θ / B, without a singularity at either
    end. The second derivative of its logarithm is at most −2(√hits + √misses)² ≤ −2n. So it falls
    from its mode at least as fast as a normal law with standard deviation 1/√(2n), the `unit`. The
    mass beyond 8 units on either side is less than 1e-14.
    """

    hits: int
    misses: int

    @cached_property
    def edges(self) -> NDArray[np.float64]:
        """Ends of panels in which the density is smooth; outside them it is negligible."""
        mode = math.atan2(math.sqrt(self.hits), math.sqrt(self.misses))
        return np.clip(mode + _EDGES / math.sqrt(2 * (self.hits + self.misses)), 0.0, math.pi / 2)

    def density(self, angle: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the density of the angle."""
        from scipy.special import betaln, xlogy

        log = 2 * (xlogy(self.hits, np.sin(angle)) + xlogy(self.misses, np.cos(angle)))
        return 2 * np.exp(log - betaln(self.hits + 0.5, self.misses + 0.5))

    def cdf(self, x: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """Return P(rate ≤ x)."""
        from scipy.special import betainc

        return betainc(self.hits + 0.5, self.misses + 0.5, x)


@dataclass(frozen=True)
class _Joint:
    """The posteriors of both error rates and of their complements."""

    fpr: _Posterior
    fnr: _Posterior
    tnr: _Posterior
    tpr: _Posterior

    @classmethod
    def of(cls, counts: Counts) -> _Joint:
        """Return the posteriors given the counts."""
        tp, fp, fn, tn = int(counts.tp), int(counts.fp), int(counts.fn), int(counts.tn)
        return cls(_Posterior(fp, tn), _Posterior(fn, tp), _Posterior(tn, fp), _Posterior(tp, fn))

    def mass(self, epsilon: float, delta: float) -> float:
        """Return the posterior mass of R(ε, δ), to 1e-9.

        The complement of R consists of two disjoint corners, below and above its pairs of lines.
        The upper one is the lower one of (1 − x, 1 − y).
        """
        lower = _corner(self.fpr, self.fnr, epsilon, delta)
        return 1 - lower - _corner(self.tnr, self.tpr, epsilon, delta)


def _corner(x: _Posterior, y: _Posterior, epsilon: float, delta: float) -> float:
    """Return P(x + e^ε y < 1 − δ or y + e^ε x < 1 − δ).

    The lines cross at x = y = c = (1 − δ)/(1 + e^ε). The corner consists of a square of side c and
    two triangles beside it.
    """
    shrink = math.exp(-epsilon)
    side = (1 - delta) * shrink / (1 + shrink)
    square = float(x.cdf(side) * y.cdf(side))
    return square + _triangle(x, y, side, shrink, delta) + _triangle(y, x, side, shrink, delta)


def _triangle(x: _Posterior, y: _Posterior, side: float, shrink: float, delta: float) -> float:
    """Return P(x < c, c < y < 1 − δ − e^ε x) = ∫₀ᶜ f(x) (F(1 − δ − e^ε x) − F(c)) dx.

    The integral is over the angle of x. Gauss-Legendre panels end at the edges of x and where the
    line meets the edges of y, so that neither factor is steep within a panel, even if the classes
    differ much in size.
    """
    end = math.asin(math.sqrt(side))
    met = np.maximum(0.0, (1 - delta - np.sin(y.edges) ** 2) * shrink)
    inner = np.concatenate((x.edges, np.arcsin(np.sqrt(np.minimum(met, side)))))
    low, high = x.edges[0], min(x.edges[-1], end)
    if low >= high:
        return 0.0
    edges = np.unique(np.clip(inner, low, high))
    half = np.diff(edges)[:, None] / 2
    angle = edges[:-1, None] + half * (1 + _NODES)
    above = y.cdf(np.clip(1 - delta - np.sin(angle) ** 2 / shrink, side, 1.0)) - y.cdf(side)
    return float(np.sum(half * _WEIGHTS * x.density(angle) * above))


def _root(excess: Callable[[float], float], high: float) -> float:
    """Return the root in [0, high] of an increasing function; 0 if it is positive at 0."""
    from scipy.optimize import brentq

    return 0.0 if excess(0.0) >= 0 else float(brentq(excess, 0.0, high, xtol=1e-9))


def _check_mass(alpha: float) -> None:
    check_alpha(alpha)
    if alpha < _LEAST_ALPHA:
        raise InputError(
            f"alpha = {alpha} is too small for this method's accuracy: use at least 1e-6"
        )
