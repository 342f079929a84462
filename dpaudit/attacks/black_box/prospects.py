"""Forecast the bound that a score, or rare events, will certify on fresh outputs.

Forecasts choose among models and events before the certifying outputs are drawn. They certify
nothing; a wrong forecast costs power, but certificates stay valid.

**Rare events** distinguish two data sets where a score of all outputs misses them. A leak in one
output of a thousand has few examples, but its odds ratio may be unbounded. Candidates are rare
values of a feature, windows and tails of its values, and outputs that repeat exactly. They are
found on one part of the training outputs, where a smooth model expects others; their odds are
estimated, and the best set of them is chosen, on another. The certificate counts this set on
outputs that neither part has used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.classifiers import LabelledOutputs, OddsModel, row_keys
from dpaudit.attacks.black_box.encoding import EncodedOutputs
from dpaudit.attacks.black_box.features import Feature, FeatureColumns, Labels, Vector
from dpaudit.bounds.frequentist.intervals import share_limit
from dpaudit.bounds.frequentist.labels import Ends, growing_events, whole_ends
from dpaudit.bounds.multiplicity import discoveries

# The level at which events are compared, and the quantile of the share of correct guesses that a
# forecast uses; it is low because the best of many events tends to look better than it is.
_ALPHA, _BELIEVED = 0.05, 0.001
# An event at both ends must have a forecast larger by this factor, since few outputs at one end may
# look pure by chance.
_BOTH = 1.1
# Sizes of the compared events: the smallest, and the ratio of successive sizes.
_LEAST, _RATIO = 3, 1.15
# Newton steps of a calibration, and its cut-off in standard deviations of the scores.
_STEPS, _FAR = 8, 4.0


@dataclass(frozen=True)
class Prospect:
    """The event with the largest forecast bound.

    Attributes:
        epsilon: the forecast bound.
        side: whether the event has the highest scores, the lowest, or both.
        share: its share of all outputs.
    """

    epsilon: float
    side: Ends
    share: float


def prospect(
    scores: Vector,
    labels: NDArray[np.int64],
    trials: int,
    believed: float = _BELIEVED,
    alpha: float = _ALPHA,
    calibrated: bool = False,
) -> Prospect:
    """Return the event of a score with the largest forecast bound on fresh outputs.

    For an event with s of the n outputs, h of them guessed correctly, the forecast is
    `trials · s/n` outputs, and as share of correct guesses the `believed` quantile of the Beta
    posterior of h/s; the bound is Clopper and Pearson's at level alpha.

    For a weak signal, this share depends much on chance. If `calibrated` is set, scores are
    log-odds, and the share is at least the one that they imply after a logistic recalibration on
    all outputs.

    Args:
        scores: scores of held-out outputs `(n,)`.
        labels: 1 for outputs of D', 0 for D `(n,)`.
        trials: number of fresh outputs.
        believed: see above.
        alpha: see above.
        calibrated: see above.
    """
    from scipy.special import betaincinv

    order = np.argsort(-scores, kind="stable")
    scores, labels = scores[order], labels[order]
    present, n = np.append(0, np.cumsum(labels)), len(scores)
    chance = np.append(0.0, np.cumsum(_calibrated(scores, labels))) if calibrated else present
    best = Prospect(0.0, "top", 0.0)
    for events in growing_events(_ends(scores), _ends(scores[::-1]), n):
        # One guess at all outputs tells nothing.
        proper = (events.size < n) | (events.side == "both")
        top, bottom, size = events.top[proper], events.bottom[proper], events.size[proper]
        hits, likely = (
            right[top] + bottom - (right[n] - right[n - bottom]) for right in (present, chance)
        )
        share = betaincinv(hits + 0.5, size - hits + 0.5, believed)
        if calibrated:
            share = np.maximum(share, likely / size)
        value, at = best_bound(share, size * (trials / n), alpha)
        if value > best.epsilon * (_BOTH if events.side == "both" else 1.0):
            best = Prospect(value, events.side, float(size[at] / n))
    return best


def _calibrated(scores: Vector, labels: NDArray[np.int64]) -> Vector:
    """Return the probability of D' by `expit(a + b · score)`, b minus one standard error.

    a and b are fitted by Newton's method to clipped, standardised scores; a is then corrected to
    equal shares of D and D'.
    """
    from scipy.special import expit, logit

    middle = scores - scores.mean()
    spread = float(np.sqrt((middle**2).mean()))
    if spread == 0 or not 0 < labels.sum() < len(labels):
        return np.full(len(scores), 0.5)
    unit = np.clip(middle / spread, -_FAR, _FAR)
    design = np.stack([np.ones_like(unit), unit])
    at = np.array([logit(labels.mean()), 0.0])
    for _ in range(_STEPS):
        share = expit(at @ design)
        curvature = (design * (share * (1 - share))) @ design.T + 1e-9 * np.eye(2)
        at += np.clip(np.linalg.solve(curvature, design @ (labels - share)), -2, 2)
    slope = max(0.0, at[1] - float(np.sqrt(np.linalg.inv(curvature)[1, 1])))
    return np.asarray(expit(at[0] - logit(labels.mean()) + slope * unit))


def best_bound(share: Vector, size: NDArray[Any], alpha: float) -> tuple[float, int]:
    """Return the largest bound of events with these shares of correct guesses, and its index.

    Args:
        share: the share of correct guesses in each event `(E,)`.
        size: the number of outputs in each event, which may be fractional `(E,)`.
        alpha: the level of the bound.
    """
    from scipy.special import logit

    if not len(size):
        return 0.0, 0
    bounds = logit(np.clip(share_limit(size * share, size, alpha), 1e-12, 1 - 1e-12))
    at = int(bounds.argmax())
    return float(bounds[at]), at


def _ends(scores: Vector) -> NDArray[np.int64]:
    """Return sizes of growing prefixes of sorted scores; equal scores are never split."""
    n = len(scores)
    steps = max(1, int(np.log(max(n / _LEAST, 1)) / np.log(_RATIO)) + 1)
    return whole_ends(scores, np.geomspace(min(_LEAST, n), n, steps + 1).astype(np.int64))


# The fraction of the training outputs that finds events; the others estimate their odds.
_FINDING = 2 / 3
# The largest share of a rare event, and its smallest count among the outputs where it is found.
_SHARE, _FEWEST = 0.02, 3
# The sizes of windows and tails.
_SIZES = np.unique(np.geomspace(4, 4096, 31).astype(np.int64))
# The false-discovery rate of finding events, the most events examined and kept, and the level of
# their odds.
_DISCOVERY, _EXAMINED, _KEPT, _ODDS_ALPHA = 0.3, 500, 50, 0.1
# The quantile of a share of correct guesses in a forecast, and the level of the forecast bound.
_BELIEVED_RARE, _LEVEL = 0.1, 0.025


@dataclass(frozen=True)
class Event:
    """A set of outputs.

    Attributes:
        feature: the feature; None for the hash of the whole output.
        low: the lowest feature value of outputs in the event.
        high: the highest feature value of outputs in the event.
        key: the hash, if `feature` is None.
    """

    feature: Feature | None
    low: float = 0.0
    high: float = 0.0
    key: int = 0


@dataclass(frozen=True)
class Rare:
    """A guess at the data set of outputs in rare events, and no guess at others.

    Attributes:
        atoms: frequent values.
        events: the events, grouped by feature.
        odds: the log-odds of D' in each event, bounded towards 0 `(E,)`.
        promise: the forecast of the bound that the guesses certify.
    """

    atoms: Vector
    events: tuple[Event, ...]
    odds: Vector
    promise: float = 0.0

    def guesses(self, table: EncodedOutputs) -> Labels:
        """Return 1 for D', −1 for D, and 0 for none, by the event of the largest odds `(n,)`."""
        return np.sign(self._strongest(table)).astype(np.int64)

    def _strongest(self, table: EncodedOutputs) -> Vector:
        strongest = np.zeros(len(table))
        for hit, odds in zip(members(table, self.atoms, self.events), self.odds, strict=True):
            strongest = np.where(hit & (np.abs(strongest) < abs(odds)), odds, strongest)
        return strongest

    def best(self, sample: LabelledOutputs, trials: int) -> Rare:
        """Keep the events whose odds exceed the threshold with the largest forecast bound."""
        from scipy.special import betaincinv

        odds = self._strongest(sample.table)
        order = np.argsort(-np.abs(odds), kind="stable")
        strength, right = np.abs(odds)[order], (odds > 0)[order] == sample.labels[order]
        ends = np.flatnonzero(np.append(strength[1:] != strength[:-1], True) & (strength > 0))
        if not len(ends):
            return Rare(self.atoms, (), np.empty(0))
        size, hits = ends + 1.0, np.cumsum(right)[ends]
        share = betaincinv(hits + 0.5, size - hits + 0.5, _BELIEVED_RARE)
        promise, at = best_bound(share, size * (trials / len(odds)), _LEVEL)
        kept = np.flatnonzero(np.abs(self.odds) >= strength[ends[at]])
        events = tuple(self.events[i] for i in kept.tolist())
        return Rare(self.atoms, events, self.odds[kept], promise)


