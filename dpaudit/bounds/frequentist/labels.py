"""The label test: one binomial test on the extreme scores, whose choice costs no confidence.

Flip a fair coin for each trial, run the mechanism on D' for heads and on D for tails, and score the
output. The label of a trial is its coin. Under (ε, δ)-DP the pair of output laws is a
post-processing of randomised response: with probability δ the label is revealed; otherwise the
output depends on a signal that is right with odds e^ε to 1 (Kairouz, Oh & Viswanath 2015,
arXiv:1311.0776: Theorem 2.5, with the mechanism in the proof of Theorem 3.3). So, given all signals
and scores, the labels are independent, and a guess at a label that is not revealed is right with
probability at most

    θ = e^ε / (1 + e^ε).

Let any rule that uses scores and the labels of *other* trials only select s trials and guess their
labels. The number S of right guesses is then stochastically at most `R + Binomial(s − R, θ)`. R,
the number of revealed labels among all m trials, exceeds r with probability
`β = P(Binomial(m, δ) > r)`. Hence a test at level α rejects if

    P(Binomial(s − r, θ) ≥ S − r) ≤ α − β.                                                  (1)

The test needs no split of α between two error rates and no correction for the choice of the
threshold. It reads labels from the far end of the scores inwards, or from the middle outwards, and
decides where to stop before it reads the remaining labels. A random pilot chooses whether the
event takes trials at the top, at the bottom or at both ends, and which label is guessed there. Both
ends count together: guessing D' at high and D at low scores doubles the evidence.

Classes of fixed size n are turned into coin flips by drawing how many trials of each to use. The
probability that the flips need more trials than there are is subtracted from α. An event of all
trials certifies nothing, since its labels are the coins only. The level holds over these random
draws. Their seed therefore comes from the operating system's entropy unless given. With one seed
for many audits, or one chosen by its result, the error probability may be larger.

Scores may depend on all outputs: given all outputs the labels are independent, and the scores are a
function of the outputs. So a score may use the whole batch of outputs on D and D' at once.

The event is chosen from the pilot and from labels outside the event (`Side`). The choice uses no
label of the event that it chooses. A bad choice costs power, never the level.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds import outcomes
from dpaudit.bounds.frequentist.intervals import share_limit
from dpaudit.bounds.outcomes import Scores
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import generator

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

# The ends of the scores that an event takes its trials from.
Ends = Literal["top", "bottom", "both"]

# Sizes of candidate events: the smallest, and the ratio of one to the one before.
_LEAST, _RATIO = 8, 1.08
# Widths of the two local fits in the logarithm of the rank, the shrinkage of their slope, and the
# number of standard errors subtracted from the slope, for events at one end and at both.
_REACH, _SHRINK, _DOUBT = (0.3, 0.9), 1.0, (1.0, 0.25)
# The relative error expected of the slope of estimated log-odds.
_TRUSTED = 0.5
# The quantile of the pilot's posterior share that counts, for events at one end and at both: a
# single end must be clearly better. Above `_MANY` trials it is smaller.
_CAUTION, _MANY = (0.02, 0.1), 1000
# Only one-sided events of at most this share of the trials decide the direction.
_LARGEST = 0.6


class Events(NamedTuple):
    """Growing events, each of which takes trials from one end of the sorted scores or from both.

    Attributes:
        side: the ends from which events take trials.
        top: the number of trials that each event takes from the highest scores.
        bottom: the number of trials that each event takes from the lowest scores.
    """

    side: Ends
    top: Numbers
    bottom: Numbers

    @property
    def size(self) -> Numbers:
        """The number of trials of each event."""
        return self.top + self.bottom


def growing_events(top: Numbers, bottom: Numbers, count: int) -> Iterator[Events]:
    """Yield the events at the top, those at the bottom, and those of about as many from both.

    Args:
        top: sizes of events at the top, growing to `count`, that split no equal scores.
        bottom: the same of events at the bottom.
        count: the number of trials.
    """
    yield Events("top", top, np.zeros_like(top))
    yield Events("bottom", np.zeros_like(bottom), bottom)
    sizes = np.union1d(top, bottom)
    high, low = (ends[np.searchsorted(ends, sizes)] for ends in (top, bottom))
    apart = high + low <= count
    if apart.any():
        yield Events("both", high[apart], low[apart])


class Tally:
    """Trials sorted by descending score, to be counted from either end.

    Attributes:
        scores: the scores `(m,)`.
        spread: their standard deviation if they estimate the log-odds of D', else 0.
    """

    def __init__(
        self,
        scores: Scores,
        present: NDArray[np.bool_],
        pilot: NDArray[np.bool_],
        log_odds: bool = False,
    ) -> None:
        self.scores = scores
        self.spread = float(scores.std()) if log_odds else 0.0
        self._total = np.append(0.0, np.cumsum(scores - scores.mean())) if log_odds else scores

        def sums(trials: NDArray[np.bool_]) -> Numbers:
            return np.append(0, np.cumsum(trials))

        self._sums = sums(present), sums(pilot), sums(present & pilot)

    def sides(self) -> Iterator[Events]:
        """Yield growing events at the top, at the bottom and at both ends."""
        yield from growing_events(_ends(self.scores), _ends(self.scores[::-1]), len(self.scores))

    def outward(self, events: Events) -> Floats:
        """Return each bin's mean distance outwards from the mean score, in standard deviations."""
        top, bottom = events.top, events.bottom
        sums = self._total[top] - (self._total[-1] - self._total[len(self._total) - 1 - bottom])
        distances: Floats = np.diff(sums, prepend=0.0) / np.diff(events.size, prepend=0)
        return distances / self.spread

    def counts(self, events: Events, present_high: bool) -> tuple[Numbers, ...]:
        """Return each event's trials and correct guesses, and both numbers for the pilot alone.

        The guess is D' at the top and D at the bottom if `present_high`, else the reverse.
        """
        top, bottom = events.top, events.bottom
        present, pilot, present_pilot = (
            (sums[top], sums[-1] - sums[len(sums) - 1 - bottom]) for sums in self._sums
        )

        def right(high: Numbers, low: Numbers, n_high: Any, n_low: Any) -> Any:
            return high + n_low - low if present_high else n_high - high + low

        return (
            events.size,
            right(*present, top, bottom),
            pilot[0] + pilot[1],
            right(*present_pilot, *pilot),
        )


