"""Sequential audits of (ε, δ)-DP that may stop at any time with a stated error probability.

**Betting on scores.** Testing by betting, as in González, Dulce-Rubio, Ramdas, Ribero 2025
("Sequentially auditing differential privacy", arXiv:2509.07055) and, for f-DP, Kutta et al. 2026
(arXiv:2602.06518). A round gives one score x on D' (law P) and one score y on D (law Q),
independent of each other and of the past. H0: the pair (P, Q) is (ε, δ)-DP, so that for every φ in
[0, 1] the means p = E_P φ and q = E_Q φ lie in the convex set K of points with

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

**Betting on coins.** A claim may be refuted after any number of coin-flipped trials. A fair coin
chooses D' or D for each trial, and the trial's output is scored. As in the label test (`labels`),
the pair of output laws is a post-processing of randomised response: with probability δ the coin is
revealed; otherwise, given the output and all that came before, either side of the coin has
probability at most θ = e^ε/(1 + e^ε).

**A trial's payoff.** A bettor sees the score, not the coin, and holds a share q that is its guess
at the probability of D' at such scores. If q > θ, it bets on D': the payoff is q/θ if that is the
coin, else (1 − q)/(1 − θ). If 1 − q > θ it bets on D likewise; else it does not bet, and the payoff
is 1. Given a coin that is not revealed, the mean is at most

    θ · q/θ + (1 − θ) · (1 − q)/(1 − θ) = 1,

as the payoff of the right side is the larger one. A revealed coin pays at most M₁ if it is D' and
M₀ if it is D, the largest payoffs of any score. The coin is fair, so that the payoff divided by

    1 − δ + δ (M₀ + M₁)/2                                                                   (1)

has a mean of at most 1. The shares q, and with them M₀ and M₁, are fixed before a block of trials,
by earlier blocks. Whether trials are revealed is independent of this and of each other. So the mean
of a block's product is at most 1 even where scores read all outputs of the block at once: take the
mean over coins first, given all outputs and which coins are revealed. A drifting mechanism, or one
that counts its calls, does not show its coins, so these need not be independent of its state.

**Its wealth**, an average of products of such payoffs, is an e-process like the above: under
(ε, δ)-DP it ever reaches 1/α after a block with probability at most α, whatever decided to go on.
If scores are functions of one output each, "after a block" may be read as "after a trial".

An attack without errors refutes after ln(1/α)/ln((1 + e^ε)/(e^ε + δ)) trials, and no test can after
fewer (see above).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from dpaudit.bounds.frequentist.labels import LabelTest
from dpaudit.bounds.outcomes import check_alpha, check_delta, check_epsilon, lower_bound, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

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


Coins = NDArray[np.bool_]

# The parts of the past scores that candidate events cut off.
_COIN_LEVELS = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99])
# The constants c of the cautious and of the bold estimate (count + c)/(n + 2c) of a share.
_COIN_COUNTS = np.array([0.5, 0.02])
# How much of log-odds is believed.
_BELIEVED = np.array([0.5, 1.0])
# The first block, the least one, and the growth of a block with the trials before it.
_FIRST, _LEAST, _GROWTH = 16, 8, 4
# Neighbouring claims that `anytime_epsilon` tests differ by this, or by this part of the smaller.
_STEP, _PART = 0.01, 0.02


def block_ends(trials: int) -> list[int]:
    """Return the numbers of trials after which blocks end; a block has a quarter of those before.

    Args:
        trials: the number of trials in all, at least 1.
    """
    ends, end = [], _FIRST
    while end < trials:
        ends.append(end)
        end += max(_LEAST, end // _GROWTH)
    return [*ends, trials]


@dataclass(frozen=True, eq=False)
class _CoinBets:
    """One bettor for each index: the events that they bet on, and their shares q.

    Attributes:
        high: bets are on scores of at least this; ∞ for none `(bettors,)`.
        low: and on scores below this; −∞ for none `(bettors,)`.
        above: q at high scores `(bettors,)`.
        below: q at low scores `(bettors,)`.
    """

    high: Floats
    low: Floats
    above: Floats
    below: Floats

    def shares(self, values: Floats) -> Floats:
        """Return q of each score `(trials, bettors)`; ½ where there is no bet."""
        column = values[:, None]
        below = np.where(column < self.low, self.below, 0.5)
        return np.where(column >= self.high, self.above, below)


_NO_BETS = _CoinBets(*(np.full(len(_COIN_COUNTS), end) for end in (math.inf, -math.inf, 0.5, 0.5)))


class CoinProcess:
    """The wealth of a bettor on the coins of trials, against "the mechanism is (ε, δ)-DP".

    Args:
        epsilon: the ε of the claim, at least 0.
        delta: the δ of the claim, in [0, 1).
        log_odds: whether scores estimate the log-odds of D', and are bet on as such too. The level
            holds for any scores.

    Attributes:
        blocks: the scores and coins of each block so far.
        trials: the number of trials so far.
        log_wealth: ln W after the last trial.
        peak: the largest ln W after a block so far, at least 0.

    Raises:
        InputError: ε or δ is out of range.
    """

    def __init__(self, epsilon: float, delta: float = 0.0, *, log_odds: bool = False) -> None:
        check_epsilon(epsilon)
        check_delta(delta)
        self.epsilon, self.delta, self.log_odds = epsilon, delta, log_odds
        self.blocks: list[tuple[Floats, Coins]] = []
        self.trials = 0
        self.log_wealth = self.peak = 0.0
        self._theta = float(expit(epsilon))
        self._bets = _NO_BETS
        # The logarithm of the number of trials: no estimate of log-odds from these is larger.
        self._largest = 0.0
        self._logs = np.zeros(len(_COIN_COUNTS) + len(_BELIEVED) * log_odds)

    @property
    def p_value(self) -> float:
        """Anytime-valid p-value exp(−peak): under the claim P(p-value ≤ α) ≤ α, for every α."""
        return math.exp(-self.peak)

    def update(self, values: ArrayLike, present: Coins) -> Floats:
        """Settle one block of trials, and learn from it how to bet on the next.

        Args:
            values: the scores of new trials `(n,)`.
            present: whether each one's coin chose D' `(n,)`.

        Returns:
            The log wealth after each new trial `(n,)`.

        Raises:
            InputError: there is no score, a score is not finite, or the numbers differ.
        """
        values = scores(values, "scores")
        if len(values) != len(present):
            raise InputError(f"{len(values)} scores for {len(present)} coins: give one of each")
        payoffs = self._payoffs(self._shares(values), present[:, None])
        logs = self._logs + np.cumsum(np.log(payoffs / self._price()), axis=0)
        top = logs.max(axis=1)
        wealth: Floats = top + np.log(np.exp(logs - top[:, None]).mean(axis=1))
        self._logs = logs[-1]
        self.log_wealth = float(wealth[-1])
        self.peak = max(self.peak, self.log_wealth)
        self.trials += len(values)
        self.blocks.append((values, present))
        self._learn()
        return wealth

    def witness(self) -> LabelTest:
        """Return the event that the cautious bettor follows, with its frequencies so far.

        It is chosen on the trials that it counts, so that it certifies nothing.
        """
        values, present = self._past()
        bets = self._bets
        ends = (values >= bets.high[0], values < bets.low[0])
        growth = [
            end.mean() * self._growth(np.array(share[0]))
            for end, share in zip(ends, (bets.above, bets.below), strict=True)
        ]
        side = int(np.argmax(growth))
        event, share = ends[side], (bets.above, bets.below)[side][0]
        right = present == (share > 0.5)
        return LabelTest(
            high=float(bets.high[0]) if side == 0 else None,
            low=float(values[event].max(initial=-math.inf)) if side else None,
            present_high=bool(share > 0.5) == (side == 0),
            hits=int((event & right).sum()),
            size=int(event.sum()),
            trials=len(values),
            rates=(float(event[~present].mean()), float(event[present].mean())),
        )

    def _past(self) -> tuple[Floats, Coins]:
        values, present = zip(*self.blocks, strict=True)
        return np.concatenate(values), np.concatenate(present)

    def _shares(self, values: Floats) -> Floats:
        """Return the bettors' shares q of each score `(trials, bettors)`."""
        shares = self._bets.shares(values)
        if not self.log_odds:
            return shares
        odds = np.clip(values, -self._largest, self._largest)
        return np.hstack((shares, expit(odds[:, None] * _BELIEVED)))

    def _payoffs(self, shares: Floats, present: Coins) -> Floats:
        right, wrong = np.maximum(shares, 1 - shares), np.minimum(shares, 1 - shares)
        with np.errstate(divide="ignore", invalid="ignore"):  # θ rounds to 1: there is no bet
            payoffs = np.where(
                present == (shares > 0.5), right / self._theta, wrong / (1 - self._theta)
            )
        return np.where(right > self._theta, payoffs, 1.0)

    def _price(self) -> Floats:
        """Return (1) of each bettor, by the payoffs at the ends of all scores."""
        bets = self._bets
        shares = np.stack((bets.above, bets.below, np.full_like(bets.above, 0.5)))
        if self.log_odds:
            ends = np.array([self._largest, -self._largest, 0.0])
            shares = np.hstack((shares, expit(ends[:, None] * _BELIEVED)))
        most = [self._payoffs(shares, np.array([coin])).max(axis=0) for coin in (False, True)]
        price: Floats = 1 - self.delta + self.delta * (most[0] + most[1]) / 2
        return price

    def _learn(self) -> None:
        """Choose an event at either end for each bettor, by all trials so far."""
        values, present = self._past()
        order = np.argsort(values, kind="stable")
        ordered, hits = values[order], np.append(0, np.cumsum(present[order]))
        thresholds = cuts(ordered, _COIN_LEVELS)
        below = np.searchsorted(ordered, thresholds)
        # Trials and trials on D' above and below each cut, (2, cuts).
        sizes = np.stack((len(values) - below, below))
        right = np.stack((hits[-1] - hits[below], hits[below]))
        constants = _COIN_COUNTS[:, None, None]
        shares = (right + constants) / (sizes + 2 * constants)
        growth = sizes * self._growth(shares)
        bettors = np.arange(len(_COIN_COUNTS))
        top, bottom = growth.argmax(axis=2).T
        best = growth.max(axis=2)
        high, low = thresholds[top], thresholds[bottom]
        # Where the events overlap, the better one alone.
        apart, first = low <= high, best[:, 0] >= best[:, 1]
        self._bets = _CoinBets(
            np.where(apart | first, high, math.inf),
            np.where(apart | ~first, low, -math.inf),
            shares[bettors, 0, top],
            shares[bettors, 1, bottom],
        )
        self._largest = math.log(len(values))

    def _growth(self, share: Floats) -> Floats:
        """Return the expected log payoff of a bet at a share that is the probability."""
        right = np.maximum(share, 1 - share)
        gain = right * np.log(right / self._theta)
        with np.errstate(divide="ignore", invalid="ignore"):  # as in `_payoffs`
            gain += (1 - right) * np.log((1 - right) / (1 - self._theta))
        growth: Floats = np.where(right > self._theta, gain, 0.0)
        return growth


