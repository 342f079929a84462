"""Sequential audits of (ε, δ)-DP that may stop at any time with a stated error probability.

Testing by betting, as in González, Dulce-Rubio, Ramdas, Ribero 2025 ("Sequentially auditing
differential privacy", arXiv:2509.07055) and, for f-DP, Kutta et al. 2026 (arXiv:2602.06518). A
round gives one score x on D' (law P) and one score y on D (law Q), independent of each other and of
the past. H0: the pair (P, Q) is (ε, δ)-DP, so that for every φ in [0, 1] the means p = E_P φ and
q = E_Q φ lie in the convex set K of points with

    p ≤ e^ε q + δ,    1 − q ≤ e^ε (1 − p) + δ,    and both with p and q exchanged.

**A round's payoff.** Let φ, a point (p₀, q₀) on the edge of K and a vector (a, −b) normal to K
there depend on the past only: a (p − p₀) − b (q − q₀) ≤ 0 on K. Let both factors of the payoff

    S = (1 + a (φ(x) − p₀)) · (1 − b (φ(y) − q₀))

be non-negative. Its mean under H0 is at most 1: x and y are independent, so E S = A·B with
A = 1 + a (p − p₀) ≥ 0, B = 1 − b (q − q₀) ≥ 0, and A·B ≤ ((A + B)/2)² ≤ 1 as A + B ≤ 2. Equality
holds at (p₀, q₀).

Let (p₀, q₀) be the point of K nearest to (p₁, q₁) in Kullback-Leibler divergence, and let
a = (p₁ − p₀)/(p₀ (1 − p₀)), b = (q₀ − q₁)/(q₀ (1 − q₀)). Then S of an event is the likelihood ratio
of (p₁, q₁) to (p₀, q₀), which grows fastest if (p₁, q₁) is the truth: the two-proportion E-variable
of Turner & Grünwald 2022, arXiv:2203.09785. (p₁, q₁) are the event's past shares,
(count + c)/(n + 2c). There is no bet if they lie inside K.

For comparison, the bet 1 + λ (φ(x) − e^ε φ(y) − δ), 0 ≤ λ ≤ 1/(e^ε + δ), is the average of the
factors, not their product, for a = 2λ, b = 2λ e^ε. It does not need x and y to be independent, but
an attack without errors needs twice the rounds, since the bet cannot use both constraints at once.

**The wealth** W_t, a product of such payoffs, is a non-negative supermartingale with W_0 = 1, and
so is any average of such products (Waudby-Smith & Ramdas 2024, arXiv:2010.09686). Ville 1939:
P(sup_t W_t ≥ 1/α) ≤ α. A third of the stake is split equally over events at past quantiles. The
rest follows the event with the largest expected growth: a third with c = ½, and a third with the
bolder c = 0.02, which pays if an attack makes no errors.

**No test can be faster** than ln(1/α) / (2 ln((1 + e^ε)/(e^ε + δ))) rounds. A randomised response
that is (ε, δ)-DP produces the scores of an error-free attack with probability (e^ε + δ)/(1 + e^ε)
per trial, and under H0 no wealth may reach 1/α with a probability above α.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.outcomes import check_alpha, check_delta, check_epsilon, scores
from dpaudit.core.errors import InputError

Floats = NDArray[np.float64]
# Quantiles of past scores that are cut; symmetric, since either tail may distinguish D and D'.
_LEVELS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98])
# The constants c of the cautious and of the bold shares.
_PRIOR_COUNTS = (0.5, 0.02)
# The largest number of rounds settled at once, which bounds the memory.
_BLOCK = 8192


class EProcess:
    """The wealth of a bettor against "the pair is (ε, δ)-DP": an e-process.

    The object keeps all scores and its stakes between updates. The result does not depend on how
    the stream is divided into updates. Thresholds and bets change after rounds 1, 2, 3, 4 and then
    whenever the stream has grown by half.

    The trials of one round must be independent. Round scores that are equal up to rounding errors
    (e.g. by `np.round`) before an update: the last bits of a floating-point mechanism differ
    between D and D', and the bettor detects this.

    Args:
        epsilon: the ε of the claim, at least 0.
        delta: the δ of the claim, in [0, 1).
        likelihood: also bet on (1 − e^{ε−s})₊ and (1 − e^{ε+s})₊ of a score s. This is valid for
            any score, and powerful if s is the log-likelihood ratio of D' to D.

    Attributes:
        rounds: the number of rounds so far.
        log_wealth: ln W after the last round.
        peak: the largest ln W so far, at least 0.

    Raises:
        InputError: ε or δ is out of range.
    """

    def __init__(self, epsilon: float, delta: float = 0.0, *, likelihood: bool = False) -> None:
        check_epsilon(epsilon)
        check_delta(delta)
        self.epsilon, self.delta, self.likelihood = epsilon, delta, likelihood
        self.rounds = 0
        self.log_wealth = 0.0
        self.peak = 0.0
        self._cuts = np.zeros(2 * len(_LEVELS))
        events = len(self._cuts) + 2 * likelihood
        # One bet on each event, and two that follow the most promising one.
        self._event = np.r_[0:events, 0, 0]
        self._bets = fastest_bets(np.full((2, events + 2), 0.5), epsilon, delta)
        self._stakes = np.r_[np.full(events, 1 / events), 1, 1] / 3
        self._logs = np.zeros(events + 2)
        self._past: list[Floats] = []
        self._due = 1

    @property
    def p_value(self) -> float:
        """Anytime-valid p-value exp(−peak): under H0 at most α with probability at most α."""
        return math.exp(-self.peak)

    def falsified(self, alpha: float = 0.05) -> bool:
        """Return whether the wealth has reached 1/α, which has probability at most α under H0.

        Raises:
            InputError: α is not in (0, 1).
        """
        check_alpha(alpha)
        return self.peak >= -math.log(alpha)

    def update(self, absent: ArrayLike, present: ArrayLike) -> Floats:
        """Run further rounds.

        Args:
            absent: scores of new trials on data set D, one per round.
            present: scores of new trials on data set D', one per round.

        Returns:
            The log wealth after each new round.

        Raises:
            InputError: there is no score, a score is not finite, or the numbers differ.
        """
        pair = _rounds(absent, present)
        path = []
        while pair.shape[1]:
            head, pair = np.split(pair, [min(self._due - self.rounds, _BLOCK)], axis=1)
            path.append(self._run(head))
            if self.rounds == self._due:
                self._learn()
        return np.concatenate(path)

    def _values(self, pair: Floats) -> Floats:
        """Return the events' values in [0, 1], shape (2, rounds, events)."""
        values = (pair[..., None] >= self._cuts).astype(float)
        return np.concatenate((values, self._soft(pair)), axis=2) if self.likelihood else values

    def _soft(self, pair: Floats) -> Floats:
        """Return (1 − e^{ε−s})₊ and (1 − e^{ε+s})₊ of the scores s."""
        return -np.expm1(np.minimum(self.epsilon - np.stack((pair, -pair), axis=2), 0))

    def _run(self, pair: Floats) -> Floats:
        """Settle rounds with the current bets; return the log wealth after each."""
        gains = self._bets.log_payoff(self._values(pair)[..., self._event])
        # Sum in order from the carried value, so that rounding does not depend on the updates.
        gains[0] += self._logs
        logs = np.cumsum(gains, axis=0)
        top = logs.max(axis=1)
        wealth = top + np.log((np.exp(logs - top[:, None]) * self._stakes).sum(axis=1))
        self._logs = logs[-1]
        self._past.append(pair)
        self.rounds += pair.shape[1]
        self.log_wealth = float(wealth[-1])
        self.peak = max(self.peak, float(wealth.max()))
        return wealth

    def _learn(self) -> None:
        """Choose new thresholds and bets from all rounds so far."""
        past = np.concatenate(self._past, axis=1)
        self._past = [past]
        ordered = np.sort(past, axis=1)
        self._cuts = cuts(np.sort(ordered, axis=None, kind="stable"), _LEVELS)
        counts = self.rounds - np.stack([np.searchsorted(row, self._cuts) for row in ordered])
        if self.likelihood:
            counts = np.concatenate((counts, self._soft(past).sum(axis=1)), axis=1)
        shares = np.hstack([(counts + c) / (self.rounds + 2 * c) for c in _PRIOR_COUNTS])
        bets, events = fastest_bets(shares, self.epsilon, self.delta), counts.shape[1]
        leader = int(bets.growth(shares)[:events].argmax())
        chosen = np.array([*range(events), leader, events + leader])
        self._event = chosen % events
        self._bets = Bets(bets.slope[:, chosen], bets.centre[:, chosen])
        self._due = self.rounds + max(1, self.rounds // 2)


def _rounds(absent: ArrayLike, present: ArrayLike) -> Floats:
    """Return the checked scores on D and D', shape (2, rounds)."""
    pair = scores(absent, "absent"), scores(present, "present")
    if len(pair[0]) != len(pair[1]):
        raise InputError(
            f"absent has {len(pair[0])} scores and present {len(pair[1])}: give one of "
            "each per round"
        )
    return np.stack(pair)


def cuts(ordered: Floats, levels: Floats) -> Floats:
    """Return thresholds below and above each quantile of sorted scores.

    They lie halfway to the next distinct score, so that no atom is split. There are two, so that
    one event includes the atom at the quantile and another excludes it.
    """
    atoms = ordered[(levels * len(ordered)).astype(int)]
    below = ordered[np.maximum(np.searchsorted(ordered, atoms) - 1, 0)]
    above = ordered[np.minimum(np.searchsorted(ordered, atoms, "right"), len(ordered) - 1)]
    return np.concatenate((below / 2 + atoms / 2, atoms / 2 + above / 2))


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


def fastest_bets(rates: Floats, epsilon: float, delta: float) -> Bets:
    """Return the payoffs that grow fastest if `rates` (2, events) are the events' probabilities.

    For any rates, the slopes are normal to K up to rounding, so the payoffs have a
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
