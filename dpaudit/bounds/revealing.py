"""Where the label test stops: events of growing bins, of which the far ones' labels are known.

A choice that is bad loses power, never the level: it looks at no label of the event it chooses.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpaudit.bounds.outcomes import Scores

# Sizes of the prefixes at which the revealing may stop: the least, and the ratio of two.
_LEAST, _RATIO = 8, 1.08
# How far, in the logarithm of the rank, the local fits look, how strongly their slope is shrunk,
# and how many standard errors are taken off it.
_REACH, _SHRINK, _DOUBT = (0.3, 0.9), 1.0, 1.0
# The quantile of what the pilot has seen that is believed, at most; smaller by this over the number
# of trials, as the best of many events is.
_CAUTION, _MANY = 0.02, 20
# Events of about half the trials at most tell the direction.
_LARGEST = 0.6


class Side:
    """The trials from one end of the scores, counted for one label, in bins of growing size."""

    def __init__(
        self,
        scores: Scores,
        labels: NDArray[np.bool_],
        pilot: NDArray[np.bool_],
        revealed: int,
        alpha: float,
    ) -> None:
        self.scores, self.revealed, self.alpha = scores, revealed, alpha
        self.ends = _ends(scores)
        self.middle = (np.append(0, self.ends[:-1]) + self.ends) / 2

        def count(trials: NDArray[np.bool_]) -> NDArray[np.int64]:
            return np.diff(np.cumsum(trials)[self.ends - 1], prepend=0)

        self.pilot_size, self.pilot_hits = count(pilot), count(labels & pilot)
        self.size = np.diff(self.ends, prepend=0) - self.pilot_size
        self.hits = count(labels) - self.pilot_hits

    def promise(self) -> NDArray[np.float64]:
        """The share that each end of a bin lets expect to certify, by the pilot's labels alone."""
        from scipy.special import betaincinv

        size, hits = self.pilot_size.cumsum(), self.pilot_hits.cumsum()
        caution = min(_CAUTION, max(_MANY / self.ends[-1], 1e-4))
        share = betaincinv(hits + 0.5, size - hits + 0.5, caution)
        return self._certified(share * self.size.cumsum(), self.size.cumsum())

    @property
    def prospect(self) -> float:
        """The best promise among events of about half the trials at most.

        Of a larger event the complement has the larger ratio; all trials together tell nothing.
        """
        few = self.ends <= _LARGEST * self.ends[-1]
        return float(self.promise()[few].max(initial=0.0))

    def choose(self) -> int:
        """The last bin of the event: reveal bins from the far end until no smaller one is better.

        What the bins that are left would show is foreseen from the pilot's labels and those
        revealed so far: the log-odds of a label are taken as linear in the normal quantile of the
        rank, as they are between two normal laws, fitted near the edge of what is revealed. Of a
        narrow and a wide fit the flatter counts: a steep one may be luck, or have a kink behind.

        Row i of every matrix is the state in which bins beyond i are revealed, column j a bin.
        """
        from scipy.special import expit, ndtri

        last, place = np.arange(len(self.ends)), -ndtri(self.middle / (self.ends[-1] + 1))
        shown = last > last[:, None]
        size, hits = self.pilot_size + shown * self.size, self.pilot_hits + shown * self.hits
        inward = place - place[:, None]
        away = np.abs(np.log(self.middle / self.ends[:, None]))
        nearness = [np.exp(-away / reach) for reach in _REACH]
        fits = [_logistic(inward, near * size, near * hits) for near in nearness]
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
        promised = np.maximum.accumulate(np.append(0.5, self.promise()[:-1]))
        # The last bin is always revealed: all trials together certify nothing.
        stops = np.flatnonzero((here > np.maximum(certified.max(axis=1), promised))[:-1])
        return int(stops[-1]) if len(stops) else 0

    def _certified(self, hits: NDArray[np.float64], size: NDArray[np.int64]) -> NDArray[np.float64]:
        return share_limit(hits - self.revealed, size - self.revealed, self.alpha)


def share_limit(
    hits: NDArray[np.float64] | int, size: NDArray[np.int64] | int, alpha: float
) -> NDArray[np.float64]:
    """One-sided Clopper-Pearson lower limit of each share; counts may be expected ones."""
    from scipy.special import betaincinv

    hits, size = np.asarray(hits, float), np.asarray(size, float)
    found = np.maximum(hits, 1e-9)
    return np.where(hits > 0, betaincinv(found, np.maximum(size - hits, 0) + 1, alpha), 0.0)


def _ends(scores: Scores) -> NDArray[np.int64]:
    """Ends of bins of sorted scores whose sizes grow geometrically; equal scores share a bin."""
    count = len(scores)
    steps = max(1, math.ceil(math.log(max(count / _LEAST, 1)) / math.log(_RATIO)))
    wanted = np.unique(np.ceil(np.geomspace(min(_LEAST, count), count, steps + 1)).astype(int))
    changes = np.append(np.flatnonzero(scores[1:] != scores[:-1]) + 1, count)
    return np.unique(changes[np.searchsorted(changes, np.minimum(wanted, count))])


def _logistic(
    place: NDArray[np.float64], size: NDArray[np.float64], hits: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Level and slope of a logistic regression on binned labels in each row, by Newton's method."""
    from scipy.special import expit

    middle = (size * place).sum(1) / np.maximum(size.sum(1), 1e-300)
    centred = place - middle[:, None]
    level, slope = np.zeros(len(size)), np.zeros(len(size))
    for _ in range(12):
        share = expit(level[:, None] + slope[:, None] * centred)
        excess, weight = hits - size * share, size * share * (1 - share)
        gradient = excess.sum(1), (excess * centred).sum(1) - _SHRINK * slope
        first, cross = weight.sum(1) + 1e-3, (weight * centred).sum(1)
        second = (weight * centred**2).sum(1) + _SHRINK
        scale = first * second - cross**2
        level += np.clip((second * gradient[0] - cross * gradient[1]) / scale, -1, 1)
        slope += np.clip((first * gradient[1] - cross * gradient[0]) / scale, -1, 1)
    doubt = _DOUBT * np.sqrt(first / (first * second - cross**2))
    slope = np.maximum(slope - doubt, 0.0)
    return level - slope * middle, slope