def anytime_epsilon(
    process: CoinProcess, *, alpha: float, confidence: float | None = None
) -> Estimate:
    """Return a lower bound on ε that holds whenever and for whatever reason betting stopped.

    The claim of the process and larger ones are tested in turn on its blocks, each by a process of
    its own at level α, up to the first that is not refuted. The true ε is larger than the last
    refuted one, and so is the bound, by the least difference of two numbers; it is 0 if none is
    refuted. It exceeds the true ε only if the smallest true claim among these was refuted, which
    has probability at most α; so the number of claims needs no correction.

    Args:
        process: has settled all blocks.
        alpha: the level of the bound.
        confidence: the confidence to state; default 1 − α.

    Raises:
        InputError: α is not in (0, 1).
    """
    check_alpha(alpha)
    witness = process.witness()
    lower, epsilon, refuted = 0.0, process.epsilon, process
    while refuted.p_value <= alpha:
        lower = math.nextafter(epsilon, math.inf)
        epsilon += max(_STEP, _PART * epsilon)
        refuted = CoinProcess(epsilon, process.delta, log_odds=process.log_odds)
        for block in process.blocks:
            refuted.update(*block)
    shown = float(logit(witness.hits / witness.size)) if witness.size else 0.0
    return lower_bound(
        lower,
        value=max(lower, shown),
        alpha=alpha,
        confidence=confidence,
        n=process.trials,
        method="betting on coins, at any time",
    )
