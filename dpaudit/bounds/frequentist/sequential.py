"""Auditing (ε, δ)-DP round by round: stop at any time, for any reason, at a stated error.

Test by betting, as in González, Dulce-Rubio, Ramdas, Ribero 2025 ("Sequentially auditing
differential privacy", arXiv:2509.07055) and, for f-DP, Kutta et al. 2026 (arXiv:2602.06518). A
round shows one score x of D' (law P) and one score y of D (law Q), independent of each
other and of the past. H0: the pair (P, Q) is (ε, δ)-DP, so that for every φ in [0, 1] the means
p = E_P φ and q = E_Q φ lie in the convex set K of points with

    p ≤ e^ε q + δ,    1 − q ≤ e^ε (1 − p) + δ,    and both with p and q exchanged.

**A round's payoff.** Let φ depend on the past alone, and let a point (p₀, q₀) on the edge of K and
a vector (a, −b), normal to K there, do so too: a (p − p₀) − b (q − q₀) ≤ 0 on K. The payoff

    S = (1 + a (φ(x) − p₀)) · (1 − b (φ(y) − q₀))

has, both factors being non-negative, a mean of at most 1 under H0: x and y are independent, so E S
= A·B with A = 1 + a (p − p₀) ≥ 0, B = 1 − b (q − q₀) ≥ 0, and A·B ≤ ((A + B)/2)² ≤ 1 as A + B ≤ 2.
Equality holds at (p₀, q₀). With a = (p₁ − p₀)/(p₀ (1 − p₀)), b = (q₀ − q₁)/(q₀ (1 − q₀)) and (p₀,
q₀) the point of K nearest to (p₁, q₁) in Kullback-Leibler divergence, S of an event is the
likelihood ratio of (p₁, q₁) to (p₀, q₀), which grows fastest if (p₁, q₁) is the truth: the
two-proportion E-variable of Turner & Grünwald 2022, arXiv:2203.09785. (p₁, q₁) are the past's
shares of the event, (count + c)/(n + 2c); inside K there is no bet. The bet 1 + λ (φ(x) − e^ε φ(y)
− δ), 0 ≤ λ ≤ 1/(e^ε + δ), is the factors' average, not product, for a = 2λ, b = 2λ e^ε; it needs no
independence of x and y, but an attack without errors takes it twice the rounds, since it cannot
use both constraints at once.

**The wealth** W_t, a product of such payoffs, is a non-negative supermartingale from W_0 = 1, and
so is any average of such products (Waudby-Smith & Ramdas 2024, arXiv:2010.09686). Ville 1939:
P(sup_t W_t ≥ 1/α) ≤ α. Here a third of the stake lies in equal parts on events at the past's
quantiles; the rest follows the event that promises most, a third with c = ½ and a third with the
boldness of c = 0.02, which pays where an attack makes no errors.

**No test can be faster** than ln(1/α) / (2 ln((1 + e^ε)/(e^ε + δ))) rounds: randomised response
that meets (ε, δ) shows the scores of an error-free attack with probability (e^ε + δ)/(1 + e^ε) a
trial, and no wealth may reach 1/α with a probability above α.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpaudit.bounds.frequentist.payoffs import Bets, fastest_bets
from dpaudit.bounds.outcomes import (
    check_alpha,
    check_delta,
    check_epsilon,
    lower_bound,
    scores,
)
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Floats = NDArray[np.float64]

# Where the past's scores are cut: symmetric, since either tail may tell the trials apart.
_LEVELS = np.array([0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98])
# The c of the cautious and of the bold shares.
_PRIOR_COUNTS = (0.5, 0.02)
# Rounds that are settled at once: bounds the memory.
_BLOCK = 8192


def _cuts(pooled: Floats) -> Floats:
    """Thresholds around the quantiles of sorted scores: either side of the score that lies there.

    Halfway to the next score, so that an atom is never cut; two cuts, so that an event holds or
    excludes it.
    """
    atoms = pooled[(_LEVELS * len(pooled)).astype(int)]
    below = pooled[np.maximum(np.searchsorted(pooled, atoms) - 1, 0)]
    above = pooled[np.minimum(np.searchsorted(pooled, atoms, "right"), len(pooled) - 1)]
    return np.concatenate((below / 2 + atoms / 2, atoms / 2 + above / 2))


class EProcess:
    """The wealth of a bettor against "the pair is (ε, δ)-DP": an e-process.

    It keeps the scores seen and its stakes, since a stream has no end at which to compute. How the
    stream is cut into updates does not matter. Thresholds and bets change after rounds 1, 2, 3,
    4 and then whenever the stream has grown by half.

    Trials of one round must not share private randomness; see the module. Scores that are equal but
    for rounding must be made equal (e.g. by `np.round`) before they come here: the last bits of a
    floating-point mechanism differ between D and D', and a bettor finds that.

    Args:
        epsilon: the ε of the claim, at least 0.
        delta: the δ of the claim, in [0, 1).
        likelihood: also bet on (1 − e^{ε−s})₊ and (1 − e^{ε+s})₊, telling where a score s is the
            log-likelihood ratio of D' to D, and fair whatever it is.

    Attributes:
        rounds: how many rounds were run.
        log_wealth: ln W after the last of them.
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
        self._shares = np.full((2, events + 2), 0.5)
        self._bets = fastest_bets(self._shares, epsilon, delta)
        self._stakes = np.r_[np.full(events, 1 / events), 1, 1] / 3
        self._logs = np.zeros(events + 2)
        self._past: list[Floats] = []
        self._due = 1

    @property
    def p_value(self) -> float:
        """exp(−peak): under H0, at most α with probability at most α, whenever one stops."""
        return math.exp(-self.peak)

    @property
    def plug_in(self) -> float:
        """The least ε at δ that fits the followed event's shares of the past; not certified."""
        share = self._shares[:, -2]
        hits, others = np.r_[share, 1 - share], np.r_[share[::-1], 1 - share[::-1]]
        return math.log(max(1.0, ((hits - self.delta) / others).max()))

    def falsified(self, alpha: float = 0.05) -> bool:
        """Whether the wealth has ever reached 1/α: under H0 with probability at most α.

        Raises:
            InputError: α is not in (0, 1).
        """
        check_alpha(alpha)
        return self.peak >= -math.log(alpha)

    def update(self, absent: ArrayLike, present: ArrayLike) -> Floats:
        """Run further rounds.

        Args:
            absent: scores of new data set D, one a round.
            present: scores of new data set D', as many.

        Returns:
            The log wealth after each of the new rounds.

        Raises:
            InputError: no score, one that is not finite, or the two differ in number.
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
        """The events' values in [0, 1], shape (2, rounds, events)."""
        values = (pair[..., None] >= self._cuts).astype(float)
        return np.concatenate((values, self._soft(pair)), axis=2) if self.likelihood else values

    def _soft(self, pair: Floats) -> Floats:
        """(1 − e^{ε−s})₊ and (1 − e^{ε+s})₊ of the scores s."""
        return -np.expm1(np.minimum(self.epsilon - np.stack((pair, -pair), axis=2), 0))

    def _run(self, pair: Floats) -> Floats:
        """Settle rounds under the present bets."""
        gains = self._bets.log_payoff(self._values(pair)[..., self._event])
        # Summed one by one from the carried value: the same rounding however the stream is cut.
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
        """Renew thresholds and bets from all rounds so far."""
        past = np.concatenate(self._past, axis=1)
        self._past = [past]
        ordered = np.sort(past, axis=1)
        self._cuts = _cuts(np.sort(ordered, axis=None, kind="stable"))
        counts = self.rounds - np.stack([np.searchsorted(row, self._cuts) for row in ordered])
        if self.likelihood:
            counts = np.concatenate((counts, self._soft(past).sum(axis=1)), axis=1)
        shares = np.hstack([(counts + c) / (self.rounds + 2 * c) for c in _PRIOR_COUNTS])
        bets, events = fastest_bets(shares, self.epsilon, self.delta), counts.shape[1]
        leader = int(bets.growth(shares)[:events].argmax())
        chosen = np.array([*range(events), leader, events + leader])
        self._event, self._shares = chosen % events, shares[:, chosen]
        self._bets = Bets(bets.slope[:, chosen], bets.centre[:, chosen])
        self._due = self.rounds + max(1, self.rounds // 2)


def _rounds(absent: ArrayLike, present: ArrayLike) -> Floats:
    """The scores of both trials, shape (2, rounds)."""
    pair = scores(absent, "absent"), scores(present, "present")
    if len(pair[0]) != len(pair[1]):
        raise InputError(
            f"absent has {len(pair[0])} scores and present {len(pair[1])}: a round needs one of "
            "each, so drop the surplus"
        )
    return np.stack(pair)


def _falsifies(process: EProcess, pair: Floats, alpha: float) -> bool:
    """Run the process on the scores until its wealth reaches 1/α; return whether it does."""
    while process.rounds < pair.shape[1]:
        start = process.rounds
        process.update(*pair[:, start : 2 * start + 16])
        if process.falsified(alpha):
            return True
    return False


def sequential_epsilon(
    absent: ArrayLike,
    present: ArrayLike,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
    confidence: float | None = None,
    resolution: float = 0.05,
    likelihood: bool = False,
) -> Estimate:
    """A lower bound on ε that holds at whichever round the stream was stopped.

    The claims ε = 0, h, 2h, … for h = `resolution` are tested in turn, each by an `EProcess` of its
    own at level α, up to the first that is not falsified. The bound is the last that is, or 0. It
    is too large only if the least of these claims that is true was falsified, so no correction for
    their number is due; nor for looking at the bound at several times, if each look uses the stream
    from its start. It lies up to h below what the wealth alone would give. The value is the plug-in
    ln((p − δ)/q) of the event that the first unfalsified claim's bettor follows; it is not
    certified.

    Args:
        absent: scores of data set D, shape (n,), in the order in which they were run.
        present: scores of data set D', shape (n,).
        delta: the δ of the claim.
        alpha: the level of the bound.
        confidence: what to state; 1 − α by default.
        resolution: the distance h of the claims tested.
        likelihood: see `EProcess`.

    Raises:
        InputError: a parameter is out of range, or the scores are not n finite numbers each.
    """
    check_alpha(alpha)
    if not 0 < resolution < math.inf:
        raise InputError(f"resolution = {resolution} is not a positive number: use e.g. 0.05")
    pair = _rounds(absent, present)
    falsified = 0
    while True:
        process = EProcess(falsified * resolution, delta, likelihood=likelihood)
        if not _falsifies(process, pair, alpha):
            break
        falsified += 1
    lower = max(0, falsified - 1) * resolution
    return lower_bound(
        lower,
        value=max(lower, process.plug_in),
        alpha=alpha,
        confidence=confidence,
        n=process.rounds,
        method=f"e-process, steps of {resolution:g}",
    )