class Side:
    """A sequence of growing events, with the trials and correct guesses of each bin.

    Attributes:
        events: the events, each of which adds a bin to the one before.
        present_high: whether D' is guessed at the top.
        size: number of trials of each bin outside the pilot.
        hits: number of correct guesses among these.
    """

    def __init__(
        self, tally: Tally, events: Events, present_high: bool, revealed: int, alpha: float
    ) -> None:
        self.events, self.present_high = events, present_high
        self.revealed, self.alpha = revealed, alpha
        self.ends, self.trials = events.size, len(tally.scores)
        self.middle = (np.append(0, self.ends[:-1]) + self.ends) / 2
        self.spread = tally.spread
        self.place = tally.outward(events) if tally.spread else self._quantiles()
        size, hits, self.pilot_size, self.pilot_hits = (
            np.diff(counts, prepend=0) for counts in tally.counts(events, present_high)
        )
        self.size, self.hits = size - self.pilot_size, hits - self.pilot_hits

    @property
    def both(self) -> bool:
        """Whether events take trials from both ends."""
        return self.events.side == "both"

    def promise(self, caution: float) -> Floats:
        """Return the share that each event is expected to certify, from the pilot's labels.

        Args:
            caution: the posterior quantile of a share that counts. Above `_MANY` trials it is
                scaled by `_MANY` over their number, since the best of many events is chosen.
        """
        from scipy.special import betaincinv

        size, hits = self.pilot_size.cumsum(), self.pilot_hits.cumsum()
        believed = min(caution, max(caution * _MANY / self.trials, 1e-4))
        share = betaincinv(hits + 0.5, size - hits + 0.5, believed)
        return self._certified(share * self.size.cumsum(), self.size.cumsum())

    @property
    def prospect(self) -> float:
        """Largest promise; one-sided events count up to `_LARGEST` of the trials.

        The complement of a larger event has the larger ratio, and the event of all trials certifies
        nothing.
        """
        few = self.both | (self.ends <= _LARGEST * self.trials)
        return float(self.promise(_CAUTION[self.both])[few].max(initial=0.0))

    def choose(self) -> int:
        """Reveal bins from the largest event inwards; return the last bin of the chosen event.

        It stops when no smaller event is expected to certify more. The labels of the remaining bins
        are predicted from the pilot's labels and the revealed ones (`_foreseen`).
        """
        bins = np.arange(len(self.ends))
        revealed = bins > bins[:, None]
        sizes = np.broadcast_to(self.size.cumsum(), revealed.shape)
        certified = np.full(revealed.shape, -1.0)
        hits = self._foreseen(revealed)
        certified[~revealed] = self._certified(hits[~revealed], sizes[~revealed])
        stopped = certified.diagonal().copy()
        np.fill_diagonal(certified, -1.0)
        promised = np.maximum.accumulate(np.append(0.5, self.promise(_CAUTION[0])[:-1]))
        stops = stopped > np.maximum(certified.max(axis=1), promised)
        if not self.both:
            stops[-1] = False  # the event of all trials certifies nothing
        return int(np.flatnonzero(stops).max(initial=0))

    def _foreseen(self, revealed: NDArray[np.bool_]) -> Floats:
        """Predict the correct guesses in each event outside the pilot.

        The log-odds of a label are modelled as linear in the score if the score estimates them,
        else in the normal quantile of the rank, as between two normal laws. The fit is local to the
        edge of the revealed bins. Of a narrow and a wide fit the one with the smaller slope counts:
        a steep slope may be due to chance or end at a kink.

        Args:
            revealed: row i is the state in which bins beyond i are revealed; column j is a bin.
        """
        from scipy.special import expit

        size = self.pilot_size + revealed * self.size
        hits = self.pilot_hits + revealed * self.hits
        inward = self.place - self.place[:, None]
        away = np.abs(np.log(self.middle / self.ends[:, None]))
        levels, slopes = zip(
            *(
                _logistic(inward, near * size, near * hits, *self._guess(), doubt=_DOUBT[self.both])
                for near in (np.exp(-away / reach) for reach in _REACH)
            ),
            strict=True,
        )
        flatter = np.argmin(slopes, axis=0)
        level, slope = np.choose(flatter, levels), np.choose(flatter, slopes)
        share = expit(level[:, None] + slope[:, None] * inward)
        return (share * self.size).cumsum(axis=1)

    def _quantiles(self) -> Floats:
        """Return the normal quantile of each bin's rank."""
        from scipy.special import ndtri

        quantiles: Floats = -ndtri(self.middle / (1 + self.both) / (self.trials + 1))
        return quantiles

    def _guess(self) -> tuple[float, float]:
        """Return a prior slope of the log-odds and the strength of the shrinkage towards it.

        For log-odds scores it is the slope fitted to the pilot, near `spread`. For other scores at
        both ends it is that of two normal laws with the pilot's share of correct guesses: between
        N(0, 1) and N(μ, 1) this share is Φ(μ/2), and the log-odds have the slope μ. For one end,
        which has little information, it is 0.
        """
        from scipy.special import ndtri

        if self.spread:
            expected = self.spread, 1 / (_TRUSTED * self.spread) ** 2
            pilot = self.place[None, :], self.pilot_size[None, :], self.pilot_hits[None, :]
            slope = float(_logistic(*pilot, *expected, doubt=0.0)[1][0])
            return slope, 1 / (_TRUSTED * max(slope, _TRUSTED * self.spread)) ** 2
        if not self.both:
            return 0.0, _SHRINK
        right = (self.pilot_hits.sum() + 0.5) / (self.pilot_size.sum() + 1)
        return max(0.0, 2 * float(ndtri(right))), _SHRINK

    def _certified(self, hits: Floats, size: Numbers) -> Floats:
        return share_limit(hits - self.revealed, size - self.revealed, self.alpha)


