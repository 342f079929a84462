"""The choice of the label test's event, from a pilot and from labels outside the event.

The choice uses no label of the event that it chooses. A bad choice costs power, never the level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import Scores

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

        def sums(trials: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.append(0, np.cumsum(trials))

        self._sums = sums(present), sums(pilot), sums(present & pilot)

    def sides(self) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield three sequences of growing events: at the top, at the bottom and at both ends.

        An event is given by the numbers of trials it takes from the top and from the bottom. Equal
        scores stay together.
        """
        top, bottom = _ends(self.scores), _ends(self.scores[::-1])
        yield top, np.zeros_like(top)
        yield np.zeros_like(bottom), bottom
        at = np.union1d(top, bottom)
        both = [ends[np.searchsorted(ends, at)] for ends in (top, bottom)]
        apart = both[0] + both[1] <= len(self.scores)
        if apart.any():
            yield both[0][apart], both[1][apart]

    def outward(self, top: NDArray[np.int64], bottom: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return each bin's mean distance outwards from the mean score, in standard deviations."""
        sums = self._total[top] - (self._total[-1] - self._total[len(self._total) - 1 - bottom])
        distances: NDArray[np.float64] = np.diff(sums, prepend=0.0) / np.diff(
            top + bottom, prepend=0
        )
        return distances / self.spread

    def counts(
        self, top: NDArray[np.int64], bottom: NDArray[np.int64], present_high: bool
    ) -> tuple[NDArray[np.int64], ...]:
        """Return each event's trials and correct guesses, and both numbers for the pilot alone.

        The guess is D' at the top and D at the bottom if `present_high`, else the reverse.
        """
        present, pilot, both = (
            (sums[top], sums[-1] - sums[len(sums) - 1 - bottom]) for sums in self._sums
        )

        def right(high: NDArray[np.int64], low: NDArray[np.int64], n_high: Any, n_low: Any) -> Any:
            return high + n_low - low if present_high else n_high - high + low

        return (
            top + bottom,
            right(*present, top, bottom),
            pilot[0] + pilot[1],
            right(*both, *pilot),
        )


class Side:
    """A sequence of growing events, with the trials and correct guesses of each bin.

    Attributes:
        top: number of trials that each event takes from the highest scores.
        bottom: number of trials that each event takes from the lowest scores.
        present_high: whether D' is guessed at the top.
        size: number of trials of each bin outside the pilot.
        hits: number of correct guesses among these.
    """

    def __init__(
        self,
        tally: Tally,
        top: NDArray[np.int64],
        bottom: NDArray[np.int64],
        present_high: bool,
        revealed: int,
        alpha: float,
    ) -> None:
        self.top, self.bottom, self.present_high = top, bottom, present_high
        self.revealed, self.alpha = revealed, alpha
        self.ends, self.trials = top + bottom, len(tally.scores)
        self.middle = (np.append(0, self.ends[:-1]) + self.ends) / 2
        self.spread = tally.spread
        self.place = tally.outward(top, bottom) if tally.spread else self._quantiles()
        size, hits, self.pilot_size, self.pilot_hits = (
            np.diff(counts, prepend=0) for counts in tally.counts(top, bottom, present_high)
        )
        self.size, self.hits = size - self.pilot_size, hits - self.pilot_hits

    @property
    def ends_judged(self) -> Ends:
        """The ends from which events take trials."""
        return "both" if self.both else "top" if self.top[-1] > 0 else "bottom"

    @property
    def both(self) -> bool:
        """Whether events take trials from both ends."""
        return bool(self.top[-1] > 0 and self.bottom[-1] > 0)

    def promise(self, caution: float) -> NDArray[np.float64]:
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
        are predicted from the pilot's labels and the revealed ones. The log-odds of a label are
        modelled as linear in the score if the score estimates them, else in the normal quantile of
        the rank, as between two normal laws. The fit is local to the edge of the revealed bins. Of
        a narrow and a wide fit the one with the smaller slope counts: a steep slope may be due to
        chance or end at a kink.

        Row i of every matrix is the state in which bins beyond i are revealed; column j is a bin.
        """
        from scipy.special import expit

        last, place = np.arange(len(self.ends)), self.place
        shown = last > last[:, None]
        size, hits = self.pilot_size + shown * self.size, self.pilot_hits + shown * self.hits
        inward = place - place[:, None]
        away = np.abs(np.log(self.middle / self.ends[:, None]))
        nearness = [np.exp(-away / reach) for reach in _REACH]
        fits = [
            _logistic(inward, near * size, near * hits, *self._guess(), doubt=_DOUBT[self.both])
            for near in nearness
        ]
        flatter = np.argmin([slope for _, slope in fits], axis=0)
        level, slope = (
            np.choose(flatter, [level for level, _ in fits]),
            np.choose(flatter, [slope for _, slope in fits]),
        )
        share = expit(level[:, None] + slope[:, None] * inward)
        foreseen = (share * self.size).cumsum(axis=1)
        certified = np.full(shown.shape, -1.0)
        sizes = np.broadcast_to(self.size.cumsum(), shown.shape)
        certified[~shown] = self._certified(foreseen[~shown], sizes[~shown])
        here = certified.diagonal().copy()
        np.fill_diagonal(certified, -1.0)
        promised = np.maximum.accumulate(np.append(0.5, self.promise(_CAUTION[0])[:-1]))
        stops = here > np.maximum(certified.max(axis=1), promised)
        if not self.both:
            stops[-1] = False  # the event of all trials certifies nothing
        stops = np.flatnonzero(stops)
        return int(stops[-1]) if len(stops) else 0

    def _quantiles(self) -> NDArray[np.float64]:
        """Return the normal quantile of each bin's rank."""
        from scipy.special import ndtri

        quantiles: NDArray[np.float64] = -ndtri(self.middle / (1 + self.both) / (self.trials + 1))
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

    def _certified(self, hits: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.float64]:
        return share_limit(hits - self.revealed, size - self.revealed, self.alpha)


def share_limit(
    hits: NDArray[np.float64] | int, size: NDArray[np.int64] | int, alpha: float
) -> NDArray[np.float64]:
    """Return the one-sided Clopper-Pearson lower limit of each share; counts may be fractional."""
    from scipy.special import betaincinv

    hits, size = np.asarray(hits, float), np.asarray(size, float)
    successes = np.maximum(hits, 1e-9)
    return np.where(hits > 0, betaincinv(successes, np.maximum(size - hits, 0) + 1, alpha), 0.0)


def _ends(scores: Scores) -> NDArray[np.int64]:
    """Return ends of bins of sorted scores that grow geometrically; equal scores share a bin."""
    count = len(scores)
    steps = max(1, math.ceil(math.log(max(count / _LEAST, 1)) / math.log(_RATIO)))
    wanted = np.unique(np.ceil(np.geomspace(min(_LEAST, count), count, steps + 1)).astype(int))
    changes = np.append(np.flatnonzero(scores[1:] != scores[:-1]) + 1, count)
    return np.unique(changes[np.searchsorted(changes, np.minimum(wanted, count))])


def _logistic(
    place: NDArray[np.float64],
    size: NDArray[np.float64],
    hits: NDArray[np.float64],
    guess: float,
    shrink: float,
    *,
    doubt: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
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
