"""Exact draws from the target law of posterior sampling of item-item similarities.

Rows are independent given the ratings. Let ℓ be the loss of a row's raters, and `ℓ_σ` a lower bound
on it for similarities with the signs σ. A row gets its signs with probability `∝ exp(−ℓ_σ)` and its
absolute values from the normal prior. It is accepted with probability `exp(−(ℓ(s) − ℓ_σ))`. This is
von Neumann's rejection sampling, whose accepted draws have exactly the target law. Without the
bounds, practically no row with hundreds of raters would be accepted.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpaudit.core.errors import ConfigError, NoModelError
from dpaudit.core.streams import Key, Streams
from dpaudit.defenses.neighborhood.similarity import SimilarityData, Slope
from dpaudit.kernels import exact_noise

Numbers = NDArray[np.float64]

# The most items, since a matrix of each trial is kept; the most proposals of a row in a trial.
_MOST_ITEMS, _MOST_ATTEMPTS = 64, 20_000
# Trials at a time; draws do not depend on it.
_BLOCK = 65_536
# The least denominator, against division by 0: if all weights are 0, so is the numerator.
_TINY = 1e-300
# The share that rounding may add to a computed minimum.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class _Raters:
    """Raters of one item with the same ratings.

    Attributes:
        places: the indices of their other items among the row's neighbours `(n,)`.
        values: `x_j` of these items `(n,)`.
        target: `x_i`.
        count: the number of these users.
    """

    places: tuple[int, ...]
    values: tuple[float, ...]
    target: float
    count: int

    def reach(self, low: float, high: float) -> tuple[float, float]:
        """Return the least and the largest possible prediction, clipped to [low, high]."""
        most = max(map(abs, self.values))
        return max(low, -most), min(high, most)


@dataclass(frozen=True, eq=False)
class RowLoss:
    """The loss of row i as a function of its similarities s.

        ℓ(s) = k Σ_u (clip(y_u, low, high) − x_ui)²,    y_u = Σ s_j x_uj / Σ |s_j|

    Attributes:
        neighbors: the items, other than the row's, that some rater of the row's item has rated
            `(n,)`. No other item enters the loss.
        raters: the users, grouped by equal ratings.
        weight: k.
        low: the lower bound of predictions.
        high: the upper bound of predictions.
    """

    neighbors: NDArray[np.int64]
    raters: tuple[_Raters, ...]
    weight: float
    low: float
    high: float

    def of(self, s: Numbers) -> Numbers:
        """Return the loss in each trial `(W,)`; `s` are similarities to the neighbours `(n, W)`."""
        sizes, total = abs(s), np.zeros(s.shape[1])
        for alike in self.raters:
            # Not a matrix product, whose rounding may depend on W.
            top = sum(x * s[j] for j, x in zip(alike.places, alike.values, strict=True))
            weight = sum(sizes[j] for j in alike.places)
            y = np.clip(top / np.maximum(weight, _TINY), self.low, self.high)
            total += alike.count * (y - alike.target) ** 2
        return self.weight * total

    def floors(self) -> tuple[Numbers | None, Numbers]:
        """Return lower bounds on the loss.

        With at most two neighbours there is a bound for each combination of signs, its least loss:
        y is linear in `w = |s_1|/(|s_1| + |s_2|)`, and the loss is a parabola in w. With more
        neighbours, or if predictions are clipped, there is one bound for all signs, the sum of
        every user's least loss.

        Returns:
            The signs `(Q, n)`, or None for all, and their bounds `(Q,)`.
        """
        known = len(self.neighbors)
        ranges = [alike.reach(-np.inf, np.inf) for alike in self.raters]
        cut = any(low < self.low or high > self.high for low, high in ranges)
        if known <= 2 and not cut:
            every = list(itertools.product((-1.0, 1.0), repeat=known))
            least = np.array([self._least_within(signs) for signs in every])
            return np.array(every), self.weight * (1 - _ROUNDING) * least
        bound = 0.0
        for alike in self.raters:
            low, high = alike.reach(self.low, self.high)
            bound += alike.count * (np.clip(alike.target, low, high) - alike.target) ** 2
        return None, np.array([self.weight * (1 - _ROUNDING) * bound])

    def _least_within(self, signs: tuple[float, ...]) -> float:
        """Return the least `Σ n (slope·w + level)²` over w in [0, 1], for these signs of s."""
        square = mixed = constant = 0.0
        for alike in self.raters:
            ends = [signs[j] * x for j, x in zip(alike.places, alike.values, strict=True)]
            # With one neighbour y does not depend on w.
            slope, level = ends[0] - ends[-1], ends[-1] - alike.target
            square += alike.count * slope**2
            mixed += alike.count * slope * level
            constant += alike.count * level**2
        w = min(1.0, max(0.0, -mixed / square)) if square > 0 else 0.0
        return max(0.0, square * w**2 + 2 * mixed * w + constant)


@dataclass(frozen=True, eq=False)
class ExactSimilarity:
    """The law with density `∝ exp(−Σ_i ℓ_i(S_i) − ‖S‖²/2s²)` of the similarities S, `(M, M)`.

    The diagonal is never read and follows the prior. Draws are made from Laplace draws of the noise
    source. Their absolute values are exponential, as needed for the radius of two normal numbers
    and for the acceptance test, with 31 bits. Signs whose probability is below 2^-31 are not drawn.

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
        """Build the law for these ratings.

        Args:
            data: the ratings.
            slope: the range of predictions, and N_k.
            weight: k, the factor of a squared error.
            spread: the standard deviation of the prior.

        Raises:
            ConfigError: a user has more than N_k neighbours of an item, or there are too many items
                to keep a matrix of each trial.
        """
        most = int(np.diff(data.profiles.start).max(initial=0)) - 1
        if most > slope.neighbors:
            raise ConfigError(
                f"a user has {most} neighbours of an item and params.neighbors = {slope.neighbors} "
                "leaves some out, which the exact law does not support: raise it"
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
        """Draw the similarities of each trial `(W, M, M)`, from the trial's index alone.

        Raises:
            NoModelError: 20 000 proposals of a row were rejected.
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
        """Return the logarithm of the density, up to a constant, `(W,)`."""
        total = -(draws**2).sum((1, 2)) / (2 * self.spread**2)
        for item, loss in enumerate(self.losses):
            total -= loss.of(np.ascontiguousarray(draws[:, item, loss.neighbors].T))
        return total

    def _draw_row(self, out: Numbers, item: int, streams: Streams) -> None:
        loss, items = self.losses[item], len(self.losses)
        signs, floors = loss.floors()
        chances = np.exp(floors.min() - floors)
        ends, near = np.cumsum(chances)[:-1] / chances.sum(), loss.neighbors
        # The similarities to all other items follow the prior.
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
        raise NoModelError(
            f"row {item} of the exact law: only {share:.1e} of {proposals} proposals were "
            "accepted: use fewer ratings, a smaller epsilon or rows with at most two neighbours"
        )

    def _propose(
        self, key: Key, trials: NDArray[np.int64], step: int, count: int
    ) -> tuple[Numbers, Numbers, Numbers]:
        """Draw numbers from the prior `(count, W)`, an exponential and a uniform number `(W,)`.

        The normal numbers are by Box & Muller 1958.
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
    """Return the row's neighbours and the item's raters who rated any, grouped by equal ratings."""
    entries, profiles = data.entries(item), data.profiles
    counts: Counter[tuple[tuple[int, ...], tuple[float, ...], float]] = Counter()
    for user, target in zip(data.raters.column[entries], data.targets[entries], strict=True):
        span = slice(int(profiles.start[user]), int(profiles.start[user + 1]))
        others = profiles.column[span] != item
        items = tuple(profiles.column[span][others].tolist())
        if items:
            counts[items, tuple(data.centred[span][others].tolist()), float(target)] += 1
    near = sorted({other for items, _, _ in counts for other in items})
    return np.array(near, np.int64), tuple(
        _Raters(tuple(near.index(other) for other in items), values, target, count)
        for (items, values, target), count in counts.items()
    )
