"""Learned item-item similarities: the data they are learned from and the rows they yield."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError
from dpaudit.core.releases import SimilarityRows
from dpaudit.core.streams import Streams
from dpaudit.data.ratings import Csr, Ratings, Scale
from dpaudit.defenses.precision import hair
from dpaudit.defenses.training import lane_blocks
from dpaudit.kernels.lane_noise import LANE_TILE
from dpaudit.kernels.lanes import LANES
from dpaudit.kernels.neighborhood import rows as kernels

Floats = NDArray[np.float32]
# Of gradients that are clipped in double precision: a sum moves by what one moves if it is exact.
Sums = NDArray[np.float32] | NDArray[np.float64]
Indices = NDArray[np.int32]

# Mini-batches that are kept take so many bytes at most; further ones are drawn for every row.
_KEPT = 2**28


@dataclass(frozen=True, eq=False)
class SimilarityData:
    """What a neighbourhood model knows of the ratings.

    Attributes:
        profiles: the ratings by user.
        centred: `r_uj − r̄_j` of the ratings by user `(R,)`.
        raters: for each item the users whose ratings of it are learned from, as rows.
        targets: `r_ui − r̄_i` of the entries of `raters`.
        places: where these entries stand among the ratings by user.
        means: `r̄_i` of each item `(M,)`.
        scale: the rating scale.
        initial: what every row begins in proportion to `(M, M)`; None for a constant.
    """

    profiles: Csr
    centred: Floats
    raters: Csr
    targets: Floats
    places: NDArray[np.int64]
    means: Floats
    scale: Scale
    initial: Floats | None = None

    @classmethod
    def of(cls, ratings: Ratings, means: Floats, more_than: int) -> SimilarityData:
        """The users with more than so many ratings are learned from.

        Raises:
            ConfigError: there are none.
        """
        counts = np.diff(ratings.by_user.start)
        kept = np.flatnonzero((counts > more_than)[ratings.user])
        if not len(kept):
            raise ConfigError(
                f"no user has more than params.more_than = {more_than} ratings: lower it or use "
                "more data"
            )
        order = kept[np.argsort(ratings.item[kept], kind="stable")]
        start = np.searchsorted(ratings.item[order], np.arange(ratings.n_items + 1))
        centred = (ratings.value - means[ratings.item]).astype(np.float32)
        return cls(
            profiles=ratings.by_user,
            centred=centred,
            raters=Csr(start.astype(np.int64), ratings.user[order], ratings.value[order]),
            targets=centred[order],
            places=order,
            means=means,
            scale=ratings.scale,
        )

    @property
    def n_items(self) -> int:
        """`M`."""
        return len(self.means)

    @property
    def row_space(self) -> int:
        """Coordinates of the noise source that a row takes: `M`, rounded up to whole tiles."""
        return -(-self.n_items // LANE_TILE) * LANE_TILE

    def entries(self, item: int) -> slice:
        """The entries of `raters` that are of this item."""
        return slice(int(self.raters.start[item]), int(self.raters.start[item + 1]))


def item_means(ratings: Ratings) -> Floats:
    """`r̄_i`, the mean of all where an item has no rating `(M,)`."""
    counts = np.bincount(ratings.item, minlength=ratings.n_items)
    sums = np.bincount(ratings.item, ratings.value, ratings.n_items)
    overall = sums.sum() / max(len(ratings), 1)
    return np.where(counts, sums / np.maximum(counts, 1), overall).astype(np.float32)


def middle_means(ratings: Ratings) -> Floats:
    """The middle of the scale for every item: known without the data `(M,)`."""
    middle = (ratings.scale.minimum + ratings.scale.maximum) / 2
    return np.full(ratings.n_items, middle, np.float32)


def moved_rows(before: SimilarityData, after: SimilarityData) -> Indices:
    """The items whose gradients may differ: those that a user whose ratings differ has rated."""
    n_items = before.n_items
    sides = []
    for data in (before, after):
        counts = np.diff(data.profiles.start)
        users = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
        sides.append((users * n_items + data.profiles.column, data.centred))
    (keys, values), (others, changed) = sides
    if np.array_equal(keys, others):
        different = keys[values != changed]
    else:
        common, at, there = np.intersect1d(keys, others, assume_unique=True, return_indices=True)
        different = np.union1d(
            np.setxor1d(keys, others, assume_unique=True), common[values[at] != changed[there]]
        )
    users = np.unique(different // n_items)
    mine = [whole[np.isin(whole // n_items, users)] % n_items for whole in (keys, others)]
    return np.union1d(*mine).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Slope:
    """How the gradient of one row is formed.

    Attributes:
        neighbors: N_k.
        bound: the largest error.
        flat_from: predictions, less the item's mean, below which the likelihood is flat,
        flat_to: and above which.
        clip: the largest L1 norm of a rater's gradients of all her rows, in equal shares.
    """

    neighbors: int
    bound: float = math.inf
    flat_from: float = -math.inf
    flat_to: float = math.inf
    clip: float = math.inf

    def of(
        self, data: SimilarityData, item: int, row: Floats, taken: Floats | None = None
    ) -> tuple[Sums, Floats]:
        """The gradient by the row `(M, 16)`, and the least `Σ |s_j|` of a rater `(16,)`.

        Args:
            data: the ratings.
            item: whose row it is.
            row: the row `(M, 16)`.
            taken: how often each rater's rating counts `(n, 16)`; once unless given.
        """
        entries = data.entries(item)
        users = data.raters.column[entries]
        starts, stops = data.profiles.start[users], data.profiles.start[users + 1]
        clipped, sizes = math.isfinite(self.clip), stops - starts
        out: Sums = np.empty(row.size, np.float64) if clipped else np.empty(row.size, np.float32)
        least = np.empty(LANES, np.float32)
        kernels.gradient(
            out,
            row.reshape(-1),
            item,
            starts,
            stops,
            data.targets[entries],
            data.profiles.column,
            data.centred,
            _NOTHING if taken is None else taken.reshape(-1),
            np.float32(self.bound),
            np.float32(self.flat_from),
            np.float32(self.flat_to),
            (self.clip * (1 - hair(sizes)) / sizes).astype(np.float32) if clipped else _NOTHING,
            self.neighbors,
            least,
        )
        return out.reshape(row.shape), least


@dataclass(frozen=True, eq=False)
class Batches:
    """The mini-batches of up to 16 trials, each drawn once and kept for the rows to come.

    A row needs all of every batch to know its own part of it. A batch is kept as one bit a trial.

    Attributes:
        draw: what the mini-batch of a step holds in one trial `(n,)`.
        streams: the trials.
        kept: the batches so far, by step.
    """

    draw: Callable[[Streams, int], NDArray[np.bool_]]
    streams: Streams
    kept: dict[int, NDArray[np.uint16]] = field(default_factory=dict)

    def taken(self, t: int, chosen: slice | Indices) -> Floats:
        """1 where the mini-batch of step t holds what is chosen, else 0, `(n, 16)`."""
        bits = self._bits(t)[chosen]
        held: Floats = ((bits[:, None] >> _LANE) & np.uint16(1)).astype(np.float32)
        return held

    def _bits(self, t: int) -> NDArray[np.uint16]:
        if t in self.kept:
            return self.kept[t]
        parts = [self.draw(trial, t).astype(np.uint16) for trial in self.streams.blocks(1)]
        bits: NDArray[np.uint16] = np.bitwise_or.reduce(
            [part << lane for part, lane in zip(parts, _LANE, strict=False)]
        )
        if (len(self.kept) + 1) * bits.nbytes <= _KEPT:
            self.kept[t] = bits
        return bits


class RowTrainer(Protocol):
    """Learns one row of the similarities in up to 16 trials."""

    @property
    def neighbors(self) -> int:
        """N_k."""
        ...

    def batches(self, data: SimilarityData, streams: Streams) -> Batches | None:
        """The mini-batches of these trials; None where every step takes all ratings."""
        ...

    def iterates(
        self, data: SimilarityData, item: int, streams: Streams, batches: Batches | None = None
    ) -> Iterator[Floats]:
        """The row `(M, 16)` before the first step and after each; every one is the same array.

        Args:
            data: the ratings.
            item: whose row it is.
            streams: the trials.
            batches: their mini-batches, kept from other rows; drawn unless given.
        """
        ...


@dataclass(frozen=True, eq=False)
class SimilarityModels:
    """Similarities of W trials: `r̂_ui = r̄_i + Σ s_ij (r_uj − r̄_j) / Σ |s_ij|`, cut to the scale.

    Rows do not depend on each other, and a row is learned when it is asked for: what is never read
    is never computed, and no matrix is kept.

    Attributes:
        trainer: learns a row.
        data: the ratings; predictions use the user's own.
        streams: the trials.
    """

    trainer: RowTrainer
    data: SimilarityData
    streams: Streams

    def row(self, item: int, streams: Streams, batches: Batches | None = None) -> Floats:
        """The final row of up to 16 trials `(M, 16)`; mini-batches are drawn unless given."""
        for row in self.trainer.iterates(self.data, item, streams, batches):
            final = row
        return final

    def public(self, items: Indices) -> SimilarityRows:
        """What is published of them: the final rows of these items."""
        found = []
        for part in lane_blocks(self.streams):
            batches = self.trainer.batches(self.data, part)
            rows = [self.row(int(item), part, batches)[:, : len(part)].T for item in items]
            found.append(np.stack(rows, axis=1))
        return SimilarityRows(items, np.concatenate(found), self.data.means)

    def predict(self, users: Indices, items: Indices) -> Floats:
        """The predicted ratings of pairs of a user and an item `(W, n)`."""
        order = np.argsort(items, kind="stable")
        bounds = np.flatnonzero(np.diff(items[order])) + 1
        shown = np.empty((len(self.streams), len(users)), np.float32)
        done = 0
        for part in lane_blocks(self.streams):
            block = shown[done : done + len(part)]
            batches = self.trainer.batches(self.data, part)
            for pairs in np.split(order, bounds):
                if len(pairs):
                    item = int(items[pairs[0]])
                    found = self._scores(item, users[pairs], self.row(item, part, batches))
                    block[:, pairs] = found[:, : len(part)].T
            done += len(part)
        scale = self.data.scale
        return np.clip(shown + self.data.means[items], scale.minimum, scale.maximum)

    def _scores(self, item: int, users: Indices, row: Floats) -> Floats:
        out = np.empty((len(users), LANES), np.float32)
        profiles = self.data.profiles
        kernels.scores(
            out.reshape(-1),
            row.reshape(-1),
            item,
            profiles.start[users],
            profiles.start[users + 1],
            profiles.column,
            self.data.centred,
            self.trainer.neighbors,
        )
        return out


_NOTHING = np.empty(0, np.float32)
_LANE = np.arange(LANES, dtype=np.uint16)