def members(
    table: EncodedOutputs, atoms: Vector, events: Sequence[Event]
) -> Iterator[NDArray[np.bool_]]:
    """Yield for each event the mask of the outputs in it."""
    columns, keys = FeatureColumns(table, atoms), None
    feature, column = None, np.empty(0)
    for event in events:
        if event.feature is None:
            keys = row_keys(table) if keys is None else keys
            yield keys == np.uint64(event.key)
            continue
        if event.feature != feature:
            feature, column = event.feature, columns.column(event.feature)
        yield (column >= event.low) & (column <= event.high)


def fit_rare(
    sample: LabelledOutputs, features: Sequence[Feature], smooth: OddsModel, trials: int
) -> Rare | None:
    """Find rare events, and choose those whose guesses have the largest forecast bound.

    Args:
        sample: training outputs, in random order.
        features: the features whose values, windows and tails are events.
        smooth: a model that sees no rare events.
        trials: the number of outputs that the certificate will use.

    Returns:
        The guesses; None if no event is found whose odds are confirmed.
    """
    cut = int(_FINDING * len(sample.labels))
    finding, judging = (
        LabelledOutputs(sample.table.take(rows), sample.labels[rows], sample.atoms)
        for rows in (slice(None, cut), slice(cut, None))
    )
    events = find_events(finding, features, smooth)
    rare = Rare(sample.atoms, events, _odds_of(judging, events)).best(judging, trials)
    return rare if rare.promise > 0 else None