def _ends(scores: Scores) -> Numbers:
    """Return ends of bins of sorted scores that grow geometrically; equal scores share a bin."""
    count = len(scores)
    steps = max(1, math.ceil(math.log(max(count / _LEAST, 1)) / math.log(_RATIO)))
    sizes = np.ceil(np.geomspace(min(_LEAST, count), count, steps + 1)).astype(int)
    return whole_ends(scores, sizes)


def whole_ends(scores: Scores, sizes: Numbers) -> Numbers:
    """Return the least prefixes of sorted scores, of these sizes or more, that split no atom."""
    count = len(scores)
    changes = np.append(np.flatnonzero(scores[1:] != scores[:-1]) + 1, count)
    return np.unique(changes[np.searchsorted(changes, np.minimum(sizes, count))])


def _logistic(
    place: Floats, size: Floats, hits: Floats, guess: float, shrink: float, *, doubt: float
) -> tuple[Floats, Floats]:
    """Fit a logistic regression to binned labels in each row by Newton's method.

    The slope is shrunk towards `guess`, then reduced by `doubt` standard errors, to at least 0.

    Returns:
        The level and the slope of each row.
    """
    from scipy.special import expit

    middle = (size * place).sum(1) / np.maximum(size.sum(1), 1e-300)
    centred = place - middle[:, None]
    level, slope = np.zeros(len(size)), np.full(len(size), guess)
    for _ in range(12):
        share = expit(level[:, None] + slope[:, None] * centred)
        excess, weight = hits - size * share, size * share * (1 - share)
        gradient = excess.sum(1), (excess * centred).sum(1) - shrink * (slope - guess)
        first, cross = weight.sum(1) + 1e-3, (weight * centred).sum(1)
        second = (weight * centred**2).sum(1) + shrink
        scale = first * second - cross**2
        level += np.clip((second * gradient[0] - cross * gradient[1]) / scale, -1, 1)
        slope += np.clip((first * gradient[1] - cross * gradient[0]) / scale, -1, 1)
    error = np.sqrt(first / (first * second - cross**2))
    slope = np.maximum(slope - doubt * error, 0.0)
    return level - slope * middle, slope


