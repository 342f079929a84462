"""Payoffs with a mean of at most 1 under (ε, δ)-DP: the proof is in `sequential`."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Bets:
    """A bet on each event, with the payoff Π (1 + slope (φ − centre)) over the trials on D and D'.

    Attributes:
        slope: slopes on D and on D'; shape (2, events).
        centre: centres on D and on D'; shape (2, events).
    """

    slope: Floats
    centre: Floats

    def log_payoff(self, values: Floats) -> Floats:
        """Return log payoffs (rounds, events) for the events' values (2, rounds, events)."""
        slope, centre = self.slope[:, None], self.centre[:, None]
        return np.log1p(slope * (values - centre)).sum(axis=0)

    def growth(self, rates: Floats) -> Floats:
        """Return the expected log payoff of each event if its probabilities are `rates`."""
        hit = np.log1p(self.slope * (1 - self.centre))
        miss = np.log1p(-self.slope * self.centre)
        return (rates * hit + (1 - rates) * miss).sum(axis=0)


def _nearest_on_edge(high: Floats, low: Floats, r: float, delta: float) -> Floats:
    """Return the p of the point nearest to (high, low) on the line q = r (p − δ), r = e^−ε.

    With u = p − δ, the derivative of the divergence vanishes at the middle of the three real roots
    of

        (high − δ − u) u (1 − r u) + (low − r u) (u + δ) (1 − δ − u) = 0,

    which the trigonometric formula gives; Newton steps remove its rounding error.
    """
    c0 = low * delta * (1 - delta)
    c1 = high - delta + low * (1 - 2 * delta) - r * delta * (1 - delta)
    c2 = -(1 + r * (high - delta) + low + r * (1 - 2 * delta))
    c3 = 2 * r
    mid = -c2 / (3 * c3)
    spread = np.sqrt(mid**2 - c1 / (3 * c3))
    residue = ((mid + c2 / c3) * mid + c1 / c3) * mid + c0 / c3
    angle = np.arccos(np.clip(-residue / (2 * spread**3), -1, 1))
    u = mid + 2 * spread * np.cos((angle - 2 * np.pi) / 3)
    for _ in range(2):
        u -= (((c3 * u + c2) * u + c1) * u + c0) / ((3 * c3 * u + 2 * c2) * u + c1)
    return u + delta


def fastest_bets(rates: Floats, epsilon: float, delta: float) -> Bets:
    """Return the payoffs that grow fastest if `rates` (2, events) are the events' probabilities.

    For any rates, the slopes are normal to K of `sequential` up to rounding, so the payoffs have a
    mean of at most 1 under (ε, δ)-DP.
    """
    r = math.exp(-epsilon)
    slope, centre = np.zeros_like(rates), np.full_like(rates, 0.5)
    high, low = rates.max(axis=0), rates.min(axis=0)
    outside = (low < r * (high - delta)) | (1 - high < r * (1 - low - delta))
    if not outside.any():
        return Bets(slope, centre)
    high, low = high[outside], low[outside]

    # At the corner both constraints are tight; there any (a, −b) with r ≤ a/b ≤ 1/r is normal.
    corner = np.array([[1 + delta * r], [r - delta * r]]) / (1 + r)
    a, b = (high - corner[0], corner[1] - low) / (corner * (1 - corner))
    first, second = r * b > a, b < r * a
    # The second edge is the first edge of the complement, with D and D' exchanged.
    p1, q1 = np.where(second, (1 - low, 1 - high), (high, low))
    p = _nearest_on_edge(p1, q1, r, delta)
    q = r * (p - delta)
    y = (q - q1) / (q * (1 - q))
    point = np.where(first, (p, q), np.where(second, (1 - q, 1 - p), corner))
    normal = np.where(first, (r * y, -y), np.where(second, (y, -r * y), (a, -b)))
    # From the order (larger, smaller) share to (D, D').
    exchanged = rates[0, outside] > rates[1, outside]
    slope[:, outside] = np.where(exchanged, normal, normal[::-1])
    centre[:, outside] = np.where(exchanged, point, point[::-1])
    return Bets(slope, centre)
