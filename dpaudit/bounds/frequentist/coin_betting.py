"""Betting on coins: a claim of (ε, δ)-DP may be refuted after any number of coin-flipped trials.

A fair coin chooses D' or D for each trial, and the trial's output is scored. As in the label test
(`labels`), the pair of output laws is a post-processing of randomised response: with probability δ
the coin is revealed; otherwise, given the output and all that came before, either side of the coin
has probability at most θ = e^ε/(1 + e^ε).

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

**The wealth**, an average of products of such payoffs, is an e-process as in `sequential`: under
(ε, δ)-DP it ever reaches 1/α after a block with probability at most α, whatever decided to go on.
If scores are functions of one output each, "after a block" may be read as "after a trial".

An attack without errors refutes after ln(1/α)/ln((1 + e^ε)/(e^ε + δ)) trials, and no test can after
fewer (`sequential`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit

from dpaudit.bounds.frequentist.labels import LabelTest
from dpaudit.bounds.frequentist.sequential import cuts
from dpaudit.bounds.outcomes import check_alpha, check_delta, check_epsilon, lower_bound, scores
from dpaudit.core.errors import InputError
from dpaudit.core.estimate import Estimate

Floats = NDArray[np.float64]
Coins = NDArray[np.bool_]

# The parts of the past scores that candidate events cut off.
_LEVELS = np.array([0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98, 0.99])
# The constants c of the cautious and of the bold estimate (count + c)/(n + 2c) of a share.
_PRIOR_COUNTS = np.array([0.5, 0.02])
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
class _Bets:
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


_NO_BETS = _Bets(*(np.full(len(_PRIOR_COUNTS), end) for end in (math.inf, -math.inf, 0.5, 0.5)))


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
        self._logs = np.zeros(len(_PRIOR_COUNTS) + len(_BELIEVED) * log_odds)

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
        thresholds = cuts(ordered, _LEVELS)
        below = np.searchsorted(ordered, thresholds)
        # Trials and trials on D' above and below each cut, (2, cuts).
        sizes = np.stack((len(values) - below, below))
        right = np.stack((hits[-1] - hits[below], hits[below]))
        constants = _PRIOR_COUNTS[:, None, None]
        shares = (right + constants) / (sizes + 2 * constants)
        growth = sizes * self._growth(shares)
        bettors = np.arange(len(_PRIOR_COUNTS))
        top, bottom = growth.argmax(axis=2).T
        best = growth.max(axis=2)
        high, low = thresholds[top], thresholds[bottom]
        # Where the events overlap, the better one alone.
        apart, first = low <= high, best[:, 0] >= best[:, 1]
        self._bets = _Bets(
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
