"""Rare events that distinguish two data sets and that a smooth model misses.

A leak in one output of a thousand has few examples, but its odds ratio may be unbounded. Candidates
are rare values of a feature, its tails, and outputs that repeat exactly. They are found on one part
of the training outputs, and their odds are estimated on another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.attacks.black_box.classifiers import Model, Sample, Vector, row_keys
from dpaudit.attacks.black_box.encoding import Table
from dpaudit.attacks.black_box.features import Columns, Feature
from dpaudit.bounds.multiplicity import discoveries

# The largest share of a rare event, and its smallest count among the outputs where it is found.
_SHARE, _LEAST = 0.02, 3
# The false-discovery rate of finding events, the most events kept, and the level of their odds.
_DISCOVERY, _KEPT, _ALPHA = 0.3, 200, 0.1


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
    """Log-odds of rare events, and of a smooth model for other outputs.

    Attributes:
        atoms: frequent values.
        events: the events, grouped by feature.
        log_odds_of: the log-odds of each event, bounded towards 0 `(E,)`.
        smooth: the model for other outputs.
        limits: the range to which the log-odds of `smooth` are clipped.
    """

    atoms: Vector
    events: tuple[Event, ...]
    log_odds_of: Vector
    smooth: Model
    limits: tuple[float, float]

    def log_odds(self, table: Table) -> Vector:
        """Return the log-odds of largest magnitude among each output's events and `smooth`."""
        found = np.clip(self.smooth.log_odds(table), *self.limits)
        for hit, odds in zip(
            members(table, self.atoms, self.events), self.log_odds_of, strict=True
        ):
            found = np.where(hit & (np.abs(found) < abs(odds)), odds, found)
        return found


def members(table: Table, atoms: Vector, events: Sequence[Event]) -> Iterator[NDArray[np.bool_]]:
    """Yield for each event the mask of the outputs in it."""
    columns, keys = Columns(table, atoms), None
    feature, column = None, np.empty(0)
    for event in events:
        if event.feature is None:
            keys = row_keys(table) if keys is None else keys
            yield keys == np.uint64(event.key)
            continue
        if event.feature != feature:
            feature, column = event.feature, columns.column(event.feature)
        yield (column >= event.low) & (column <= event.high)


def find_events(sample: Sample, features: Sequence[Feature]) -> tuple[Event, ...]:
    """Return events that seem to be more frequent in one data set.

    Each is tested by a two-sided binomial test. The false-discovery rate can be as high as 30 %,
    because the odds of events are estimated on other outputs.
    """
    from scipy.special import bdtr, bdtrc

    columns, labels = sample.columns, sample.labels
    most, rate = int(_SHARE * len(labels)), float(labels.mean())
    tested: list[tuple[float, int, Event]] = []

    def test(event: Event, size: int, present: int) -> None:
        more = float(bdtrc(present - 1, size, rate)) if present else 1.0
        p_value = min(1.0, 2 * min(more, float(bdtr(present, size, rate))))
        tested.append((p_value, len(tested), event))

    for key, size, present in _atoms(row_keys(sample.table), labels, most):
        test(Event(None, key=int(key)), size, present)
    for feature in features:
        column = columns.column(feature)
        for value, size, present in _atoms(column, labels, most):
            test(Event(feature, float(value), float(value)), size, present)
        for low, high, size, present in _tails(column, labels, most):
            test(Event(feature, low, high), size, present)
    tested.sort(key=lambda entry: entry[:2])
    passed = discoveries([p for p, *_ in tested], _DISCOVERY).sum()
    kept = [event for *_, event in tested[: min(passed, _KEPT)]]
    return tuple(sorted(kept, key=lambda event: (event.feature is not None, str(event))))


def _atoms(
    values: NDArray[np.generic], labels: NDArray[np.int64], most: int
) -> Iterator[tuple[float, int, int]]:
    """Yield rare but repeated values: the value, its count, and its count in D'."""
    distinct, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    seldom = np.flatnonzero((counts >= _LEAST) & (counts <= most))
    present = np.bincount(codes, labels, len(distinct))
    for i in seldom.tolist():
        yield distinct[i], int(counts[i]), int(present[i])


def _tails(
    column: Vector, labels: NDArray[np.int64], most: int
) -> Iterator[tuple[float, float, int, int]]:
    """Yield sets of the lowest and of the highest values, of doubling size.

    Each is given by its lowest and highest value, its count, and its count in D'.
    """
    order = np.argsort(column, kind="stable")
    for reverse in (False, True):
        values = column[order[::-1]] if reverse else column[order]
        hits = np.cumsum(labels[order[::-1]] if reverse else labels[order])
        changes = np.append(np.flatnonzero(values[1:] != values[:-1]) + 1, len(values))
        sizes = [
            changes[min(np.searchsorted(changes, 4 * 2**k), len(changes) - 1)] for k in range(24)
        ]
        for size in sorted({int(size) for size in sizes if size <= most}):
            edge = float(values[size - 1])
            low, high = (edge, np.inf) if reverse else (-np.inf, edge)
            yield low, high, size, int(hits[size - 1])


def judge(sample: Sample, events: Sequence[Event], smooth: Model) -> Rare:
    """Bound the log-odds of each event on outputs that did not find it.

    Events with bound 0 are dropped. The log-odds of the smooth model are clipped to the largest and
    smallest log-odds that its highest- and lowest-scored outputs confirm.
    """
    labels, rate = sample.labels, float(sample.labels.mean())
    hits = list(members(sample.table, sample.atoms, events))
    size, present = (
        np.array([int(x[hit].sum()) for hit in hits], np.int64)
        for x in (np.ones_like(labels), labels)
    )
    odds = _odds(present, size, rate)
    kept = np.flatnonzero(odds)
    ordered = labels[np.argsort(-smooth.log_odds(sample.table), kind="stable")]
    sizes = np.unique(np.geomspace(1, len(labels), 100).astype(np.int64))
    top, bottom = (
        _odds(np.cumsum(each)[sizes - 1], sizes, rate) for each in (ordered, ordered[::-1])
    )
    return Rare(
        sample.atoms,
        tuple(events[i] for i in kept.tolist()),
        odds[kept],
        smooth,
        (float(bottom.min()), float(top.max())),
    )


def _odds(present: NDArray[np.int64], size: NDArray[np.int64], rate: float) -> Vector:
    """Return log-odds of D', bounded towards 0, for k of s outputs in D' and a share q overall.

    They are the Clopper-Pearson limits of k/s at 10 %, as log-odds relative to q/(1 − q); 0 if the
    limits enclose q.
    """
    from scipy.special import betaincinv, logit

    k, rest = np.maximum(present, 1e-9), np.maximum(size - present, 1e-9)
    low = np.where(present > 0, betaincinv(k, rest + 1, _ALPHA), 0.0)
    high = np.where(present < size, betaincinv(k + 1, rest, 1 - _ALPHA), 1.0)
    share = np.where(size > 0, np.maximum(low, np.minimum(high, rate)), rate)
    return np.where(share == rate, 0.0, logit(share) - logit(rate))
