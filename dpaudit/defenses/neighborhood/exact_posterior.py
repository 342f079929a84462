"""Exact draws of the law that posterior sampling of item-item similarities is to reach.

Rows are independent given the ratings. With ℓ the loss of a row's raters and `ℓ_σ` a lower bound on
it where the similarities have the signs σ, a row gets its signs with probability `∝ exp(−ℓ_σ)`, its
sizes from the normal prior, and is accepted with probability `exp(−(ℓ(s) − ℓ_σ))`: von Neumann's
rejection, whose accepted draws have the law exactly. Without the bounds hundreds of raters would
accept nothing.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError, RunError
from dpaudit.core.streams import Key, Streams
from dpaudit.defenses.neighborhood.similarity import SimilarityData, Slope
from dpaudit.kernels import exact_noise

Numbers = NDArray[np.float64]

# A matrix of each trial is kept; and proposals of a row before it is given up.
_MOST_ITEMS, _MOST_ATTEMPTS = 64, 20_000
# Trials at a time; no draw depends on it.
_BLOCK = 65_536
# A denominator below it is taken as it: where every weight is 0, so is the numerator.
_TINY = 1e-300
# What rounding may add to a minimum, as a share of it.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class _Raters:
    """Users with the same ratings, as one row sees them.

    Attributes:
        places: where their other items stand among the row's neighbours `(n,)`.
        values: `x_j` of these `(n,)`.
        target: `x_i`.
        count: how many users they are.
    """

    places: tuple[int, ...]
    values: tuple[float, ...]
    target: float
    count: int

    def reach(self, low: float, high: float) -> tuple[float, float]:
        """The least and the largest of all predictions."""
        most = max(map(abs, self.values))
        return max(low, -most), min(high, most)


@dataclass(frozen=True, eq=False)
class RowLoss:
    """`ℓ(s) = k Σ_u (clip(y_u, low, high) − x_ui)²`, `y_u = Σ s_j x_uj / Σ |s_j|`.

    Attributes:
        neighbors: the items that some rater of the row's has rated `(n,)`; no other enters.
        raters: the users, those alike together.
        weight: k.
        low: predictions are cut below it,
        high: and above it.
    """

    neighbors: NDArray[np.int64]
    raters: tuple[_Raters, ...]
    weight: float
    low: float
    high: float

    def of(self, s: Numbers) -> Numbers:
        """The loss by the similarities to the neighbours `(n, W)` in each trial `(W,)`."""
        sizes, total = abs(s), np.zeros(s.shape[1])
        for alike in self.raters:
            # One after another, since a matrix product's rounding may depend on W.
            top = sum(x * s[j] for j, x in zip(alike.places, alike.values, strict=True))
            weight = sum(sizes[j] for j in alike.places)
            y = np.clip(top / np.maximum(weight, _TINY), self.low, self.high)
            total += alike.count * (y - alike.target) ** 2
        return self.weight * total

    def floors(self) -> tuple[Numbers | None, Numbers]:
        """Lower bounds on the loss.

        With one or two neighbours they are the least losses by the signs: y is linear in
        `w = |s_1|/(|s_1| + |s_2|)` and the loss a parabola in it. With more, and where predictions
        are cut, there is one for all signs, of every user's own least loss.

        Returns:
            the signs `(Q, n)`, or None for all, and their bounds `(Q,)`.
        """
        known = len(self.neighbors)
        ranges = [alike.reach(-np.inf, np.inf) for alike in self.raters]
        cut = any(low < self.low or high > self.high for low, high in ranges)
        if known <= 2 and not cut:
            every = list(itertools.product((-1.0, 1.0), repeat=known))
            least = np.array([self._least_within(signs) for signs in every])
            return np.array(every), self.weight * (1 - _ROUNDING) * least
        found = 0.0
        for alike in self.raters:
            low, high = alike.reach(self.low, self.high)
            found += alike.count * (np.clip(alike.target, low, high) - alike.target) ** 2
        return None, np.array([self.weight * (1 - _ROUNDING) * found])

    def _least_within(self, signs: tuple[float, ...]) -> float:
        """The least of `Σ n (slope·w + level)²` over w in [0, 1], with these signs of s."""
        square = mixed = constant = 0.0
        for alike in self.raters:
            ends = [signs[j] * x for j, x in zip(alike.places, alike.values, strict=True)]
            # Of one neighbour alone y is that end, whatever w.
            slope, level = ends[0] - ends[-1], ends[-1] - alike.target
            square += alike.count * slope**2
            mixed += alike.count * slope * level
            constant += alike.count * level**2
        w = min(1.0, max(0.0, -mixed / square)) if square > 0 else 0.0
        return max(0.0, square * w**2 + 2 * mixed * w + constant)


@dataclass(frozen=True, eq=False)
class ExactSimilarity:
    """The law with density `∝ exp(−Σ_i ℓ_i(S_i) − ‖S‖²/2s²)` on the similarities S, `(M, M)`.

    The diagonal is read by nothing and has its prior. A draw rests on the noise source's Laplace
    draws: their sizes are exponential, which is what the radius of two normal numbers and the
    acceptance need, on 31 bits. Signs whose probability is below 2^-31 are not drawn.

    Attributes:
        losses: `ℓ_i` of each item.
        spread: s.
    """

    losses: tuple[RowLoss, ...]
    spread: float

    @classmethod
    def of(
        cls, data: SimilarityData, slope: Slope, *, weight: float, spread: float
    ) -> ExactSimilarity:
        """The law of these ratings.

        Args:
            data: the ratings.
            slope: which predictions are cut, and N_k.
            weight: k, what a squared error is multiplied with.
            spread: the standard deviation of the prior.

        Raises:
            ConfigError: N_k binds, or there are too many items to keep a matrix of each trial.
        """
        most = int(np.diff(data.profiles.start).max(initial=0)) - 1
        if most > slope.neighbors:
            raise ConfigError(
                f"a user has {most} neighbours of an item and params.neighbors = {slope.neighbors} "
                "would leave some out, which the exact law does not know: raise it"
            )
        if data.n_items > _MOST_ITEMS:
            raise ConfigError(
                f"{data.n_items} items are too many for exact draws of whole matrices: use at "
                f"most {_MOST_ITEMS}"
            )
        losses = (
            RowLoss(*_raters(data, item), weight, slope.flat_from, slope.flat_to)
            for item in range(data.n_items)
        )
        return cls(tuple(losses), spread)

    def draw(self, streams: Streams) -> Numbers:
        """The similarities of each trial `(W, M, M)`; a trial's index alone decides its draw.

        Raises:
            RunError: a row was proposed 20 000 times and not accepted.
        """
        items = len(self.losses)
        draws = np.empty((len(streams), items, items))
        done = 0
        for part in streams.blocks(_BLOCK):
            for item in range(items):
                self._draw_row(draws[done : done + len(part), item], item, part)
            done += len(part)
        return draws

    def log_density(self, draws: Numbers) -> Numbers:
        """The logarithm of the density, less a constant, `(W,)`."""
        total = -(draws**2).sum((1, 2)) / (2 * self.spread**2)
        for item, loss in enumerate(self.losses):
            total -= loss.of(np.ascontiguousarray(draws[:, item, loss.neighbors].T))
        return total

    def _draw_row(self, out: Numbers, item: int, streams: Streams) -> None:
        loss, items = self.losses[item], len(self.losses)
        signs, floors = loss.floors()
        chances = np.exp(floors.min() - floors)
        ends, near = np.cumsum(chances)[:-1] / chances.sum(), loss.neighbors
        # What no rater has rated has its prior.
        far = np.setdiff1d(np.arange(items), near)
        out[:, far] = self._propose(streams.key, streams.trials, item, len(far))[0].T
        left, proposals = np.arange(len(streams)), 0
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            step = attempt * items + item
            s, limit, choice = self._propose(streams.key, streams.trials[left], step, len(near))
            proposals += len(left)
            chosen = np.searchsorted(ends, choice, side="right")
            if signs is not None:
                s = abs(s) * signs[chosen].T
            # P(E >= x) = e^−x of an exponential E
            accepted = loss.of(s) - floors[chosen] <= limit
            out[np.ix_(left[accepted], near)] = s[:, accepted].T
            left = left[~accepted]
            if not len(left):
                return
        share = (len(streams) - len(left)) / proposals
        raise RunError(
            f"row {item} of the exact law: {share:.1e} of {proposals} proposals were accepted, too "
            "few: use fewer ratings, a smaller epsilon or rows with at most two neighbours"
        )

    def _propose(
        self, key: Key, trials: NDArray[np.int64], step: int, count: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Numbers of the prior `(count, W)`, exponential ones and uniform ones `(W,)`.

        Box & Muller 1958.
        """
        pairs = (count + 1) // 2
        draws = np.empty((len(trials), 2 * pairs + 2), np.float64)
        exact_noise.laplace(draws, trials, step, key)
        sizes = abs(np.ascontiguousarray(draws.T))
        radius = self.spread * np.sqrt(2 * sizes[:pairs])
        angle = 2 * np.pi * np.exp(-sizes[pairs:-2])
        s = np.concatenate((radius * np.cos(angle), radius * np.sin(angle)))
        return s[:count], sizes[-2], np.exp(-sizes[-1])


def _raters(data: SimilarityData, item: int) -> tuple[NDArray[np.int64], tuple[_Raters, ...]]:
    """The row's neighbours, and the item's raters who have rated any, those alike together."""
    entries, profiles = data.entries(item), data.profiles
    counts: Counter[tuple[tuple[int, ...], tuple[float, ...], float]] = Counter()
    for user, target in zip(data.raters.column[entries], data.targets[entries], strict=True):
        mine = slice(int(profiles.start[user]), int(profiles.start[user + 1]))
        others = profiles.column[mine] != item
        items = tuple(profiles.column[mine][others].tolist())
        if items:
            counts[items, tuple(data.centred[mine][others].tolist()), float(target)] += 1
    near = sorted({other for items, _, _ in counts for other in items})
    return np.array(near, np.int64), tuple(
        _Raters(tuple(near.index(other) for other in items), values, target, count)
        for (items, values, target), count in counts.items()
    )