# Shares of α for coin flips that need too many trials, and for more than r revealed labels.
_FLIPS, _REVEALED = 1 / 50, 1 / 5


@dataclass(frozen=True)
class LabelTest:
    """A chosen event, and the result of guessing its labels.

    Attributes:
        high: the event includes the trials with `score >= high`; None for none.
        low: the event includes the trials with `score <= low`; None for none.
        present_high: whether the guess is D' at high scores and D at low ones, or the reverse.
        hits: S, the number of right guesses in the event.
        size: s, the number of trials in the event.
        trials: m, the number of trials outside the pilot.
        pilot: the number of trials in the pilot, whose labels chose the direction.
        rates: estimated probabilities of `score >= high` (or `score <= low` if `high` is None) on
            D and on D'.
        seed: the seed of the pilot and of the omitted scores.
    """

    high: float | None
    low: float | None
    present_high: bool
    hits: int
    size: int
    trials: int
    pilot: int = 0
    rates: tuple[float, float] = (math.nan, math.nan)
    seed: int = 0

    def __str__(self) -> str:
        """Describe the event."""
        high, low = ("D'", "D") if self.present_high else ("D", "D'")
        parts = []
        if self.high is not None:
            parts.append(f"score >= {_shown(self.high)}, likelier in {high} than in {low}")
        if self.low is not None:
            parts.append(f"score <= {_shown(self.low)}, likelier in {low} than in {high}")
        return "; ".join(parts)

    def epsilon(self, delta: float, alpha: float) -> float:
        """Return the largest ε at which (1) refutes (ε, δ)-DP at level α; 0 for none.

        It is ln(θ/(1 − θ)) for the lower Clopper-Pearson limit θ on S − r hits of s − r.
        """
        if self.size == self.trials and (self.high is None or self.low is None):
            return 0.0
        revealed, spent = revealed_labels(self.trials, delta, alpha)
        share = float(share_limit(self.hits - revealed, self.size - revealed, alpha - spent))
        return max(0.0, _logit(share))

    def p_value(self, epsilon: float, delta: float, alpha: float) -> float:
        """Return the p-value of (ε, δ)-DP from this event, which was chosen for the level α.

        It is the left side of (1), plus β and the share of α for the coin flips. The choice of the
        event used none of its labels, so P(p-value ≤ u) ≤ u for every u.
        """
        if self.size == self.trials and (self.high is None or self.low is None):
            return 1.0
        from scipy.special import expit
        from scipy.stats import binom

        flips = alpha * _FLIPS
        revealed, spent = revealed_labels(self.trials, delta, alpha - flips)
        rest = max(self.size - revealed, 0)
        tail = float(binom.sf(self.hits - revealed - 1, rest, expit(epsilon)))
        return min(1.0, tail + spent + flips)