class _Candidates(NamedTuple):
    """Events of one feature.

    Attributes:
        feature: the feature; None for the hash of the whole output.
        low: lowest values, or hashes.
        high: highest values.
        size: numbers of outputs in the events.
        present: numbers of these on D'.
        expected: numbers on D' that the smooth model expects.
    """

    feature: Feature | None
    low: NDArray[np.generic]
    high: NDArray[np.generic]
    size: Labels
    present: Vector
    expected: Vector

    def event(self, i: int) -> Event:
        if self.feature is None:
            return Event(None, key=int(self.low[i]))
        return Event(self.feature, float(self.low[i]), float(self.high[i]))


def find_events(
    sample: LabelledOutputs, features: Sequence[Feature], smooth: OddsModel
) -> tuple[Event, ...]:
    """Return events that seem to be more frequent in one data set than a smooth model expects.

    Each is tested by a two-sided binomial test. The false-discovery rate can be as high as 30 %,
    because the odds of events are estimated on other outputs. Repeated values come before tails,
    and these before windows; an event most of whose outputs are in earlier ones is left out.
    """
    from scipy.special import expit

    columns, most = sample.columns, int(_SHARE * len(sample.labels))
    summed = sample.labels.astype(np.float64), np.asarray(expit(smooth.log_odds(sample.table)))
    repeated = [_atoms(None, row_keys(sample.table), summed, most)]
    values: list[_Candidates] = []
    tails: list[_Candidates] = []
    windows: list[_Candidates] = []
    for feature in features:
        column = columns.column(feature)
        values.append(_atoms(feature, column, summed, most))
        tails.append(_windows(feature, column, summed, most, tails=True))
        windows.append(_windows(feature, column, summed, most, tails=False))
    families = (repeated, values, tails, windows)
    events = [event for family in families for event in _discovered(family)]
    covered = np.zeros(len(sample.labels), np.bool_)
    kept: list[Event] = []
    for event, hit in zip(events, members(sample.table, sample.atoms, events), strict=True):
        if covered[hit].mean() <= 0.5 and len(kept) < _KEPT:
            covered |= hit
            kept.append(event)
    return tuple(sorted(kept, key=lambda event: (event.feature is not None, str(event))))


