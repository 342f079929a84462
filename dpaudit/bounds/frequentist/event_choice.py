"""The choice of the label test's event, from a pilot and from labels outside the event.

The choice uses no label of the event that it chooses. A bad choice costs power, never the level.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import Scores

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


def share_limit(hits: Floats | int, size: Numbers | int, alpha: float) -> Floats:
    """Return the one-sided Clopper-Pearson lower limit of each share; counts may be fractional."""
    from scipy.special import betaincinv

    hits, size = np.asarray(hits, float), np.asarray(size, float)
    successes = np.maximum(hits, 1e-9)
    return np.where(hits > 0, betaincinv(successes, np.maximum(size - hits, 0) + 1, alpha), 0.0)


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