def label_epsilon(
    absent: Scores,
    present: Scores,
    *,
    delta: float = 0.0,
    alpha: float = 0.05,
    confidence: float | None = None,
    coin_flipped: bool = False,
    expected: Ends = "top",
    log_odds: bool = False,
    seed: int | None = None,
) -> tuple[Estimate, LabelTest]:
    """Return a certified lower bound on ε from scores of trials on D and D', and its event.

    Args:
        absent: scores of independent trials on data set D.
        present: scores of independent trials on data set D'; the number may differ.
        delta: the δ of the claim.
        alpha: the level of the bound.
        confidence: the confidence to state; default 1 − α.
        coin_flipped: whether a fair coin decided the data set of each trial. Otherwise the two
            sizes count as fixed, and some scores are left out.
        expected: the ends from which the event takes trials, with D' guessed at high scores, if the
            pilot is not informative; must not depend on these scores.
        log_odds: whether the scores estimate the log-odds of D' up to a factor and a constant; the
            event is then chosen by them. A wrong estimate costs power, never the level.
        seed: decides the pilot and which scores are left out; None draws one from the operating
            system's entropy, which the returned test holds. The level holds over the random choice
            of the seed, not for a seed chosen by its result.

    Raises:
        InputError: a score is not finite, a class is empty, the sizes contradict fair coins, or δ
            or α is out of range.
    """
    outcomes.check_delta(delta)
    outcomes.check_alpha(alpha)
    absent, present = outcomes.scores(absent, "absent"), outcomes.scores(present, "present")
    seed = outcomes.settled(seed)
    # The digest makes draws differ between audits with one seed. Otherwise every audit of these
    # sizes has the same coins and pilot places, and among equal scores, which are sorted by label,
    # the pilot would reveal the other labels.
    rng = generator((seed, *b"labels", *_digest(absent, present)))
    if not coin_flipped:
        absent, present = _flip(absent, present, alpha * _FLIPS, rng)
    scores = np.concatenate((absent, present))
    order = np.argsort(-scores, kind="stable")
    scores, labels = scores[order], order >= len(absent)
    # A twentieth of the trials suffices to choose the direction.
    pilot = np.zeros(len(scores), bool)
    pilot[rng.choice(len(scores), len(scores) // 20, False, shuffle=False)] = True
    main = len(scores) - int(pilot.sum())
    revealed, spent = revealed_labels(main, delta, alpha)
    tally = Tally(scores, labels, pilot, log_odds)
    sides = [
        Side(tally, events, present_high, revealed, alpha - spent)
        for present_high in (True, False)
        for events in tally.sides()
    ]
    # The default, without a prospect above ½, is D' at high scores, at the expected ends.
    sides.sort(key=lambda side: (not side.present_high, side.events.side != expected))
    side = max(sides, key=lambda side: max(0.5, side.prospect))
    stop = side.choose()
    test = _tested(tally, side, stop, main, len(scores) - main, seed)
    if coin_flipped:
        outcomes.check_coins(len(absent), len(present), "use coin_flipped=False")
    level = alpha if coin_flipped else alpha * (1 - _FLIPS)
    return _bounded(test, delta, level, alpha, confidence), test


def most_certified(trials: int, *, delta: float, alpha: float) -> float:
    """Return the largest ε that the label test can certify: that of all trials guessed right.

    Args:
        trials: the number of trials on D and D' together.
        delta: the δ of the claim.
        alpha: the level of the bound.
    """
    every = LabelTest(0.0, 0.0, present_high=True, hits=trials, size=trials, trials=trials)
    return every.epsilon(delta, alpha)


def guessed_epsilon(
    guesses: Numbers,
    present: NDArray[np.bool_],
    *,
    delta: float,
    alpha: float,
    confidence: float | None = None,
) -> tuple[Estimate, LabelTest]:
    """Return a certified lower bound on ε from guesses that were fixed before the trials.

    Args:
        guesses: 1 for D', −1 for D, 0 for no guess; a function of the outputs `(n,)`.
        present: whether each trial's fair coin chose D' `(n,)`.
        delta: the δ of the claim.
        alpha: the level of the bound.
        confidence: the confidence to state; default 1 − α.
    """
    high, low = guesses > 0, guesses < 0
    hits = int(present[high].sum() + (~present[low]).sum())
    shown, right = (high, present) if high.any() else (low, ~present)
    rates = float(shown[~right].mean()), float(shown[right].mean())
    test = LabelTest(
        high=1.0 if high.any() else None,
        low=-1.0 if low.any() else None,
        present_high=True,
        hits=hits,
        size=int(high.sum() + low.sum()),
        trials=len(guesses),
        rates=rates if high.any() else rates[::-1],
    )
    return _bounded(test, delta, alpha, alpha, confidence), test


def _bounded(
    test: LabelTest, delta: float, level: float, alpha: float, confidence: float | None
) -> Estimate:
    """Return the bound of a test at `level`, which is stated at `alpha`."""
    return outcomes.lower_bound(
        test.epsilon(delta, level),
        value=_logit(test.hits / max(test.size, 1)),
        alpha=alpha,
        confidence=confidence,
        n=test.trials + test.pilot,
        method="label test",
    )


def _tested(tally: Tally, side: Side, stop: int, main: int, pilot: int, seed: int) -> LabelTest:
    top, bottom = int(side.events.top[stop]), int(side.events.bottom[stop])
    # The rates are those of one end, from all its trials outside the pilot.
    one_end = Events("top" if top else "bottom", np.array([top]), np.array([0 if top else bottom]))
    size, hits, of_pilot, hits_of_pilot = (
        int(counts[0]) for counts in tally.counts(one_end, side.present_high)
    )
    right = 2 * (hits - hits_of_pilot) / main
    wrong = 2 * (size - of_pilot) / main - right
    for_present = side.present_high == (top > 0)
    return LabelTest(
        high=float(tally.scores[top - 1]) if top else None,
        low=float(tally.scores[-bottom]) if bottom else None,
        present_high=side.present_high,
        hits=int(side.hits[: stop + 1].sum()),
        size=int(side.size[: stop + 1].sum()),
        trials=main,
        pilot=pilot,
        rates=(wrong, right) if for_present else (right, wrong),
        seed=seed,
    )


def revealed_labels(trials: int, delta: float, alpha: float) -> tuple[int, float]:
    """Return r, a number of revealed labels that is rarely exceeded, and β of (1)."""
    if delta == 0:
        return 0, 0.0
    from scipy.stats import binom

    most = int(binom.isf(alpha * _REVEALED, trials, delta))
    return most, float(binom.sf(most, trials, delta))


def _flip(
    absent: Scores, present: Scores, alpha: float, rng: np.random.Generator
) -> tuple[Scores, Scores]:
    """Draw from either class the number of scores that fair coin flips ask for.

    The number of flips is the largest for which they ask for too many scores with probability at
    most α. If they do, all scores of the class are used. So the law of the drawn scores differs
    from that of coin flips with probability at most α.
    """
    from scipy.special import bdtrc

    def short(trials: int) -> float:
        return sum(
            float(bdtrc(min(len(sample), trials), trials, 0.5)) for sample in (absent, present)
        )

    flips = 1 + bisect(range(2, len(absent) + len(present) + 1), alpha, key=short)
    heads = min(int(rng.binomial(flips, 0.5)), len(present))
    return _some(absent, min(flips - heads, len(absent)), rng), _some(present, heads, rng)


def _digest(absent: Scores, present: Scores) -> bytes:
    """Return a digest of the order of the two classes' sorted scores."""
    pooled = np.concatenate((np.sort(absent), np.sort(present)))
    order = np.argsort(pooled, kind="stable").astype("<i8")
    return hashlib.blake2b(order.tobytes(), digest_size=16).digest()


def _some(scores: Scores, count: int, rng: np.random.Generator) -> Scores:
    """Draw `count` of the scores without replacement, by drawing the few that are left out."""
    return np.delete(scores, rng.choice(len(scores), len(scores) - count, False, shuffle=False))


def _shown(score: float) -> str:
    """Format a score; ±1e300 stands for an output that is possible on one data set only.

    2e300 stands for a training without a model.
    """
    if score > 1e300:
        return "that of no model (the training diverges)"
    return f"{score:g}" if abs(score) < 1e300 else "∞" if score > 0 else "−∞"


def _logit(share: float) -> float:
    return math.inf if share >= 1 else math.log(share / (1 - share)) if share > 0 else 0.0