def _discovered(family: Sequence[_Candidates]) -> list[Event]:
    """Return the events of a family that pass, by increasing p-value."""
    from scipy.special import bdtr, bdtrc

    if not sum(len(part.size) for part in family):
        return []
    size, present, expected = (
        np.concatenate([getattr(part, name) for part in family])
        for name in ("size", "present", "expected")
    )
    rate = np.clip(expected / size, 1e-9, 1 - 1e-9)
    more = np.where(present > 0, bdtrc(np.maximum(present - 1, 0), size, rate), 1.0)
    p_values = np.minimum(1.0, 2 * np.minimum(more, bdtr(present, size, rate)))
    count = min(int(discoveries(p_values, _DISCOVERY).sum()), _EXAMINED)
    likely = np.argsort(p_values, kind="stable")[:count]
    first = np.append(0, np.cumsum([len(part.size) for part in family]))
    parts = np.searchsorted(first, likely, side="right") - 1
    return [family[part].event(i - first[part]) for part, i in zip(parts, likely, strict=True)]


def _atoms(
    feature: Feature | None, values: NDArray[np.generic], summed: tuple[Vector, Vector], most: int
) -> _Candidates:
    """Return rare but repeated values."""
    distinct, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    seldom = np.flatnonzero((counts >= _FEWEST) & (counts <= most))
    present, expected = (
        np.bincount(codes, numbers, len(distinct))[seldom].astype(np.float64) for numbers in summed
    )
    values = distinct[seldom]
    return _Candidates(feature, values, values, counts[seldom], present, expected)


def _windows(
    feature: Feature, column: Vector, summed: tuple[Vector, Vector], most: int, *, tails: bool
) -> _Candidates:
    """Return tails, or windows of adjacent values, of growing size.

    Windows of one size overlap by half. Equal values stay together.
    """
    order = np.argsort(column, kind="stable")
    values = column[order]
    lows, highs = [np.empty(0)], [np.empty(0)]
    largest = min(most, len(values))
    for size in _SIZES[largest >= _SIZES]:
        if tails:
            lows.append(np.array([-np.inf, values[-size]]))
            highs.append(np.array([values[size - 1], np.inf]))
            continue
        starts = np.arange(0, len(values) - size, size // 2)
        lows.append(values[starts])
        highs.append(values[starts + size - 1])
    low, high = np.concatenate(lows), np.concatenate(highs)
    first, last = np.searchsorted(values, low, "left"), np.searchsorted(values, high, "right")
    few = (last - first <= most) & (low < high)
    first, last = first[few], last[few]
    present, expected = (
        sums[last] - sums[first]
        for sums in (np.append(0.0, np.cumsum(numbers[order])) for numbers in summed)
    )
    return _Candidates(feature, low[few], high[few], last - first, present, expected)


def _odds_of(sample: LabelledOutputs, events: Sequence[Event]) -> Vector:
    """Return log-odds of D' in each event, bounded towards 0, on outputs that did not find it.

    For k of s outputs in D' and a share q overall they are the Clopper-Pearson limits of k/s at
    10 %, as log-odds relative to q/(1 − q); 0 if the limits enclose q.
    """
    from scipy.special import betaincinv, logit

    labels, rate = sample.labels, float(sample.labels.mean())
    hits = list(members(sample.table, sample.atoms, events))
    size, present = (
        np.array([int(x[hit].sum()) for hit in hits], np.int64)
        for x in (np.ones_like(labels), labels)
    )
    k, rest = np.maximum(present, 1e-9), np.maximum(size - present, 1e-9)
    low = np.where(present > 0, betaincinv(k, rest + 1, _ODDS_ALPHA), 0.0)
    high = np.where(present < size, betaincinv(k + 1, rest, 1 - _ODDS_ALPHA), 1.0)
    share = np.where(size > 0, np.maximum(low, np.minimum(high, rate)), rate)
    return np.where(share == rate, 0.0, logit(share) - logit(rate))
