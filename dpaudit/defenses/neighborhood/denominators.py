"""Checks of Algorithm 1's assumption on its denominators in a training (Wang & Tang 2017, §3).

`ΔF = 2 e_max φ/C` bounds a gradient's coordinate only if `|S_i| I_u = Σ_j |s_ij| ≥ C`. The
algorithm assumes this and never checks it. Here the training of some rows is repeated and its
denominators below C are counted, so the training itself is not slowed down.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.claim import Assumption
from dpaudit.core.estimate import Estimate
from dpaudit.core.streams import Streams
from dpaudit.defenses.neighborhood.similarity import Batches, Floats, RowTrainer, SimilarityData
from dpaudit.defenses.training_checks import lane_blocks

# The share by which single precision may round down a sum that equals C.
_ROUNDING = 1e-5


# The number of evenly spread rows of similarities that are checked, and of trainings of each.
_ROWS, _TRAININGS = 200, 4


class Descent(RowTrainer, Protocol):
    """The parts of Algorithm 1 that determine its denominators."""

    @property
    def steps(self) -> int:
        """K."""
        ...

    @property
    def weight(self) -> float:
        """C."""
        ...


class _Counted(NamedTuple):
    """Counts of one row at one step.

    Attributes:
        below: the number of predictions whose denominator is below C, in each trial `(W,)`.
        of: the number of predictions.
        least: the smallest denominator in each trial `(W,)`.
    """

    below: NDArray[np.int64]
    of: int
    least: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Shortfall:
    """How often one step's denominators were below C.

    Attributes:
        step: t, from 1 on.
        below: the number of predictions with `Σ_j |s_ij| < C` in each trial `(W,)`.
        of: the number of predictions: training ratings of users with at least one other rating.
        least: the smallest denominator in each trial `(W,)`; inf without predictions.
    """

    step: int
    below: NDArray[np.int64]
    of: int
    least: NDArray[np.float64]

    @property
    def share(self) -> float:
        """The share of predictions below C, averaged over the trials; 0 without predictions."""
        return float(self.below.mean()) / max(self.of, 1)


def shortfalls(
    defense: Descent,
    prepared: SimilarityData,
    streams: Streams,
    items: Sequence[int] | NDArray[np.int32] | None = None,
) -> tuple[Shortfall, Shortfall]:
    """Count the denominators below C at the first step and at the last.

    With mini-batches, all ratings that a step may draw are counted, whether drawn or not.

    Args:
        defense: the algorithm, with C.
        prepared: the training data.
        streams: the trials.
        items: the rows to check, at least one; all unless given.

    Raises:
        NoModelError: a training diverged.
    """
    rows = range(prepared.n_items) if items is None else items
    parts = []
    for part in lane_blocks(streams):
        batches = defense.batches(prepared, part)
        parts.append([_row(defense, prepared, int(item), part, batches) for item in rows])
    first, last = (
        _shortfall(step, [[row[place] for row in part] for part in parts])
        for place, step in enumerate((1, defense.steps))
    )
    return first, last


def denominator_assumptions(
    defense: Descent, prepared: SimilarityData, seed: int
) -> Iterator[Assumption]:
    """Yield the share of denominators below C in some rows, at the first step and at the last.

    Args:
        defense: the algorithm, with C.
        prepared: the training data.
        seed: the seed of the streams.

    Raises:
        NoModelError: a training diverged.
    """
    items = np.unique(np.linspace(0, prepared.n_items - 1, _ROWS).astype(np.int32))
    streams = Streams.first(seed, "assumptions", _TRAININGS)
    first, last = shortfalls(defense, prepared, streams, items)
    for counted in (first, last) if defense.steps > 1 else (first,):
        words = f"counted among {counted.of} predictions in {_TRAININGS} trainings"
        estimate = Estimate.exact(counted.share, words)
        yield Assumption("assumption.denominator", estimate, counted.step)


def _row(
    defense: Descent,
    prepared: SimilarityData,
    item: int,
    part: Streams,
    batches: Batches | None,
) -> tuple[_Counted, _Counted]:
    """Count one row's denominators in the trials of one block, at both steps."""
    counts = []
    # Step t predicts from the iterate before it.
    iterates = defense.iterates(prepared, item, part, batches)
    for t, row in enumerate(islice(iterates, defense.steps), 1):
        if t in (1, defense.steps):
            sums = denominators(prepared, item, row[:, : len(part)], defense.neighbors)
            short = (sums < defense.weight * (1 - _ROUNDING)).sum(0)
            counts.append(_Counted(short, len(sums), sums.min(0, initial=np.inf)))
    return counts[0], counts[-1]


def _shortfall(step: int, parts: list[list[_Counted]]) -> Shortfall:
    """Combine the counts of all rows, one list per block of trials."""
    return Shortfall(
        step=step,
        below=np.concatenate([np.sum([row.below for row in part], axis=0) for part in parts]),
        of=sum(row.of for row in parts[0]),
        least=np.concatenate([np.min([row.least for row in part], axis=0) for part in parts]),
    )


def denominators(
    data: SimilarityData, item: int, row: Floats, neighbors: int
) -> NDArray[np.float64]:
    """Return `Σ_j |s_ij|` over the N_k largest of each rater's other items, `(n, W)`.

    As in the gradient, items that tie with the N_k-th largest count too. Raters of no other item
    are left out.

    Args:
        data: the ratings.
        item: i.
        row: the similarities of item i `(M, W)`.
        neighbors: N_k.
    """
    users = data.raters.column[data.entries(item)]
    start, stop = data.profiles.start[users], data.profiles.start[users + 1]
    start, counts = start[stop - start > 1], (stop - start)[stop - start > 1]
    if not len(start):
        return np.empty((0, row.shape[1]))
    first = np.cumsum(counts) - counts
    places = np.arange(counts.sum()) + np.repeat(start - first, counts)
    columns = data.profiles.column[places]
    sizes = abs(row[columns])
    sizes[columns == item] = 0
    for k in np.flatnonzero(counts - 1 > neighbors):
        segment = sizes[first[k] : first[k] + counts[k]]
        kth = np.partition(segment, -neighbors, axis=0)[-neighbors]
        segment[segment < kth] = 0
    sums: NDArray[np.float64] = np.add.reduceat(sizes, first, axis=0, dtype=np.float64)
    return sums
